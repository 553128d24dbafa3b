"""Writes off the critical path: a bounded queue in which each key waits once."""

from __future__ import annotations

import asyncio
import collections
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class Outbox(Generic[Key]):
    """Keys whose writes are due, oldest first; a full outbox drops its oldest key.

    The key says *what* is to be written; the writer looks up the newest content when its turn
    comes, so ten changes of one object while it waits cost one write.
    """

    def __init__(
        self,
        write: Callable[[Key], Awaitable[None]],
        *,
        limit: int,
        dropped: Callable[[Key], None],
    ) -> None:
        self._write = write
        self._limit = limit
        self._dropped = dropped
        self._due: collections.OrderedDict[Key, None] = collections.OrderedDict()
        self._filled = asyncio.Event()
        self._writing: set[Key] = set()
        self._again: set[Key] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    def __len__(self) -> int:
        return len(self._due)

    def __contains__(self, key: Key) -> bool:
        return key in self._due

    def put(self, key: Key) -> None:
        """Queue a key; it keeps its place if it waits already. Never blocks.

        A key that is being written waits for the end of that: two writes of one key never
        overlap.
        """
        if key in self._writing:
            self._again.add(key)
            return
        if key not in self._due and len(self._due) >= self._limit:
            oldest, _ = self._due.popitem(last=False)
            self._dropped(oldest)
        self._due[key] = None
        self._filled.set()

    async def work(self) -> None:
        """Write for ever; several of these may run side by side."""
        while True:
            await self._filled.wait()
            await self._write_next()
            if not self._due:
                self._filled.clear()

    async def drain(self, limit_s: float) -> bool:
        """Write what is due, workers or not, for ``limit_s`` seconds; whether all went out."""
        try:
            async with asyncio.timeout(limit_s):
                while self._due or self._writing:
                    await self._write_next()
                    await self._idle.wait()
        except TimeoutError:
            return False
        return True

    async def _write_next(self) -> None:
        if not self._due:
            return
        key, _ = self._due.popitem(last=False)
        self._writing.add(key)
        self._idle.clear()
        try:
            await self._write(key)
        except asyncio.CancelledError:
            self._again.add(key)  # left for `drain`, which comes after the workers
            raise
        finally:
            self._finish(key)

    def _finish(self, key: Key) -> None:
        self._writing.remove(key)
        if not self._writing:
            self._idle.set()
        if key in self._again:
            self._again.remove(key)
            self.put(key)
