"""One bind: node lock, decision, Binding, and the way back when any of them fails (D9).

The steps, each undone by a later failure in reverse order:

0. prepare the pod's claims of volumes and devices, where it has any that are not ready;
1. take the locks that the device types used need, after all earlier binds of that node;
2. PATCH the decision, only where the Binding cannot carry it (stale keys, or by setting);
3. POST the Binding, with the pod's UID and version as preconditions;
4. where the answer is lost or a conflict, read the pod until it tells, then go on or go back.
"""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol, TypeVar

import structlog

from hami_operator import clock, errors
from hami_operator.cluster import ports
from hami_operator.devices import registry as registries
from hami_operator.runtime import carrier as carriers
from hami_operator.runtime import locker as lockers
from hami_operator.runtime import outcome, prebind, retry, settle, shield
from hami_operator.scheduling import effects, written
from hami_operator.scheduling import pod as pods

TRIES: Final = 3
"""How often a decision is sent for one pod that changes under our hands, or answers nothing."""

_Answer = TypeVar("_Answer")
_log = structlog.get_logger(__name__)


class PodPort(ports.PodReader, ports.PodWriter, Protocol):
    """What a bind asks of the API server about its pod."""


@dataclasses.dataclass(slots=True)
class _Draft:
    """One bind on its way.

    Attributes:
        order: what was ordered.
        pod: the newest version that is known.
        decision: for that version.
        deadline_s: no new write after it, on the monotonic clock.
        patched: the pod may carry our decision without being bound.
        sent: a Binding may have landed.
    """

    order: effects.Bind
    pod: pods.Pod
    decision: written.Decision
    deadline_s: float
    patched: bool = False
    sent: bool = False
    problem: str = ""
    result: outcome.Outcome = dataclasses.field(default_factory=lambda: _failed("not tried"))


class Binder:
    """Carries out `effects.Bind` orders; any number at once, ``workers`` of them writing.

    A bind that waits for a node lock holds no worker.
    """

    def __init__(
        self,
        api: PodPort,
        locker: lockers.Locker,
        *,
        registry: registries.Registry,
        carrier: carriers.Carrier,
        node_exists: Callable[[str], bool],
        time: clock.Clock,
        metrics: ports.Recorder,
        generator: random.Random,
        preparer: prebind.Preparer | None = None,
        workers: int = 64,
        timeout_s: float = 60.0,
    ) -> None:
        self._preparer = preparer
        self._api = api
        self._locker = locker
        self._registry = registry
        self._carrier = carrier
        self._node_exists = node_exists
        self._time = time
        self._metrics = metrics
        self._generator = generator
        self._workers = asyncio.Semaphore(workers)
        self._timeout_s = timeout_s
        self._settler = settle.Settler(api, time=time, metrics=metrics, generator=generator)

    async def bind(self, order: effects.Bind) -> outcome.Outcome:
        """Bind one pod; whatever goes wrong is in the outcome, and undone.

        Only cancellation is raised. By then the write under way has ended, and a lock that no
        Binding has followed has been given back.
        """
        began_s = self._time.monotonic()
        try:
            result = await self._bind(order)
        except Exception as error:  # a bug of ours must not leak a reservation or end the process
            _log.exception("bind broke", pod=f"{order.pod.namespace}/{order.pod.name}")
            result = await self._after_bug(order, error)
        elapsed_s = self._time.monotonic() - began_s
        self._metrics.observe("hami_scheduling_duration_seconds", elapsed_s, phase="bind")
        self._metrics.count("hami_binds_total", result=result.ending.name.lower())
        return result

    async def _after_bug(self, order: effects.Bind, error: Exception) -> outcome.Outcome:
        found = await self._settler.settle(order)
        return found if isinstance(found, outcome.Outcome) else _failed(repr(error))

    async def _bind(self, order: effects.Bind) -> outcome.Outcome:
        if order.preparation is None or self._preparer is None:
            return await self._lock_and_write(order)
        result = _failed("not tried")
        try:
            result = await self._preparer.prepare(order) or await self._lock_and_write(order)
        finally:
            if not result.is_bound:
                await self._preparer.undo(order)
        return result

    async def _lock_and_write(self, order: effects.Bind) -> outcome.Outcome:
        need = lockers.needed(order.decision.annotations, self._registry)
        if not need.keys:
            return await self._write(self._draft(order))
        taken = await self._locker.acquire(order, need)
        if isinstance(taken, outcome.Outcome):
            return taken
        draft = self._draft(order)
        try:
            await self._write(draft)
        finally:
            # The lock is the plugin's once the pod may be bound; in all other cases it goes back.
            await shield.finish(self._locker.finish(taken, keep=draft.sent))
        return draft.result

    def _draft(self, order: effects.Bind) -> _Draft:
        """Made when the locks are held: waiting for them does not count against the time-out."""
        return _Draft(
            order=order,
            pod=order.pod,
            decision=order.decision,
            deadline_s=self._time.monotonic() + self._timeout_s,
        )

    async def _write(self, draft: _Draft) -> outcome.Outcome:
        try:
            async with self._workers:
                draft.result = await self._try(draft)
        finally:
            if draft.patched and not draft.sent:
                await shield.finish(self._undo(draft))
        return draft.result

    async def _try(self, draft: _Draft) -> outcome.Outcome:
        for _ in range(TRIES):
            result = await self._send(draft)
            if result is None:
                result = await self._reread(draft)
            if result is not None:
                return result
        return _failed(draft.problem)

    async def _send(self, draft: _Draft) -> outcome.Outcome | None:
        """Send the decision once; None where only the pod itself can tell how to go on."""
        refusal = self._too_late(draft)
        if refusal is not None:
            return refusal
        try:
            if self._carrier.needs_patch(draft.decision):
                await self._patch(draft)
            await self._post(draft)
        except (errors.Conflict, errors.Unclear) as error:
            draft.problem = str(error)
            return None
        except (errors.ApiError, errors.Fenced) as error:
            return _refused(error)
        labels = self._carrier.late_labels(draft.decision)
        return outcome.Outcome(ending=outcome.Ending.BOUND, late_labels=labels)

    def _too_late(self, draft: _Draft) -> outcome.Outcome | None:
        if not self._node_exists(draft.order.node):
            return _failed(f"node {draft.order.node} is gone")
        if self._time.monotonic() > draft.deadline_s:
            return _failed(f"not bound within {self._timeout_s:g} s: {draft.problem}")
        return None

    async def _patch(self, draft: _Draft) -> None:
        body = carriers.patch(draft.pod, draft.decision)
        draft.patched = True
        try:
            raw = await self._sent(lambda: self._api.patch_pod(*draft.pod.key, body))
        except errors.Invalid as error:
            if "metadata.uid" in str(error):  # how a PATCH says that the UID is another one
                raise errors.Conflict(str(error), status=error.status) from error
            raise
        version = str((raw.get("metadata") or {}).get("resourceVersion") or "")
        draft.pod = dataclasses.replace(draft.pod, resource_version=version)

    async def _post(self, draft: _Draft) -> None:
        binding = self._carrier.binding(draft.pod, draft.decision)
        draft.sent = True
        try:
            await self._sent(lambda: self._api.bind(*draft.pod.key, binding))
        except errors.Unclear:
            raise
        except (errors.ApiError, errors.Fenced):
            draft.sent = False
            raise

    async def _sent(self, request: Callable[[], Coroutine[Any, Any, _Answer]]) -> _Answer:
        return await retry.send(
            lambda: shield.finish(request()), time=self._time, generator=self._generator
        )

    async def _reread(self, draft: _Draft) -> outcome.Outcome | None:
        """Read the pod and judge anew; None where its newer version may be bound as well."""
        found = await self._settler.settle(draft.order)
        if isinstance(found, outcome.Outcome):
            draft.sent = found.is_bound
            if found.is_bound:
                labels = self._carrier.late_labels(draft.decision)
                return dataclasses.replace(found, late_labels=labels)
            return found
        draft.sent = False
        draft.pod = found
        draft.decision = carriers.refreshed(draft.decision, found, self._registry)
        problem = written.check(found, draft.decision)
        if problem:
            text = f"{problem} ({errors.Reason.DECISION_TOO_LARGE.word})"
            return outcome.Outcome(ending=outcome.Ending.REFUSED, message=text)
        return None

    async def _undo(self, draft: _Draft) -> None:
        """Remove our decision from a pod that is not bound; plugins look at bound pods only."""
        for _ in range(TRIES):
            try:
                found = pods.read(await self._api.get_pod(*draft.pod.key))
                body = carriers.undo(found, draft.decision)
                if found.uid != draft.pod.uid or found.node_name or not body:
                    return
                await self._api.patch_pod(*found.key, body)
            except errors.NotFound:
                return
            except errors.Conflict:
                continue
            except (errors.ApiError, errors.Fenced) as error:
                self._metrics.count("hami_bind_undo_failures_total", reason=type(error).__name__)
                _log.warning("decision not removed", pod="/".join(draft.pod.key), error=str(error))
                return
            return


def _failed(message: str) -> outcome.Outcome:
    return outcome.Outcome(ending=outcome.Ending.FAILED, message=message)


def _refused(error: errors.ApiError | errors.Fenced) -> outcome.Outcome:
    """What an answer that leaves no doubt means for the pod."""
    ending = outcome.Ending.REFUSED
    if isinstance(error, errors.NotFound):
        ending = outcome.Ending.GONE
    elif isinstance(error, errors.Fenced):
        ending = outcome.Ending.STOPPED
    elif isinstance(error, errors.Retryable):
        ending = outcome.Ending.FAILED
    return outcome.Outcome(ending=ending, message=str(error))
