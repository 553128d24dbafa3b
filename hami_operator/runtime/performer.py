"""Carries out what the world orders: the one place where effects become writes.

Nothing here waits: Events and conditions go to their outboxes, and each bind is a task of its
own, whose end is told to the world, which may order more.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final, Protocol

import structlog

from hami_operator import clock
from hami_operator.cluster import ports
from hami_operator.protocol import instant
from hami_operator.runtime import binder as binders
from hami_operator.runtime import conditions as condition_writers
from hami_operator.runtime import evictor as evictors
from hami_operator.runtime import labeler as labelers
from hami_operator.runtime import locker as lockers
from hami_operator.runtime import outcome, present, supervisor
from hami_operator.runtime import recorder as recorders
from hami_operator.scheduling import effects, objects, world

MODE: Final = "standalone"

_log = structlog.get_logger(__name__)
_LOST: Final = frozenset({outcome.Ending.GONE, outcome.Ending.TAKEN})


class Spawn(Protocol):
    """Starts a task that may end."""

    def __call__(self, name: str, work: Coroutine[Any, Any, object], /) -> None:
        """Start ``work``; raises `supervisor.Stopping` where nothing is started any more."""
        ...


class Performer:
    """Carries out effects; `perform` returns at once and never raises.

    Args:
        state: is told how binds end.
        binder: binds one pod.
        evictor: ends one pod.
        locker: is told of changed locks, and removes dead ones.
        recorder: takes Events.
        conditions: takes conditions.
        labeler: takes labels that follow a Binding.
        spawn: starts tasks that outlive the loops.
        again: called when a pod may be tried again.
        widen: starts to watch more kinds of objects.
    """

    def __init__(
        self,
        state: world.World,
        *,
        binder: binders.Binder,
        evictor: evictors.Evictor,
        locker: lockers.Locker,
        recorder: recorders.Recorder,
        conditions: condition_writers.Conditions,
        labeler: labelers.Labeler,
        spawn: Spawn,
        again: Callable[[], None],
        widen: Callable[[frozenset[objects.Kind]], None],
        time: clock.Clock,
        metrics: ports.Recorder,
    ) -> None:
        self._widen = widen
        self._state = state
        self._binder = binder
        self._evictor = evictor
        self._locker = locker
        self._recorder = recorder
        self._conditions = conditions
        self._labeler = labeler
        self._spawn = spawn
        self._again = again
        self._time = time
        self._metrics = metrics

    def perform(self, orders: Iterable[effects.Effect]) -> None:
        """Carry out each order in its turn."""
        for order in orders:
            self._perform(order)

    def _perform(self, order: effects.Effect) -> None:
        match order:
            case effects.Bind():
                self._start_bind(order)
            case effects.PodEvent():
                self.tell_pod(order)
            case effects.NodeEvent():
                self.tell_node(order)
            case effects.QuotaEvent():
                self.tell_quota(order)
            case effects.Evict():
                self._start_evict(order)
            case effects.Condition():
                self._conditions.put(order)
            case effects.LockChanged():
                self._locker.changed(order.node)
            case effects.StaleLock():
                self._start(f"dead lock of {order.node}", self._locker.remove_dead(order))
            case effects.Attempt():
                self._count_attempt(order)
            case effects.Correction():
                self._count_correction(order)
            case effects.Watch():
                self._widen(order.kinds)

    def tell_pod(self, event: effects.PodEvent) -> None:
        """Put an event on a pod, and into the log."""
        self._log(event.type, event.reason, event.message, pod=str(event.pod))
        pod = event.pod
        self._recorder.record(
            recorders.Occurrence(
                kind="Pod",
                namespace=pod.namespace,
                name=pod.name,
                uid=pod.uid,
                type=event.type.value,
                reason=event.reason,
                action=event.action,
                text=event.message,
            )
        )

    def tell_node(self, event: effects.NodeEvent) -> None:
        """Put an event on a node, and into the log."""
        self._log(event.type, event.reason, event.message, node=event.node)
        self._recorder.record(
            recorders.Occurrence(
                kind="Node",
                namespace="",
                name=event.node,
                uid=event.node,
                type=event.type.value,
                reason=event.reason,
                action="Watching",
                text=event.message,
            )
        )

    def tell_quota(self, event: effects.QuotaEvent) -> None:
        """Put an event on a ResourceQuota, and into the log."""
        name = f"{event.namespace}/{event.name}"
        self._log(event.type, event.reason, event.message, quota=name)
        self._recorder.record(
            recorders.Occurrence(
                kind="ResourceQuota",
                namespace=event.namespace,
                name=event.name,
                uid=event.uid,
                type=event.type.value,
                reason=event.reason,
                action="Watching",
                text=event.message,
            )
        )

    def _log(self, kind: effects.EventType, reason: str, message: str, **what: str) -> None:
        tell = _log.warning if kind is effects.EventType.WARNING else _log.info
        tell(message, reason=reason, **what)

    def _count_attempt(self, attempt: effects.Attempt) -> None:
        self._metrics.count(
            "hami_scheduling_attempts_total", mode=MODE, result=attempt.result.value
        )
        for reason in attempt.reasons:
            self._metrics.count("hami_fit_rejections_total", reason=reason.word)

    def _count_correction(self, order: effects.Correction) -> None:
        self._metrics.count("hami_ledger_corrections_total", kind=order.kind)
        if order.bug:
            _log.error(order.bug)

    def _start_bind(self, order: effects.Bind) -> None:
        name = f"bind {order.pod.namespace}/{order.pod.name}"
        if not self._start(name, self._bind(order)):
            ended = outcome.Outcome(ending=outcome.Ending.STOPPED, message="the process stops")
            self._close(order, ended)

    def _start_evict(self, order: effects.Evict) -> None:
        if not self._start(f"evict {order.pod}", self._evict(order)):
            self._state.evict_failed(order.pod.uid, self._now())

    async def _evict(self, order: effects.Evict) -> None:
        if await self._evictor.evict(order):
            self.perform(self._state.evict_failed(order.pod.uid, self._now()))
            self._again()
        else:
            self.tell_pod(order.tell)

    def _start(self, name: str, work: Coroutine[Any, Any, object]) -> bool:
        try:
            self._spawn(name, work)
        except supervisor.Stopping:
            return False
        return True

    async def _bind(self, order: effects.Bind) -> None:
        self._close(order, await self._binder.bind(order))

    def _close(self, order: effects.Bind, ended: outcome.Outcome) -> None:
        """Tell the world how a bind ended, with what was read on the way before that."""
        now = self._now()
        uid = order.pod.uid
        if ended.found is not None:
            self.perform(self._state.pod_seen(ended.found, now))
        if ended.is_bound:
            self.perform(self._state.bind_done(uid))
            if ended.late_labels:
                self._labeler.put(order.pod, ended.late_labels)
        else:
            self._log_failure(order, ended)
            lost = ended.ending in _LOST
            told = self._state.bind_failed(uid, now, message=ended.message, lost=lost)
            self.perform(told)
        self._again()

    def _now(self) -> instant.Instant:
        return present.read(self._time)

    def _log_failure(self, order: effects.Bind, ended: outcome.Outcome) -> None:
        loud = ended.ending is outcome.Ending.REFUSED
        (_log.error if loud else _log.info)(
            "pod not bound",
            pod=f"{order.pod.namespace}/{order.pod.name}",
            node=order.node,
            ending=ended.ending.name.lower(),
            error=ended.message,
        )
