"""Cambricon MLU: registered cards where the node has a register, else cards from capacity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hami_operator import errors
from hami_operator.devices import annotate, capacity, checks, fit, usage, vendor
from hami_operator.protocol import decision, register

_MEMORY_UNIT_MIB: Final = 256
_ASSIGNED: Final = "CAMBRICON_DSMLU_ASSIGNED"
_PROFILE: Final = "CAMBRICON_DSMLU_PROFILE"
_SHAPE: Final = capacity.Shape(
    infix="cambricon-mlu",
    model="MLU",
    units=100,
    count=100,
)


def _devices(row: vendor.Vendor, node: vendor.NodeFacts) -> vendor.Found | None:
    names, unit_mib = row.resources, row.memory_unit_mib
    return capacity.found(node, names.cores, _SHAPE, memory=names.memory, unit_mib=unit_mib)


def _accounts_no_cores(card: register.Card) -> bool:
    """A registered card without cores, as in the protocol's own example."""
    return card.cores == 0 and not capacity.counted(card)


def _amounts(walk: fit.Walk, card: register.Card) -> tuple[int, int, Mapping[str, Any]]:
    given = 0 if _accounts_no_cores(card) else fit.clamped_cores(walk.row, walk.request)
    return walk.memory_mib, given, register.NOTHING


def _type(walk: fit.Walk, card: register.Card, used: usage.Usage) -> errors.Reason | None:
    """The model of a card from capacity is not known, so nothing is demanded of it."""
    return None if capacity.counted(card) else checks.by_type(walk, card, used)


def _cores(walk: fit.Walk, card: register.Card, used: usage.Usage) -> errors.Reason | None:
    return None if _accounts_no_cores(card) else checks.cores(walk, card, used)


def _annotate(
    row: vendor.Vendor, slots: decision.Slots, facts: annotate.Facts
) -> Mapping[str, str]:
    first = next(pick for slot in slots for pick in slot)
    units = first.memory_mib // _MEMORY_UNIT_MIB
    return {_ASSIGNED: "false", _PROFILE: f"{first.index}_{first.cores}_{units}"}


MLU: Final = vendor.Vendor(
    keyword="MLU",
    resources=vendor.Resources(
        count="cambricon.com/vmlu",
        memory="cambricon.com/mlu.smlu.vmemory",
        cores="cambricon.com/mlu.smlu.vcore",
    ),
    node=vendor.NodeKeys(
        register="hami.io/node-mlu-register", handshake="hami.io/node-handshake-mlu"
    ),
    pod=vendor.PodKeys(
        to_allocate="hami.io/cambricon-mlu-devices-to-allocate",
        allocated="hami.io/cambricon-mlu-devices-allocated",
        plugin=(_ASSIGNED, _PROFILE),
    ),
    selection=vendor.Selection(
        use_type="cambricon.com/use-mlutype",
        skip_type="cambricon.com/nouse-mlutype",
        use_uuid=("cambricon.com/use-gpuuuid",),
        skip_uuid=("cambricon.com/nouse-gpuuuid",),
    ),
    memory_unit_mib=_MEMORY_UNIT_MIB,
    counted_by_kubelet=("cores", "memory"),
    default_cores=100,
    guide=vendor.Guide(
        notes=(
            "A node without the register has one card for each 100 units of its "
            "`cambricon.com/mlu.smlu.vcore`.",
        ),
    ),
    file=vendor.Section(path=("cambricon",)),
    lock="cambricon.com/dsmlu.lock",
    checks=vendor.SHARING | {vendor.Check.TYPE},
    hooks=vendor.Hooks(
        devices=_devices,
        amounts=_amounts,
        checks={vendor.Check.TYPE: _type, vendor.Check.CORES: _cores},
        annotate=_annotate,
    ),
)
