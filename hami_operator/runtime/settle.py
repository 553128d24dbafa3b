"""Reading a pod after a write whose effect is not known, and judging what became of it."""

from __future__ import annotations

import random
from typing import Final

import structlog

from hami_operator import clock, errors
from hami_operator.cluster import ports
from hami_operator.runtime import carrier, outcome, retry
from hami_operator.scheduling import effects
from hami_operator.scheduling import pod as pods

ASK_AGAIN_S: Final = 1.0
"""First pause between two reads that failed; it doubles up to `LONGEST_S`."""

LONGEST_S: Final = 5.0

_log = structlog.get_logger(__name__)


class Settler:
    """Reads a pod until the API server has answered.

    Giving back a reservation whose Binding may have landed books its cards twice, so there is no
    last attempt: each read is bounded, and so is each pause, but only an answer, or the end of
    this process, ends the asking.
    """

    def __init__(
        self,
        reader: ports.PodReader,
        *,
        time: clock.Clock,
        metrics: ports.Recorder,
        generator: random.Random,
    ) -> None:
        self._reader = reader
        self._time = time
        self._metrics = metrics
        self._generator = generator

    async def settle(self, order: effects.Bind) -> pods.Pod | outcome.Outcome:
        """The pod if it still waits for its node and may be bound, else how its bind ended."""
        attempt = 0
        while True:
            try:
                raw = await self._reader.get_pod(order.pod.namespace, order.pod.name)
            except errors.NotFound:
                return _ended(outcome.Ending.GONE, "the pod is gone")
            except errors.ApiError as error:
                self._metrics.count("hami_bind_unclear_reads_total", reason=type(error).__name__)
                _log.warning("bind not settled", pod=_name(order), error=str(error))
                await self._time.sleep(self._pause_s(attempt, error))
                attempt += 1
            else:
                return judge(order, pods.read(raw))

    def _pause_s(self, attempt: int, error: errors.ApiError) -> float:
        pause_s = retry.pause_s(
            min(attempt, 5), error, generator=self._generator, first_s=ASK_AGAIN_S, jitter=0.0
        )
        return min(pause_s, LONGEST_S)


def judge(order: effects.Bind, found: pods.Pod) -> pods.Pod | outcome.Outcome:
    """What the pod, as it was just read, says about a bind; itself where the bind may go on."""
    if found.uid != order.pod.uid:
        return _ended(outcome.Ending.GONE, "another pod of the same name has come")
    if found.node_name:
        return _judge_bound(order, found)
    if found.terminating or found.terminal:
        return _ended(outcome.Ending.GONE, "the pod ends", found)
    if found.gates:
        return _ended(outcome.Ending.GATED, f"the pod is gated: {', '.join(found.gates)}", found)
    return found


def _judge_bound(order: effects.Bind, found: pods.Pod) -> outcome.Outcome:
    if found.node_name != order.node:
        text = f"the pod is already assigned to node {found.node_name}"
        return _ended(outcome.Ending.TAKEN, text, found)
    if not carrier.carried_by(found, order.decision):
        text = f"somebody else has bound the pod to node {order.node}, without our decision"
        return _ended(outcome.Ending.TAKEN, text, found)
    return _ended(outcome.Ending.BOUND, "", found)


def _ended(ending: outcome.Ending, message: str, found: pods.Pod | None = None) -> outcome.Outcome:
    return outcome.Outcome(ending=ending, message=message, found=found)


def _name(order: effects.Bind) -> str:
    return f"{order.pod.namespace}/{order.pod.name}"
