"""The operator's own command with a time of day that a file moves while it runs.

`python -m tests.conformance.shifted FILE run …`; the file holds seconds. Only the time of day
moves, as when an administrator or NTP sets it; the monotonic clock goes on.
"""

from __future__ import annotations

import datetime
import sys
from pathlib import Path

from hami_operator import clock
from hami_operator.cli import main


class ShiftedClock(clock.SystemClock):
    """The real clock, moved."""

    def wall(self) -> datetime.datetime:
        """See `clock.Clock`."""
        seconds = float(Path(sys.argv[1]).read_text() or 0)
        return super().wall() + datetime.timedelta(seconds=seconds)


if __name__ == "__main__":
    clock.SystemClock = ShiftedClock  # type: ignore[misc] # everybody asks the module for it
    sys.exit(main.main(sys.argv[2:]))
