"""AWS Neuron: whole devices, or single cores of one device; cores are a bit mask."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping
from typing import Any, Final

from hami_operator import errors
from hami_operator.devices import admit, annotate, capacity, checks, fit, request, usage, vendor
from hami_operator.protocol import decision, register

_SHAPE: Final = capacity.Shape(infix="AWSNeuron", model="AWSNeuron")
_MOST_CORES: Final = 2 * decision.INT32_MAX
_MASK_BITS: Final = 31
_SINGLE: Final = 2  # only so many cores of a device are given out one by one
_INSTANCE: Final = "node.kubernetes.io/instance-type"
_WINDOWS: Final = (4, 8, 16)
_IDS: Final = "AWS_NEURON_IDS"
_TIME: Final = "NEURON_ALLOC_TIME"
_ALLOCATED: Final = "NEURON_ALLOCATED"
_TYPE: Final = "NEURON_RESOURCE_TYPE"
_NODE: Final = "aws.amazon.com/predicate-node"
_PER_DEVICE: Final = "cores_per_device"


def _devices(row: vendor.Vendor, node: vendor.NodeFacts) -> vendor.Found | None:
    names = row.resources
    found = capacity.found(node, names.count, _SHAPE)
    if found is None or not found.cards:
        return found
    each = max(capacity.whole(node, names.cores), 0) // capacity.whole(node, names.count)
    if each > _MASK_BITS:
        finding = register.Finding(entry=0, field=names.cores)
        return dataclasses.replace(found, cards=(), findings=(finding,))
    cards = (dataclasses.replace(one, count=each, cores=2**each - 1) for one in found.cards)
    return dataclasses.replace(found, cards=tuple(cards))


def _ask(row: vendor.Vendor, asked: request.Asked) -> request.Request | request.Invalid | None:
    names = row.resources
    devices = asked.amount(names.count)
    cores = asked.amount(names.cores, most=_MOST_CORES)
    for amount in (devices, cores):
        if isinstance(amount, request.Invalid):
            return amount
    if not devices and not cores:
        return None
    ask = functools.partial(request.Request, word=row.keyword)
    if isinstance(devices, int) and devices:
        return ask(count=devices, detail={"neuron": devices})
    return ask(count=1, counted=False, detail={"neuroncore": cores})


def _admit(
    row: vendor.Vendor, container: admit.Container, pod: admit.Pod
) -> admit.Admitted | admit.Denied:
    wanted = admit.read(row, container)
    cores = wanted.detail.get("neuroncore", 0) if isinstance(wanted, request.Request) else 0
    if cores > 1:
        single = _fewest(pod.cards(row.keyword))
        if cores > single and cores % single:
            why = f"is neither at most {single} nor a multiple of it"
            return admit.denied(container, row.resources.cores, why)
    return admit.Admitted(container=container, pod=pod)


def _fewest(nodes: Iterable[tuple[register.Card, ...]]) -> int:
    """Cores of a device that the least of the known nodes gives out one by one."""
    counts = (card.count for cards in nodes for card in cards)
    return max(min((_SINGLE, *counts)), 1)


def _prepare(walk: fit.Walk) -> Mapping[str, Any]:
    """Whole devices to give, or else single cores; neither where the number has no meaning."""
    each = min((one.card.cores.bit_length() for one in walk.candidates), default=0)
    single = min(each, _SINGLE)
    cores = walk.request.detail.get("neuroncore", 0)
    if "neuron" in walk.request.detail:
        return {"devices": walk.request.count, "cores": 0}
    if cores <= single or not single:
        return {"devices": 0, "cores": cores if single else 0}
    return {"devices": 0 if cores % single else cores // single, "cores": 0}


def _before(walk: fit.Walk) -> fit.Fit | fit.NoFit | None:
    """Everything but one device, or cores of one."""
    devices, cores = walk.facts["devices"], walk.facts["cores"]
    if not devices and not cores:
        walk.refuse(errors.Reason.CARD_INSUFFICIENT_CORES, len(walk.candidates))
        return walk.no_fit()
    if devices > len(walk.candidates):
        return fit.insufficient(walk)
    return _window(walk, devices) if devices > 1 else None


def _window(walk: fit.Walk, number: int) -> fit.Fit | fit.NoFit:
    """Neighbouring devices, all of them unused."""
    free: dict[int, register.Card] = {}
    for each in walk.candidates:
        reason = _not_free(walk, each, number)
        if reason is not None:
            walk.refuse(reason)
        elif each.card.index >= 0:
            free[each.card.index] = each.card
    anywhere = "inf" in walk.context.node_labels.get(_INSTANCE, "").lower()
    starts = sorted(free) if anywhere or number in _WINDOWS else []
    for start in starts:
        window = range(start, start + number)
        if free.keys() >= set(window) and (anywhere or start % number == 0):
            return fit.Fit(picks=tuple(_whole(free[index]) for index in window))
    told = (errors.Reason.QUOTA_NOT_FIT, errors.Reason.CARD_UUID_MISMATCH)
    counts = [(reason, walk.refusals[reason]) for reason in told if reason in walk.refusals]
    counts = counts[:1] or [(errors.Reason.NUMA_NOT_FIT, 1)]
    return fit.NoFit(counts=tuple(counts), candidates=len(walk.candidates))


def _not_free(walk: fit.Walk, each: usage.CardUsage, number: int) -> errors.Reason | None:
    card, used = each.card, each.usage
    return (
        checks.health(walk, card, used)
        or checks.mutex(walk, card, used)
        or checks.slots(walk, card, used)
        or checks.by_id(walk, card, used)
        or checks.quota_for_all(walk, card, 0, card.cores.bit_count(), number)
    )


def _whole(card: register.Card) -> decision.Pick:
    custom = {_PER_DEVICE: card.cores.bit_length()}
    return decision.Pick(
        id=card.id, memory_mib=0, cores=card.cores, index=card.index, custom=custom
    )


def _quota(walk: fit.Walk, card: register.Card, used: usage.Usage) -> errors.Reason | None:
    return checks.quota_of(walk, card, 0, walk.facts["cores"] or card.cores.bit_count())


def _cores(walk: fit.Walk, card: register.Card, used: usage.Usage) -> errors.Reason | None:
    wanted = walk.facts["cores"]
    enough = len(_free_bits(card, used)) >= wanted if wanted else card.cores and not used.cores
    return None if enough else errors.Reason.CARD_INSUFFICIENT_CORES


def _free_bits(card: register.Card, used: usage.Usage) -> list[int]:
    """Single cores that nobody has, as masks."""
    single = min(card.cores.bit_length(), _SINGLE)
    return [1 << bit for bit in range(single) if not used.cores >> bit & 1]


def _give(walk: fit.Walk, card: register.Card, used: usage.Usage) -> errors.Reason | None:
    """Passes; says which cores the card gives."""
    wanted = walk.facts["cores"]
    walk.cores = sum(_free_bits(card, used)[:wanted]) if wanted else card.cores
    walk.custom = {_PER_DEVICE: card.cores.bit_length()}
    return None


def _charge(
    standing: usage.CardUsage, pick: decision.Pick, annotations: Mapping[str, str]
) -> usage.CardUsage:
    taken = standing.usage.cores | pick.cores
    return usage.CardUsage(
        standing.card, dataclasses.replace(standing.usage.add(pick), cores=taken)
    )


def _settle(
    cards: tuple[usage.CardUsage, ...], holders: Iterable[usage.Holder]
) -> tuple[usage.CardUsage, ...]:
    """Masks are joined, whoever holds them; each bit is counted by itself."""
    masks = dict.fromkeys((each.card.id for each in cards), 0)
    bits = max((each.card.cores.bit_length() for each in cards), default=0)
    for holder in holders:
        for bit in range(bits):
            counted = holder.recount(functools.partial(_count_bit, bit))
            for id in masks.keys() & counted.keys():
                masks[id] |= bool(counted[id].cores) << bit
    return tuple(
        usage.CardUsage(each.card, dataclasses.replace(each.usage, cores=masks[each.card.id]))
        for each in cards
    )


def _count_bit(bit: int, used: usage.Usage, pick: decision.Pick) -> usage.Usage:
    return dataclasses.replace(used, cores=used.cores + (pick.cores >> bit & 1))


def _metered(pick: decision.Pick, card: register.Card | None) -> decision.Pick:
    return dataclasses.replace(pick, cores=pick.cores.bit_count())


def _annotate(
    row: vendor.Vendor, slots: decision.Slots, facts: annotate.Facts
) -> Mapping[str, str]:
    ids: list[int] = []
    single = False
    for limits, slot in zip(facts.limits, slots, strict=True):
        if row.resources.count in limits:
            ids += [pick.index for pick in slot]
        else:
            ids += [number for pick in slot for number in _numbers(pick)]
            single = single or bool(slot)
    written = {
        _IDS: ",".join(map(str, ids)),
        _TIME: str(facts.now.unix_ns),
        _ALLOCATED: "false",
        _NODE: facts.node_name,
    }
    return written | ({_TYPE: row.resources.cores} if single else {})


def _numbers(pick: decision.Pick) -> list[int]:
    """The cores of a pick as the node numbers them."""
    first = pick.custom[_PER_DEVICE] * pick.index
    return [first + bit for bit in range(_SINGLE) if pick.cores >> bit & 1]


AWS_NEURON: Final = vendor.Vendor(
    keyword="AWSNeuron",
    resources=vendor.Resources(count="aws.amazon.com/neuron", cores="aws.amazon.com/neuroncore"),
    pod=vendor.PodKeys(
        allocated="hami.io/aws-neuron-devices-allocated",
        plugin=(_IDS, _TIME, _ALLOCATED, _TYPE, _NODE),
    ),
    selection=vendor.Selection(
        use_uuid=("aws.amazon.com/use-neuron-uuid",),
        skip_uuid=("aws.amazon.com/nouse-neuron-uuid",),
    ),
    counted_by_kubelet=("count", "cores"),
    checks=vendor.WHOLE | {vendor.Check.QUOTA, vendor.Check.CORES},
    guide=vendor.Guide(
        example={"cores": 0},
        cores="by their number, instead of devices",
        notes=(
            "Several devices of a container have neighbouring numbers; on instances other than "
            "inf they are 4, 8 or 16.",
        ),
    ),
    file=vendor.Section(
        path=("awsneuron",), names={"resourceCountName": "count", "resourceCoreName": "cores"}
    ),
    hooks=vendor.Hooks(
        devices=_devices,
        ask=_ask,
        admit=_admit,
        annotate=_annotate,
        prepare=_prepare,
        before=_before,
        checks={vendor.Check.QUOTA: _quota, vendor.Check.CORES: _cores},
        rule=_give,
        charge=_charge,
        settle=_settle,
        metered=_metered,
    ),
)
