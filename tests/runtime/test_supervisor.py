"""Tasks: who notices their end, and in which order they stop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from hami_operator.runtime import supervisor
from tests import fakes

LOOPS, BINDS, STANDING = supervisor.Group.LOOPS, supervisor.Group.BINDS, supervisor.Group.STANDING


class Trail:
    """Work that writes down how it ended."""

    def __init__(self, clock: fakes.FakeClock) -> None:
        self.clock = clock
        self.lines: list[str] = []

    async def sleep(self, name: str, seconds: float) -> None:
        try:
            await self.clock.sleep(seconds)
        except asyncio.CancelledError:
            self.lines.append(f"{name} cancelled")
            raise
        self.lines.append(f"{name} finished")

    async def stubborn(self, name: str, seconds: float) -> None:
        end = self.clock.monotonic() + seconds
        while self.clock.monotonic() < end:
            try:
                await self.clock.sleep(end - self.clock.monotonic())
            except asyncio.CancelledError:
                self.lines.append(f"{name} ignores a cancellation")

    async def crash(self, seconds: float) -> None:
        await self.clock.sleep(seconds)
        raise ValueError("broken")


@pytest.fixture
def clock() -> fakes.FakeClock:
    return fakes.FakeClock()


@pytest.fixture
def trail(clock: fakes.FakeClock) -> Trail:
    return Trail(clock)


@pytest.fixture
def owner(clock: fakes.FakeClock) -> supervisor.Supervisor:
    return supervisor.Supervisor(clock)


async def during(
    clock: fakes.FakeClock, work: Coroutine[Any, Any, supervisor.Drained], seconds: float
) -> supervisor.Drained:
    """Run ``work`` while ``seconds`` pass; it must have ended by then."""
    task = asyncio.create_task(work)
    await clock.advance(seconds)
    assert task.done(), "it takes longer than promised"
    return task.result()


async def test_a_bind_runs_to_its_end_though_a_loop_crashes(
    clock: fakes.FakeClock, owner: supervisor.Supervisor, trail: Trail
) -> None:
    owner.spawn("scheduler", trail.crash(1))
    owner.spawn("bind a", trail.sleep("bind a", 5), group=BINDS)
    await clock.advance(2)
    stop = await owner.wait_stop()
    assert (stop.reason, stop.asked) == ("scheduler: broken", False)
    assert isinstance(stop.error, ValueError)
    assert await during(clock, owner.drain(8), 3.5) == supervisor.Drained()
    assert trail.lines == ["bind a finished"]


def ends(trail: Trail) -> Coroutine[Any, Any, None]:
    return trail.sleep("work", 1)


def crashes(trail: Trail) -> Coroutine[Any, Any, None]:
    return trail.crash(1)


@pytest.mark.parametrize(
    ("work", "group", "want_reason"),
    [
        pytest.param(ends, LOOPS, "work ended by itself", id="a loop that returns is a fault"),
        pytest.param(ends, STANDING, "work ended by itself", id="and so is a standing task"),
        pytest.param(ends, BINDS, None, id="a bind may end"),
        pytest.param(crashes, LOOPS, "work: broken", id="a loop that raises stops the process"),
        pytest.param(crashes, BINDS, "work: broken", id="and so does a bind that raises"),
        pytest.param(crashes, STANDING, "work: broken", id="and a standing task that raises"),
    ],
)
async def test_unasked_ends(
    clock: fakes.FakeClock,
    work: Callable[[Trail], Coroutine[Any, Any, None]],
    group: supervisor.Group,
    want_reason: str | None,
) -> None:
    owner = supervisor.Supervisor(clock)
    owner.spawn("work", work(Trail(clock)), group=group)
    await clock.advance(0.5)
    before = owner.stopping, owner.running(group)
    assert before == (False, ("work",))
    await clock.advance(1)
    after = owner.stopping, owner.running(group)
    assert after == (want_reason is not None, ())
    if want_reason is not None:
        stop = await owner.wait_stop()
        assert (stop.reason, stop.asked) == (want_reason, False)


async def test_a_task_that_somebody_else_cancels_stops_the_process(
    clock: fakes.FakeClock, owner: supervisor.Supervisor, trail: Trail
) -> None:
    owner.spawn("reflector", trail.sleep("reflector", 100), group=STANDING)
    await clock.advance(1)
    (task,) = (task for task in asyncio.all_tasks() if task.get_name() == "reflector")
    task.cancel()
    await fakes.settle()
    stop = await owner.wait_stop()
    assert stop == supervisor.Stop(reason="reflector was cancelled from outside", asked=False)


async def test_loops_end_first_then_binds_and_what_stands_last(
    clock: fakes.FakeClock, owner: supervisor.Supervisor, trail: Trail
) -> None:
    owner.spawn("leader", trail.sleep("leader", 1000), group=STANDING)
    owner.spawn("bind", trail.sleep("bind", 4), group=BINDS)
    owner.spawn("scheduler", trail.sleep("scheduler", 1000))
    await clock.advance(1)
    await during(clock, owner.drain(8), 3.5)
    assert trail.lines == ["scheduler cancelled", "bind finished"]
    assert owner.running(STANDING) == ("leader",)
    await during(clock, owner.close(), 0.1)
    assert trail.lines == ["scheduler cancelled", "bind finished", "leader cancelled"]
    assert await owner.wait_stop() == supervisor.Stop(reason="drain")


async def test_the_limit_cuts_the_binds_that_are_left(
    clock: fakes.FakeClock, owner: supervisor.Supervisor, trail: Trail
) -> None:
    for name, seconds in (("bind a", 7.9), ("bind b", 8.1), ("bind c", 60)):
        owner.spawn(name, trail.sleep(name, seconds), group=BINDS)
    await fakes.settle()
    drained = await during(clock, owner.drain(8), 8.05)
    assert drained == supervisor.Drained(cut=("bind b", "bind c"))
    assert sorted(trail.lines) == ["bind a finished", "bind b cancelled", "bind c cancelled"]


async def test_a_task_that_ignores_its_cancellation_is_named_and_left_behind(
    clock: fakes.FakeClock, owner: supervisor.Supervisor, trail: Trail
) -> None:
    owner.spawn("deaf loop", trail.stubborn("deaf loop", 30))
    owner.spawn("deaf bind", trail.stubborn("deaf bind", 30), group=BINDS)
    owner.spawn("deaf leader", trail.stubborn("deaf leader", 30), group=STANDING)
    await fakes.settle()
    drained = await during(clock, owner.drain(8), 8 + 2 * supervisor.CANCEL_S)
    assert drained == supervisor.Drained(cut=("deaf bind",), hung=("deaf bind", "deaf loop"))
    closed = await during(clock, owner.close(), supervisor.CANCEL_S)
    assert closed == supervisor.Drained(hung=("deaf leader",))
    await clock.advance(30)


async def test_nothing_is_started_once_the_drain_has_begun(
    clock: fakes.FakeClock, owner: supervisor.Supervisor, trail: Trail
) -> None:
    await owner.drain(1)
    late = trail.sleep("late", 1)
    with pytest.raises(supervisor.Stopping, match="late is not started"):
        owner.spawn("late", late, group=BINDS)
    with pytest.raises(RuntimeError, match="reuse"):
        late.send(None)  # it was closed, so nobody is warned that it was never awaited


async def test_a_drain_may_be_asked_for_again_and_by_two_at_once(
    clock: fakes.FakeClock, owner: supervisor.Supervisor, trail: Trail
) -> None:
    owner.spawn("bind", trail.sleep("bind", 2), group=BINDS)
    await fakes.settle()
    both = [asyncio.create_task(owner.drain(8)) for _ in range(2)]
    await clock.advance(2)
    assert [task.result() for task in both] == [supervisor.Drained()] * 2
    assert await owner.drain(8) == supervisor.Drained()
    assert await owner.close() == supervisor.Drained()


async def test_a_cancelled_drain_leaves_the_binds_running(
    clock: fakes.FakeClock, owner: supervisor.Supervisor, trail: Trail
) -> None:
    owner.spawn("bind", trail.sleep("bind", 5), group=BINDS)
    await fakes.settle()
    drain = asyncio.create_task(owner.drain(8))
    await clock.advance(1)
    drain.cancel()
    await fakes.settle()
    assert drain.cancelled()
    assert await during(clock, owner.drain(8), 4) == supervisor.Drained()
    assert trail.lines == ["bind finished"]


async def test_the_first_reason_to_stop_is_the_one_told(owner: supervisor.Supervisor) -> None:
    owner.stop("signal")
    owner.stop("again")
    assert await owner.wait_stop() == supervisor.Stop(reason="signal")


async def test_a_task_that_fails_while_it_is_cancelled_is_logged_not_lost(
    clock: fakes.FakeClock, owner: supervisor.Supervisor, capsys: pytest.CaptureFixture[str]
) -> None:
    async def fragile() -> None:
        try:
            await clock.sleep(100)
        finally:
            raise ValueError("broken on the way out")

    owner.spawn("fragile", fragile())
    await fakes.settle()
    assert await during(clock, owner.drain(8), 0.1) == supervisor.Drained()
    assert "broken on the way out" in capsys.readouterr().out
