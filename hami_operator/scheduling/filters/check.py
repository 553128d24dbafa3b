"""What all filters share: what they look at, how they answer, what can be set."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from hami_operator.scheduling import node as nodes
from hami_operator.scheduling import nodeselector, rejection


class View(Protocol):
    """One node with what is booked on it."""

    @property
    def node(self) -> nodes.Node:
        """The node."""

    @property
    def requested(self) -> Mapping[str, int]:
        """Sum of what its pods hold, in the units of ``Pod.held``."""

    @property
    def pod_count(self) -> int:
        """How many pods hold a place on it."""


Check = Callable[[View], rejection.Rejection | None]
"""One filter, prepared for one pod: None lets the node through."""

Planned = Check | rejection.Rejection | None
"""What a filter says when it is prepared: how to judge nodes, that none need be judged since the
pod fits nowhere, or that it has nothing to say."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """What can be set for the filters.

    Attributes:
        ignored: extended resources that NodeResourcesFit leaves to others: our devices.
        where_offered: extended resources compared only on nodes that offer them.
        ignored_groups: like ``ignored``, by domain: the part before ``/``.
        comparison_operators: tolerations may use Gt and Lt.
        added_affinity: node affinity that holds for every pod.
    """

    ignored: frozenset[str] = frozenset()
    where_offered: frozenset[str] = frozenset()
    ignored_groups: frozenset[str] = frozenset()
    comparison_operators: bool = False
    added_affinity: nodeselector.Affinity = nodeselector.NONE


DEFAULT: Final = Options()
