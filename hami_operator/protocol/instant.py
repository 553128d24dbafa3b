"""One moment on both clocks, as the pure core is given it."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Final

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND: Final = datetime.timedelta(microseconds=1)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Instant:
    """A moment.

    Attributes:
        monotonic_s: seconds on a clock that never jumps; every duration comes from it.
        wall: the same moment as time of day, aware, in UTC; only ever written, never subtracted.
        nanoseconds: what ``wall`` cannot hold, 0 to 999.
    """

    monotonic_s: float
    wall: datetime.datetime
    nanoseconds: int = 0

    @property
    def unix_s(self) -> int:
        """Whole seconds since 1970."""
        return self._unix_us // 1_000_000

    @property
    def unix_ns(self) -> int:
        """Nanoseconds since 1970, exact."""
        return self._unix_us * 1000 + self.nanoseconds

    @property
    def _unix_us(self) -> int:
        return (self.wall - _EPOCH) // _MICROSECOND
