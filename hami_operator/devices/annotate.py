"""The annotations that a decision puts on the pod for the device plugins."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from hami_operator.devices import vendor
from hami_operator.protocol import decision, instant


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """What plugin keys may depend on, beside the devices.

    Attributes:
        node_name: the node that was chosen.
        now: when.
        pod_annotations: of the pod.
        containers: names of its containers, init containers first.
        limits: their limits, in the same order.
    """

    node_name: str
    now: instant.Instant
    pod_annotations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    containers: tuple[str, ...] = ()
    limits: tuple[Mapping[str, Any], ...] = ()


def decision_annotations(
    rows: Iterable[vendor.Vendor],
    slots: Mapping[str, decision.Slots],
    *,
    node_name: str,
    now: instant.Instant,
    pod_annotations: Mapping[str, str] | None = None,
    containers: tuple[str, ...] = (),
    limits: tuple[Mapping[str, Any], ...] = (),
) -> dict[str, str]:
    """Both decision values and the plugin keys of every row that the pod uses.

    The keys that belong to no row (node, time, bind phase) are not among them.

    Args:
        rows: the rows that the pod uses.
        slots: per keyword of such a row, one slot for every container of the pod.
        node_name: the node that was chosen.
        now: when.
        pod_annotations: of the pod, for rows whose plugin keys depend on them.
        containers: names of all containers, init containers first.
        limits: their limits, in the same order.
    """
    facts = Facts(
        node_name=node_name,
        now=now,
        pod_annotations=pod_annotations or {},
        containers=containers,
        limits=limits,
    )
    written: dict[str, str] = {}
    for row in rows:
        written.update(_row_annotations(row, slots[row.keyword], facts))
    return written


def _row_annotations(row: vendor.Vendor, slots: decision.Slots, facts: Facts) -> Mapping[str, str]:
    value = decision.encode(slots, row.hooks.word or row.keyword)
    values = {key: value for key in (row.pod.to_allocate, row.pod.allocated) if key}
    plugin = row.hooks.annotate(row, slots, facts) if row.hooks.annotate else {}
    return {**values, **plugin}
