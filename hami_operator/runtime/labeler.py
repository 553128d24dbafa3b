"""Labels that an older API server does not take from a Binding: one PATCH after it."""

from __future__ import annotations

import random
from collections.abc import Mapping

import structlog

from hami_operator import clock, errors
from hami_operator.cluster import ports
from hami_operator.runtime import carrier, outbox, retry
from hami_operator.scheduling import pod as pods

_log = structlog.get_logger(__name__)


class Labeler:
    """Writes labels onto pods that are bound already; `put` never blocks and never raises."""

    def __init__(
        self,
        writer: ports.PodWriter,
        *,
        time: clock.Clock,
        metrics: ports.Recorder,
        generator: random.Random,
        limit: int = 5000,
    ) -> None:
        self._writer = writer
        self._time = time
        self._metrics = metrics
        self._generator = generator
        self._wanted: dict[str, tuple[pods.Pod, Mapping[str, str]]] = {}
        self._outbox = outbox.Outbox(self._write, limit=limit, dropped=self._dropped)

    def put(self, pod: pods.Pod, labels: Mapping[str, str]) -> None:
        """Queue the labels of a pod."""
        self._wanted[pod.uid] = (pod, labels)
        self._outbox.put(pod.uid)

    async def work(self) -> None:
        """Write labels for ever."""
        await self._outbox.work()

    async def drain(self, limit_s: float) -> bool:
        """Write what is due, within ``limit_s`` seconds; whether that worked."""
        return await self._outbox.drain(limit_s)

    def _dropped(self, uid: str) -> None:
        self._wanted.pop(uid, None)
        self._metrics.count("hami_labels_dropped_total", reason="overload")

    async def _write(self, uid: str) -> None:
        found = self._wanted.get(uid)
        if found is not None:
            await self._try(*found)
            self._wanted.pop(uid, None)

    async def _try(self, pod: pods.Pod, labels: Mapping[str, str]) -> None:
        body = carrier.label(pod, labels)
        try:
            await retry.send(
                lambda: self._writer.patch_pod(pod.namespace, pod.name, body),
                time=self._time,
                generator=self._generator,
                idempotent=True,
            )
        except errors.NotFound:
            return  # the pod is gone, and the label with it
        except (errors.ApiError, errors.Fenced) as error:
            self._metrics.count("hami_labels_dropped_total", reason=type(error).__name__)
            _log.warning("label not written", pod="/".join(pod.key), error=str(error))
