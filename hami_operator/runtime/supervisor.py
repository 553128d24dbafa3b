"""Owns every task: starts it by name, notices its end, and stops all of them in order.

Three groups end one after the other. Loops take new work and end first. Binds are half-done
writes: they run to their end, within a limit. What stands (the election, the reflectors) ends
last, since binds in flight need it. A crash in one group never cancels a task of another.
"""

from __future__ import annotations

import asyncio
import dataclasses
import enum
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final

import structlog

from hami_operator import clock, errors

CANCEL_S: Final = 1.0
"""A cancelled task has so long to end; one that has not is named and left behind."""

_log = structlog.get_logger(__name__)


class Group(enum.Enum):
    """When a task is ended."""

    LOOPS = "loops"
    BINDS = "binds"
    STANDING = "standing"


class Stopping(errors.OperatorError):
    """Nothing new is started: the process stops."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Stop:
    """Why the process stops.

    Attributes:
        reason: for the log and for people.
        error: what a task raised; None where none did.
        asked: an ordered stop, as opposed to a task that ended by itself.
    """

    reason: str
    error: BaseException | None = None
    asked: bool = True


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Drained:
    """How a drain went.

    Attributes:
        cut: names of binds that were cancelled as the limit had passed.
        hung: names of tasks that run on although they were cancelled.
    """

    cut: tuple[str, ...] = ()
    hung: tuple[str, ...] = ()


class Supervisor:
    """See the module. It never raises what a task raised: `wait_stop` tells it."""

    def __init__(self, time: clock.Clock) -> None:
        self._time = time
        self._tasks: dict[Group, set[asyncio.Task[Any]]] = {group: set() for group in Group}
        self._asked: set[asyncio.Task[Any]] = set()
        self._draining = False
        self._order = asyncio.Lock()
        self._stop: Stop | None = None
        self._stopped = asyncio.Event()
        self._listeners: list[Callable[[], None]] = []

    def when_stopping(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` once the process is to stop; at once if it is already."""
        if self._stop is not None:
            listener()
        else:
            self._listeners.append(listener)

    def spawn(
        self, name: str, work: Coroutine[Any, Any, object], *, group: Group = Group.LOOPS
    ) -> None:
        """Start a task.

        Binds may end; every other task that ends without being asked, and each task that
        raises, stops the process.

        Raises:
            Stopping: the drain has begun; ``work`` was closed without being started.
        """
        if self._draining:
            work.close()
            raise Stopping(f"{name} is not started: the process stops")
        task = asyncio.create_task(work, name=name)
        self._tasks[group].add(task)
        task.add_done_callback(lambda ended: self._ended(ended, group))

    def running(self, group: Group) -> tuple[str, ...]:
        """Names of the tasks of a group, sorted."""
        return _names(self._tasks[group])

    def stop(self, reason: str) -> None:
        """Ask for an ordered stop; only the first reason counts."""
        self._note(Stop(reason=reason))

    @property
    def stopping(self) -> bool:
        """Whether anybody asked to stop, or a task ended by itself."""
        return self._stop is not None

    async def wait_stop(self) -> Stop:
        """Wait until the process is to stop; why."""
        await self._stopped.wait()
        assert self._stop is not None  # noqa: S101 - set together with the event
        return self._stop

    async def drain(self, limit_s: float) -> Drained:
        """End the loops, then let the binds finish for ``limit_s`` seconds, then cut them.

        May be called again and by several: the later call finds nothing left to do. Takes at
        most ``limit_s`` + 2 · `CANCEL_S` seconds.
        """
        self.stop("drain")
        self._draining = True
        async with self._order:
            deadline_s = self._time.monotonic() + limit_s
            hung = await self._cancel(self._tasks[Group.LOOPS])
            binds = self._tasks[Group.BINDS]
            late = await self._settle(binds, max(0.0, deadline_s - self._time.monotonic()))
            cut = _names(late)
            hung |= await self._cancel(late)
        return _told(Drained(cut=cut, hung=_names(hung)))

    async def close(self) -> Drained:
        """End what stands, after the drain; takes at most `CANCEL_S` seconds."""
        self._draining = True
        async with self._order:
            hung = await self._cancel(self._tasks[Group.STANDING])
        return _told(Drained(hung=_names(hung)))

    async def _cancel(self, tasks: Iterable[asyncio.Task[Any]]) -> set[asyncio.Task[Any]]:
        """Cancel tasks and wait for them; those that run on."""
        ending = set(tasks)
        self._asked |= ending
        for task in ending:
            task.cancel("asked by the supervisor")
        return await self._settle(ending, CANCEL_S)

    async def _settle(
        self, tasks: Iterable[asyncio.Task[Any]], limit_s: float
    ) -> set[asyncio.Task[Any]]:
        """Wait until all have ended, or the limit has passed on our clock; those that run on."""
        running = {task for task in tasks if not task.done()}
        if not running:
            return running
        limit = asyncio.create_task(self._time.sleep(limit_s), name="limit of a drain")
        try:
            while running and not limit.done():
                await asyncio.wait({*running, limit}, return_when=asyncio.FIRST_COMPLETED)
                running = {task for task in running if not task.done()}
        finally:
            limit.cancel()
        return running

    def _ended(self, task: asyncio.Task[Any], group: Group) -> None:
        self._tasks[group].discard(task)
        asked = task in self._asked
        self._asked.discard(task)
        name = task.get_name()
        if task.cancelled():
            if not asked:
                self._note(Stop(reason=f"{name} was cancelled from outside", asked=False))
        elif error := task.exception():
            _log.error("task failed", task=name, exc_info=error)
            self._note(Stop(reason=f"{name}: {error}", error=error, asked=False))
        elif not asked and group is not Group.BINDS:
            self._note(Stop(reason=f"{name} ended by itself", asked=False))

    def _note(self, stop: Stop) -> None:
        if self._stop is None:
            self._stop = stop
            self._stopped.set()
            for listener in self._listeners:
                listener()
            _log.info("stopping", reason=stop.reason, asked=stop.asked)


def _names(tasks: Iterable[asyncio.Task[Any]]) -> tuple[str, ...]:
    return tuple(sorted(task.get_name() for task in tasks))


def _told(drained: Drained) -> Drained:
    if drained.cut:
        _log.warning("binds were cut off at the end of the drain", tasks=drained.cut)
    if drained.hung:
        _log.error("tasks run on although they were cancelled", tasks=drained.hung)
    return drained
