"""Lines: first come, first served; the first alone is woken; empty lines leave nothing."""

from __future__ import annotations

import asyncio

from hami_operator.runtime import line
from tests import fakes


async def woken(*places: line.Place) -> list[str]:
    """Who of them has news."""
    waits = {asyncio.ensure_future(place.wait()): place.holder for place in places}
    await fakes.settle()
    for wait in waits:
        wait.cancel()
    return [holder for wait, holder in waits.items() if wait.done() and not wait.cancelled()]


def three() -> tuple[line.Lines, list[line.Place]]:
    lines = line.Lines()
    return lines, [lines.join("n1", name, until_s=100.0) for name in "abc"]


async def test_the_first_may_try_and_the_others_follow_as_they_came() -> None:
    lines, places = three()
    order = []
    while len(lines):
        (first,) = [place for place in places if lines.is_first(place)]
        order.append(first.holder)
        lines.leave(first)
    assert order == ["a", "b", "c"]
    assert lines.nodes() == ()


async def test_leaving_wakes_the_next_and_may_be_repeated() -> None:
    lines, (a, b, c) = three()
    await woken(a, b, c)
    lines.leave(a)
    lines.leave(a)
    assert await woken(b, c) == ["b"]
    lines.leave(c)
    assert lines.is_first(b)


async def test_news_of_a_node_wake_its_first_alone() -> None:
    lines, (a, b, c) = three()
    other = lines.join("n2", "d", until_s=100.0)
    await woken(a, b, c, other)
    lines.wake("n1")
    lines.wake("unknown")
    assert await woken(a, b, c, other) == ["a"]


async def test_time_wakes_the_first_of_each_line_and_those_whose_patience_ends() -> None:
    lines, (a, b, c) = three()
    hasty = lines.join("n1", "d", until_s=50.0)
    await woken(a, b, c, hasty)
    lines.tick(50.0)
    assert await woken(a, b, c, hasty) == ["a", "d"]


async def test_a_wake_before_the_wait_is_not_lost() -> None:
    lines, (a, _, _) = three()
    a.wake()
    assert await woken(a) == ["a"]
    lines.wake_all()
    assert await woken(a) == ["a"]


async def test_promoting_lets_a_later_one_go_first() -> None:
    lines, (a, b, c) = three()
    await woken(a, b, c)
    assert lines.promote("n1", "c")
    assert lines.is_first(c)
    assert await woken(a, b, c) == ["c"]
    lines.leave(c)
    assert lines.is_first(a)


async def test_promoting_the_first_or_a_stranger_changes_nothing() -> None:
    lines, (a, _, _) = three()
    assert not lines.promote("n1", "a")
    assert not lines.promote("n1", "stranger")
    assert not lines.promote("n9", "a")
    assert lines.is_first(a)
