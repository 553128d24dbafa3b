"""Once a second: what follows from time alone."""

from __future__ import annotations

from typing import Final

from hami_operator import clock
from hami_operator.runtime import alarm, locker, performer, present, recorder
from hami_operator.scheduling import world

PERIOD_S: Final = 1.0


class Ticker:
    """Tells time to everybody who waits for it: expiry, backoffs, lock waits, deferred Events."""

    def __init__(
        self,
        state: world.World,
        performer: performer.Performer,
        *,
        locker: locker.Locker,
        recorder: recorder.Recorder,
        bell: alarm.Alarm,
        time: clock.Clock,
        period_s: float = PERIOD_S,
    ) -> None:
        self._state = state
        self._performer = performer
        self._locker = locker
        self._recorder = recorder
        self._bell = bell
        self._time = time
        self._period_s = period_s

    async def run(self) -> None:
        """Tick for ever."""
        while True:
            await self._time.sleep(self._period_s)
            self.tick()

    def tick(self) -> None:
        """One tick."""
        now = present.read(self._time)
        self._performer.perform(self._state.tick(now))
        self._performer.perform(self._locker.dead())
        self._locker.tick()
        self._recorder.tick()
        self._bell.ring()
