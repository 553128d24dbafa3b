"""What a bound pod's annotations say it holds, and how far that may be believed (D8).

Anybody can write annotations, so every oddity is a finding and none is an error. What can be read
is counted, whoever wrote it, since the plugin will serve it; what cannot be read closes its
device type on the node.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Mapping
from typing import Final

from hami_operator import errors
from hami_operator.devices import registry as registries
from hami_operator.devices import request, vendor
from hami_operator.protocol import decision, keys
from hami_operator.scheduling import pod as pods

MIG_LIST: Final = "hami.io/vgpu-mig-allocations"


class Oddity(enum.Enum):
    """What may be odd about a bound pod; the value is the word for metrics."""

    ELSEWHERE = "mismatch"
    BYPASSED = "bypassed"
    UNREADABLE = "unreadable"
    DIFFERS = "differs"
    FOREIGN = "foreign"
    EDITED = "edited"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One oddity, in words that name container, key and value."""

    oddity: Oddity
    text: str
    word: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """What is counted for a bound pod.

    Attributes:
        slots: word to picks per container; only words with at least one device.
        unreadable: words that stay closed on the node until the pod is gone.
        findings: what is to be told.
    """

    slots: Mapping[str, decision.Slots]
    unreadable: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


def read(pod: pods.Counted, registry: registries.Registry) -> Claim:
    """Read the decision of a pod that has a node; never raises."""
    decided = pod.annotations.get(keys.VGPU_NODE)
    if decided != pod.node_name:
        present = [row for key, row in registry.recorded if key in pod.annotations]
        return Claim(slots={}, findings=tuple(_without(pod, decided, present, registry)))
    counted = count(pod, registry)
    slots, unreadable = counted.slots, counted.unreadable
    if not slots and not unreadable:
        odd = tuple(_without(pod, None, [], registry))
    else:
        named = (each for one in pod.containers for each in (one.limits, one.requests))
        words = sorted((registry.asked(*named) | slots.keys()).difference(unreadable))
        odd = tuple(
            finding
            for word in words
            for look in (_differences, _remarks)
            for finding in look(pod, registry.by_word[word], slots.get(word, ()))
        )
    return dataclasses.replace(counted, findings=(*counted.findings, *odd))


def count(pod: pods.Counted, registry: registries.Registry) -> Claim:
    """The same, but only what counts: of the findings no more than what cannot be read."""
    annotations = pod.annotations
    if annotations.get(keys.VGPU_NODE) != pod.node_name:
        return _NOTHING
    slots: dict[str, decision.Slots] = {}
    findings: list[Finding] = []
    for key, row in registry.recorded:
        if key not in annotations:
            continue
        read_slots = _decode(annotations[key], row)
        if isinstance(read_slots, Finding):
            findings.append(read_slots)
        elif any(read_slots):
            slots[row.keyword] = read_slots
    unreadable = tuple(finding.word for finding in findings)
    return Claim(slots=slots, unreadable=unreadable, findings=tuple(findings))


def foreign(pod: pods.Pod, slots: Mapping[str, decision.Slots]) -> Finding:
    """The finding for a decision that is counted though it is not ours."""
    cards = sorted({pick.id for each in slots.values() for slot in each for pick in slot})
    text = (
        f"carries a decision on node {pod.node_name} that this scheduler did not make "
        f"(spec.schedulerName is {pod.scheduler_name!r}); counted as foreign usage of "
        + ", ".join(cards)
    )
    return Finding(oddity=Oddity.FOREIGN, text=text)


def edited(before: pods.Pod, pod: pods.Pod, registry: registries.Registry) -> tuple[Finding, ...]:
    """The findings for decisions that somebody changed on a bound pod; none of it counts."""
    if not before.node_name or before.annotations == pod.annotations:
        return ()
    changed = (
        (key, row.keyword)
        for key, row in registry.recorded
        if before.annotations.get(key) != pod.annotations.get(key)
    )
    return tuple(
        Finding(
            oddity=Oddity.EDITED,
            word=word,
            text=f"{key} was changed while the pod is on its node, to "
            f"{pod.annotations.get(key)!r}: what was counted before stays counted",
        )
        for key, word in changed
    )


_NOTHING: Final = Claim(slots={})


def _decode(text: str, row: vendor.Vendor) -> decision.Slots | Finding:
    try:
        return decision.decode(text, key=row.pod.recorded)
    except errors.DecodeError as error:
        return Finding(oddity=Oddity.UNREADABLE, word=row.keyword, text=str(error))


def same(ours: Mapping[str, decision.Slots], read_slots: Mapping[str, decision.Slots]) -> bool:
    """Whether a decision that was read is the one we made."""
    return _plain(ours) == _plain(read_slots)


def _plain(slots: Mapping[str, decision.Slots]) -> object:
    return {
        word: [[(pick.id, pick.memory_mib, pick.cores) for pick in slot] for slot in each]
        for word, each in slots.items()
        if any(each)
    }


def _without(
    pod: pods.Counted,
    decided: str | None,
    present: list[vendor.Vendor],
    registry: registries.Registry,
) -> Iterator[Finding]:
    """A bound pod for whose node there is no decision: it is usage on no node."""
    if decided:
        text = (
            f"bound to node {pod.node_name}, but {keys.VGPU_NODE} is {decided!r}: "
            "its devices are counted on neither node"
        )
        yield Finding(oddity=Oddity.ELSEWHERE, text=text)
    elif present:
        text = f"carries {present[0].pod.recorded} without {keys.VGPU_NODE}: not counted"
        yield Finding(oddity=Oddity.ELSEWHERE, text=text)
    else:
        for container in pod.containers:
            asked = registry.resource_names & container.limits.keys()
            if asked:
                text = (
                    f"container {container.name} asks for {min(asked)}, but the pod was bound "
                    "without a decision: its devices are not counted"
                )
                yield Finding(oddity=Oddity.BYPASSED, text=text)
                return


def _differences(
    pod: pods.Counted, row: vendor.Vendor, slots: decision.Slots
) -> Iterator[Finding]:
    """The first way in which a decision is not what the pod asked for."""
    text = _segments(pod, slots) or _amounts(pod, row, slots)
    if text:
        yield Finding(oddity=Oddity.DIFFERS, word=row.keyword, text=f"{row.pod.recorded}: {text}")


def _remarks(pod: pods.Counted, row: vendor.Vendor, slots: decision.Slots) -> Iterator[Finding]:
    """What the row itself finds odd about the pod's annotations."""
    text = row.hooks.remark(pod.annotations, slots) if row.hooks.remark and slots else ""
    if text:
        yield Finding(oddity=Oddity.DIFFERS, word=row.keyword, text=text)


def _segments(pod: pods.Counted, slots: decision.Slots) -> str:
    expected = len(pod.containers)
    surplus = sum(map(len, slots[expected:]))
    if surplus:
        return f"{surplus} devices in slots beyond the pod's {expected} containers"
    if slots and len(slots) < expected:
        return f"{len(slots)} slots for {expected} containers"
    return ""


def _amounts(pod: pods.Counted, row: vendor.Vendor, slots: decision.Slots) -> str:
    for number, container in enumerate(pod.containers):
        asked = request.read(row, limits=container.limits, requests=container.requests)
        if isinstance(asked, request.Invalid) or (asked is not None and not asked.counted):
            continue
        picks = slots[number] if number < len(slots) else ()
        wanted = asked.count if asked is not None else 0
        if len(picks) != wanted:
            return f"container {container.name} has {len(picks)} devices and asks for {wanted}"
        memory_mib = asked.memory_mib if asked is not None else 0
        other = [pick for pick in picks if pick.memory_mib != memory_mib]
        if memory_mib and other and MIG_LIST not in pod.annotations:
            return (
                f"container {container.name} has {other[0].memory_mib} MiB of {other[0].id} "
                f"and asks for {memory_mib}"
            )
    return ""
