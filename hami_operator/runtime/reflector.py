"""Keeps a sink equal to what the API server has: list, replace by difference, watch, resume.

Only names, UIDs and versions are kept here, so that what vanished in a gap is noticed; the
objects themselves go to the sink and are forgotten.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol

import structlog

from hami_operator import clock, errors
from hami_operator.cluster import ports
from hami_operator.runtime import retry

PAGE: Final = 500
TURN_EVENTS: Final = 50
"""After so many events the loop gets a turn for others."""
WATCH_S: Final = (300, 600)
"""Range of the life of a watch; random, so that not all resume at once."""
FIRST_PAUSE_S: Final = 1.0
ABSENT_S: Final = 300.0
"""How long until it is asked again for a kind that the server does not know."""
LONG_LIFE_S: Final = 30.0
"""A watch that lived so long did its work even if nothing happened."""

_log = structlog.get_logger(__name__)


class Sink(Protocol):
    """Takes what happened; returns at once and does not raise."""

    def upsert(self, raw: ports.Raw) -> None:
        """The object is new or has changed."""
        ...

    def delete(self, raw: ports.Raw) -> None:
        """The object is gone or left the selection; may hold no more than its metadata."""
        ...

    def synced(self) -> None:
        """The first list is complete; called once."""
        ...


class Key(NamedTuple):
    """Namespace (empty for none) and name."""

    namespace: str
    name: str


class Known(NamedTuple):
    """What is remembered of an object."""

    uid: str
    version: str


class Reflector:
    """See the module; run as one task, for ever."""

    def __init__(
        self,
        source: ports.ListWatcher,
        resource: ports.Resource,
        sink: Sink,
        *,
        time: clock.Clock,
        generator: random.Random,
        selector: ports.Selector = ports.EVERYTHING,
    ) -> None:
        self._source = source
        self._resource = resource
        self._selector = selector
        self._sink = sink
        self._time = time
        self._generator = generator
        self._store: dict[Key, Known] = {}
        self._version = ""
        self._synced = asyncio.Event()
        self._relists: list[asyncio.Future[None]] = []
        self._cut: asyncio.Timeout | None = None
        self._handled = 0
        self._events = 0
        self._last_event_s = time.monotonic()

    @property
    def synced(self) -> bool:
        """Whether the sink once had everything."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Wait until the first list is complete."""
        await self._synced.wait()

    def age_s(self) -> float:
        """Seconds since the API server last said anything, bookmarks included."""
        return self._time.monotonic() - self._last_event_s

    def __len__(self) -> int:
        return len(self._store)

    async def relist(self) -> None:
        """Wait for a list that began after this call, and for its differences to be applied."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._relists.append(done)
        if self._cut is not None:
            self._cut.reschedule(asyncio.get_running_loop().time())
        await done

    async def run(self) -> None:
        """List and watch for ever; errors of the API server are waited out."""
        failures = 0
        while True:
            events, began_s = self._events, self._time.monotonic()
            error = await self._cycle()
            if self._relists and error is None:
                continue
            if self._resource.optional and isinstance(error, errors.NotFound):
                await self._absent()
                continue
            useful = self._events > events or self._time.monotonic() - began_s > LONG_LIFE_S
            failures = 0 if useful else failures + 1
            await self._pause(failures, error)

    async def _absent(self) -> None:
        """The server does not know the kind, so there are no such objects."""
        await self._replace(set(), "")
        await self._time.sleep(ABSENT_S)

    async def _cycle(self) -> errors.ApiError | None:
        """List if needed, then watch until the stream ends; why it ended early."""
        try:
            while not self._version or self._relists:
                await self._list()
            await self._follow()
        except errors.Gone as error:
            self._version = ""
            return error
        except errors.ApiError as error:
            return error
        return None

    async def _pause(self, failures: int, error: errors.ApiError | None) -> None:
        """Back off, but for a first end that has a plain cause."""
        asked_s = error.retry_after_s if error is not None else None
        plain = error is None or isinstance(error, errors.Gone)
        if not asked_s and (failures == 0 or (plain and failures == 1)):
            return
        pause_s = retry.pause_s(
            min(max(failures - 1, 0), 8), error, generator=self._generator, first_s=FIRST_PAUSE_S
        )
        _log.warning(
            "watch interrupted",
            resource=self._resource.plural,
            error=str(error) if error else "the stream ends at once",
            pause_s=round(pause_s, 1),
        )
        await self._time.sleep(pause_s)

    # ---- list

    async def _list(self) -> None:
        asked, self._relists = self._relists, []
        try:
            seen, version = await self._pages()
        except BaseException:
            self._relists = asked + self._relists
            raise
        await self._replace(seen, version)
        for done in asked:
            if not done.done():
                done.set_result(None)

    async def _replace(self, seen: set[Key], version: str) -> None:
        """What was not seen is gone; all that there is has been shown."""
        for key in self._store.keys() - seen:
            self._forget(key)
            await self._turn()
        self._version = version
        self._heard()
        if not self._synced.is_set():
            self._sink.synced()
            self._synced.set()

    async def _pages(self) -> tuple[set[Key], str]:
        """Apply all pages; the names in them, and the version of the whole list."""
        seen: set[Key] = set()
        version = token = ""
        while True:
            page = await self._source.list_page(
                self._resource, selector=self._selector, limit=PAGE, token=token
            )
            version = version or page.version
            for raw in page.items:
                if (key := self._upsert(raw)) is not None:
                    seen.add(key)
                await self._turn()
            token = page.token
            if not token:
                return seen, version

    # ---- watch

    async def _follow(self) -> None:
        """Watch until the stream ends, or somebody asks for a list."""
        try:
            async with asyncio.timeout(None) as self._cut:
                await self._watch()
        except TimeoutError:
            _log.debug("watch cut for a list", resource=self._resource.plural)
        finally:
            self._cut = None

    async def _watch(self) -> None:
        stream = self._source.watch(
            self._resource,
            version=self._version,
            selector=self._selector,
            timeout_s=self._generator.randint(*WATCH_S),
        )
        async with contextlib.aclosing(stream) as events:
            async for kind, raw in events:
                self._apply(kind, raw)
                self._events += 1
                self._heard()
                await self._turn()

    def _apply(self, kind: str, raw: ports.Raw) -> None:
        if kind == "DELETED":
            self._delete(raw)
        elif kind != "BOOKMARK":
            self._upsert(raw)
        if version := _text(_metadata(raw), "resourceVersion"):
            self._version = version

    def _heard(self) -> None:
        self._last_event_s = self._time.monotonic()

    async def _turn(self) -> None:
        self._handled += 1
        if self._handled % TURN_EVENTS == 0:
            await asyncio.sleep(0)

    # ---- store

    def _upsert(self, raw: ports.Raw) -> Key | None:
        """Remember and hand over; an older or the same version is no news."""
        key, new = _identify(raw)
        if not key.name:
            _log.warning("object without a name skipped", resource=self._resource.plural)
            return None
        known = self._store.get(key)
        if known is not None and known.uid != new.uid:
            self._forget(key)
        elif known is not None and not is_newer(new.version, than=known.version):
            return key
        self._store[key] = new
        self._sink.upsert(raw)
        return key

    def _delete(self, raw: ports.Raw) -> None:
        key, gone = _identify(raw)
        known = self._store.get(key)
        if known is not None and known.uid == gone.uid:
            del self._store[key]
            self._sink.delete(raw)

    def _forget(self, key: Key) -> None:
        """Hand over a delete that nobody reported."""
        known = self._store.pop(key)
        metadata = key._asdict() | {"uid": known.uid, "resourceVersion": known.version}
        self._sink.delete({"metadata": metadata})


def is_newer(version: str, *, than: str) -> bool:
    """Whether a resourceVersion is newer; versions that are no numbers are news if they differ."""
    if version.isdecimal() and than.isdecimal():
        return int(version) > int(than)
    return version != than


def _identify(raw: ports.Raw) -> tuple[Key, Known]:
    metadata = _metadata(raw)
    key = Key(namespace=_text(metadata, "namespace"), name=_text(metadata, "name"))
    return key, Known(uid=_text(metadata, "uid"), version=_text(metadata, "resourceVersion"))


def _metadata(raw: ports.Raw) -> Mapping[str, Any]:
    metadata = raw.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _text(metadata: Mapping[str, Any], field: str) -> str:
    return str(metadata.get(field) or "")
