"""Enflame GCU: whole cards from capacity, and slices of cards that the node lists itself."""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from hami_operator import errors
from hami_operator.devices import (
    admit,
    annotate,
    capacity,
    checks,
    fit,
    ownform,
    request,
    usage,
    vendor,
)
from hami_operator.protocol import decision, register

_WHOLE: Final = capacity.Shape(infix="GCU", model="GCU", memory_mib=100)
_PROFILE: Final = re.compile(r"([0-9]{1,4})g\.([0-9]{1,6})gb", re.IGNORECASE | re.ASCII)
_ASSIGNED: Final = "enflame.com/gcu-assigned"
_SIZE: Final = "enflame.com/gcu-request-size"
_CONTAINERS: Final = "assigned-containers"


# --- whole cards


def _cards(row: vendor.Vendor, node: vendor.NodeFacts) -> vendor.Found | None:
    return capacity.found(node, row.resources.count, _WHOLE)


def _nominal(row: vendor.Vendor, found: request.Request, asked: request.Asked) -> request.Request:
    return dataclasses.replace(found, memory_mib=_WHOLE.memory_mib, percent=None)


def _unused(walk: fit.Walk, card: register.Card, used: usage.Usage) -> errors.Reason | None:
    return checks.mutex(walk, card, used)


GCU: Final = vendor.Vendor(
    keyword="GCU",
    resources=vendor.Resources(count="enflame.com/gcu"),
    pod=vendor.PodKeys(
        to_allocate="hami.io/enflame-gcu-devices-to-allocate",
        allocated="hami.io/enflame-gcu-devices-allocated",
    ),
    default_cores=100,
    counted_by_kubelet=("count",),
    checks=frozenset({vendor.Check.HEALTH, vendor.Check.MUTEX}),
    file=vendor.Section(path=("enflame",), names={"resourceNameGCU": "count"}),
    hooks=vendor.Hooks(devices=_cards, request=_nominal, checks={vendor.Check.MUTEX: _unused}),
)


# --- slices


@dataclasses.dataclass(frozen=True, kw_only=True, order=True, slots=True)
class _Profile:
    slices: int
    gb: int
    name: str
    id: str


def _profiles(given: Mapping[str, Any]) -> tuple[_Profile, ...]:
    """The usable profiles, smallest first."""
    return _parsed(tuple(sorted((str(name), str(id)) for name, id in given.items())))


@functools.lru_cache(maxsize=256)  # every node of a model lists the same
def _parsed(given: tuple[tuple[str, str], ...]) -> tuple[_Profile, ...]:
    read = ((_PROFILE.fullmatch(name), name, id) for name, id in given)
    found = (
        _Profile(slices=int(match[1]), gb=int(match[2]), name=name, id=id)
        for match, name, id in read
        if match
    )
    return tuple(sorted(one for one in found if one.slices and one.gb))


def _devices(row: vendor.Vendor, node: vendor.NodeFacts) -> vendor.Found | None:
    read = ownform.parse(node.annotations.get(row.node.listed))
    listed = read.get("devices") if isinstance(read, dict) else read
    given = read.get("profiles") if isinstance(read, dict) else None
    profiles: Mapping[str, Any] = given if isinstance(given, dict) else {}
    known = _profiles(profiles)
    if listed and not known:
        listed = ownform.UNREADABLE  # no device of it can be given
    most = {
        "slices": max((one.slices for one in known), default=0),
        "mib": 1024 * max((one.gb for one in known), default=0),
    }
    build = functools.partial(_card, node.name, profiles, most)
    return ownform.found(row, listed, _READERS, build)


def _card(
    node: str,
    profiles: Mapping[str, Any],
    most: Mapping[str, int],
    position: int,
    values: Mapping[str, Any],
) -> register.Card:
    index = int(values["index"] or position)
    return register.Card(
        id=f"{node}-enflame-drs-{index}",
        index=index,
        count=values["capacity"],
        memory_mib=most["mib"],
        cores=100,
        model="Enflame",
        custom={
            "minor": values["minor"] or str(index),
            "maxSlice": most["slices"],
            "profiles": profiles,
        },
    )


def _digits(value: object) -> str | None:
    """A text of digits, or a blank one."""
    text = "" if value is None else value.strip() if isinstance(value, str) else None
    return text if text == "" or _number(text) is not None else None


def _number(value: object) -> int | None:
    if isinstance(value, str):
        return int(value) if re.fullmatch("[0-9]{1,9}", value) else None
    found: int | None = ownform.NUMBER(value)
    return found


def _positive(value: object) -> int | None:
    return _number(value) or None


_READERS: Final[ownform.Readers] = {"index": _digits, "minor": _digits, "capacity": _positive}


def _ask(row: vendor.Vendor, asked: request.Asked) -> request.Request | request.Invalid | None:
    """Slices where they are named, else a size; always of one card."""
    names = row.resources
    slices = asked.amount(names.count)
    memory, cores = asked.amount(names.memory), asked.amount(names.cores, most=100)
    for amount in (slices, memory, cores):
        if isinstance(amount, request.Invalid):
            return amount
    if slices:
        return request.Request(word=row.keyword, count=1, detail={"slices": slices})
    if not memory and not cores:
        return None
    return request.Request(word=row.keyword, count=1, detail={"memory": memory, "cores": cores})


def _admit(
    row: vendor.Vendor, container: admit.Container, pod: admit.Pod
) -> admit.Admitted | admit.Denied:
    asked, names = admit.asked(row, container), row.resources
    given = [name for name in names.names if asked.raw(name) is not None]
    judged = [names.count] if names.count in given else given
    for name in judged:
        if asked.amount(name) == 0:
            return admit.denied(container, name, "asks for nothing")
    for name in given:
        container = container.with_amount(name, str(asked.raw(name)))
    return admit.Admitted(container=container, pod=pod)


def _prepare(walk: fit.Walk) -> Mapping[str, Any]:
    """The profile that serves the request, chosen once for the node."""
    cards = [each.card for each in walk.candidates]
    profiles = sorted(
        {one for card in cards for one in _profiles(card.custom.get("profiles", {}))}
    )
    most = max((_most(card) for card in cards), default=1)
    return {"profile": _serving(profiles, walk.request.detail, most), "most": most}


def _serving(profiles: list[_Profile], wanted: Mapping[str, Any], most: int) -> _Profile | None:
    if "slices" in wanted:
        return next((one for one in profiles if one.slices == wanted["slices"]), None)
    gb = wanted["memory"]
    if profiles and gb > 2 * profiles[-1].gb:  # nobody wants so much, so these are MiB
        gb = -(-gb // 1024)
    enough = (one for one in profiles if one.gb >= gb)
    return next((one for one in enough if _percent(one.slices, most) >= wanted["cores"]), None)


def _percent(slices: int, most: int) -> int:
    return -(-slices * 100 // most)


def _before(walk: fit.Walk) -> fit.NoFit | None:
    if walk.facts["profile"] is None:
        walk.refuse(errors.Reason.MODE_NOT_FIT)
        return walk.no_fit()
    return None


def _amounts(walk: fit.Walk, card: register.Card) -> tuple[int, int, Mapping[str, Any]]:
    profile: _Profile = walk.facts["profile"]
    custom = {
        "minor": card.custom.get("minor", ""),
        "slices": profile.slices,
        "profileID": profile.id,
        "profileName": profile.name,
    }
    return profile.gb * 1024, _percent(profile.slices, walk.facts["most"]), custom


def _slices(walk: fit.Walk, card: register.Card, used: usage.Usage) -> errors.Reason | None:
    free = card.count - used.used
    return None if free >= walk.custom["slices"] else errors.Reason.CARD_INSUFFICIENT_CORES


def _taken(pick: decision.Pick, card: register.Card | None) -> int:
    """Slices of a pick; one that was read says it in percent."""
    most = _most(card) if card else 1
    return int(pick.custom.get("slices") or max(pick.cores * most // 100, 1))


def _most(card: register.Card) -> int:
    return int(card.custom.get("maxSlice", 1))


def _count(card: register.Card | None, used: usage.Usage, pick: decision.Pick) -> usage.Usage:
    after = used.add(pick)
    return dataclasses.replace(after, used=used.used + _taken(pick, card))


def _charge(
    standing: usage.CardUsage, pick: decision.Pick, annotations: Mapping[str, str]
) -> usage.CardUsage:
    return usage.CardUsage(standing.card, _count(standing.card, standing.usage, pick))


def _settle(
    cards: tuple[usage.CardUsage, ...], holders: Iterable[usage.Holder]
) -> tuple[usage.CardUsage, ...]:
    by_id = {each.card.id: each.card for each in cards}
    taken = dict.fromkeys(by_id, 0)
    for holder in holders:
        counted = holder.recount(lambda used, pick: _count(by_id.get(pick.id), used, pick))
        for id, one in counted.items():
            taken[id] = taken.get(id, 0) + one.used
    return tuple(
        usage.CardUsage(each.card, dataclasses.replace(each.usage, used=taken[each.card.id]))
        for each in cards
    )


def _annotate(
    row: vendor.Vendor, slots: decision.Slots, facts: annotate.Facts
) -> Mapping[str, str]:
    named = [(name, slot[0]) for name, slot in zip(facts.containers, slots, strict=True) if slot]
    first = named[0][1]
    index = str(first.index)
    served = {name: _served(pick) for name, pick in named}
    return {
        _ASSIGNED: "false",
        f"{_ASSIGNED}-time": str(facts.now.unix_ns),
        f"{_ASSIGNED}-index": index,
        f"{_ASSIGNED}-id": index,
        f"{_ASSIGNED}-minor": first.custom["minor"],
        _SIZE: str(first.custom["slices"]),
        _CONTAINERS: json.dumps(served, separators=(",", ":")),
    }


def _served(pick: decision.Pick) -> Mapping[str, Any]:
    return {
        "allocated": False,
        "request": pick.custom["slices"],
        "profileID": pick.custom["profileID"],
        "profileName": pick.custom["profileName"],
    }


ENFLAME: Final = vendor.Vendor(
    keyword="Enflame",
    resources=vendor.Resources(
        count="enflame.com/drs-gcu", memory="enflame.com/gcu-memory", cores="enflame.com/gcu-core"
    ),
    node=vendor.NodeKeys(listed="enflame.com/gcu-drs-capacity"),
    pod=vendor.PodKeys(
        allocated="hami.io/enflame-vgpu-devices-allocated",
        plugin=(
            *(_ASSIGNED, f"{_ASSIGNED}-time", f"{_ASSIGNED}-index", f"{_ASSIGNED}-id"),
            *(f"{_ASSIGNED}-minor", _SIZE, _CONTAINERS),
        ),
    ),
    selection=vendor.Selection(
        use_uuid=("enflame.com/use-gpuuuid",), skip_uuid=("enflame.com/nouse-gpuuuid",)
    ),
    checks=vendor.WHOLE | {vendor.Check.QUOTA, vendor.Check.MEMORY, vendor.Check.CORES},
    guide=vendor.Guide(
        example={"memory": 0, "cores": 0},
        memory="in GB or MiB, instead of slices",
        cores="in percent of one device, instead of slices",
        notes=("Devices are counted in slices of one device; a container has one device.",),
    ),
    file=vendor.Section(
        path=("enflame",),
        names={
            "resourceNameVGCU": "count",
            "resourceNameDRSGCU": "count",
            "resourceNameGCUMemory": "memory",
            "resourceNameGCUCore": "cores",
        },
    ),
    hooks=vendor.Hooks(
        devices=_devices,
        ask=_ask,
        admit=_admit,
        prepare=_prepare,
        before=_before,
        amounts=_amounts,
        checks={vendor.Check.CORES: _slices},
        charge=_charge,
        settle=_settle,
        annotate=_annotate,
    ),
)
