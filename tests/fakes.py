"""Fakes for the runtime: time that only moves when told, and waiting without sleeping."""

from __future__ import annotations

import asyncio
import datetime
import heapq
import itertools
import time
from collections.abc import Callable
from typing import Any

START = datetime.datetime(2026, 3, 1, 12, 0, 0, tzinfo=datetime.UTC)
TURNS = 25
"""Loop turns after which every task that could run has run as far as it can."""


async def settle(turns: int = TURNS) -> None:
    """Let all tasks run that wait for nothing but their turn."""
    for _ in range(turns):
        await asyncio.sleep(0)


async def eventually(
    condition: Callable[[], Any], *, deadline_s: float = 10.0, what: str = "condition"
) -> Any:
    """Wait in real time until ``condition()`` is truthy, and return what it gave.

    For what happens in other threads and sockets; with fake time alone, `settle` is enough.
    """
    end = time.monotonic() + deadline_s
    while not (found := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not come true within {deadline_s} s")
        await asyncio.sleep(0.002)
    return found


class FakeClock:
    """A `clock.Clock` that stands still until `advance` moves it.

    Both readings move together; `jump` moves the time of day alone.
    """

    def __init__(self, start: datetime.datetime = START, monotonic_s: float = 1000.0) -> None:
        self._monotonic_s = monotonic_s
        self._wall = start
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._ids = itertools.count()
        self.slept: list[float] = []
        """Every delay that was asked for, in order."""

    def monotonic(self) -> float:
        return self._monotonic_s

    def wall(self) -> datetime.datetime:
        return self._wall

    async def sleep(self, delay_s: float) -> None:
        self.slept.append(delay_s)
        if delay_s <= 0:
            await asyncio.sleep(0)
            return
        waking: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._monotonic_s + delay_s, next(self._ids), waking))
        await waking

    @property
    def sleepers(self) -> int:
        """How many tasks sleep on this clock."""
        return sum(not waking.done() for _, _, waking in self._sleepers)

    def jump(self, seconds: float) -> None:
        """Set the time of day forward or back, as an administrator or NTP does."""
        self._wall += datetime.timedelta(seconds=seconds)

    def forward(self, seconds: float) -> None:
        """Move the time without waking anybody: the loop was busy for so long."""
        self._monotonic_s += seconds
        self._wall += datetime.timedelta(seconds=seconds)

    async def advance(self, seconds: float, *, turns: int = TURNS) -> None:
        """Move the time, waking each sleeper at its own moment, in order."""
        await settle(turns)
        end = self._monotonic_s + seconds
        while self._sleepers and self._sleepers[0][0] <= end:
            due, _, waking = heapq.heappop(self._sleepers)
            if waking.done():
                continue
            self.forward(max(0.0, due - self._monotonic_s))
            waking.set_result(None)
            await settle(turns)
        self.forward(max(0.0, end - self._monotonic_s))
        await settle(turns)
