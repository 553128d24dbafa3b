"""What a pod on a node holds while its containers are resized in place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from hami_operator.scheduling import containers, fields, resources

_ALLOCATED: Final = "allocatedResources"
_RUNNING: Final = "resources"


def held(
    status: Mapping[str, Any],
    specified: tuple[containers.Container, ...],
    *,
    pod_level: Mapping[str, int],
    overhead: Mapping[str, int],
    found: fields.Fields,
) -> dict[str, int] | None:
    """Per resource the largest of four totals, in billionths; None where status adds nothing.

    The totals are those of the specification, of what kubelet has allocated, of what runs, and of
    the largest of these for each container: kube-scheduler 1.34 to 1.36 counts the last one, later
    ones only the others. A resize that kubelet has called infeasible leaves the specification out.
    """
    statuses = _statuses(status, found)
    if not statuses:
        return None
    infeasible = _is_infeasible(status, found)
    shapes = [(_ALLOCATED, _RUNNING), (_RUNNING, _ALLOCATED)]
    totals = [
        resources.total(
            ((one.kind, _reported(one, statuses, shape)) for one in specified),
            pod_level=_first(_pod_statuses(status, found), shape, pod_level),
            overhead=overhead,
        )
        for shape in shapes
    ]
    totals.append(
        resources.total(
            ((one.kind, _most(_of(one, statuses), one.amounts, infeasible)) for one in specified),
            pod_level=_most(_pod_statuses(status, found), pod_level, infeasible),
            overhead=overhead,
        )
    )
    if not infeasible:
        own = ((one.kind, one.amounts) for one in specified)
        totals.append(resources.total(own, pod_level=pod_level, overhead=overhead))
    return _largest(totals)


def _reported(
    one: containers.Container,
    statuses: Mapping[str, Mapping[str, Mapping[str, int]]],
    shape: tuple[str, str],
) -> Mapping[str, int]:
    """A container's amounts in one total."""
    return _first(_of(one, statuses), shape, one.amounts)


def _of(
    one: containers.Container, statuses: Mapping[str, Mapping[str, Mapping[str, int]]]
) -> Mapping[str, Mapping[str, int]]:
    """What is reported of a container; plain init containers are never resized."""
    return {} if one.kind is containers.Kind.INIT else statuses.get(one.name, {})


def _most(
    reported: Mapping[str, Mapping[str, int]], specified: Mapping[str, int], infeasible: bool
) -> Mapping[str, int]:
    """The most of each resource by itself; only where it is said what runs."""
    if _RUNNING not in reported:
        return specified
    return _largest((*reported.values(), *(() if infeasible else (specified,))))


def _first(
    reported: Mapping[str, Mapping[str, int]],
    shape: tuple[str, str],
    otherwise: Mapping[str, int],
) -> Mapping[str, int]:
    preferred, second = shape
    return reported.get(preferred) or reported.get(second) or otherwise


def _statuses(
    status: Mapping[str, Any], found: fields.Fields
) -> dict[str, Mapping[str, Mapping[str, int]]]:
    reported: dict[str, Mapping[str, Mapping[str, int]]] = {}
    for key in ("initContainerStatuses", "containerStatuses"):
        if key not in status:
            continue
        for place, item in found.items(status, key, "status."):
            amounts = _amounts(item, f"{place}.", found)
            if amounts:
                reported[str(item.get("name"))] = amounts
    return reported


def _pod_statuses(
    status: Mapping[str, Any], found: fields.Fields
) -> Mapping[str, Mapping[str, int]]:
    return _amounts(status, "status.", found)


def _amounts(
    item: Mapping[str, Any], path: str, found: fields.Fields
) -> dict[str, Mapping[str, int]]:
    amounts: dict[str, Mapping[str, int]] = {}
    if item.get(_ALLOCATED):
        amounts[_ALLOCATED] = containers.amounts(item, _ALLOCATED, path, found)
    running = found.mapping(item, _RUNNING, path)
    if running.get("requests"):
        amounts[_RUNNING] = containers.amounts(running, "requests", f"{path}resources.", found)
    return amounts


def _is_infeasible(status: Mapping[str, Any], found: fields.Fields) -> bool:
    return any(
        item.get("type") == "PodResizePending" and item.get("reason") == "Infeasible"
        for _, item in found.items(status, "conditions", "status.")
    )


def _largest(totals: Iterable[Mapping[str, int]]) -> dict[str, int]:
    largest: dict[str, int] = {}
    for amounts in totals:
        for name, amount in amounts.items():
            largest[name] = max(largest.get(name, 0), amount)
    return largest
