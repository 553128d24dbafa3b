"""Asks device plugins for a sign of life, each node once per interval, at its own moment."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Iterator
from typing import Final

import structlog

from hami_operator import clock, errors
from hami_operator.cluster import ports
from hami_operator.runtime import present
from hami_operator.scheduling import nodes

MOST_STEPS: Final = 30
SHORTEST_STEP_S: Final = 0.1
WRITERS: Final = 8
"""How many nodes are written at once."""

_log = structlog.get_logger(__name__)


class Handshaker:
    """Spreads the nodes over the interval by a hash of their names, so load never comes in bursts.

    Only a leader asks: a follower's tick does nothing. A write that fails for whatever cause is
    judged anew at the node's next tick.
    """

    def __init__(
        self,
        asked: nodes.Nodes,
        writer: ports.NodeWriter,
        *,
        time: clock.Clock,
        metrics: ports.Recorder,
        interval_s: float,
        is_leading: Callable[[], bool],
        gone: Callable[[str], None],
    ) -> None:
        self._asked = asked
        self._writer = writer
        self._time = time
        self._metrics = metrics
        self._is_leading = is_leading
        self._gone = gone
        self._steps = max(1, min(MOST_STEPS, int(interval_s / SHORTEST_STEP_S)))
        self._step_s = interval_s / self._steps

    async def run(self) -> None:
        """Tick for ever; a tick that takes long delays the next, it never doubles it."""
        next_s = self._time.monotonic()
        step = 0
        while True:
            if self._is_leading():
                await self.tick(step)
            step = (step + 1) % self._steps
            next_s = max(next_s + self._step_s, self._time.monotonic())
            await self._time.sleep(next_s - self._time.monotonic())

    async def tick(self, step: int) -> None:
        """Write what is due on the nodes of one step, a few at a time."""
        now = present.read(self._time)
        names = [name for name in self._asked if step_of(name, self._steps) == step]
        due = [name for name in names if self._asked.due_on(name, now)]
        todo = iter(due)
        async with asyncio.TaskGroup() as group:
            for _ in range(min(WRITERS, len(due))):
                group.create_task(self._ask_each(todo))

    async def _ask_each(self, todo: Iterator[str]) -> None:
        for name in todo:
            await self._ask(name)

    async def _ask(self, name: str) -> None:
        """One PATCH for all types of a node; its version keeps a newer answer from harm."""
        now = present.read(self._time)
        node, values = self._asked.get(name), self._asked.due_on(name, now)
        if node is None or not values:
            return
        metadata = {"resourceVersion": node.resource_version, "annotations": dict(values)}
        try:
            await self._writer.patch_node(name, {"metadata": metadata})
        except errors.NotFound:
            self._gone(name)
        except errors.Conflict:
            self._metrics.count("hami_handshake_failures_total", reason="Conflict")
        except (errors.ApiError, errors.Fenced) as error:
            self._metrics.count("hami_handshake_failures_total", reason=type(error).__name__)
            _log.warning("handshake not written", node=name, error=str(error))


def step_of(node: str, steps: int) -> int:
    """At which step of the interval a node is asked; the same in every process."""
    return zlib.crc32(node.encode()) % steps
