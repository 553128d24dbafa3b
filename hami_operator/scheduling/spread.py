"""Topology spread constraints of a pod."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from hami_operator import errors
from hami_operator.scheduling import fields, labels

_SOFT: Final = "ScheduleAnyway"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Constraint:
    """Pods that are alike shall be spread evenly over the values of one label of nodes.

    Attributes:
        max_skew: how many more than the emptiest domain one may hold.
        topology_key: the label.
        selector: which pods count, the pod's own values of ``matchLabelKeys`` included.
        required: a node may not break it; otherwise it only counts when nodes are compared.
        min_domains: with fewer domains than these, the emptiest counts as empty.
        honors_affinity: nodes that the pod's affinity leaves out are no domains.
        honors_taints: nodes that the pod does not tolerate are no domains.
    """

    max_skew: int
    topology_key: str
    selector: labels.Selector
    required: bool = True
    min_domains: int = 1
    honors_affinity: bool = True
    honors_taints: bool = False

    @property
    def counted(self) -> labels.Selector:
        """Which pods on nodes count: none for an empty selector, unlike anywhere else."""
        return self.selector if self.selector.requirements else labels.NOTHING


def read(
    spec: Mapping[str, Any], pod_labels: Mapping[str, str], found: fields.Fields
) -> tuple[Constraint, ...]:
    """``spec.topologySpreadConstraints`` of a pod with these labels."""
    return tuple(
        _constraint(item, f"{place}.", pod_labels, found)
        for place, item in found.items(spec, "topologySpreadConstraints", "spec.")
    )


def _constraint(
    item: Mapping[str, Any], path: str, pod_labels: Mapping[str, str], found: fields.Fields
) -> Constraint:
    return Constraint(
        max_skew=found.integer(item, "maxSkew", path),
        topology_key=found.text(item, "topologyKey", path),
        selector=_selector(item, path, pod_labels, found),
        required=found.text(item, "whenUnsatisfiable", path) != _SOFT,
        min_domains=found.integer(item, "minDomains", path) or 1,
        honors_affinity=found.text(item, "nodeAffinityPolicy", path) != "Ignore",
        honors_taints=found.text(item, "nodeTaintsPolicy", path) == "Honor",
    )


def _selector(
    item: Mapping[str, Any], path: str, pod_labels: Mapping[str, str], found: fields.Fields
) -> labels.Selector:
    try:
        written = labels.read(item.get("labelSelector"))
    except errors.DecodeError as problem:
        found.note(f"{path}labelSelector", str(problem))
        return labels.NOTHING
    keys = item.get("matchLabelKeys") or ()
    if written.absent or not isinstance(keys, list | tuple):
        return written
    own = [_is(key, pod_labels[key]) for key in keys if key in pod_labels]
    if not own:
        return written
    merged = dict.fromkeys((*own, *written.requirements))
    return labels.Selector(requirements=tuple(merged))


def _is(key: str, value: str) -> labels.Requirement:
    return labels.Requirement(key=key, operator=labels.Operator.IN, values=frozenset({value}))
