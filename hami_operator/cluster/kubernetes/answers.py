"""What the API server's answers say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from hami_operator import errors
from hami_operator.cluster import ports
from hami_operator.cluster.kubernetes import statuses

_EVENT_TYPES: Final = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK"})


def one_object(data: bytes, *, what: str) -> ports.Raw:
    """Parse an answer.

    Raises:
        errors.Unclear: it is not a JSON object, so nobody knows what happened.
    """
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise errors.Unclear(f"{what}: unreadable answer: {error}") from error
    if not isinstance(found, dict):
        raise errors.Unclear(f"{what}: the answer is not an object")
    return found


def page(found: Mapping[str, Any]) -> ports.Page:
    """One page of a list; a server with an empty list may leave ``items`` null."""
    metadata = found.get("metadata") or {}
    return ports.Page(
        items=found.get("items") or [],
        version=str(metadata.get("resourceVersion") or ""),
        token=str(metadata.get("continue") or ""),
    )


def event(line: bytes, *, what: str) -> tuple[str, ports.Raw]:
    """One event of a watch.

    Raises:
        errors.ApiError: the event is an ``ERROR``; by its code, e.g. `errors.Gone`.
        errors.Gone: it cannot be read, or is of no known type: something was missed, list afresh.
    """
    try:
        found = orjson.loads(line)
        kind, value = found["type"], found["object"]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise errors.Gone(f"{what}: unreadable event: {error}") from error
    if kind == "ERROR" and isinstance(value, dict):
        raise statuses.from_event(value, what=what)
    if kind not in _EVENT_TYPES or not isinstance(value, dict):
        raise errors.Gone(f"{what}: event of unknown type {kind!r}")
    return kind, value


def number(value: object) -> int:
    """A part of the server's version; some vendors write ``35+``."""
    digits = "".join(sign for sign in str(value) if sign in "0123456789")
    return int(digits or "0")
