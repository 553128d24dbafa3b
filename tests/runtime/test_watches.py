"""Kinds are watched once they are wanted, and not before."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

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
        kind: kind.value.partition(".")[0] for kind in objects.Kind
    }


@pytest.mark.parametrize(
    ("server", "want"),
    [
        pytest.param((1, 36), "v1", id="a server of now"),
        pytest.param((1, 34), "v1", id="the first with v1"),
        pytest.param((1, 33), "v1beta2", id="one before"),
        pytest.param((1, 32), "v1beta1", id="two before"),
    ],
)
def test_kinds_of_dynamic_allocation_are_read_as_the_server_has_them(
    server: tuple[int, int], want: str
) -> None:
    found = watches.resources(server)
    dynamic = {objects.Kind.RESOURCE_CLAIM, objects.Kind.DEVICE_CLASS}
    assert {found[kind].version for kind in dynamic} == {want}
    others = set(objects.Kind) - dynamic
    assert all(found[kind] == watches.RESOURCES[kind] for kind in others)
