"""Moments for tests: both clocks start together, and the wall clock may jump."""

from __future__ import annotations

import datetime

from hami_operator.protocol import instant

START = datetime.datetime(2026, 3, 1, 12, 0, tzinfo=datetime.UTC)


def at(seconds: float, *, jump_s: float = 0.0) -> instant.Instant:
    """``seconds`` after the start; ``jump_s`` is how far the wall clock is off by then."""
    wall = START + datetime.timedelta(seconds=seconds + jump_s)
    return instant.Instant(monotonic_s=1000.0 + seconds, wall=wall)


def asked(seconds: float) -> str:
    """The handshake value that a scheduler writes ``seconds`` after the start."""
    time = START + datetime.timedelta(seconds=seconds)
    return f"Requesting_{time:%Y.%m.%d %H:%M:%S}"
