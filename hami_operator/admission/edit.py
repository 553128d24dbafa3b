"""Changes of JSON documents, and JSON Patches (RFC 6902) that say what has changed.

A change builds new containers along its path and shares all the rest with the old document, so
nothing that we do not know is ever copied, and what is untouched is seen by identity.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

Operation = dict[str, Any]
Path = tuple[str, ...]


def put(document: Any, path: Path, value: Any) -> Any:
    """The document with a value at a path of keys; objects that are missing or null are made."""
    if not path:
        return value
    first, *rest = path
    found = dict(document) if document else {}
    found[first] = put(found.get(first), tuple(rest), value)
    return found


def drop(document: Any, path: Path) -> Any:
    """The document without what is at a path of keys; harmless where nothing is."""
    first, *rest = path
    if not document or first not in document:
        return document
    found = dict(document)
    if rest:
        found[first] = drop(found[first], tuple(rest))
    else:
        del found[first]
    return found


def patch(before: Any, after: Any) -> list[Operation]:
    """The operations that turn one JSON document into the other, as few as identity shows."""
    operations: list[Operation] = []
    _compare(before, after, "", operations)
    return operations


def _compare(before: Any, after: Any, path: str, operations: list[Operation]) -> None:
    if before is after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        _compare_objects(before, after, path, operations)
    elif isinstance(before, list) and isinstance(after, list):
        _compare_lists(before, after, path, operations)
    elif type(before) is not type(after) or before != after:
        operations.append({"op": "replace", "path": path, "value": after})


def _compare_objects(
    before: dict[str, Any], after: dict[str, Any], path: str, operations: list[Operation]
) -> None:
    for key, value in before.items():
        inside = f"{path}/{_escaped(key)}"
        if key in after:
            _compare(value, after[key], inside, operations)
        else:
            operations.append({"op": "remove", "path": inside})
    for key, value in after.items():
        if key not in before:
            operations.append({"op": "add", "path": f"{path}/{_escaped(key)}", "value": value})


def _compare_lists(
    before: list[Any], after: list[Any], path: str, operations: list[Operation]
) -> None:
    """Items that are the same objects stay; between them items are changed, removed, added."""
    at = 0
    for old, new in _gaps(before, after):
        shared = min(len(old), len(new))
        for one, other in zip(old, new, strict=False):
            _compare(one, other, f"{path}/{at}", operations)
            at += 1
        operations.extend({"op": "remove", "path": f"{path}/{at}"} for _ in old[shared:])
        for value in new[shared:]:
            operations.append({"op": "add", "path": f"{path}/{at}", "value": value})
            at += 1
        at += 1  # the item that both have


def _gaps(
    before: Sequence[Any], after: Sequence[Any]
) -> Iterator[tuple[Sequence[Any], Sequence[Any]]]:
    """What lies before, between and behind the items that both lists share, in their order."""
    places: dict[int, list[int]] = {}
    for place in reversed(range(len(before))):
        places.setdefault(id(before[place]), []).append(place)
    old, new = 0, 0
    for number, item in enumerate(after):
        known = places.get(id(item), [])
        while known and known[-1] < old:
            known.pop()
        if known:
            place = known.pop()
            yield before[old:place], after[new:number]
            old, new = place + 1, number + 1
    yield before[old:], after[new:]


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
