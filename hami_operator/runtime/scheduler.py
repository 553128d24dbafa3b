"""The scheduling loop: one pod after the other, decided and reserved without a pause in between.

Only a leader that has seen everything decides. Between two attempts the loop gives way, so that
binds, watches and probes get their turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import structlog

from hami_operator import clock
from hami_operator.cluster import ports
from hami_operator.protocol import instant
from hami_operator.runtime import alarm, leader, performer, present
from hami_operator.scheduling import world

_log = structlog.get_logger(__name__)


class Scheduler:
    """Runs the term of a leader.

    Args:
        state: decides.
        performer: carries out what was decided.
        leadership: says when we lead.
        sources: per source of the world what shows it everything afresh, and then returns.
        bell: rung whenever a pod may be tried.
        settle: called when all has been seen, before the first decision.

    Raises:
        ValueError: a source has nothing to show it, so no pod would ever be decided; or what
            is shown is none.
    """

    def __init__(
        self,
        state: world.World,
        performer: performer.Performer,
        *,
        leadership: leader.Leadership,
        sources: Mapping[str, Callable[[], Awaitable[object]]],
        bell: alarm.Alarm,
        time: clock.Clock,
        metrics: ports.Recorder,
        settle: Callable[[], None] | None = None,
    ) -> None:
        if sources.keys() != world.SOURCES:
            odd = ", ".join(sorted(sources.keys() ^ world.SOURCES))
            raise ValueError(f"sources of the world and what shows them differ: {odd}")
        self._state = state
        self._performer = performer
        self._leadership = leadership
        self._sources = sources
        self._bell = bell
        self._time = time
        self._metrics = metrics
        self._settle = settle

    async def run(self) -> None:
        """Wait until this process leads, look at everything afresh, then decide for ever.

        What others bound before we led is in the cluster but may not yet be in our watch;
        hence the fresh look before the first decision.
        """
        await self._leadership.wait_leading()
        try:
            await self._begin()
            await self._decide()
        finally:
            self._state.step_down()

    async def _begin(self) -> None:
        self._performer.perform(self._state.take_over(self._now()))
        for source, show in self._sources.items():
            await show()
            self._performer.perform(self._state.synced(source, self._now()))
        if self._settle is not None:
            self._settle()
        if self._state.active:
            _log.info("deciding", term=self._leadership.term)

    async def _decide(self) -> None:
        while True:
            due_s = self._due_s()
            if due_s == 0:
                self._attempt()
                await asyncio.sleep(0)
            else:
                await self._bell.wait(due_s)

    def _due_s(self) -> float | None:
        """Seconds until a pod may be tried; None if that takes an event, or the lead, first."""
        return self._state.next_due(self._now()) if self._leadership.leading else None

    def _attempt(self) -> None:
        began_s = self._time.monotonic()
        orders = self._state.attempt(self._now())
        elapsed_s = self._time.monotonic() - began_s
        self._metrics.observe("hami_scheduling_duration_seconds", elapsed_s, phase="filter")
        self._performer.perform(orders)

    def _now(self) -> instant.Instant:
        return present.read(self._time)
