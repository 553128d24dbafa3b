"""Locks and their holders side by side: what the watch alone can say about taking a lock."""

from __future__ import annotations

from collections.abc import Collection

from hami_operator.devices import registry as registries
from hami_operator.protocol import instant, keys, nodelock
from hami_operator.scheduling import effects, locks, serving, sightings
from hami_operator.scheduling import node as records
from hami_operator.scheduling import pod as pods


class LockWatch:
    """Which locks are set, for whom, and whether these still need them.

    Args:
        registry: the device types, with their locks.
        timeout_s: age at which a lock, and a wait for a plugin, counts as too long.
        seen: the pods as they were last seen.
    """

    def __init__(
        self, registry: registries.Registry, timeout_s: float, seen: sightings.Sightings
    ) -> None:
        self.services = serving.Services(registry, timeout_s)
        self._locks = locks.Locks(row.lock for row in registry if row.lock)
        self._free = frozenset(row.keyword for row in registry if not row.lock)
        self._seen = seen

    def node_seen(
        self, node: records.Node, now: instant.Instant, *, at_start: bool
    ) -> tuple[effects.LockChanged, ...]:
        """Take up a node's locks."""
        if not self._locks.seen(node, now, at_start=at_start):
            return ()
        self._judge(node.name, now)
        return (effects.LockChanged(node=node.name),)

    def node_gone(self, name: str) -> tuple[effects.LockChanged, ...]:
        """Whoever waits for the node's lock waits in vain."""
        self._locks.gone(name)
        return (effects.LockChanged(node=name),)

    def pod_seen(
        self, pod: pods.Pod, before: pods.Pod | None, now: instant.Instant, *, at_start: bool
    ) -> tuple[effects.LockChanged, ...]:
        """Take up a pod; names the nodes where somebody may now pass, or pass no more."""
        if before is not None and self._counts_alike(before, pod):
            return ()
        was_open = pod.uid in self.services
        if pod.node_name:
            self.services.seen(pod, now, at_start=at_start)
        return self._changed(pod, now, is_open=was_open or pod.uid in self.services)

    def pod_gone(self, pod: pods.Pod, now: instant.Instant) -> tuple[effects.LockChanged, ...]:
        """A pod has ended; its lock is left behind unless its plugin is about to remove it."""
        was_open = pod.uid in self.services
        self.services.gone(pod.uid)
        for node in self._locks.held_by(*pod.key):
            self._locks.done(node, now)
        return self._changed(pod, now, is_open=was_open)

    def held_for(self, namespace: str, name: str) -> tuple[str, ...]:
        """Nodes whose shared lock bears that name."""
        return self._locks.held_by(namespace, name)

    def stale(self, now: instant.Instant) -> tuple[effects.StaleLock, ...]:
        """Locks to be removed, since their plugin has left them behind."""
        return tuple(
            effects.StaleLock(node=node, key=keys.NODE_LOCK, value=text)
            for node, text in self._locks.stale(now)
        )

    def facts(
        self,
        name: str,
        record: records.Node | None,
        words: Collection[str] = (),
    ) -> locks.Facts:
        """All that is known about the locks of one node.

        Args:
            name: the node.
            record: what is known of it.
            words: the device types that it has, usable now or not.
        """
        named = self._locks.holder(name)
        pod = self._seen.named(*named) if named is not None else None
        return locks.Facts(
            node=name,
            known=record is not None,
            resource_version=record.resource_version if record is not None else "",
            values=self._locks.values(name),
            holder=self.services.holder(pod) if pod is not None else nodelock.Trace.UNSEEN,
            leaving_since_s=self._locks.leaving_since_s(name),
            open=self.services.on(name),
            has_free_types=not self._free.isdisjoint(words),
        )

    def _counts_alike(self, before: pods.Pod, pod: pods.Pod) -> bool:
        return before.admitted == pod.admitted and (
            self.services.holder(before) == self.services.holder(pod)
        )

    def _changed(
        self, pod: pods.Pod, now: instant.Instant, *, is_open: bool
    ) -> tuple[effects.LockChanged, ...]:
        held = self._locks.held_by(*pod.key)
        for name in held:
            self._judge(name, now)
        nodes = (*held, pod.node_name) if is_open else held
        return tuple(effects.LockChanged(node=name) for name in dict.fromkeys(nodes))

    def _judge(self, node: str, now: instant.Instant) -> None:
        """Note whether the lock's holder still needs it; of an unseen one nothing is known."""
        named = self._locks.holder(node)
        pod = self._seen.named(*named) if named is not None else None
        if pod is None:
            return
        if self.services.holder(pod).past_allocation(node):
            self._locks.done(node, now)
        else:
            self._locks.needed(node)
