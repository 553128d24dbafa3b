"""Bound pods that still wait for their plugin: who they are, and for how long already.

While such a pod waits, its node's lock is its own, and nobody else may be sent there: the
plugin's call does not say for which pod it is.
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


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Service:
    """One bound pod that has not got all its devices yet.

    Attributes:
        since_s: monotonic time of our first look at it on its node.
        waited_s: seconds it had waited before that look.
        told: it was already said that it waits for too long.
    """

    pod: effects.PodRef
    node: str
    holder: nodelock.Holder
    since_s: float
    waited_s: float = 0.0
    told: bool = False

    def age_s(self, now: instant.Instant) -> float:
        """Seconds for which it has waited."""
        return now.monotonic_s - self.since_s + self.waited_s


class Services:
    """All pods that wait for their plugin.

    Args:
        registry: whose plugins erase what they have served.
        timeout_s: a longer wait is worth an event.
    """

    def __init__(self, registry: registries.Registry, timeout_s: float) -> None:
        self._consuming = tuple(row for row in registry if row.consumes)
        self._sharing = tuple(row for row in registry if row.lock == keys.NODE_LOCK)
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
        if not _waits(pod, holder):
            self.gone(pod.uid)
            return
        known = self._services.get(pod.uid)
        if known is not None:
            self._services[pod.uid] = dataclasses.replace(known, holder=holder)
            return
        self._services[pod.uid] = Service(
            pod=effects.PodRef.of(pod),
            node=pod.node_name,
            holder=holder,
            since_s=now.monotonic_s,
            waited_s=_waited_s(pod, now) if at_start else 0.0,
        )
        self._nodes.setdefault(pod.node_name, {})[pod.uid] = None

    def gone(self, uid: str) -> None:
        """The pod waits no more; harmless if it did not."""
        service = self._services.pop(uid, None)
        if service is not None:
            waiting = self._nodes[service.node]
            del waiting[uid]
            if not waiting:
                del self._nodes[service.node]

    def restart(self) -> None:
        """Tell of each wait again when it is too long, as a new leader does."""
        for uid, service in self._services.items():
            self._services[uid] = dataclasses.replace(service, told=False)

    def stuck(self, now: instant.Instant) -> tuple[Service, ...]:
        """Pods that have waited for too long, each once."""
        late = [
            service
            for service in self._services.values()
            if not service.told and service.age_s(now) > self._timeout_s
        ]
        for service in late:
            self._services[service.pod.uid] = dataclasses.replace(service, told=True)
        return tuple(late)

    def overdue(self, now: instant.Instant) -> tuple[Service, ...]:
        """Every pod that has waited for too long; for metrics."""
        return tuple(one for one in self._services.values() if one.age_s(now) > self._timeout_s)

    def on(self, node: str) -> tuple[Service, ...]:
        """The pods that wait on one node."""
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


def _waits(pod: pods.Pod, holder: nodelock.Holder) -> bool:
    return (
        pod.annotations.get(keys.VGPU_NODE) == pod.node_name
        and holder.bind_phase in _UNDER_WAY
        and not pod.terminal
        and not holder.past_allocation(pod.node_name)
    )


def _waited_s(pod: pods.Pod, now: instant.Instant) -> float:
    """Seconds since the bind as the pod itself says it; 0 where it says nothing readable."""
    text = pod.annotations.get(keys.BIND_TIME, "")
    if not _SECONDS.fullmatch(text):
        return 0.0
    return max(0.0, float(now.unix_s - int(text)))
