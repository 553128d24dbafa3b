"""The last write ends, whoever cancels."""

from __future__ import annotations

import asyncio

import pytest

from hami_operator.runtime import shield
from tests import fakes


async def test_a_cancelled_task_raises_only_after_its_write_has_ended() -> None:
    gate, done = asyncio.Event(), []

    async def write() -> None:
        await gate.wait()
        done.append("written")

    task = asyncio.ensure_future(shield.finish(write()))
    await fakes.settle()
    task.cancel()
    await fakes.settle()
    assert not task.done()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == ["written"]


async def test_a_write_that_never_ends_does_not_keep_its_cancelled_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shield, "PATIENCE_S", 0.01)
    cut = []

    async def write() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cut.append("write")

    task = asyncio.ensure_future(shield.finish(write()))
    await fakes.settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cut == ["write"]


async def test_a_write_that_fails_while_its_task_is_cancelled_does_not_hide_the_cancellation() -> (
    None
):
    gate = asyncio.Event()

    async def write() -> None:
        await gate.wait()
        raise ValueError("boom")

    task = asyncio.ensure_future(shield.finish(write()))
    await fakes.settle()
    task.cancel()
    await fakes.settle()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_without_cancellation_the_answer_and_the_error_pass_through() -> None:
    async def answer() -> int:
        return 7

    async def fail() -> int:
        raise ValueError("boom")

    assert await shield.finish(answer()) == 7
    with pytest.raises(ValueError, match="boom"):
        await shield.finish(fail())
