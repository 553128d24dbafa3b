"""A heap of keyed names from which any name can be taken out again."""

from __future__ import annotations

import heapq
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", bound=tuple[Any, ...])

_SLACK = 64


class Heap(Generic[Key]):
    """Names in the order of their keys; each name at most once.

    Taking a name out only marks it; marked ones are swept when they outnumber the live ones.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[Key, str]] = []
        self._keys: dict[str, Key] = {}

    def push(self, key: Key, name: str) -> None:
        """Put ``name`` in, or move it to another key."""
        self._keys[name] = key
        heapq.heappush(self._heap, (key, name))
        if len(self._heap) > 2 * len(self._keys) + _SLACK:
            self._heap = [(key, name) for name, key in self._keys.items()]
            heapq.heapify(self._heap)

    def discard(self, name: str) -> None:
        """Take ``name`` out, if it is in."""
        self._keys.pop(name, None)

    def first(self) -> Key | None:
        """The smallest key; None if empty."""
        while self._heap:
            key, name = self._heap[0]
            if self._keys.get(name) == key:
                return key
            heapq.heappop(self._heap)
        return None

    def pop(self) -> str | None:
        """Take out the name with the smallest key; None if empty."""
        if self.first() is None:
            return None
        _, name = heapq.heappop(self._heap)
        del self._keys[name]
        return name

    @property
    def held(self) -> int:
        """How many entries are held in memory, marked ones included."""
        return len(self._heap)

    def __len__(self) -> int:
        return len(self._keys)
