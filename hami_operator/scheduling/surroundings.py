"""What filters may look at beyond the pod and the one node: other nodes, pods and objects."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Protocol

from hami_operator.scheduling import fields, neighbours, objects
from hami_operator.scheduling import node as nodes


class Holder(Protocol):
    """Whatever has a node."""

    @property
    def node(self) -> nodes.Node:
        """The node."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Surroundings:
    """The cluster in one cycle.

    Attributes:
        nodes: every node.
        pods: the pods on nodes.
        objects: claims, volumes, namespaces and the like.
        promised: the pods on nodes together with those that were promised a place there; what
            these would forbid is forbidden, what they would allow is not yet allowed.
    """

    nodes: Sequence[Holder]
    pods: neighbours.Around
    objects: objects.Objects
    promised: neighbours.Around | None = None


def alone(nodes: Sequence[Holder] = ()) -> Surroundings:
    """No other pods and no objects."""
    nobody = neighbours.Neighbours(lambda _: fields.EMPTY)
    return Surroundings(nodes=nodes, pods=nobody, objects=objects.Objects())
