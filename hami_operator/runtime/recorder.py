"""Kubernetes Events: repeats become a series, and nobody waits for a write.

The API server refuses a change of an Event's text and a text above 1,024 bytes, so a repeat of
the same text is a ``series`` of the first Event, and another text is another Event.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import random
from collections.abc import Mapping
from typing import Final

import structlog

from hami_operator import clock, errors
from hami_operator.cluster import ports
from hami_operator.runtime import outbox, retry

NOTE_BYTES: Final = 1024
"""What the API server accepts as the text of an Event."""

WINDOW_S: Final = 600.0
"""A repeat that comes later than this is told as a new Event."""

SERIES_PAUSE_S: Final = 10.0
"""After its first repeat, an Event is written at most this often."""

_REMEMBERED: Final = 4096
_CUT: Final = " ..."

_log = structlog.get_logger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Occurrence:
    """What happened to which object; equal values are repeats of each other.

    Attributes:
        kind: ``Pod``, ``Node`` or ``ResourceQuota``.
        namespace: of the object, empty for Nodes.
        uid: of the object; Nodes have their name here, which is how kubectl finds the events.
        type: ``Normal`` or ``Warning``.
        action: what was tried, e.g. ``Scheduling``.
        text: for people, of any length; it is cut to `NOTE_BYTES` when written.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    type: str
    reason: str
    action: str
    text: str


@dataclasses.dataclass(kw_only=True, slots=True)
class _Told:
    """How often something happened, and how much of that the API server knows."""

    event_name: str = ""
    count: int = 0
    written: int = 0
    seen_at_s: float = 0.0
    written_at_s: float = 0.0
    seen: datetime.datetime


def cut(text: str) -> str:
    """The text within `NOTE_BYTES` of UTF-8; a cut one ends in `` ...``."""
    raw = text.encode()
    if len(raw) <= NOTE_BYTES:
        return text
    return raw[: NOTE_BYTES - len(_CUT)].decode(errors="ignore") + _CUT


class Recorder:
    """Takes occurrences from anywhere at any time, and writes them as Events.

    `record` never blocks and never raises. `work` is run by one or more tasks; `tick` is called
    about once a second; `drain` writes what is left at the end.
    """

    def __init__(
        self,
        writer: ports.EventWriter,
        *,
        time: clock.Clock,
        metrics: ports.Recorder,
        generator: random.Random,
        controller: str,
        instance: str,
        limit: int = 2000,
    ) -> None:
        self._writer = writer
        self._time = time
        self._metrics = metrics
        self._generator = generator
        self._controller = controller
        self._instance = instance[:128]
        self._told: collections.OrderedDict[Occurrence, _Told] = collections.OrderedDict()
        self._deferred: dict[Occurrence, None] = {}
        self._last_stamp = 0
        self._outbox = outbox.Outbox(self._write, limit=limit, dropped=self._dropped)

    def record(self, occurrence: Occurrence) -> None:
        """Note that something happened; the Event follows."""
        now_s = self._time.monotonic()
        told = self._told.pop(occurrence, None)
        if told is None or now_s - told.seen_at_s > WINDOW_S:
            told = _Told(seen=self._time.wall())
        self._told[occurrence] = told
        told.count += 1
        told.seen_at_s, told.seen = now_s, self._time.wall()
        if told.written > 1 and now_s - told.written_at_s < SERIES_PAUSE_S:
            self._deferred[occurrence] = None
        else:
            self._outbox.put(occurrence)
        self._forget_oldest()

    def tick(self) -> None:
        """Queue the repeats whose pause is over."""
        now_s = self._time.monotonic()
        for occurrence in list(self._deferred):
            told = self._told.get(occurrence)
            if told is None:
                del self._deferred[occurrence]
            elif now_s - told.written_at_s >= SERIES_PAUSE_S:
                del self._deferred[occurrence]
                self._outbox.put(occurrence)

    async def work(self) -> None:
        """Write Events for ever."""
        await self._outbox.work()

    async def drain(self, limit_s: float) -> bool:
        """Write everything that is due or deferred, within ``limit_s``; whether that worked."""
        for occurrence in self._deferred:
            self._outbox.put(occurrence)
        self._deferred.clear()
        return await self._outbox.drain(limit_s)

    def _forget_oldest(self) -> None:
        while len(self._told) > _REMEMBERED:
            occurrence = next(iter(self._told))
            if occurrence in self._outbox:
                return
            self._deferred.pop(occurrence, None)
            del self._told[occurrence]

    def _dropped(self, occurrence: Occurrence) -> None:
        self._told.pop(occurrence, None)
        self._metrics.count("hami_events_dropped_total", reason="overload")

    async def _write(self, occurrence: Occurrence) -> None:
        told = self._told.get(occurrence)
        if told is None or told.count == told.written:
            return
        count = told.count
        try:
            await self._send(occurrence, told, count)
        except (errors.ApiError, errors.Fenced) as error:
            self._metrics.count("hami_events_dropped_total", reason=type(error).__name__)
            _log.warning(
                "event not written",
                object=f"{occurrence.namespace}/{occurrence.name}",
                reason=occurrence.reason,
                error=str(error),
            )
        told.written = count
        told.written_at_s = self._time.monotonic()

    async def _send(self, occurrence: Occurrence, told: _Told, count: int) -> None:
        if told.event_name and count > 1:
            try:
                await self._patch_series(occurrence, told, count)
            except errors.NotFound:
                told.event_name = ""  # the API server keeps Events for an hour only
            else:
                return
        await self._create(occurrence, told)

    async def _patch_series(self, occurrence: Occurrence, told: _Told, count: int) -> None:
        body = {"series": _series(told, count)}

        async def request() -> None:
            await self._writer.patch_event(namespace_of(occurrence), told.event_name, body)

        await retry.send(request, time=self._time, generator=self._generator, idempotent=True)

    async def _create(self, occurrence: Occurrence, told: _Told) -> None:
        """Create it under one name, so that it may be sent again after a lost answer."""
        name = self._new_name(occurrence)
        body = self._event(occurrence, name, told)
        sent = 0

        async def request() -> None:
            nonlocal sent
            sent += 1
            try:
                await self._writer.create_event(namespace_of(occurrence), body)
            except errors.Conflict:
                if sent == 1:
                    raise
                # The name can exist only because an earlier try got through.

        await retry.send(request, time=self._time, generator=self._generator, idempotent=True)
        told.event_name = name

    def _new_name(self, occurrence: Occurrence) -> str:
        stamp = max(int(self._time.wall().timestamp() * 1_000_000), self._last_stamp + 1)
        self._last_stamp = stamp
        return f"{occurrence.name[:200].rstrip('-.')}.{stamp:x}"

    def _event(self, occurrence: Occurrence, name: str, told: _Told) -> Mapping[str, object]:
        repeats = {"series": _series(told, told.count)} if told.count > 1 else {}
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace_of(occurrence)},
            "eventTime": _micro_time(told.seen),
            "type": occurrence.type,
            "reason": occurrence.reason,
            "action": occurrence.action,
            "note": cut(occurrence.text),
            "regarding": _regarding(occurrence),
            "reportingController": self._controller,
            "reportingInstance": self._instance,
            **repeats,
        }


def namespace_of(occurrence: Occurrence) -> str:
    """Where the Event lives: with its object, ``default`` for an object without namespace."""
    return occurrence.namespace or "default"


def _series(told: _Told, count: int) -> Mapping[str, object]:
    return {"count": count, "lastObservedTime": _micro_time(told.seen)}


def _regarding(occurrence: Occurrence) -> Mapping[str, str]:
    fields = {"apiVersion": "v1", "kind": occurrence.kind, "name": occurrence.name}
    if occurrence.namespace:
        fields["namespace"] = occurrence.namespace
    return {**fields, "uid": occurrence.uid or occurrence.name}


def _micro_time(at: datetime.datetime) -> str:
    return at.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
