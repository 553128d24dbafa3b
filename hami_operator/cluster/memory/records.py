"""What the store holds of one kind: the objects, and a window of their latest changes."""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Mapping
from typing import Any, Final

import orjson

from hami_operator.cluster.memory import events, refusals, resources, selectors

Key = tuple[str, str]
"""(namespace, name); the namespace of a cluster-scoped object is the empty text."""

METADATA_ONLY: Final = b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":'


class Record:
    """One version of one object. Neither it nor what it holds is ever changed in place.

    Attributes:
        obj: the object without kind and apiVersion; Events have the shape of core/v1.
        version: its resourceVersion.
        valid: its metadata passed validation (what a Binding merged in has not).
    """

    __slots__ = ("_encoded", "obj", "valid", "version")

    def __init__(self, obj: dict[str, Any], version: int, *, valid: bool = True) -> None:
        self.obj = obj
        self.version = version
        self.valid = valid
        self._encoded: dict[str, bytes] = {}

    @property
    def key(self) -> Key:
        """Where the store keeps it."""
        return key_of(self.obj)

    @property
    def uid(self) -> str:
        """The UID of the object."""
        uid: str = self.obj["metadata"]["uid"]
        return uid

    def item(self, resource: resources.Resource) -> bytes:
        """The object as JSON without kind and apiVersion, as in a list; encoded only once."""
        body = self._encoded.get(resource.name)
        if body is None:
            shown = events.to_new(self.obj) if resource is resources.NEW_EVENTS else self.obj
            body = self._encoded[resource.name] = orjson.dumps(shown)
        return body

    def json(self, resource: resources.Resource) -> bytes:
        """The object as JSON."""
        head = f'{{"kind":"{resource.kind}","apiVersion":"{resource.api_version}",'
        return head.encode() + self.item(resource)[1:]

    def metadata_json(self) -> bytes:
        """The object as PartialObjectMetadata; encoded only once."""
        body = self._encoded.get("metadata")
        if body is None:
            body = METADATA_ONLY + orjson.dumps(self.obj["metadata"]) + b"}"
            self._encoded["metadata"] = body
        return body

    def copy(self, resource: str | resources.Resource) -> dict[str, Any]:
        """A copy of the object, with kind and apiVersion, that the caller may change."""
        parsed: dict[str, Any] = orjson.loads(self.json(resources.find(resource)))
        return parsed


def key_of(obj: Mapping[str, Any]) -> Key:
    """Where the store keeps the object."""
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def stamped(obj: Mapping[str, Any], version: int) -> dict[str, Any]:
    """The object with this resourceVersion."""
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(version)}}


@dataclasses.dataclass(frozen=True, slots=True)
class WatchEvent:
    """One event of a watch: ``ADDED``, ``MODIFIED`` or ``DELETED``."""

    type: str
    record: Record


class Change:
    """One write: the record before (None: created) and after (for a removal: its last state)."""

    __slots__ = ("_departed", "after", "before", "removed", "version")

    def __init__(self, before: Record | None, after: Record, *, removed: bool = False) -> None:
        self.version = after.version
        self.before = before
        self.after = after
        self.removed = removed
        self._departed: Record | None = None

    def seen(self, selector: selectors.Selector) -> WatchEvent | None:
        """What a watch with this selector shows of the change; None: nothing.

        An object that leaves the selection is shown as ``DELETED`` with its content before the
        change and the version of the change, as the API server does: so the event does not tell
        why it left.
        """
        was = self.before is not None and selector.matches(self.before.obj)
        if not self.removed and selector.matches(self.after.obj):
            return WatchEvent("MODIFIED" if was else "ADDED", self.after)
        if not was:
            return None
        return WatchEvent("DELETED", self.after if self.removed else self._departure())

    def _departure(self) -> Record:
        if self._departed is None:
            before = self.before.obj if self.before is not None else self.after.obj
            self._departed = Record(stamped(before, self.version), self.version)
        return self._departed


class Bucket:
    """The objects of one kind, and the latest changes of them.

    Args:
        window: how many changes are kept at least; a watch that wants to start before them
            has expired.
    """

    def __init__(self, *, window: int) -> None:
        self.records: dict[Key, Record] = {}
        self._window = window
        self._changes: list[Change] = []
        self._floor = 0
        self._order: list[Key] | None = None

    def ordered(self, namespace: str = "") -> list[Key]:
        """All keys, or those of one namespace, in the order of a list."""
        if self._order is None:
            self._order = sorted(self.records)
        if not namespace:
            return self._order
        first = bisect.bisect_left(self._order, (namespace, ""))
        end = bisect.bisect_left(self._order, (namespace + "\0", ""))
        return self._order[first:end]

    def write(self, change: Change) -> None:
        """Carry the change out and remember it."""
        key = change.after.key
        if change.removed:
            del self.records[key]
            self._order = None
        else:
            if change.before is None:
                self._order = None
            self.records[key] = change.after
        self._changes.append(change)
        if len(self._changes) > 2 * self._window:
            self._floor = self._changes[-self._window - 1].version
            self._changes = self._changes[-self._window :]

    def changes_after(self, version: int) -> list[Change]:
        """The changes with a higher version, oldest first.

        Raises:
            refusals.Refused: 410, the window does not reach back that far.
        """
        if version < self._floor:
            raise refusals.expired(f"too old resource version: {version} ({self._floor})")
        start = bisect.bisect_right(self._changes, version, key=lambda change: change.version)
        return self._changes[start:]

    def forget(self, version: int) -> None:
        """Forget all changes: a watch from before ``version`` has expired."""
        self._changes.clear()
        self._floor = version
