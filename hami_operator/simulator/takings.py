"""What pods take of cards, for the independent check: read from their annotations alone.

As in `stock`, the keys are written out once more, and nothing is shared with what is checked.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from hami_operator.simulator import stock

Raw = Mapping[str, Any]
Amounts = stock.Amounts
Slot = dict[str, Amounts]
"""Card id to what a container takes of it."""

_CHIPS: Final = ("910A", "910B2", "910B3", "910B4-1", "910B4", "310P", "910C")
_BOARDS: Final = ("MR-V100", "MR-V50", "BI-V150", "BI-V100")
_NEURON: Final = "hami.io/aws-neuron-devices-allocated"
_SLICED: Final = "hami.io/enflame-vgpu-devices-allocated"
_INSTANCES: Final = "hami.io/vgpu-mig-allocations"

COUNTED_BY: Final = {
    "hami.io/vgpu-devices-allocated": "nvidia.com/gpu",
    "hami.io/cambricon-mlu-devices-allocated": "cambricon.com/vmlu",
    "hami.io/hcu-devices-allocated": "hygon.com/hcunum",
    "hami.io/dcu-devices-allocated": "hygon.com/dcunum",
    "hami.io/mthreads-vgpu-devices-allocated": "mthreads.com/vgpu",
    "hami.io/metax-gpu-devices-allocated": "metax-tech.com/gpu",
    "hami.io/metax-sgpu-devices-allocated": "metax-tech.com/sgpu",
    "hami.io/enflame-gcu-devices-allocated": "enflame.com/gcu",
    _SLICED: "enflame.com/drs-gcu",
    "hami.io/kunlun-allocated": "kunlunxin.com/xpu",
    "hami.io/xpu-devices-allocated": "kunlunxin.com/vxpu",
    _NEURON: "aws.amazon.com/neuron",
    "hami.io/amd-devices-allocated": "amd.com/gpu",
    "hami.io/Vastai-devices-allocated": "vastaitech.com/va",
    "hami.io/Biren-devices-allocated": "birentech.com/gpu",
    **{f"hami.io/{chip}-devices-allocated": f"iluvatar.ai/{chip}-vgpu" for chip in _BOARDS},
    **{f"hami.io/Ascend{one}-devices-allocated": f"huawei.com/Ascend{one}" for one in _CHIPS},
}
"""Decision to the resource that says how many cards a container must have in it."""


class Device(NamedTuple):
    """An entry of a decision."""

    id: str
    memory_mib: int
    cores: int


def decisions(pod: Raw) -> Iterator[tuple[str, list[list[Device]]]]:
    """Key and slots of each decision on a pod."""
    for key, value in (pod["metadata"].get("annotations") or {}).items():
        if key in COUNTED_BY:
            yield key, [[*_devices(segment)] for segment in value.split(";")[:-1]]


def _devices(segment: str) -> Iterator[Device]:
    for device in filter(None, segment.split(":")):
        id, _, memory_mib, cores = device.split(",")
        yield Device(id, int(memory_mib), int(cores))


def instances(pod: Raw) -> list[Raw]:
    """The instances of partitioned cards that are reserved for a pod."""
    found: list[Raw] = json.loads((pod["metadata"].get("annotations") or {}).get(_INSTANCES, "[]"))
    return found


def containers(pod: Raw) -> list[Raw]:
    """All containers in the order of slots."""
    return [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]


def wanted(pod: Raw, key: str) -> list[int]:
    """How much each container asks for of what a decision gives."""
    return [
        _wanted(key, (one.get("resources") or {}).get("limits") or {}) for one in containers(pod)
    ]


def _wanted(key: str, limits: Mapping[str, str]) -> int:
    count = int(limits.get(COUNTED_BY[key], 0))
    if key == _SLICED:  # one card, whatever is asked of it
        sizes = (limits.get(f"enflame.com/gcu-{name}") for name in ("memory", "core"))
        return int(bool(count) or any(sizes))
    if key == _NEURON:
        return count or int(limits.get("aws.amazon.com/neuroncore", 0))
    return count


def given(pod: Raw, key: str, slots: list[list[Device]]) -> list[int]:
    """How much of that each slot gives."""
    if key != _NEURON:
        return [len(slot) for slot in slots]
    whole = [
        COUNTED_BY[key] in ((one.get("resources") or {}).get("limits") or {})
        for one in containers(pod)
    ]
    return [
        len(slot) if whole[place : place + 1] == [True] else sum(map(_single_cores, slot))
        for place, slot in enumerate(slots)
    ]


def _single_cores(device: Device) -> int:
    """Two cores of a device at most count for themselves."""
    return (device.cores & 0b11).bit_count()


def peak(pod: Raw) -> dict[str, Amounts]:
    """Card id to what the pod takes of it at most: init containers run one by one, before apps.

    Instances are made for all containers at once, so each of them is taken all the time.
    """
    if not pod["spec"].get("nodeName") or pod["status"].get("phase") in ("Succeeded", "Failed"):
        return {}
    total: Slot = {}
    for key, slots in decisions(pod):
        taken = [_taken(pod, key, place, slot) for place, slot in enumerate(slots)]
        for card, amounts in _peak(pod, taken).items():
            total[card] = plus(total.get(card, (0, 0, 0)), amounts)
    for one in instances(pod):
        start, size = one["placement"]["start"], one["placement"]["size"]
        for number in range(start, start + size):
            part = stock.slice_of(one["gpuUUID"], number)
            total[part] = plus(total.get(part, (0, 0, 0)), (1, 0, 0))
    return total


def _taken(pod: Raw, key: str, place: int, slot: Iterable[Device]) -> Slot:
    found: Slot = {}
    for device in slot:
        for card, amounts in _amounts(pod, key, place, device):
            found[card] = plus(found.get(card, (0, 0, 0)), amounts)
    return found


def _amounts(pod: Raw, key: str, place: int, device: Device) -> Iterator[tuple[str, Amounts]]:
    if key == _NEURON:
        for core in range(device.cores.bit_length()):
            if device.cores >> core & 1:
                yield stock.core_of(device.id, core), (1, 0, 0)
        return
    slots = _slices(pod, place) if key == _SLICED else 1
    yield device.id, (slots, device.memory_mib, device.cores)


def _slices(pod: Raw, place: int) -> int:
    assigned = json.loads(pod["metadata"]["annotations"].get("assigned-containers", "{}"))
    name = containers(pod)[place]["name"]
    return int(assigned.get(name, {}).get("request", 1))


def _peak(pod: Raw, slots: list[Slot]) -> Slot:
    inits = pod["spec"].get("initContainers") or []
    steady: Slot = {}
    sidecars: Slot = {}
    alone: list[Slot] = []
    for place, slot in enumerate(slots):
        is_init = place < len(inits)
        is_sidecar = is_init and inits[place].get("restartPolicy") == "Always"
        if is_init and not is_sidecar:
            alone.append(slot)
            continue
        for group in (steady, sidecars) if is_sidecar else (steady,):
            for card, taken in slot.items():
                group[card] = plus(group.get(card, (0, 0, 0)), taken)
    for slot in () if inits_have_ended(pod) else alone:
        for card, taken in slot.items():
            beside = plus(sidecars.get(card, (0, 0, 0)), taken)
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


def plus(one: Amounts, other: Amounts) -> Amounts:
    """The sum."""
    return (one[0] + other[0], one[1] + other[1], one[2] + other[2])


def _most(one: Amounts, other: Amounts) -> Amounts:
    return (max(one[0], other[0]), max(one[1], other[1]), max(one[2], other[2]))
