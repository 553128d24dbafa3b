"""The lock values on all nodes, since when each stands, and which have outlived their holder."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Final

from hami_operator import errors
from hami_operator.protocol import instant, keys, nodelock
from hami_operator.scheduling import node as records
from hami_operator.scheduling import serving

GRACE_S: Final = 5.0
"""How long a plugin has to remove the lock of a pod that needs it no more."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Value:
    """One lock value as a node carries it.

    Attributes:
        text: the annotation.
        first_seen: when we first saw exactly this text.
        at_start: it may be older than that look, so its own time counts.
    """

    text: str
    first_seen: instant.Instant
    at_start: bool


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """All that the watch knows about the locks of one node; to be judged by whoever binds.

    Attributes:
        node: name of the node.
        known: whether there is such a node.
        resource_version: of the node, for a conditional write; empty if it is not known.
        values: lock key to value, for the locks that are set.
        holder: the pod that the shared lock names, ``UNSEEN`` where the watch has none.
        leaving_since_s: monotonic time since when that pod needs the lock no more, or since when
            its removal was ordered; None where it needs it or nothing is known.
        open: pods bound here that a plugin which finds no lock may take for its own.
        has_free_types: it offers devices of types that need no lock, whose pods come at any time.
    """

    node: str
    known: bool = False
    resource_version: str = ""
    values: Mapping[str, Value] = dataclasses.field(default_factory=dict)
    holder: nodelock.Holder | nodelock.Trace = nodelock.Trace.UNSEEN
    leaving_since_s: float | None = None
    open: tuple[serving.Service, ...] = ()
    has_free_types: bool = False

    def others(self, uid: str) -> tuple[serving.Service, ...]:
        """The open pods without that one."""
        return tuple(service for service in self.open if service.pod.uid != uid)

    def occupant(self, uid: str) -> str:
        """Another pod that waits for a plugin here, whatever the lock says; empty if none."""
        return next((str(one.pod) for one in self.others(uid) if one.occupies), "")

    def in_the_way(self, uid: str, timeout_s: float, now: instant.Instant) -> str:
        """Another pod that must be served first although the lock is free; empty if none.

        Args:
            uid: the pod that is to be bound.
            timeout_s: a pod that has waited longer is in nobody's way.
            now: the present.
        """
        for service in self.others(uid):
            if service.holder.unserved and service.age_s(now) <= timeout_s:
                return str(service.pod)
        return ""


class Locks:
    """Lock values by node.

    Args:
        lock_keys: every node annotation that is a lock.
    """

    def __init__(self, lock_keys: Iterable[str]) -> None:
        self._keys = tuple(dict.fromkeys((keys.NODE_LOCK, *lock_keys)))
        self._values: dict[str, dict[str, Value]] = {}
        self._holders: dict[tuple[str, str], dict[str, None]] = {}
        self._done_s: dict[str, float] = {}

    def seen(self, node: records.Node, now: instant.Instant, *, at_start: bool) -> bool:
        """Take up a node; whether any of its locks changed."""
        known = self._values.get(node.name, {})
        values = {}
        for key in self._keys:
            text = node.annotations.get(key)
            if text is None:
                continue
            value = known.get(key)
            if value is None or value.text != text:
                value = Value(text=text, first_seen=now, at_start=at_start)
            values[key] = value
        if values == known:
            return False
        self._drop(node.name)
        if values:
            self._values[node.name] = values
            holder = _holder(values.get(keys.NODE_LOCK))
            if holder is not None:
                self._holders.setdefault(holder, {})[node.name] = None
        return True

    def gone(self, node: str) -> bool:
        """The node is gone; whether it had a lock."""
        had = node in self._values
        self._drop(node)
        return had

    def values(self, node: str) -> Mapping[str, Value]:
        """Lock key to value."""
        return dict(self._values.get(node, {}))

    def holder(self, node: str) -> tuple[str, str] | None:
        """Namespace and name in the shared lock; None where it names nobody."""
        return _holder(self._values.get(node, {}).get(keys.NODE_LOCK))

    def held_by(self, namespace: str, name: str) -> tuple[str, ...]:
        """Nodes whose shared lock names that pod."""
        return tuple(self._holders.get((namespace, name), ()))

    def done(self, node: str, now: instant.Instant) -> None:
        """The holder needs the lock no more; the plugin's time to remove it begins."""
        if node in self._values:
            self._done_s.setdefault(node, now.monotonic_s)

    def leaving_since_s(self, node: str) -> float | None:
        """Since when somebody is about to remove the lock; None while its holder needs it."""
        return self._done_s.get(node)

    def needed(self, node: str) -> None:
        """The holder does need the lock."""
        self._done_s.pop(node, None)

    def stale(self, now: instant.Instant) -> tuple[tuple[str, str], ...]:
        """Nodes and texts of shared locks that are left behind; each again after a while."""
        late = [node for node, since in self._done_s.items() if since + GRACE_S <= now.monotonic_s]
        for node in late:
            self._done_s[node] = now.monotonic_s
        return tuple((node, self._values[node][keys.NODE_LOCK].text) for node in late)

    def _drop(self, node: str) -> None:
        values = self._values.pop(node, {})
        self._done_s.pop(node, None)
        holder = _holder(values.get(keys.NODE_LOCK))
        if holder is not None:
            named = self._holders[holder]
            del named[node]
            if not named:
                del self._holders[holder]


def _holder(value: Value | None) -> tuple[str, str] | None:
    if value is None:
        return None
    try:
        lock = nodelock.decode(value.text)
    except errors.DecodeError:
        return None
    return None if lock.ownerless else (lock.namespace, lock.name)
