"""What a pod may not say, and what it says in vain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from hami_operator import errors
from hami_operator.admission import advice, pod
from hami_operator.devices import admit, request, vendor
from hami_operator.devices import registry as registries
from hami_operator.protocol import keys, quantity

Path = tuple[str, str]

LIMITER_SWITCH: Final = "CUDA_DISABLE_CONTROL"
"""With this variable a container runs without the library that keeps it to its share."""
_OFF: Final = frozenset({"", "0", "f", "F", "false", "False", "FALSE"})


def forged(given: pod.Pod, registry: registries.Registry) -> tuple[Path, ...]:
    """Keys that only the operator or a device plugin writes: ``(annotations | labels, key)``."""
    owned = registry.owned_pod_keys.intersection(given.annotations)
    found = [("annotations", key) for key in sorted(owned)]
    if keys.VGPU_NODE in given.labels:
        found.append(("labels", keys.VGPU_NODE))
    return tuple(found)


def privileged(containers: Iterable[pod.Container]) -> str:
    """The first container whose limits would mean nothing, as it sees every card."""
    return next((one.values.name for one in containers if one.privileged), "")


def amount_problem(row: vendor.Vendor, container: admit.Container) -> admit.Denied | None:
    """An amount that is none, also where the row has no use for it.

    The row itself judges what it reads; this is about the rest, such as a memory without a card.
    """
    for name in row.resources.names:
        for value in (container.limits.get(name), container.requests.get(name)):
            why = "" if value is None else _why_no_amount(value)
            if why:
                invalid = request.Invalid(resource=name, value=str(value), why=why)
                return admit.Denied(container=container.name, problem=invalid)
    return None


def _why_no_amount(value: str) -> str:
    try:
        found = quantity.nanos(value)
    except errors.DecodeError:
        return "is not a quantity"
    if found < 0:
        return "is negative"
    return "is not a whole number" if found % quantity.BILLION else ""


def denial(row: vendor.Vendor, denied: admit.Denied) -> str:
    """The words of a refusal: what is wrong where, and what to write instead."""
    instead = advice.on_amount(row, denied.problem)
    return f"{denied.text()}; {instead}" if instead else denied.text()


def limiter_problem(containers: Iterable[pod.Container]) -> str:
    """Why strict admission refuses the pod: a container that would not keep to its share."""
    for one in containers:
        if any(_switches_off(entry) for entry in one.values.env):
            return (
                f"container {one.values.name}: env {LIMITER_SWITCH} switches off the limits that "
                "the pod asks for; remove it, or ask for whole cards in a namespace that may"
            )
    return ""


def _switches_off(entry: Mapping[str, Any]) -> bool:
    """A value from elsewhere is not known here, so it may."""
    if entry.get("name") != LIMITER_SWITCH:
        return False
    value = entry.get("value")
    return entry.get("valueFrom") is not None or not (value is None or value in _OFF)
