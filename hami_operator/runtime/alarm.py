"""Waiting for news or for time, whichever comes first."""

from __future__ import annotations

import asyncio

from hami_operator import clock


class Alarm:
    """Remembers that it was rung until somebody has waited for it."""

    def __init__(self, time: clock.Clock) -> None:
        self._time = time
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """End the present wait, or the next one."""
        self._rung.set()

    async def wait(self, delay_s: float | None) -> None:
        """Wait until it rings, or for ``delay_s`` seconds; None waits for the ring alone."""
        if delay_s is not None and not self._rung.is_set():
            await self._wait_either(delay_s)
        else:
            await self._rung.wait()
        self._rung.clear()

    async def _wait_either(self, delay_s: float) -> None:
        ends = {
            asyncio.ensure_future(self._time.sleep(delay_s)),
            asyncio.ensure_future(self._rung.wait()),
        }
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in ends:
                end.cancel()
