"""Keeps a sink up to date with one kind of object: list, watch, list again when told to."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final, Protocol

import structlog

from hami_operator import clock, errors
from hami_operator.cluster import pages, ports

WATCH_S: Final = 240
PAUSE_S: Final = 0.5
"""Between a lost connection and the next attempt."""

_log = structlog.get_logger(__name__)


class Sink(Protocol):
    """Where the objects go."""

    def upsert(self, found: ports.Raw) -> None:
        """Take an object as it is now; it may be unchanged."""
        ...

    def delete(self, found: ports.Raw) -> None:
        """Take the last state of an object that is gone."""
        ...


class Feed:
    """One list and one watch, repeated for ever.

    Attributes:
        listed: the sink has everything that was there at the beginning.
    """

    def __init__(
        self,
        client: ports.ListWatcher,
        resource: ports.Resource,
        sink: Sink,
        *,
        selector: ports.Selector = ports.EVERYTHING,
        time: clock.Clock,
    ) -> None:
        self._client = client
        self._resource = resource
        self._selector = selector
        self._sink = sink
        self._time = time
        self._known: dict[str, ports.Raw] = {}
        self.listed = asyncio.Event()

    async def run(self) -> None:
        """Run until cancelled."""
        version = ""
        while True:
            try:
                version = await self._watch(version or await self._list())
            except errors.Gone:
                version = ""
            except errors.ApiError as error:
                _log.warning("watch lost", resource=self._resource.plural, error=str(error))
                version = ""
                await self._time.sleep(PAUSE_S)

    async def _list(self) -> str:
        """Bring the sink up to date; where the list stands."""
        page = await pages.whole(self._client, self._resource, selector=self._selector)
        found = {one["metadata"]["uid"]: one for one in page.items}
        for uid in self._known.keys() - found.keys():
            self._sink.delete(self._known[uid])
        self._known = found
        for one in found.values():
            self._sink.upsert(one)
        self.listed.set()
        return page.version

    async def _watch(self, version: str) -> str:
        """Follow the changes until the server ends the stream; where it ended."""
        stream = self._client.watch(
            self._resource, version=version, selector=self._selector, timeout_s=WATCH_S
        )
        async with contextlib.aclosing(stream) as events:
            async for kind, found in events:
                version = str(found["metadata"]["resourceVersion"])
                if kind != "BOOKMARK":
                    self._take(kind, found)
        return version

    def _take(self, kind: str, found: ports.Raw) -> None:
        uid = found["metadata"]["uid"]
        if kind == "DELETED":
            self._known.pop(uid, None)
            self._sink.delete(found)
        else:
            self._known[uid] = found
            self._sink.upsert(found)
