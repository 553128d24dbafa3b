"""The present as the pure core takes it."""

from __future__ import annotations

from hami_operator import clock
from hami_operator.protocol import instant


def read(time: clock.Clock) -> instant.Instant:
    """Both clocks, read together."""
    return instant.Instant(monotonic_s=time.monotonic(), wall=time.wall())
