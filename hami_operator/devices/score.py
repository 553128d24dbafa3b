"""A row's term of the node score, beside the load of the node."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from hami_operator.devices import usage, vendor
from hami_operator.protocol import decision


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """What a term depends on.

    Attributes:
        node_policy: ``binpack`` (highest total wins) or ``spread`` (lowest).
        slots: devices that the pod would get from the row.
        before: the row's cards on the node, before the pod.
        pod_annotations: of the pod.
        node_annotations: of the node.
    """

    node_policy: str
    slots: decision.Slots
    before: tuple[usage.CardUsage, ...]
    pod_annotations: Mapping[str, str]
    node_annotations: Mapping[str, str]


def term(row: vendor.Vendor, facts: Facts) -> float:
    """What is added to the node's score; hooks say "higher is better" whatever the policy."""
    if row.hooks.score is None:
        return 0
    sign = -1 if facts.node_policy == "spread" else 1
    return sign * row.score_weight * row.hooks.score(row, facts)
