"""The condition ``PodScheduled=False``: written off the critical path, and only when it changes.

Cluster autoscalers read it, so its reason must be right. ``PodScheduled=True`` is written by the
API server while it binds, never by us.
"""

from __future__ import annotations

import collections
import datetime
import random
from collections.abc import Mapping
from typing import Final

import structlog

from hami_operator import clock, errors
from hami_operator.cluster import ports
from hami_operator.runtime import outbox, retry
from hami_operator.scheduling import effects

_REMEMBERED: Final = 4096

_log = structlog.get_logger(__name__)

_Content = tuple[str, str, str, str]


class Conditions:
    """Keeps the newest condition per pod and writes it; `put` never blocks and never raises."""

    def __init__(
        self,
        writer: ports.PodWriter,
        *,
        time: clock.Clock,
        metrics: ports.Recorder,
        generator: random.Random,
        limit: int = 2000,
    ) -> None:
        self._writer = writer
        self._time = time
        self._metrics = metrics
        self._generator = generator
        self._wanted: dict[str, effects.Condition] = {}
        self._written: collections.OrderedDict[str, _Content] = collections.OrderedDict()
        self._outbox = outbox.Outbox(self._write, limit=limit, dropped=self._dropped)

    def put(self, condition: effects.Condition) -> None:
        """Queue a condition; one that waits for the same pod is replaced."""
        uid = condition.pod.uid
        if uid not in self._wanted and self._is_written(condition):
            return
        self._wanted[uid] = condition
        self._outbox.put(uid)

    def seen(
        self, uid: str, status: str, reason: str, message: str, *, nominated: str = ""
    ) -> None:
        """Take note of the condition that a pod carries, whoever wrote it."""
        self._remember(uid, (status, reason, message, nominated))

    async def work(self) -> None:
        """Write conditions for ever."""
        await self._outbox.work()

    async def drain(self, limit_s: float) -> bool:
        """Write what is due, within ``limit_s`` seconds; whether that worked."""
        return await self._outbox.drain(limit_s)

    def _dropped(self, uid: str) -> None:
        self._wanted.pop(uid, None)
        self._metrics.count("hami_conditions_dropped_total", reason="overload")

    async def _write(self, uid: str) -> None:
        condition = self._wanted.get(uid)
        if condition is None:
            return
        if not self._is_written(condition):
            await self._try(uid, condition)
        if self._wanted.get(uid) is condition:  # nothing newer has come meanwhile
            del self._wanted[uid]

    async def _try(self, uid: str, condition: effects.Condition) -> None:
        try:
            await self._send(condition)
        except (errors.NotFound, errors.Invalid):
            return  # the pod is gone, or another one of its name has come
        except (errors.ApiError, errors.Fenced) as error:
            self._metrics.count("hami_conditions_dropped_total", reason=type(error).__name__)
            _log.warning("condition not written", pod=_name(condition), error=str(error))
            return
        self._remember(uid, self._content(condition))

    async def _send(self, condition: effects.Condition) -> None:
        pod = condition.pod
        before = self._written.get(pod.uid)
        body = _body(
            condition, now=self._time.wall(), moved=(before or ("",))[0] != condition.status
        )

        async def request() -> None:
            await self._writer.patch_pod_status(pod.namespace, pod.name, body)

        await retry.send(request, time=self._time, generator=self._generator, idempotent=True)

    def _is_written(self, condition: effects.Condition) -> bool:
        return self._written.get(condition.pod.uid) == self._content(condition)

    def _content(self, condition: effects.Condition) -> _Content:
        """What the pod carries once it is written; a nomination that is not named stays."""
        nominated = condition.nominated
        if nominated is None:
            nominated = self._written.get(condition.pod.uid, ("", "", "", ""))[3]
        return condition.status, condition.reason, condition.message, nominated

    def _remember(self, uid: str, content: _Content) -> None:
        self._written[uid] = content
        self._written.move_to_end(uid)
        while len(self._written) > _REMEMBERED:
            self._written.popitem(last=False)


def _body(
    condition: effects.Condition, *, now: datetime.datetime, moved: bool
) -> Mapping[str, object]:
    """A strategic merge patch; the time of the last transition changes with the status alone."""
    fields: dict[str, object] = {
        "type": "PodScheduled",
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastProbeTime": None,
    }
    if condition.generation:
        fields["observedGeneration"] = condition.generation
    if moved:
        fields["lastTransitionTime"] = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    status: dict[str, object] = {"conditions": [fields]}
    if condition.nominated is not None:
        status["nominatedNodeName"] = condition.nominated or None
    return {"metadata": {"uid": condition.pod.uid}, "status": status}


def _name(condition: effects.Condition) -> str:
    return f"{condition.pod.namespace}/{condition.pod.name}"
