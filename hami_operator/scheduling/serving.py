"""Bound pods that a plugin may take for the one it is asked for: who they are, since when.

The plugin's call does not say for which pod it is. While a pod waits for its plugin, its node's
lock is its own. A plugin that finds no lock takes the first pod of its node that is pending and
under way, also one that has long been served and only pulls its image: such pods are *open*.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Final

from hami_operator.devices import registry as registries
from hami_operator.protocol import bindphase, decision, instant, keys, nodelock
from hami_operator.scheduling import effects
from hami_operator.scheduling import pod as pods

_SECONDS: Final = re.compile(r"\d{1,11}", re.ASCII)
_UNDER_WAY: Final = frozenset({bindphase.Phase.ALLOCATING, bindphase.Phase.SUCCESS})
_STARTED: Final = frozenset({"Running", "Succeeded", "Failed"})


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Service:
    """One open pod.

    Attributes:
        since_s: monotonic time of our first look at it on its node.
        waited_s: seconds it had waited before that look.
        told: it was already said that it waits for too long.
        lock_types: how many of its types need a lock, whichever.
        admitted: kubelet has taken it on, so every plugin was asked.
    """

    pod: effects.PodRef
    node: str
    holder: nodelock.Holder
    since_s: float
    waited_s: float = 0.0
    told: bool = False
    lock_types: int = 0
    admitted: bool = False

    @property
    def waits(self) -> bool:
        """Whether it has not got all its devices yet, as far as its annotations tell."""
        return not self.holder.past_allocation(self.node)

    @property
    def occupies(self) -> bool:
        """Whether a plugin that takes part in a lock may yet be asked for it."""
        return bool(self.lock_types) and (
            self.waits or (self.lock_types > 1 and not self.admitted)
        )

    def age_s(self, now: instant.Instant) -> float:
        """Seconds since it was bound."""
        return now.monotonic_s - self.since_s + self.waited_s


class Services:
    """All open pods.

    Args:
        registry: whose plugins erase what they have served.
        timeout_s: a longer wait is worth an event.
    """

    def __init__(self, registry: registries.Registry, timeout_s: float) -> None:
        self._consuming = tuple(row for row in registry if row.consumes)
        self._locking = tuple(row for row in registry if row.lock)
        self._sharing = tuple(row for row in self._locking if row.lock == keys.NODE_LOCK)
        self._timeout_s = timeout_s
        self._services: dict[str, Service] = {}
        self._nodes: dict[str, dict[str, None]] = {}

    def seen(self, pod: pods.Pod, now: instant.Instant, *, at_start: bool) -> None:
        """Take up a pod that has a node.

        Args:
            pod: as it is now.
            now: time of the look.
            at_start: it may have waited before our first look, so its own bind time counts.
        """
        holder = self.holder(pod)
        if not _is_open(pod, holder):
            self.gone(pod.uid)
            return
        known = self._services.get(pod.uid)
        if known is not None:
            self._services[pod.uid] = dataclasses.replace(
                known, holder=holder, admitted=pod.admitted
            )
            return
        self._services[pod.uid] = Service(
            pod=effects.PodRef.of(pod),
            node=pod.node_name,
            holder=holder,
            since_s=now.monotonic_s,
            waited_s=_waited_s(pod, now) if at_start else 0.0,
            lock_types=sum(row.pod.recorded in pod.annotations for row in self._locking),
            admitted=pod.admitted,
        )
        self._nodes.setdefault(pod.node_name, {})[pod.uid] = None

    def gone(self, uid: str) -> None:
        """The pod is open no more; harmless if it was not."""
        service = self._services.pop(uid, None)
        if service is not None:
            here = self._nodes[service.node]
            del here[uid]
            if not here:
                del self._nodes[service.node]

    def restart(self) -> None:
        """Tell of each wait again when it is too long, as a new leader does."""
        for uid, service in self._services.items():
            self._services[uid] = dataclasses.replace(service, told=False)

    def stuck(self, now: instant.Instant) -> tuple[Service, ...]:
        """Pods that have waited for too long, each once."""
        late = [service for service in self.overdue(now) if not service.told]
        for service in late:
            self._services[service.pod.uid] = dataclasses.replace(service, told=True)
        return tuple(late)

    def overdue(self, now: instant.Instant) -> tuple[Service, ...]:
        """Every pod that has waited for too long; for metrics."""
        return tuple(
            one
            for one in self._services.values()
            if one.age_s(now) > self._timeout_s and one.waits
        )

    def on(self, node: str) -> tuple[Service, ...]:
        """The open pods of one node."""
        return tuple(self._services[uid] for uid in self._nodes.get(node, ()))

    def __contains__(self, uid: object) -> bool:
        return uid in self._services

    def holder(self, pod: pods.Pod) -> nodelock.Holder:
        """The facts about a pod that decide whether a lock in its name may be taken."""
        return nodelock.Holder(
            uid=pod.uid,
            created=pod.created,
            node_name=pod.node_name,
            phase=pod.phase,
            bind_phase=bindphase.classify(pod.annotations.get(keys.BIND_PHASE)),
            unserved=self._is_unserved(pod),
        )

    def _is_unserved(self, pod: pods.Pod) -> bool:
        """Whether a plugin may yet be asked for devices of the pod.

        The first of two plugins to finish says so and removes the lock while the other has not
        been called. Where that one erases nothing, only kubelet tells that it was: it asks all
        plugins before its first word about the pod.
        """
        sharing = [row for row in self._sharing if pod.annotations.get(row.pod.recorded)]
        if len(sharing) > 1 and not all(row.consumes for row in sharing) and not pod.admitted:
            return True
        return any(
            decision.unserved(pod.annotations.get(row.pod.to_allocate), row.keyword)
            for row in self._consuming
        )


def _is_open(pod: pods.Pod, holder: nodelock.Holder) -> bool:
    return (
        pod.annotations.get(keys.VGPU_NODE) == pod.node_name
        and holder.bind_phase in _UNDER_WAY
        and pod.phase not in _STARTED
    )


def _waited_s(pod: pods.Pod, now: instant.Instant) -> float:
    """Seconds since the bind as the pod itself says it; 0 where it says nothing readable."""
    text = pod.annotations.get(keys.BIND_TIME, "")
    if not _SECONDS.fullmatch(text):
        return 0.0
    return max(0.0, float(now.unix_s - int(text)))
