"""Kinds are watched once they are wanted, and not before."""

from __future__ import annotations

import asyncio
from typing import Any

from hami_operator.runtime import watches
from hami_operator.scheduling import objects


class Reflector:
    """Stands in for one; notes that it runs."""

    def __init__(self, kind: objects.Kind, running: list[objects.Kind]) -> None:
        self._kind = kind
        self._running = running

    async def run(self) -> None:
        self._running.append(self._kind)
        await asyncio.Event().wait()


async def test_a_kind_is_watched_when_it_is_wanted() -> None:
    running: list[objects.Kind] = []

    def build(kind: objects.Kind) -> Any:
        return Reflector(kind, running)

    kinds = watches.Watches(build)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(kinds.run(kind)) for kind in objects.Kind]
        await asyncio.sleep(0)
        assert running == []
        kinds.widen(objects.NAMESPACES)
        kinds.widen(objects.NAMESPACES)
        await asyncio.sleep(0)
        assert running == [objects.Kind.NAMESPACE]
        for task in tasks:
            task.cancel()


def test_every_kind_has_its_resource() -> None:
    assert {kind: one.plural for kind, one in watches.RESOURCES.items()} == {
        kind: kind.value for kind in objects.Kind
    }
