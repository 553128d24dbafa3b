"""Compares the Nodes we know with those that exist, for the watch that lists no deletes.

kopf's watch reports nothing that was deleted while it could not watch, and hides when its first
list is complete. A list of metadata costs a fifth of whole Nodes and tells both.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import structlog

from hami_operator import clock, errors
from hami_operator.cluster import ports
from hami_operator.runtime import reflector

PAGE: Final = 500
LOOK_S: Final = 0.5
"""Pause between two looks whether the watch has caught up."""
PATIENCE: Final = 10
"""Looks without progress after which the watch is not waited for any longer."""
BATCH: Final = 20
"""Nodes read between two looks at what is still missing."""
RETRY_S: Final = 15.0

_log = structlog.get_logger(__name__)


class Known(NamedTuple):
    """UID and resourceVersion of a Node."""

    uid: str
    version: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """What is wrong with our picture.

    Attributes:
        missed: Nodes that exist in a newer version than we know, sorted.
        ghosts: Nodes that we know and that do not exist, sorted.
    """

    missed: tuple[str, ...] = ()
    ghosts: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.missed) + len(self.ghosts)


class Resync:
    """Compares every ``interval_s`` seconds and repairs through the same door as the watch."""

    def __init__(
        self,
        lister: ports.Lister,
        reader: ports.NodeReader,
        *,
        known: Callable[[], Mapping[str, Known]],
        node_event: Callable[[str, ports.Raw], None],
        time: clock.Clock,
        recorder: ports.Recorder,
        interval_s: float = 300.0,
    ) -> None:
        self._lister = lister
        self._reader = reader
        self._known = known
        self._node_event = node_event
        self._time = time
        self._recorder = recorder
        self._interval_s = interval_s
        self._synced = asyncio.Event()

    @property
    def synced(self) -> bool:
        """Whether our picture was once complete."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Wait until the picture was complete once."""
        await self._synced.wait()

    async def run(self) -> None:
        """Compare now and then for ever; a failure is tried again soon."""
        while True:
            try:
                await self.once()
                pause_s = self._interval_s
            except errors.ApiError as error:
                _log.warning("nodes not compared", error=str(error))
                pause_s = min(RETRY_S, self._interval_s)
            await self._time.sleep(pause_s)

    async def once(self) -> Difference:
        """Compare, give the watch time to catch up, and repair what is still different.

        Raises:
            errors.ApiError: the API server could not be asked.
        """
        existing, version = await self._list()
        again = self.synced
        wrong = await self._caught_up(existing, version)
        for name in wrong.ghosts:
            self._bury(name)
        await self._fetch_all(wrong.missed, existing)
        self._synced.set()
        if again:
            self._tell(wrong)
        return wrong

    async def _list(self) -> tuple[dict[str, Known], str]:
        found: dict[str, Known] = {}
        version = token = ""
        while True:
            page = await self._lister.list_page(
                ports.NODES, limit=PAGE, token=token, metadata_only=True
            )
            version = version or page.version
            found.update(_known(raw) for raw in page.items)
            token = page.token
            if not token:
                return found, version

    async def _caught_up(self, existing: Mapping[str, Known], version: str) -> Difference:
        """The difference, once it no longer shrinks by itself."""
        wrong = compare(self._known(), existing, version)
        looks = 0
        while len(wrong) and looks < PATIENCE:
            await self._time.sleep(LOOK_S)
            before, wrong = len(wrong), compare(self._known(), existing, version)
            looks = 0 if len(wrong) < before else looks + 1
        return wrong

    def _bury(self, name: str) -> None:
        known = self._known().get(name)
        if known is not None:
            metadata = {"name": name, "uid": known.uid, "resourceVersion": known.version}
            self._node_event("DELETED", {"metadata": metadata})

    async def _fetch_all(self, names: tuple[str, ...], existing: Mapping[str, Known]) -> None:
        """Read the Nodes that the watch has not brought meanwhile, one after the other."""
        for start in range(0, len(names), BATCH):
            known = self._known()
            for name in names[start : start + BATCH]:
                if _is_missed(known.get(name), existing[name]):
                    await self._fetch(name)

    async def _fetch(self, name: str) -> None:
        try:
            raw = await self._reader.get_node(name)
        except errors.NotFound:
            self._bury(name)
            return
        self._node_event("MODIFIED", raw)

    def _tell(self, wrong: Difference) -> None:
        for kind, names in (("node_missed", wrong.missed), ("node_ghost", wrong.ghosts)):
            if names:
                self._recorder.count("hami_ledger_corrections_total", len(names), kind=kind)
                _log.warning("nodes corrected", kind=kind, nodes=names[:20], count=len(names))


def compare(known: Mapping[str, Known], existing: Mapping[str, Known], version: str) -> Difference:
    """What a list of version ``version`` says about what we know.

    A Node that we know in a version newer than the list, and that is not in it, came meanwhile.
    One of the same name but another UID is gone and a new one exists.
    """
    missed = {name for name, now in existing.items() if _is_missed(known.get(name), now)}
    ghosts = {
        name
        for name, ours in known.items()
        if not reflector.is_newer(ours.version, than=version)
        and (name not in existing or existing[name].uid != ours.uid)
    }
    return Difference(missed=tuple(sorted(missed)), ghosts=tuple(sorted(ghosts)))


def _is_missed(ours: Known | None, now: Known) -> bool:
    return ours is None or reflector.is_newer(now.version, than=ours.version)


def _known(raw: ports.Raw) -> tuple[str, Known]:
    found = raw.get("metadata")
    metadata: Mapping[str, Any] = found if isinstance(found, dict) else {}
    known = Known(
        uid=str(metadata.get("uid") or ""), version=str(metadata.get("resourceVersion") or "")
    )
    return str(metadata.get("name") or ""), known
