"""MetaX: whole GPUs from capacity, and shared GPUs that the node lists itself."""

from __future__ import annotations

import dataclasses
import itertools
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
    groups,
    ownform,
    request,
    score,
    usage,
    vendor,
)
from hami_operator.protocol import decision, fields, keys, register

_WHOLE: Final = capacity.Shape(infix="metax", model="Metax-GPU", memory_mib=65536)
_CLASS: Final = "metax-tech.com/sgpu-app-class"
_QOS: Final = "metax-tech.com/sgpu-qos-policy"
_AWARE: Final = "metax-tech.com/sgpu-topology-aware"
_ALLOCATED: Final = "metax-tech.com/gpu-devices-allocated"
_TIME: Final = "metax-tech.com/predicate-time"
_TOPOLOGY: Final = {
    "binpack": "metax-tech.com/gpu.topology.losses",
    "spread": "metax-tech.com/gpu.topology.scores",
}
_CLASSES: Final = ("online", "offline")
_POLICIES: Final = ("best-effort", "fixed-share", "burst-share")

Annotations = Mapping[str, str]


# --- whole GPUs


def _cards(row: vendor.Vendor, node: vendor.NodeFacts) -> vendor.Found | None:
    return capacity.found(node, row.resources.count, _WHOLE)


def _topology(row: vendor.Vendor, facts: score.Facts) -> float:
    """How well so many GPUs can be had here; the node's values know the policy already."""
    number = sum(map(len, facts.slots))
    listed = ownform.parse(facts.node_annotations.get(_TOPOLOGY.get(facts.node_policy, "")))
    value = listed.get(str(number)) if isinstance(listed, dict) else None
    if not isinstance(value, int | float) or isinstance(value, bool):
        return 0.0
    return (value - 2000.0) if facts.node_policy == "spread" else (2000.0 - value)


GPU: Final = vendor.Vendor(
    keyword="Metax-GPU",
    resources=vendor.Resources(count="metax-tech.com/gpu"),
    node=vendor.NodeKeys(extra=tuple(_TOPOLOGY.values())),
    pod=vendor.PodKeys(
        to_allocate="hami.io/metax-gpu-devices-to-allocate",
        allocated="hami.io/metax-gpu-devices-allocated",
    ),
    default_cores=100,
    counted_by_kubelet=("count",),
    checks=vendor.SHARING - {vendor.Check.UUID, vendor.Check.QUOTA},
    file=vendor.Section(path=("metax",), names={"resourceCountName": "count"}),
    hooks=vendor.Hooks(devices=_cards, score=_topology),
)


# --- shared GPUs


_READERS: Final[ownform.Readers] = {
    "uuid": ownform.IDENTITY,
    "totalDevCount": ownform.NUMBER,
    "totalVRam": ownform.NUMBER,
    "totalCompute": ownform.NUMBER,
    "numa": ownform.NUMBER_OR_UNKNOWN,
    "healthy": ownform.BOOLEAN,
    "qosPolicy": ownform.TEXT,
    "model": ownform.TEXT,
    "linkZone": ownform.NUMBER_OR_UNKNOWN,
}


def _devices(row: vendor.Vendor, node: vendor.NodeFacts) -> vendor.Found | None:
    listed = ownform.parse(node.annotations.get(row.node.listed))
    return ownform.found(row, listed, _READERS, _card)


def _card(position: int, values: Mapping[str, Any]) -> register.Card:
    return register.Card(
        id=values["uuid"],
        index=position,
        count=values["totalDevCount"],
        memory_mib=values["totalVRam"],
        cores=values["totalCompute"],
        model="Metax-SGPU",
        numa=values["numa"],
        healthy=values["healthy"],
        custom={
            "QosPolicy": values["qosPolicy"],
            "Model": values["model"],
            "LinkZone": values["linkZone"],
        },
    )


def _memory(row: vendor.Vendor, asked: request.Asked) -> int | request.Invalid:
    """A bare number is GiB, a text with a letter is bytes; the API server may write 1000 as 1k."""
    name = row.resources.memory
    value = str(asked.raw(name))
    if asked.raw(name) is None or not re.search("[A-Za-z]", value):
        return asked.amount(name, unit=1024)
    size = asked.amount(name, most=(decision.INT32_MAX + 1) * 2**20 - 1)
    if isinstance(size, request.Invalid) or size == 0:
        return size
    why = "is less than 1 MiB"
    return size // 2**20 or request.Invalid(resource=name, value=value, why=why)


def _class(annotations: Annotations) -> str | None:
    found = annotations.get(_CLASS)
    return found if found in _CLASSES else None


def _policy(annotations: Annotations) -> str:
    return annotations.get(_QOS, _POLICIES[0])


def _admit(
    row: vendor.Vendor, container: admit.Container, pod: admit.Pod
) -> admit.Admitted | admit.Denied:
    count = row.resources.count
    if count not in container.limits:
        return admit.Admitted(container=container, pod=pod)
    if _CLASS in pod.annotations:
        if _class(pod.annotations) is None:
            return _refused(container, pod, _CLASS, f"is none of {', '.join(_CLASSES)}")
        if admit.limited(row, container).amount(count) != 1:
            return admit.denied(container, count, f"is not 1, as {_CLASS} demands")
    if _class(pod.annotations) != "online":
        if _policy(pod.annotations) not in _POLICIES:
            return _refused(container, pod, _QOS, f"is none of {', '.join(_POLICIES)}")
        pod = pod.with_annotation(_QOS, _policy(pod.annotations))
    return admit.Admitted(container=container, pod=pod)


def _refused(container: admit.Container, pod: admit.Pod, key: str, why: str) -> admit.Denied:
    problem = request.Invalid(resource=key, value=pod.annotations[key], why=why)
    return admit.Denied(container=container.name, problem=problem)


def _prepare(walk: fit.Walk) -> Mapping[str, Any]:
    annotations = walk.context.pod_annotations
    return {"class": _class(annotations), "policy": _policy(annotations)}


def _health(walk: fit.Walk, card: register.Card, used: usage.Usage) -> errors.Reason | None:
    return checks.health(walk, card, used) and errors.Reason.CARD_UNHEALTHY


def _numbers(pods: Iterable[Annotations]) -> tuple[int, int]:
    """How many pods of class online and offline there are."""
    classes = [_class(one) for one in pods]
    return classes.count("online"), classes.count("offline")


def _neighbours(walk: fit.Walk, card: register.Card, used: usage.Usage) -> errors.Reason | None:
    """Whether the pod may share the card with those that are on it."""
    if not used.used:
        return None
    mine = walk.facts["class"]
    online, offline = _numbers(used.pods)
    if bool(mine) != bool(online or offline) or (mine == "offline" and online):
        return errors.Reason.CARD_APP_CLASS_MISMATCH
    demanded = card.custom.get("QosPolicy")
    if mine == "online" or walk.request.cores == 100 or not demanded:
        return None
    alike = demanded == walk.facts["policy"]
    return None if alike else errors.Reason.CARD_QOS_POLICY_MISMATCH


def _amounts(walk: fit.Walk, card: register.Card) -> tuple[int, int, Mapping[str, Any]]:
    return walk.memory_mib, _given(walk), register.NOTHING


def _given(walk: fit.Walk) -> int:
    return 0 if walk.facts["class"] == "online" else walk.request.cores


def _unless_online(check: vendor.CheckFunction) -> vendor.CheckFunction:
    """The cores of a card are not divided among pods of class online."""

    def judge(walk: fit.Walk, card: register.Card, used: usage.Usage) -> errors.Reason | None:
        return None if walk.facts["class"] == "online" else check(walk, card, used)

    return judge


def _collect(walk: fit.Walk) -> bool:
    mine = walk.facts["class"]
    return mine == "online" or (mine is None and walk.request.cores == 100)


def _choose(walk: fit.Walk) -> fit.Fit | fit.NoFit:
    obvious = fit.obvious(walk)
    if obvious is not None:
        return obvious
    if walk.facts["class"] == "online":
        pods = {each.card.id: each.usage.pods for each in walk.candidates}
        ordered = sorted(walk.picks, key=lambda pick: _crowd(pods[pick.id]))
    else:
        ordered = _linked(walk)
    return fit.Fit(picks=tuple(ordered[: walk.request.count]))


def _crowd(pods: Iterable[Annotations]) -> tuple[bool, int, int]:
    online, offline = _numbers(pods)
    return bool(offline and not online), online, offline


def _linked(walk: fit.Walk) -> list[decision.Pick]:
    """Cards of the smallest link zone that has enough, else of the smallest zones in turn."""
    zones = {each.card.id: _zone(each.card) for each in walk.candidates}
    linked = [pick for pick in walk.picks if zones[pick.id]]
    by_size = sorted(groups.of(linked, lambda pick: zones[pick.id]), key=len)
    enough = [zone for zone in by_size if len(zone) >= walk.request.count]
    alone = tuple(pick for pick in walk.picks if not zones[pick.id])
    return list(itertools.chain.from_iterable(enough[:1] or [*by_size, alone]))


def _zone(card: register.Card) -> int:
    """The link zone, 0 where the card is in none."""
    found = card.custom.get("LinkZone")
    return found if isinstance(found, int) and found > 0 else 0


def _charge(
    standing: usage.CardUsage, pick: decision.Pick, annotations: Annotations
) -> usage.CardUsage:
    after = standing.usage.add(pick)
    if not any(one is annotations for one in after.pods):
        after = dataclasses.replace(after, pods=(*after.pods, annotations))
    return usage.CardUsage(_demanding(standing.card, pick, annotations), after)


def _demanding(
    card: register.Card, pick: decision.Pick, annotations: Annotations
) -> register.Card:
    """The card with the QoS policy that it will have once the pod is on it."""
    if _class(annotations) == "online":
        return card
    policy = "" if pick.cores == 100 else _policy(annotations)
    return dataclasses.replace(card, custom={**card.custom, "QosPolicy": policy})


def _settle(
    cards: tuple[usage.CardUsage, ...], holders: Iterable[usage.Holder]
) -> tuple[usage.CardUsage, ...]:
    """The register shows a policy late, so what our decisions imply goes before it."""
    known = {each.card.id: each.card for each in cards}
    for holder in holders:
        for pick in itertools.chain.from_iterable(holder.slots):
            if pick.id in known:
                known[pick.id] = _demanding(known[pick.id], pick, holder.annotations)
    return tuple(usage.CardUsage(known[each.card.id], each.usage) for each in cards)


def _annotate(
    row: vendor.Vendor, slots: decision.Slots, facts: annotate.Facts
) -> Mapping[str, str]:
    given = [[_shown(pick) for pick in slot] for slot in slots]
    return {
        _ALLOCATED: json.dumps(given, separators=(",", ":")),
        _TIME: str(facts.now.unix_ns),
    }


def _shown(pick: decision.Pick) -> Mapping[str, Any]:
    shown = {"uuid": pick.id, "compute": pick.cores, "vRam": pick.memory_mib}
    return {name: value for name, value in shown.items() if value}


def _score(row: vendor.Vendor, facts: score.Facts) -> float:
    picks = [pick for slot in facts.slots for pick in slot]
    before = {each.card.id: each for each in facts.before}
    if _class(facts.pod_annotations) == "online":
        crowds = (_crowd(before[pick.id].usage.pods) for pick in picks)
        return float(sum(_bother(*crowd) for crowd in crowds))
    whole = [before[pick.id].card for pick in picks if pick.cores == 100]
    if not whole or not _aware(row, facts.pod_annotations):
        return 0.0
    unused = [each.card for each in facts.before if not each.usage.used]
    taken = {pick.id for pick in picks}
    rest = [card for card in unused if card.id not in taken]
    kept = _pairs(whole)
    return float(10 * kept - (_pairs(unused) - kept - _pairs(rest)))


def _bother(only_offline: bool, online: int, offline: int) -> int:
    return -100 * offline if only_offline else -20 * online - 2 * offline


def _aware(row: vendor.Vendor, annotations: Annotations) -> bool:
    word = annotations.get(_AWARE, "")
    if word in fields.TRUE_WORDS or word in fields.FALSE_WORDS:
        return word in fields.TRUE_WORDS
    return bool(row.options["topology_aware"])


def _pairs(cards: Iterable[register.Card]) -> int:
    """Ten for every pair of cards in one link zone."""
    zones = [zone for zone in map(_zone, cards) if zone]
    return 10 * sum(one == other for one, other in itertools.combinations(zones, 2))


SGPU: Final = vendor.Vendor(
    keyword="Metax-SGPU",
    resources=vendor.Resources(
        count="metax-tech.com/sgpu", memory="metax-tech.com/vmemory", cores="metax-tech.com/vcore"
    ),
    node=vendor.NodeKeys(listed="metax-tech.com/node-gpu-devices"),
    pod=vendor.PodKeys(
        to_allocate="hami.io/metax-sgpu-devices-to-allocate",
        allocated="hami.io/metax-sgpu-devices-allocated",
        plugin=(_ALLOCATED, _TIME),
    ),
    selection=vendor.Selection(
        use_uuid=("metax-tech.com/use-gpuuuid",), skip_uuid=("metax-tech.com/nouse-gpuuuid",)
    ),
    memory_unit_mib=1024,
    default_cores=100,
    read_requests=False,
    lock=keys.NODE_LOCK,
    checks=(vendor.SHARING - {vendor.Check.CLAMP}) | {vendor.Check.TYPE},
    score_weight=10_000,
    guide=vendor.Guide(
        memory="in GiB, or in bytes where the amount has a unit (`512Mi`)",
        notes=(
            f"`{_CLASS}` (`online`, `offline`) keeps the classes apart; `online` pods share the "
            "cores of a card without a limit.",
            f"`{_QOS}` ({', '.join(f'`{word}`' for word in _POLICIES)}) says how cores are "
            "shared; pods on one card agree in it.",
            f"`{_AWARE}` overrides the option `topology_aware`: nodes are chosen by links "
            "between the cards that are given whole.",
        ),
    ),
    options={"topology_aware": False},
    file=vendor.Section(
        path=("metax",),
        names={
            "resourceVCountName": "count",
            "resourceVMemoryName": "memory",
            "resourceVCoreName": "cores",
            "sgpuTopologyAware": "topology_aware",
        },
    ),
    hooks=vendor.Hooks(
        devices=_devices,
        memory=_memory,
        admit=_admit,
        prepare=_prepare,
        checks={
            vendor.Check.HEALTH: _health,
            vendor.Check.TYPE: _neighbours,
            vendor.Check.CORES: _unless_online(checks.cores),
            vendor.Check.EXCLUSIVE: _unless_online(checks.exclusive),
            vendor.Check.EXHAUSTED: _unless_online(checks.exhausted),
        },
        amounts=_amounts,
        collect=_collect,
        choose=_choose,
        charge=_charge,
        settle=_settle,
        annotate=_annotate,
        score=_score,
    ),
)
