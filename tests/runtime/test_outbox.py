"""The outbox: bounded, each key once, no key written twice at the same time."""

from __future__ import annotations

import asyncio

import pytest

from hami_operator.runtime import outbox
from tests import fakes


class Desk:
    """Writes keys down, and holds back the writes of one key until told."""

    def __init__(self, *, held: str = "") -> None:
        self.written: list[str] = []
        self.dropped: list[str] = []
        self.at_work: list[str] = []
        self.held = held
        self.open = asyncio.Event()

    async def write(self, key: str) -> None:
        assert key not in self.at_work, "two writes of one key overlap"
        self.at_work.append(key)
        if key == self.held:
            await self.open.wait()
        self.at_work.remove(key)
        self.written.append(key)

    def box(self, limit: int = 10) -> outbox.Outbox[str]:
        return outbox.Outbox(self.write, limit=limit, dropped=self.dropped.append)


@pytest.mark.parametrize(
    ("put", "limit", "want_written", "want_dropped"),
    [
        pytest.param("abc", 10, ["a", "b", "c"], [], id="keys are written in their order"),
        pytest.param("abab", 10, ["a", "b"], [], id="a key that waits already is written once"),
        pytest.param("abcd", 2, ["c", "d"], ["a", "b"], id="a full outbox drops its oldest keys"),
        pytest.param("aba", 2, ["a", "b"], [], id="a repeated key needs no room of its own"),
        pytest.param("", 2, [], [], id="an empty outbox drains at once"),
    ],
)
async def test_drain(
    put: str, limit: int, want_written: list[str], want_dropped: list[str]
) -> None:
    desk = Desk()
    box = desk.box(limit)
    for key in put:
        box.put(key)
    assert await box.drain(1.0)
    assert (desk.written, desk.dropped, len(box)) == (want_written, want_dropped, 0)


async def test_workers_write_side_by_side_and_a_busy_key_waits_for_its_own_write() -> None:
    desk = Desk(held="slow")
    box = desk.box()
    async with asyncio.TaskGroup() as group:
        workers = [group.create_task(box.work()) for _ in range(2)]
        box.put("slow")
        await fakes.settle()
        box.put("slow")
        box.put("quick")
        await fakes.settle()
        assert desk.written == ["quick"]
        desk.open.set()
        await fakes.settle()
        assert desk.written == ["quick", "slow", "slow"]
        for worker in workers:
            worker.cancel()


async def test_drain_waits_for_the_write_of_a_worker() -> None:
    desk = Desk(held="slow")
    box = desk.box()
    async with asyncio.TaskGroup() as group:
        worker = group.create_task(box.work())
        box.put("slow")
        await fakes.settle()
        draining = group.create_task(box.drain(5.0))
        await fakes.settle()
        assert not draining.done()
        desk.open.set()
        assert await draining
        worker.cancel()
    assert desk.written == ["slow"]


async def test_drain_gives_up_at_its_limit() -> None:
    desk = Desk(held="slow")
    box = desk.box()
    box.put("slow")
    assert not await box.drain(0.01)


async def test_a_write_that_raises_leaves_the_outbox_usable() -> None:
    written: list[str] = []

    async def write(key: str) -> None:
        if key == "bad":
            raise ValueError(key)
        written.append(key)

    box = outbox.Outbox(write, limit=10, dropped=written.append)
    box.put("bad")
    box.put("good")
    with pytest.raises(ValueError, match="bad"):
        await box.drain(1.0)
    assert "good" in box
    assert await box.drain(1.0)
    assert written == ["good"]


async def test_what_a_cancelled_worker_was_writing_is_left_for_the_drain() -> None:
    desk = Desk(held="slow")
    box = desk.box()
    async with asyncio.TaskGroup() as group:
        worker = group.create_task(box.work())
        box.put("slow")
        await fakes.settle()
        worker.cancel()
    desk.at_work.clear()
    desk.open.set()
    assert "slow" in box
    assert await box.drain(1.0)
    assert desk.written == ["slow"]
