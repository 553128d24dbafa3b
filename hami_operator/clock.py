"""The one place that reads a clock; everybody else is given the time."""

from __future__ import annotations

import asyncio
import datetime
import time
from typing import Protocol


class Clock(Protocol):
    """What code outside the pure core may ask about time."""

    def monotonic(self) -> float:
        """Seconds on a clock that never jumps; only differences mean something."""
        ...

    def wall(self) -> datetime.datetime:
        """The time of day, aware, in UTC; it may jump, so no duration is taken from it."""
        ...

    async def sleep(self, delay_s: float) -> None:
        """Wait for ``delay_s`` seconds on this clock."""
        ...


class SystemClock:
    """The real clock."""

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return time.monotonic()

    def wall(self) -> datetime.datetime:
        """See `Clock.wall`."""
        return datetime.datetime.now(datetime.UTC)

    async def sleep(self, delay_s: float) -> None:
        """See `Clock.sleep`."""
        await asyncio.sleep(delay_s)
