"""What cards a node has, for the independent check: read from its annotations and capacity alone.

It shares no code and no table with the readers that it checks: that is why the keys are written
out here once more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

Raw = Mapping[str, Any]
Amounts = tuple[int, int, int]
"""Slots, MiB, cores."""

ANY: Final = 2**31
"""No bound: the row's rule does not count this."""

_REGISTER: Final = re.compile(r"hami\.io/node-(?:.+-register|register-.+)")
_PROFILE: Final = re.compile(r"(\d+)g\.(\d+)gb", re.IGNORECASE)
_SHARED_GPUS: Final = "metax-tech.com/node-gpu-devices"
_SLICED: Final = "enflame.com/gcu-drs-capacity"
_NEURON: Final = "aws.amazon.com/neuron"


class _Capacity(NamedTuple):
    """Cards that a node shows by its capacity alone."""

    infix: str
    counted: str
    each: Amounts
    units: int = 1
    memory: str = ""
    unit_mib: int = 0


_CAPACITY: Final = (
    _Capacity(
        infix="cambricon-mlu",
        counted="cambricon.com/mlu.smlu.vcore",
        units=100,
        each=(100, 0, 100),
        memory="cambricon.com/mlu.smlu.vmemory",
        unit_mib=256,
    ),
    _Capacity(
        infix="mthreads",
        counted="mthreads.com/sgpu-core",
        units=16,
        each=(100, 0, 16),
        memory="mthreads.com/sgpu-memory",
        unit_mib=512,
    ),
    _Capacity(infix="metax", counted="metax-tech.com/gpu", each=(1, 65536, 100)),
    _Capacity(infix="GCU", counted="enflame.com/gcu", each=(1, 100, 100)),
    # A hundred slots by their number, and yet only unused ones are given.
    _Capacity(infix="kunlun", counted="kunlunxin.com/xpu", each=(1, 98304, 100)),
)
_REPLACED_BY: Final = {"cambricon-mlu": "hami.io/node-mlu-register"}


def cards(node: Raw) -> Iterator[tuple[str, Amounts]]:
    """Id and totals of each card of a node, from whatever shows it.

    Parts that are given one by one are cards of their own: cores of a device that is given in a
    mask, slices of a card that is given in instances.
    """
    name = node["metadata"]["name"]
    written = node["metadata"].get("annotations") or {}
    for key, value in written.items():
        if _REGISTER.fullmatch(key):
            for one in _entries(value):
                yield from _registered(key, one)
    yield from _listed(name, written)
    capacity = node["status"].get("capacity") or {}
    for kind in _CAPACITY:
        if _REPLACED_BY.get(kind.infix) not in written:
            yield from _counted(name, kind, capacity)
    yield from _masked(name, capacity)


def partitioned(node: Raw) -> Iterator[str]:
    """Ids of the cards that are given in instances."""
    for key, value in (node["metadata"].get("annotations") or {}).items():
        if _REGISTER.fullmatch(key):
            yield from (one["id"] for one in _entries(value) if one.get("mode") == "mig")


def slice_of(card: str, number: int) -> str:
    """Id of a slice of a card that is given in instances."""
    return f"{card} slice {number}"


def core_of(card: str, number: int) -> str:
    """Id of a core of a device whose cores are given in a mask."""
    return f"{card} core {number}"


def _entries(value: str) -> Iterator[Raw]:
    if value.startswith("["):
        yield from json.loads(value)
        return
    for entry in filter(None, value.split(":")):
        id, count, memory_mib, cores, *_ = entry.split(",")
        amounts = {"count": int(count), "devmem": int(memory_mib), "devcore": int(cores)}
        yield {"id": id, **amounts}


def _registered(key: str, one: Raw) -> Iterator[tuple[str, Amounts]]:
    slots, memory_mib, cores = (one.get(name, 0) for name in ("count", "devmem", "devcore"))
    if key.startswith("hami.io/node-register-Ascend"):
        cores = 100  # whatever the chip has: only a soft split gives cores, in percent
    if key == "hami.io/node-register-xpu":
        slots = ANY  # the memory is what is shared out
    if one.get("mode") == "mig":
        cores = ANY  # rounded up for each instance; the slices are what is shared out
        places = [place for each in one["migProfiles"] for place in each["placements"]]
        for number in range(max(place["start"] + place["size"] for place in places)):
            yield slice_of(one["id"], number), (1, 0, 0)
    yield one["id"], (slots, memory_mib, cores)


def _listed(node: str, written: Mapping[str, str]) -> Iterator[tuple[str, Amounts]]:
    for one in json.loads(written.get(_SHARED_GPUS) or "[]"):
        yield one["uuid"], (one["totalDevCount"], one["totalVRam"], one["totalCompute"])
    sliced = json.loads(written.get(_SLICED) or "{}")
    sizes = [
        int(found[2]) for found in map(_PROFILE.fullmatch, sliced.get("profiles", ())) if found
    ]
    for one in sliced.get("devices", ()):
        # Percent are rounded up for each container; the slices are what is shared out.
        yield f"{node}-enflame-drs-{one['index']}", (one["capacity"], 1024 * max(sizes), ANY)


def _counted(
    node: str, kind: _Capacity, capacity: Mapping[str, str]
) -> Iterator[tuple[str, Amounts]]:
    number = int(capacity.get(kind.counted, 0)) // kind.units
    slots, memory_mib, cores = kind.each
    for index in range(number):
        if kind.memory:
            memory_mib = int(capacity.get(kind.memory, 0)) * kind.unit_mib // number
        yield f"{node}-{kind.infix}-{index}", (slots, memory_mib, cores)


def _masked(node: str, capacity: Mapping[str, str]) -> Iterator[tuple[str, Amounts]]:
    number = int(capacity.get(_NEURON, 0))
    cores = int(capacity.get(f"{_NEURON}core", 0))
    for index in range(number):
        for core in range(cores // number):
            yield core_of(f"{node}-AWSNeuron-{index}", core), (1, 0, 0)
