"""Storages that store nothing, so that kopf leaves no trace on anybody's objects (D12)."""

from __future__ import annotations

from typing import Any

import kopf


class NoDiffBase(kopf.DiffBaseStorage):
    """Keeps no last-handled configuration; also spares a deep copy of every object."""

    def build(self, *, body: Any, extra_fields: Any = None) -> Any:
        """Nothing is compared with anything."""
        return {}

    def fetch(self, *, body: Any) -> Any:
        """Nothing was stored."""
        return None

    def store(self, *, body: Any, patch: Any, essence: Any) -> None:
        """Nothing is stored."""


class NoProgress(kopf.ProgressStorage):
    """Keeps no progress of handlers and writes no annotation to wake itself up."""

    def fetch(self, *, key: Any, body: Any) -> Any:
        """Nothing was stored."""
        return None

    def store(self, *, key: Any, record: Any, body: Any, patch: Any) -> None:
        """Nothing is stored."""

    def purge(self, *, key: Any, body: Any, patch: Any) -> None:
        """Nothing is there to be removed."""

    def touch(self, *, body: Any, patch: Any, value: Any) -> None:
        """Nobody is woken."""

    def clear(self, *, essence: Any) -> Any:
        """Nothing of ours is in it."""
        return essence
