"""Ends pods so that others find room: first the reason, onto the pod, then the end.

Deleted, not evicted: PodDisruptionBudgets were weighed when the victims were chosen, and must not
keep half of them.
"""

from __future__ import annotations

import asyncio
import datetime
import random
from collections.abc import Mapping
from typing import Final, Protocol

import structlog

from hami_operator import clock, errors
from hami_operator.cluster import ports
from hami_operator.runtime import retry, shield
from hami_operator.scheduling import effects, rank

WORKERS: Final = 16
"""Victims that are ended side by side."""

_log = structlog.get_logger(__name__)


class PodPort(ports.PodWriter, ports.PodDeleter, Protocol):
    """What an end asks of the API server about its pod."""


class Evictor:
    """Carries out `effects.Evict` orders; any number at once, ``workers`` of them writing."""

    def __init__(
        self,
        api: PodPort,
        *,
        time: clock.Clock,
        metrics: ports.Recorder,
        generator: random.Random,
        workers: int = WORKERS,
    ) -> None:
        self._api = api
        self._time = time
        self._metrics = metrics
        self._generator = generator
        self._workers = asyncio.Semaphore(workers)

    async def evict(self, order: effects.Evict) -> str:
        """End one pod; empty where it ends, or is gone already, else why it stays.

        Raises nothing but cancellation: then the write under way has ended.
        """
        async with self._workers:
            try:
                await self._explain(order)
                await self._delete(order)
            except (errors.NotFound, errors.Conflict):
                result, why = "gone", ""  # or another pod of its name has come
            except (errors.ApiError, errors.Fenced) as error:
                result, why = type(error).__name__, str(error)
                _log.warning("pod not deleted", pod=str(order.pod), error=why)
            else:
                result, why = "deleted", ""
        self._metrics.count("hami_preemption_victims_total", result=result)
        return why

    async def _explain(self, order: effects.Evict) -> None:
        """The condition helps controllers tell this end from a failure; the end needs it not."""
        body = condition(order, self._time.wall())
        pod = order.pod

        async def request() -> None:
            await shield.finish(self._api.patch_pod_status(pod.namespace, pod.name, body))

        try:
            await retry.send(request, time=self._time, generator=self._generator, idempotent=True)
        except errors.Invalid as error:  # also how a PATCH says that the UID is another one
            raise errors.Conflict(str(error), status=error.status) from error

    async def _delete(self, order: effects.Evict) -> None:
        pod = order.pod

        async def request() -> None:
            await shield.finish(self._api.delete_pod(pod.namespace, pod.name, uid=pod.uid))

        await retry.send(request, time=self._time, generator=self._generator, idempotent=True)


def condition(order: effects.Evict, now: datetime.datetime) -> Mapping[str, object]:
    """A strategic merge patch with the condition that says why the pod ends."""
    fields = {
        "type": rank.YIELDS,
        "status": "True",
        "reason": order.reason,
        "message": order.message,
        "lastProbeTime": None,
        "lastTransitionTime": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    return {"metadata": {"uid": order.pod.uid}, "status": {"conditions": [fields]}}
