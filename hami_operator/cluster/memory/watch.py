"""Watches: one HTTP stream each, fed from the store, with the ways in which a stream goes bad."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import math

from aiohttp import web

from hami_operator.cluster.memory import (
    calls,
    records,
    refusals,
    replies,
    resources,
    selectors,
    store,
)

BOOKMARK_INTERVAL_S = 60.0
_POLL_S = 1.0
_LINES_PER_WRITE = 500


@dataclasses.dataclass(kw_only=True, eq=False, slots=True)
class Watch:
    """One open watch: what it shows, and how far it is."""

    resource: resources.Resource
    selector: selectors.Selector
    form: replies.Form
    version: int
    bookmarks: bool
    initial: list[records.Record] | None
    initial_end: bool
    timeout_s: float | None
    wake: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)
    cut: bool = False
    reset: bool = False


class Watches:
    """All open watches of a server; all methods run in its loop."""

    def __init__(self, objects: store.Store) -> None:
        self._store = objects
        self._open: dict[str, set[Watch]] = collections.defaultdict(set)
        self.silent = False
        self.repeats = 1
        self.bookmark_interval_s = BOOKMARK_INTERVAL_S
        objects.subscribe(self._wake)

    def _wake(self, bucket: str) -> None:
        for watch in self._open.get(bucket, ()):
            watch.wake.set()

    def wake_all(self) -> None:
        """Let all watches look again."""
        for bucket in list(self._open):
            self._wake(bucket)

    def cut(self, resource: str | None = None, *, reset: bool = False) -> int:
        """End the open watches of a kind, or all; ``reset`` breaks their connections.

        Returns:
            How many there were.
        """
        bucket = resources.find(resource).bucket if resource else None
        found = [watch for name, open_ in self._open.items() for watch in open_
                 if bucket in (None, name)]  # fmt: skip
        for watch in found:
            watch.cut, watch.reset = True, reset
            watch.wake.set()
        return len(found)

    def count(self, resource: str) -> int:
        """How many watches of a kind are open."""
        return len(self._open[resources.find(resource).bucket])

    def start(
        self,
        call: calls.Call,
        resource: resources.Resource,
        selector: selectors.Selector,
        form: replies.Form,
    ) -> Watch:
        """The watch that a request asks for.

        Without a version, or from version 0, it starts with what exists as ``ADDED``.
        """
        version = call.number("resourceVersion")
        initial = None
        everything = call.flag("sendInitialEvents")
        if not version or everything:
            page = self._store.list(resource, selector=selector)
            initial, version = page.records, page.version
        return Watch(
            resource=resource,
            selector=selector,
            form=form,
            version=version,
            bookmarks=call.flag("allowWatchBookmarks"),
            initial=initial,
            initial_end=everything,
            timeout_s=float(call.number("timeoutSeconds")) or None,
        )

    async def serve(self, watch: Watch, request: web.BaseRequest) -> web.StreamResponse:
        """Send events until the time is over, the client is gone or the watch is cut."""
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        bucket = self._open[watch.resource.bucket]
        bucket.add(watch)
        try:
            await self._send_all(watch, request, response)
            if watch.reset and request.transport is not None:
                request.transport.abort()
            else:
                await response.write_eof()
        except ConnectionError:
            pass  # the client has gone: nobody is left to tell
        finally:
            bucket.discard(watch)
        return response

    async def _send_all(
        self, watch: Watch, request: web.BaseRequest, response: web.StreamResponse
    ) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + watch.timeout_s if watch.timeout_s else None
        marked = loop.time()
        await self._send_initial(watch, response)
        while not watch.cut and request.transport is not None:
            watch.wake.clear()
            if not self.silent and not await self._send_new(watch, response):
                return
            if end is not None and loop.time() >= end:
                await self._send_bookmark(watch, response)
                return
            if loop.time() >= marked + self.bookmark_interval_s:
                marked = loop.time()
                await self._send_bookmark(watch, response)
            due = min(end or math.inf, marked + self.bookmark_interval_s)
            await _woken(watch.wake, max(0.0, min(_POLL_S, due - loop.time())))

    async def _send_initial(self, watch: Watch, response: web.StreamResponse) -> None:
        added = [records.WatchEvent("ADDED", record) for record in watch.initial or ()]
        await self._send(watch, response, added)
        watch.initial = None
        if watch.initial_end:
            mark = replies.bookmark(watch.version, watch.resource, initial_end=True)
            await response.write(mark)

    async def _send_new(self, watch: Watch, response: web.StreamResponse) -> bool:
        """Send what has happened since; False: the watch has expired and is over."""
        try:
            events = self._store.events_since(
                watch.resource, watch.version, selector=watch.selector
            )
        except refusals.Refused as refused:
            await response.write(replies.error_line(refused))
            return False
        watch.version = max(watch.version, self._store.version)
        await self._send(watch, response, events * self.repeats)
        return True

    async def _send(
        self,
        watch: Watch,
        response: web.StreamResponse,
        events: list[records.WatchEvent],
    ) -> None:
        for start in range(0, len(events), _LINES_PER_WRITE):
            part = events[start : start + _LINES_PER_WRITE]
            lines = replies.lines(part, watch.resource, watch.form, self._store.now())
            await response.write(b"".join(lines))

    async def _send_bookmark(self, watch: Watch, response: web.StreamResponse) -> None:
        if watch.bookmarks and not self.silent:
            await response.write(replies.bookmark(watch.version, watch.resource))


async def _woken(wake: asyncio.Event, limit_s: float) -> None:
    try:
        async with asyncio.timeout(limit_s):
            await wake.wait()
    except TimeoutError:
        pass
