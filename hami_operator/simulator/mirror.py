"""What a watch shows, kept by name, with a way to wait for something to become true."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hami_operator.cluster import ports


class Mirror:
    """A `feed.Sink` that remembers; several may share the same bell."""

    def __init__(self, bell: asyncio.Event) -> None:
        self._bell = bell
        self._found: dict[str, ports.Raw] = {}

    def upsert(self, found: ports.Raw) -> None:
        """See `feed.Sink`."""
        self._found[found["metadata"]["name"]] = found
        self._bell.set()

    def delete(self, found: ports.Raw) -> None:
        """See `feed.Sink`."""
        known = self._found.get(found["metadata"]["name"])
        if known is not None and known["metadata"]["uid"] == found["metadata"]["uid"]:
            del self._found[found["metadata"]["name"]]
        self._bell.set()

    def get(self, name: str) -> ports.Raw | None:
        """The object of that name."""
        return self._found.get(name)

    def all(self) -> list[ports.Raw]:
        """All objects, by name."""
        return [self._found[name] for name in sorted(self._found)]


async def until(holds: Callable[[], bool], bell: asyncio.Event, *, timeout_s: float) -> bool:
    """Wait for ``holds()``, looking again each time the bell rings; whether it came true."""
    try:
        async with asyncio.timeout(timeout_s):
            while not holds():
                bell.clear()
                await bell.wait()
    except TimeoutError:
        return holds()
    return True
