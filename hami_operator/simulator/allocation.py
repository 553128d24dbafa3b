"""What a device plugin does when kubelet asks it for the devices of one container. Pure.

kubelet does not say which pod it asks for. The plugin takes the pod that holds its node's lock,
else the first bound pod that still waits for its devices, and serves that pod's first segment.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from hami_operator import errors
from hami_operator.devices import registry, vendor
from hami_operator.protocol import bindphase, decision, keys, nodelock
from hami_operator.simulator import instances, kubelet, plugin

Raw = Mapping[str, Any]
Served = Mapping[tuple[str, str], int]
"""(pod UID, keyword) to the number of segments that its plugin has handed out."""

_FLAG: Final = re.compile(r"^false$|(?<=\"allocated\":)false")
_WAITING: Final = frozenset({bindphase.Phase.ALLOCATING, bindphase.Phase.SUCCESS})


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Refused:
    """The call fails, and with it the pod.

    Attributes:
        why: the plugin's words, as kubelet repeats them.
        marks: the plugin sets the phase ``failed`` and releases the lock; one that has died, or
            that found no pod, does neither.
    """

    why: str
    marks: bool = True


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Granted:
    """The call succeeds.

    Attributes:
        slot: the container of the pod, init containers first.
        picks: what it gets.
        remaining: new to-allocate value; None for plugins that erase nothing.
        finished: the plugin has no more to do for this pod.
        made: new list of the pod's instances, for cards that are given in such.
    """

    slot: int
    picks: tuple[decision.Pick, ...]
    remaining: str | None
    finished: bool
    made: str | None = None


def shares_lock(row: vendor.Vendor) -> bool:
    """Whether the row's plugin takes part in the lock that all backends share."""
    return row.lock == keys.NODE_LOCK


def holder(row: vendor.Vendor, node: Raw) -> tuple[str, str] | Refused | None:
    """Namespace and name of the pod that holds the node's lock; None where none is named."""
    value = _annotations(node).get(keys.NODE_LOCK)
    if not shares_lock(row) or value is None:
        return None
    try:
        lock = nodelock.decode(value)
    except errors.DecodeError as error:
        return Refused(why=str(error), marks=False)
    return None if lock.ownerless else (lock.namespace, lock.name)


def first_waiting(node: str, pods: Iterable[Raw]) -> Raw | Refused:
    """The first of a node's pods whose bind is under way, for plugins of the shared lock."""
    for pod in pods:
        written = _annotations(pod)
        phase = bindphase.classify(written.get(keys.BIND_PHASE))
        if (
            pod["status"].get("phase") == "Pending"
            and keys.BIND_TIME in written
            and phase in _WAITING
            and written.get(keys.VGPU_NODE) == node
        ):
            return pod
    return Refused(why=f"no binding pod found on node {node}", marks=False)


def oldest_unserved(row: vendor.Vendor, pods: Iterable[Raw], served: Served) -> Raw | Refused:
    """The first pod that a plugin without a share in the lock has not finished.

    Args:
        row: whose plugin is asked.
        pods: those that kubelet has not admitted yet, in order of arrival.
        served: what has been handed out.
    """
    for pod in pods:
        segments = _annotations(pod).get(_key(row), "").split(";")
        done = served.get((pod["metadata"]["uid"], row.keyword), 0)
        if done < sum(map(bool, segments)):
            return pod
    return Refused(why=f"no pod waits for {row.keyword}", marks=False)


def allocate(
    one: plugin.Plugin, rows: registry.Registry, pod: Raw, served: Served, call: kubelet.Call
) -> Granted | Refused:
    """Hand out the next segment of a pod.

    Args:
        one: the plugin that is asked.
        rows: all rows; a plugin reads the decisions of all types.
        pod: the one that it found.
        served: what has been handed out before.
        call: what kubelet asks for.
    """
    row = one.row
    value = _annotations(pod).get(_key(row))
    broken = _unreadable(rows, pod)
    if value is None or broken:
        return Refused(why=broken or f"{_key(row)} is missing")
    segments = value.split(";")[: None if value[-1:] != ";" else -1]
    left = [place for place, text in enumerate(segments) if text]
    done = 0 if row.consumes else served.get((pod["metadata"]["uid"], row.keyword), 0)
    if done >= len(left):
        return Refused(why=f"no pending device allocation found in {_key(row)}")
    slot = left[done]
    picks = decision.decode(segments[slot], key=_key(row))[0]
    given = sum(map(call.measure, picks)) if call.measure else call.amount
    if given != call.amount:
        why = f"device number not matched: {given} decided, {call.amount} asked for"
        return Refused(why=why)
    if not row.consumes:
        last = done + 1 == len(left)
        return Granted(slot=slot, picks=picks, remaining=None, finished=last)
    try:
        made = _made(one, pod, slot, picks)
    except instances.Mismatch as mismatch:
        return Refused(why=str(mismatch))
    remaining = _erased(segments, slot)
    more = any(decision.unserved(remaining, other.keyword) for other in rows)
    return Granted(slot=slot, picks=picks, remaining=remaining, finished=not more, made=made)


def _made(one: plugin.Plugin, pod: Raw, slot: int, picks: Sequence[decision.Pick]) -> str | None:
    """The pod's list with the instances of a slot created; None for cards given otherwise."""
    if not one.model.profiles:
        return None
    (key,) = one.row.pod.plugin
    return instances.create(_annotations(pod).get(key, ""), key=key, slot=slot, picks=picks)


def _erased(segments: Sequence[str], place: int) -> str:
    """The value without one segment; plugins add a ``;`` each time they write it."""
    kept = ["" if number == place else text for number, text in enumerate(segments)]
    return "".join(f"{text};" for text in kept) + ";"


def _unreadable(rows: registry.Registry, pod: Raw) -> str:
    """Why the pod's decisions cannot be read, those of other types included."""
    written = _annotations(pod)
    for key in filter(written.__contains__, map(_key, rows)):
        try:
            decision.decode(written[key], key=key)
        except errors.DecodeError as error:
            return str(error)
    return ""


def marks(row: vendor.Vendor, pod: Raw, phase: bindphase.Phase) -> Mapping[str, str]:
    """Annotations that a plugin sets when it has done with a pod.

    A flag of its own that the scheduler wrote as ``false`` becomes ``true`` where all went well,
    also inside JSON.
    """
    written = {key: text for key, text in _annotations(pod).items() if key in row.pod.plugin}
    turned = {key: _FLAG.sub("true", text) for key, text in written.items()}
    flags = {key: text for key, text in turned.items() if text != written[key]}
    done = phase is bindphase.Phase.SUCCESS
    return {keys.BIND_PHASE: phase.value} | (flags if done else {})


def releasable(row: vendor.Vendor, node: Raw, pod: Raw) -> str | None:
    """The lock that the plugin removes from its Node after serving or refusing ``pod``."""
    value = _annotations(node).get(row.lock) if row.lock else None
    if value is None:
        return None
    meta = pod["metadata"]
    owned = not shares_lock(row)  # a time only: nobody can tell whose it is
    owned = owned or value.partition(",")[2] == f"{meta['namespace']},{meta['name']}"
    return row.lock if owned else None


def _key(row: vendor.Vendor) -> str:
    return row.pod.to_allocate or row.pod.allocated


def _annotations(found: Raw) -> Mapping[str, str]:
    return found["metadata"].get("annotations") or {}
