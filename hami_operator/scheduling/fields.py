"""Typed access to API objects as JSON gives them; what is odd is noted, never raised."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar

import orjson

from hami_operator import errors

Item = TypeVar("Item")

EMPTY: Final[Mapping[str, Any]] = MappingProxyType({})


def empty() -> Mapping[str, Any]:
    """``EMPTY``, as a default of frozen values."""
    return EMPTY


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One field of an object that cannot be what it is.

    Attributes:
        field: path inside the object, e.g. ``spec.containers[0].resources.requests[cpu]``.
        problem: what is wrong with it, to be read after the path.
    """

    field: str
    problem: str

    def __str__(self) -> str:
        return f"{self.field}: {self.problem}"


class Fields:
    """Reads the fields of one object and gathers findings; ``null`` counts as absent."""

    __slots__ = ("_findings",)

    def __init__(self) -> None:
        self._findings: list[Finding] = []

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was odd so far, each once, in the order of reading."""
        return tuple(dict.fromkeys(self._findings))

    def note(self, field: str, problem: str) -> None:
        """Add a finding."""
        self._findings.append(Finding(field=field, problem=problem))

    def mapping(self, parent: Mapping[str, Any], key: str, path: str) -> Mapping[str, Any]:
        """A nested object; empty if absent or of another type."""
        value = parent.get(key)
        if isinstance(value, dict):
            return value
        return self._as_mapping(value, f"{path}{key}")

    def items(
        self, parent: Mapping[str, Any], key: str, path: str
    ) -> Iterable[tuple[str, Mapping[str, Any]]]:
        """The objects of a list, each with its path; entries of another type are left out."""
        value = parent.get(key)
        if value is None:
            return ()
        if not isinstance(value, list | tuple):
            self.note(f"{path}{key}", "is not a list")
            return ()
        return self._objects(value, f"{path}{key}") if value else ()

    def _objects(
        self, listed: Iterable[Any], field: str
    ) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for index, item in enumerate(listed):
            place = f"{field}[{index}]"
            if type(item) is dict or isinstance(item, Mapping):  # the first is much the cheaper
                yield place, item
            else:
                self.note(place, "is not an object")

    def text(self, parent: Mapping[str, Any], key: str, path: str) -> str:
        """A text; empty if absent or of another type."""
        value = parent.get(key)
        if isinstance(value, str):
            return value
        if value is not None:
            self.note(f"{path}{key}", "is not a text")
        return ""

    def integer(self, parent: Mapping[str, Any], key: str, path: str) -> int:
        """An integer; 0 if absent or of another type."""
        value = parent.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if value is not None:
            self.note(f"{path}{key}", "is not an integer")
        return 0

    def boolean(self, parent: Mapping[str, Any], key: str, path: str) -> bool:
        """A boolean; False if absent or of another type."""
        value = parent.get(key)
        if value is not None and not isinstance(value, bool):
            self.note(f"{path}{key}", "is neither true nor false")
        return value is True

    def texts(self, parent: Mapping[str, Any], key: str, path: str) -> Mapping[str, str]:
        """A map of texts, such as labels; entries of another type are left out."""
        value = self.mapping(parent, key, path)
        if not value:
            return EMPTY
        found = {name: text for name, text in value.items() if isinstance(text, str)}
        if len(found) != len(value):
            self._note_texts(value, f"{path}{key}")
        return found

    def _note_texts(self, value: Mapping[str, Any], field: str) -> None:
        for name, text in value.items():
            if not isinstance(text, str):
                self.note(f"{field}[{name}]", "is not a text")

    def _as_mapping(self, value: object, field: str) -> Mapping[str, Any]:
        if value is None:
            return EMPTY
        if isinstance(value, Mapping):
            return value
        self.note(field, "is not an object")
        return EMPTY


Reader = Callable[[Any, str, Fields], Item]
"""(a part of an object, its path, where to note what is odd) → what it says."""


def recalled(read: Reader[Item], *, most: int) -> Reader[Item]:
    """A reader that knows again what it has read, by its text; for parts that many objects share.

    What is odd is read anew each time, since a finding names the place.

    Args:
        read: makes an item that nobody can change.
        most: how many items are kept.
    """

    @functools.lru_cache(maxsize=most)
    def plain(text: bytes) -> Item:
        found = Fields()
        item = read(orjson.loads(text), "", found)
        if found.findings:
            raise errors.DecodeError("", "findings", "are there")
        return item

    def again(raw: Any, path: str, found: Fields) -> Item:
        try:
            return plain(orjson.dumps(raw))
        except (orjson.JSONEncodeError, errors.DecodeError):  # no JSON, or odd
            return read(raw, path, found)

    return again
