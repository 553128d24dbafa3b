"""Objects that were read before, found again by their own text.

A file of requests mostly shows one cluster over and over; what equal text says is the same each
time, so it need not be worked out again. Only what is met a second time is kept, since a file may
as well show something new on each line. Bounded: what was not met for long goes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import orjson

Item = TypeVar("Item")


class Recall(Generic[Item]):
    """Remembers what a reader made of objects.

    Args:
        read: makes an item of an object as the JSON parser gave it; equal objects make equal
            items, and nobody changes an item.
        most: how many items are kept, at least; never more than twice as many.
    """

    def __init__(self, read: Callable[[Mapping[str, Any]], Item], most: int) -> None:
        self._read = read
        self._most = most
        self._known: dict[bytes, Item] = {}
        self._older: dict[bytes, Item] = {}
        self._met: set[int] = set()

    def __call__(self, raw: Mapping[str, Any]) -> Item:
        """The item of an object."""
        mark = _identity(raw)
        if mark is not None and not self._is_met(mark):
            return self._read(raw)
        try:
            text = orjson.dumps(raw)
        except orjson.JSONEncodeError:  # it writes less deeply than it reads
            return self._read(raw)
        found = self._known.get(text)
        if found is None:
            found = self._older.get(text) or self._read(raw)
            if self._is_met(hash(text)):
                self._keep(text, found)
        return found

    def __len__(self) -> int:
        """How many items are kept."""
        return len(self._known.keys() | self._older.keys())

    def _is_met(self, mark: int) -> bool:
        """Whether the mark was there before, as far as that is known; it is now."""
        if mark in self._met:
            return True
        if len(self._met) >= 4 * self._most:
            self._met.clear()
        self._met.add(mark)
        return False

    def _keep(self, text: bytes, item: Item) -> None:
        if len(self._known) >= self._most:
            self._known, self._older = {}, self._known
        self._known[text] = item


def _identity(raw: Mapping[str, Any]) -> int | None:
    """What most likely differs where objects do, and costs far less than their text."""
    meta = raw.get("metadata")
    if not isinstance(meta, dict):
        return None
    try:
        return hash((meta.get("uid"), meta.get("resourceVersion"), meta.get("name")))
    except TypeError:  # these are no texts
        return None
