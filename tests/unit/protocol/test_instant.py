"""Moments on both clocks."""

from __future__ import annotations

import datetime

from hami_operator.protocol import instant


def test_unix_time_is_exact_to_the_nanosecond() -> None:
    wall = datetime.datetime(2026, 2, 1, 8, 15, 30, 123_456, tzinfo=datetime.UTC)
    now = instant.Instant(monotonic_s=5.0, wall=wall, nanoseconds=789)
    assert (now.unix_s, now.unix_ns) == (1769933730, 1769933730123456789)


def test_the_zone_of_the_clock_does_not_matter() -> None:
    west = datetime.timezone(datetime.timedelta(hours=-5))
    wall = datetime.datetime(1969, 12, 31, 19, 0, 1, tzinfo=west)
    assert instant.Instant(monotonic_s=0.0, wall=wall).unix_s == 1
