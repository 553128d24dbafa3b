"""Kunlun: eight cards in two wings, given whole or in slices of one size per card."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from hami_operator import errors
from hami_operator.devices import (
    admit,
    annotate,
    capacity,
    checks,
    fit,
    request,
    score,
    usage,
    vendor,
)
from hami_operator.protocol import decision, keys, register

_WING: Final = 4
_CARD_MIB: Final = 98304
_SIZES: Final = (24576, 49152, _CARD_MIB)
_SHAPE: Final = capacity.Shape(infix="kunlun", model="kunlun", count=100, memory_mib=_CARD_MIB)
_LINKS: Final = ((0, 4), (1, 5), (2, 6), (3, 7))
_SQUARES: Final = (
    *((0, 1, 4, 5), (2, 3, 6, 7), (0, 2, 4, 6)),
    *((1, 3, 5, 7), (0, 3, 4, 7), (1, 2, 5, 6)),
)
_CHECKS: Final = frozenset({vendor.Check.HEALTH, vendor.Check.UUID, vendor.Check.MUTEX})
_SELECTION: Final = vendor.Selection(
    use_uuid=("hami.io/use-xpu-uuid", "baidu.com/use-gpuuuid"),
    skip_uuid=("hami.io/no-use-xpu-uuid", "baidu.com/nouse-gpuuuid"),
)

Refused = Callable[[fit.Walk, usage.CardUsage], errors.Reason | None]


# --- which cards lie together


def _chosen(usable: frozenset[int], count: int) -> tuple[int, ...]:
    """The indexes of the cards to give; none where they do not lie together."""
    if count == 2 * _WING:
        return tuple(sorted(usable)) if len(usable) == count else ()
    if count not in (1, 2, _WING):
        return ()
    wings = [sorted(i for i in usable if i // _WING == side) for side in (0, 1)]
    sizes = (1, 3, 2, 4) if count == 1 else range(count, _WING + 1)
    fitting = (wing for size in sizes for wing in wings if len(wing) == size)
    found = next(fitting, None)
    if found is not None:
        return tuple(found[:count])
    if count == 1:
        return ()
    across: Iterable[tuple[int, ...]] = _LINKS if count == 2 else _SQUARES
    sets = [each for each in across if usable.issuperset(each)]
    if count == _WING and len(usable) == 6:
        return _keeping_a_pair(sets, usable)
    return sets[0] if sets else ()


def _keeping_a_pair(sets: list[tuple[int, ...]], usable: frozenset[int]) -> tuple[int, ...]:
    """A set that leaves two linked cards over, else the last one."""
    for each in sets:
        one, other = sorted(usable.difference(each))
        if (one, other) in _LINKS or one // _WING == other // _WING:
            return each
    return sets[-1] if sets else ()


def _placed(walk: fit.Walk, refused: Refused) -> tuple[register.Card, ...]:
    """The chosen cards in order; what refuses the others is counted on the way."""
    usable: dict[int, register.Card] = {}
    for each in walk.candidates:
        reason = refused(walk, each)
        if reason is not None:
            walk.refuse(reason)
        elif 0 <= each.card.index < 2 * _WING:
            usable[each.card.index] = each.card
    return tuple(usable[i] for i in _chosen(frozenset(usable), walk.request.count))


def _no_choice(walk: fit.Walk, *reasons: errors.Reason) -> fit.NoFit:
    """The first of the reasons that refused any card, else that they do not lie together."""
    told = next((reason for reason in reasons if walk.refusals.get(reason)), None)
    counts = (told, walk.refusals[told]) if told else (errors.Reason.NUMA_NOT_FIT, 1)
    return fit.NoFit(counts=(counts,), candidates=len(walk.candidates))


# --- whole cards


def _devices(row: vendor.Vendor, node: vendor.NodeFacts) -> vendor.Found | None:
    found = capacity.found(node, row.resources.count, _SHAPE)
    if found is None:
        return None
    half = len(found.cards) // 2
    sides = (dataclasses.replace(one, numa=int(one.index >= half)) for one in found.cards)
    return dataclasses.replace(found, cards=tuple(sides))


def _whole(walk: fit.Walk) -> fit.Fit | fit.NoFit:
    cards = _placed(walk, _not_free)
    if not cards:
        return _no_choice(walk, errors.Reason.CARD_UUID_MISMATCH)
    picks = (
        decision.Pick(id=one.id, memory_mib=one.memory_mib, cores=one.cores, index=one.index)
        for one in cards
    )
    return fit.Fit(picks=tuple(picks))


def _not_free(walk: fit.Walk, each: usage.CardUsage) -> errors.Reason | None:
    return (
        checks.health(walk, each.card, each.usage)
        or checks.mutex(walk, each.card, each.usage)
        or checks.by_id(walk, each.card, each.usage)
    )


def _indexes(
    row: vendor.Vendor, slots: decision.Slots, facts: annotate.Facts
) -> Mapping[str, str]:
    last = [slot for slot in slots if slot][-1]
    return {"BAIDU_COM_DEVICE_IDX": ",".join(str(pick.index) for pick in last)}


def _score(row: vendor.Vendor, facts: score.Facts) -> float:
    """More for whoever leaves the wings less broken than they were."""
    given = {pick.index for slot in facts.slots for pick in slot}
    before = {each.card.index for each in facts.before if each.usage.used}
    worse = _broken(given) - _broken(before)
    return {-1: 3000.0, 0: 2000.0, 1: 1000.0, 2: 0.0}.get(worse, 1000.0)


def _broken(indexes: Iterable[int]) -> int:
    """How broken the wings are when these cards are taken."""
    taken = list(indexes)
    left = sum(index < _WING for index in taken)
    by_number = {_WING: 0, 1: 2}
    parts = (by_number.get(number, 1) for number in (left, len(taken) - left))
    return sum(parts) if taken else 1


KUNLUN: Final = vendor.Vendor(
    keyword="kunlun",
    resources=vendor.Resources(count="kunlunxin.com/xpu"),
    pod=vendor.PodKeys(allocated="hami.io/kunlun-allocated", plugin=("BAIDU_COM_DEVICE_IDX",)),
    selection=_SELECTION,
    counted_by_kubelet=("count",),
    checks=_CHECKS,
    guide=vendor.Guide(
        notes=("A container takes 1, 2, 4 or 8 cards, of one half of the node where it can be.",)
    ),
    file=vendor.Section(path=("kunlun",), names={"resourceCountName": "count"}),
    hooks=vendor.Hooks(devices=_devices, before=_whole, annotate=_indexes, score=_score),
)


# --- slices


def _size(value: int) -> int:
    return next((size for size in _SIZES if value <= size), _CARD_MIB)


def _request(row: vendor.Vendor, found: request.Request, asked: request.Asked) -> request.Request:
    named = asked.raw(row.resources.memory) is not None
    memory_mib = _size(found.memory_mib) if named else _CARD_MIB
    cores = memory_mib * 100 // _CARD_MIB
    return dataclasses.replace(found, memory_mib=memory_mib, percent=None, cores=cores)


def _admit(
    row: vendor.Vendor, container: admit.Container, pod: admit.Pod
) -> admit.Admitted | admit.Denied:
    name = row.resources.memory
    value = admit.limited(row, container).amount(name)
    if isinstance(value, int) and name in container.limits:
        container = container.with_amount(name, str(_size(value)))
    return admit.Admitted(container=container, pod=pod)


def _shared(walk: fit.Walk) -> fit.Fit | fit.NoFit:
    cards = _placed(walk, _not_usable)
    if not cards:
        return _no_choice(
            walk,
            errors.Reason.EXCLUSIVE_CONFLICT,
            errors.Reason.QUOTA_NOT_FIT,
            errors.Reason.CARD_UUID_MISMATCH,
        )
    wanted = walk.request
    picks = (
        decision.Pick(id=one.id, index=one.index, memory_mib=wanted.memory_mib, cores=wanted.cores)
        for one in cards
    )
    return fit.Fit(picks=tuple(picks))


def _not_usable(walk: fit.Walk, each: usage.CardUsage) -> errors.Reason | None:
    card, used = each.card, each.usage
    wanted = walk.request
    refused = checks.by_id(walk, card, used) or checks.health(walk, card, used)
    if refused or card.memory_mib - used.memory_mib < wanted.memory_mib:
        return refused or errors.Reason.CARD_INSUFFICIENT_MEMORY
    if used.used and used.memory_mib // used.used != wanted.memory_mib:
        return errors.Reason.CARD_CUSTOM_RULE  # slices of another size are on it
    if used.used and "mutex" in walk.context.policy:
        return errors.Reason.EXCLUSIVE_CONFLICT
    return checks.quota_for_all(walk, card, wanted.memory_mib, wanted.cores, wanted.count)


XPU: Final = vendor.Vendor(
    keyword="XPU",
    resources=vendor.Resources(count="kunlunxin.com/vxpu", memory="kunlunxin.com/vxpu-memory"),
    node=vendor.NodeKeys(
        register="hami.io/node-register-xpu", handshake="hami.io/node-handshake-xpu"
    ),
    pod=vendor.PodKeys(
        to_allocate="hami.io/xpu-devices-to-allocate", allocated="hami.io/xpu-devices-allocated"
    ),
    selection=_SELECTION,
    lock=keys.NODE_LOCK,
    checks=_CHECKS | {vendor.Check.QUOTA, vendor.Check.MEMORY},
    guide=vendor.Guide(
        example={"memory": 24576},
        memory="in MiB, rounded up to 24576, 49152 or 98304",
        notes=("Cores follow from memory: a quarter, a half, or the whole device.",),
    ),
    file=vendor.Section(
        path=("kunlun",),
        names={"resourceVCountName": "count", "resourceVMemoryName": "memory"},
    ),
    hooks=vendor.Hooks(request=_request, admit=_admit, before=_shared),
)
