"""An independent check: is any card given away beyond what it has, is any decision malformed?

It reads nothing but Nodes and pods as the API server holds them, and shares no code and no table
with what it checks: that is why the keys are written out here once more.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

Raw = Mapping[str, Any]
Amounts = tuple[int, int, int]
"""Slots, MiB, cores."""

COUNTED_BY: Final = {
    "hami.io/vgpu-devices-allocated": "nvidia.com/gpu",
    "hami.io/cambricon-mlu-devices-allocated": "cambricon.com/vmlu",
    "hami.io/hcu-devices-allocated": "hygon.com/hcunum",
    "hami.io/dcu-devices-allocated": "hygon.com/dcunum",
    "hami.io/mthreads-vgpu-devices-allocated": "mthreads.com/vgpu",
}
"""Decision to the resource that says how many cards a container must have in it."""

_CAPACITY: Final = (
    ("cambricon.com/mlu.smlu.vcore", 100, "cambricon.com/mlu.smlu.vmemory", 256, "cambricon-mlu"),
    ("mthreads.com/sgpu-core", 16, "mthreads.com/sgpu-memory", 512, "mthreads"),
)
_REGISTERED: Final = {"hami.io/node-mlu-register": "cambricon-mlu"}
_LOCKS: Final = ("hami.io/mutex.lock", "cambricon.com/dsmlu.lock")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """A card's totals, and what the pods on it take at most at any moment."""

    total: Amounts
    taken: Amounts = (0, 0, 0)
    owners: tuple[str, ...] = ()


def loads(nodes: Iterable[Raw], pods: Iterable[Raw]) -> dict[tuple[str, str], Load]:
    """(node, card id) to its load; a card that no node has is there with totals of 0."""
    found = {
        (node["metadata"]["name"], card): Load(total=total)
        for node in nodes
        for card, total in cards(node)
    }
    for pod in pods:
        for card, taken in peak(pod).items():
            place = (pod["spec"]["nodeName"], card)
            before = found.get(place, Load(total=(0, 0, 0)))
            found[place] = dataclasses.replace(
                before, taken=_sum(before.taken, taken), owners=(*before.owners, name(pod))
            )
    return found


def cards(node: Raw) -> Iterator[tuple[str, Amounts]]:
    """Id and totals of each card of a node, from its registers and its capacity."""
    written = node["metadata"].get("annotations") or {}
    for key, value in written.items():
        if key.startswith("hami.io/node-") and key.endswith("-register"):
            yield from _registered(value)
    replaced = {infix for key, infix in _REGISTERED.items() if key in written}
    capacity = node["status"].get("capacity") or {}
    for cores, per_card, memory, unit_mib, infix in _CAPACITY:
        number = int(capacity.get(cores, 0)) // per_card
        for index in range(0 if infix in replaced else number):
            memory_mib = int(capacity.get(memory, 0)) * unit_mib // number
            yield f"{node['metadata']['name']}-{infix}-{index}", (100, memory_mib, per_card)


def _registered(value: str) -> Iterator[tuple[str, Amounts]]:
    if value.startswith("["):
        for one in json.loads(value):
            yield one["id"], (one.get("count", 0), one.get("devmem", 0), one.get("devcore", 0))
        return
    for entry in filter(None, value.split(":")):
        id, count, memory_mib, cores, *_ = entry.split(",")
        yield id, (int(count), int(memory_mib), int(cores))


def peak(pod: Raw) -> dict[str, Amounts]:
    """Card id to what the pod takes of it at most: init containers run one by one, before apps."""
    if not pod["spec"].get("nodeName") or pod["status"].get("phase") in ("Succeeded", "Failed"):
        return {}
    total: dict[str, Amounts] = {}
    for _, slots in decisions(pod):
        for card, taken in _peak(pod, slots).items():
            total[card] = _sum(total.get(card, (0, 0, 0)), taken)
    return total


def _peak(pod: Raw, slots: list[dict[str, Amounts]]) -> dict[str, Amounts]:
    inits = pod["spec"].get("initContainers") or []
    steady: dict[str, Amounts] = {}
    sidecars: dict[str, Amounts] = {}
    alone: list[dict[str, Amounts]] = []
    for place, slot in enumerate(slots):
        is_init = place < len(inits)
        is_sidecar = is_init and inits[place].get("restartPolicy") == "Always"
        if is_init and not is_sidecar:
            alone.append(slot)
            continue
        for group in (steady, sidecars) if is_sidecar else (steady,):
            for card, taken in slot.items():
                group[card] = _sum(group.get(card, (0, 0, 0)), taken)
    for slot in () if inits_have_ended(pod) else alone:
        for card, taken in slot.items():
            beside = _sum(sidecars.get(card, (0, 0, 0)), taken)
            steady[card] = _most(steady.get(card, (0, 0, 0)), beside)
    return steady


def inits_have_ended(pod: Raw) -> bool:
    """Whether every init container that is no sidecar has ended well."""
    plain = {
        one["name"]
        for one in pod["spec"].get("initContainers") or ()
        if one.get("restartPolicy") != "Always"
    }
    ended = {
        one["name"]
        for one in pod["status"].get("initContainerStatuses") or ()
        if one.get("state", {}).get("terminated", {}).get("exitCode") == 0
    }
    return plain <= ended


def decisions(pod: Raw) -> Iterator[tuple[str, list[dict[str, Amounts]]]]:
    """Key and slots of each decision on a pod; a slot is card id to (entries, MiB, cores)."""
    for key, value in (pod["metadata"].get("annotations") or {}).items():
        if key not in COUNTED_BY:
            continue
        slots = []
        for segment in value.split(";")[:-1]:
            slot: dict[str, Amounts] = {}
            for device in filter(None, segment.split(":")):
                id, _, memory_mib, cores = device.split(",")
                slot[id] = _sum(slot.get(id, (0, 0, 0)), (1, int(memory_mib), int(cores)))
            slots.append(slot)
        yield key, slots


def findings(nodes: Collection[Raw], pods: Collection[Raw]) -> Iterator[str]:
    """Everything that must not be, in words."""
    for (node, card), load in loads(nodes, pods).items():
        for what, taken, total in zip(
            ("slots", "MiB", "cores"), load.taken, load.total, strict=True
        ):
            if taken > total:
                owners = ", ".join(load.owners)
                yield f"{node} {card}: {taken} of {total} {what} given to {owners}"
    for pod in pods:
        yield from _misplaced(pod)


def _misplaced(pod: Raw) -> Iterator[str]:
    """Slots that are not those of the containers, cards that do not match the request."""
    node = pod["spec"].get("nodeName")
    containers = [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]
    written = pod["metadata"].get("annotations") or {}
    decided = {key: slots for key, slots in decisions(pod) if node}
    if decided and written.get("hami.io/vgpu-node") != node:
        yield f"{name(pod)}: is on {node}, decided for {written.get('hami.io/vgpu-node')}"
    for key, resource in COUNTED_BY.items() if node else ():
        limits = [(one.get("resources") or {}).get("limits") or {} for one in containers]
        wanted = [int(limit.get(resource, 0)) for limit in limits]
        given = [sum(one[0] for one in slot.values()) for slot in decided.get(key, ())]
        if (any(wanted) or given) and given != wanted:
            yield f"{name(pod)}: {key} gives {given} cards to containers that ask for {wanted}"


def traces(objects: Iterable[Raw], allowed: Collection[str]) -> Iterator[str]:
    """Finalizers, and annotations that neither the protocol nor a user has put there."""
    for one in objects:
        meta = one["metadata"]
        for finalizer in meta.get("finalizers") or ():
            yield f"{name(one)}: finalizer {finalizer}"
        for key in meta.get("annotations") or ():
            if key not in allowed:
                yield f"{name(one)}: annotation {key}"


def locks(nodes: Iterable[Raw]) -> Iterator[str]:
    """Node locks that nobody has released."""
    for node in nodes:
        for key in _LOCKS:
            value = (node["metadata"].get("annotations") or {}).get(key)
            if value is not None:
                yield f"{name(node)}: {key} is still {value}"


def phases(pods: Iterable[Raw]) -> Counter[str]:
    """How many pods are in each phase; ``Bound`` are those that wait for their devices."""
    return Counter(
        "Bound"
        if pod["spec"].get("nodeName") and pod["status"].get("phase") == "Pending"
        else str(pod["status"].get("phase"))
        for pod in pods
    )


def name(found: Raw) -> str:
    """``namespace/name``, or the name of an object without namespace."""
    meta = found["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if "namespace" in meta else str(meta["name"])


def _sum(one: Amounts, other: Amounts) -> Amounts:
    return (one[0] + other[0], one[1] + other[1], one[2] + other[2])


def _most(one: Amounts, other: Amounts) -> Amounts:
    return (max(one[0], other[0]), max(one[1], other[1]), max(one[2], other[2]))
