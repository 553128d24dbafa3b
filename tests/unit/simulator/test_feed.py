"""A list and a watch, with everything that a server does to them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from hami_operator import errors
from hami_operator.cluster import ports
from hami_operator.simulator import feed
from tests import fakes


def pod(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}}


class Scripted:
    """Answers lists and watches from a script, and remembers what was asked."""

    def __init__(self, lists: list[ports.Page], watches: list[list[Any]]) -> None:
        self._lists = lists
        self._watches = watches
        self.asked: list[str] = []

    async def list_page(self, resource: ports.Resource, **query: Any) -> ports.Page:
        self.asked.append(f"list {query['token']}".strip())
        return self._lists.pop(0)

    async def watch(
        self, resource: ports.Resource, *, version: str, **query: Any
    ) -> AsyncGenerator[tuple[str, ports.Raw], None]:
        self.asked.append(f"watch {version}")
        if not self._watches:
            await asyncio.Event().wait()
        for step in self._watches.pop(0):
            if isinstance(step, Exception):
                raise step
            yield step


class Sink:
    def __init__(self) -> None:
        self.told: list[str] = []

    def upsert(self, found: ports.Raw) -> None:
        self.told.append(f"+{found['metadata']['name']}@{found['metadata']['resourceVersion']}")

    def delete(self, found: ports.Raw) -> None:
        self.told.append(f"-{found['metadata']['name']}")


def page(version: int, *items: Any, token: str = "") -> ports.Page:
    return ports.Page(items=list(items), version=str(version), token=token)


async def follow(lists: list[ports.Page], watches: list[list[Any]]) -> tuple[Scripted, Sink]:
    client, sink, time = Scripted(lists, watches), Sink(), fakes.FakeClock()
    source = feed.Feed(client, ports.PODS, sink, time=time)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(source.run())
        await time.advance(5.0)
        assert source.listed.is_set()
        running.cancel()
    return client, sink


async def test_pages_are_put_together_and_the_watch_goes_on_from_there() -> None:
    lists = [page(5, pod("a", 1), token="more"), page(5, pod("b", 2))]
    client, sink = await follow(lists, [])
    assert client.asked == ["list", "list more", "watch 5"]
    assert sink.told == ["+a@1", "+b@2"]


async def test_a_watch_that_ends_goes_on_where_it_was() -> None:
    events = [
        ("ADDED", pod("a", 6)),
        ("MODIFIED", pod("a", 7)),
        ("DELETED", pod("a", 8)),
        ("BOOKMARK", pod("", 9)),
    ]
    client, sink = await follow([page(5)], [events])
    assert client.asked == ["list", "watch 5", "watch 9"]
    assert sink.told == ["+a@6", "+a@7", "-a"]


async def test_an_old_version_lists_again_and_tells_what_was_missed() -> None:
    lists = [page(5, pod("a", 1), pod("b", 2)), page(9, pod("b", 8), pod("c", 9))]
    client, sink = await follow(lists, [[errors.Gone("too old")]])
    assert client.asked == ["list", "watch 5", "list", "watch 9"]
    assert sink.told == ["+a@1", "+b@2", "-a", "+b@8", "+c@9"]


async def test_a_lost_connection_lists_again_after_a_pause() -> None:
    client, sink = await follow([page(5), page(6)], [[errors.Retryable("lost")]])
    assert client.asked == ["list", "watch 5", "list", "watch 6"]
    assert sink.told == []
