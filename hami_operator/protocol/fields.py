"""Readers of single register fields: a value of the right shape, or None where it is malformed.

One table per encoding, keyed by the name on the wire and in the order in which a malformed entry
names its first bad field.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import orjson

from hami_operator.protocol import decision

WIRE_ORDER: Final = (
    "id",
    "count",
    "devmem",
    "devcore",
    "type",
    "numa",
    "health",
    "index",
    "mode",
)
TRUE_WORDS: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
FALSE_WORDS: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})

_DIGITS: Final = re.compile("0*([0-9]{1,10})")


def identity(value: object) -> str | None:
    """A card id: not empty, and free of whatever a decision could not carry."""
    if not isinstance(value, str) or not value or decision.FORBIDDEN.search(value):
        return None
    return value


def _digits(text: str) -> int | None:
    if len(text) < 10 and text.isascii() and text.isdigit():  # most are; a match costs more
        return int(text)
    found = _DIGITS.fullmatch(text)
    return _number(int(found[1])) if found else None


def _digits_or_unknown(text: str) -> int | None:
    return -1 if text == "-1" else _digits(text)


def _spelled_boolean(text: str) -> bool | None:
    return True if text in TRUE_WORDS else False if text in FALSE_WORDS else None


def _number(value: object) -> int | None:
    """A JSON number of 32 bits without sign; absent means 0."""
    if value is None:
        return 0
    return value if type(value) is int and 0 <= value <= decision.INT32_MAX else None


def _number_or_unknown(value: object) -> int | None:
    return -1 if type(value) is int and value == -1 else _number(value)


def _boolean(value: object) -> bool | None:
    if value is None:
        return False
    return value if isinstance(value, bool) else None


def _text(value: object) -> str | None:
    if value is None:
        return ""
    return value if isinstance(value, str) else None


def _object(value: object) -> Mapping[str, Any] | None:
    if value is None:
        return {}
    return value if isinstance(value, dict) else None


def _list_of(readers: Mapping[str, Callable[[Any], Any]]) -> Callable[[object], Any]:
    """A reader of lists of objects, each read by ``readers``; None if any part is malformed."""

    def read(value: object) -> Any:
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            return None
        rows = [
            {name: part(item.get(name)) for name, part in readers.items()}
            for item in map(folded, value)
        ]
        complete = all(part is not None for row in rows for part in row.values())
        return tuple(rows) if complete else None

    return read


def _positive(value: object) -> int | None:
    return _number(value) or None


_PLACEMENT: Final[Mapping[str, Callable[[Any], Any]]] = {"start": _number, "size": _positive}
_PROFILE: Final[Mapping[str, Callable[[Any], Any]]] = {
    "name": identity,
    "memoryMB": _number,
    "core": _number,
    "sliceCount": _number,
    "placements": _list_of(_PLACEMENT),
}

TEXT_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "id": identity,
    "count": _digits,
    "devmem": _digits,
    "devcore": _digits,
    "type": _text,
    "numa": _digits_or_unknown,
    "health": _spelled_boolean,
    "index": _digits_or_unknown,
    "mode": _text,
}

JSON_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "id": identity,
    "count": _number,
    "devmem": _number,
    "devcore": _number,
    "type": _text,
    "numa": _number_or_unknown,
    "health": _boolean,
    "index": _number_or_unknown,
    "mode": _text,
    "migProfiles": _list_of(_PROFILE),
    "custominfo": _object,
}


def parse_json(text: str) -> list[Any]:
    """Parse a text that begins with ``[``, and so is an array if it is JSON at all.

    Every number that is no plain integer of reasonable length becomes a float, which no field
    accepts. Of a repeated key the last stays, also in place.

    Raises:
        ValueError: not JSON.
        RecursionError: nested too deeply.
    """
    if (plain := _plain_json(text)) is not None:
        return plain
    parsed: list[Any] = json.loads(
        text, parse_int=_integer, parse_constant=_refuse, object_pairs_hook=_last_wins
    )
    return parsed


def _plain_json(text: str) -> list[Any] | None:
    """The same by a parser that is much faster, where there is but one way to read the text.

    What comes out as it went in had no repeated keys, no odd numbers and no escapes. Long numbers
    only matter inside of what is passed on unread; no field of ours takes one.
    """
    try:
        parsed: list[Any] = orjson.loads(text)
        same = orjson.dumps(parsed) == text.encode()
    except (ValueError, TypeError):  # not JSON, or too deep to be written
        return None
    is_flat = type(parsed) is list and text.count("{") <= len(parsed)
    return parsed if same and (is_flat or not _LONG_NUMBER.search(text)) else None


_LONG_NUMBER: Final = re.compile("[0-9]{11}")


def folded(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """The object with the keys that we know in our spelling, since case does not count."""
    if item.keys() <= _SPELLED:
        return item
    return {_SPELLINGS.get(key.casefold(), key): value for key, value in item.items()}


_SPELLED: Final = frozenset({*JSON_READERS, *_PROFILE, *_PLACEMENT})
_SPELLINGS: Final = {key.casefold(): key for key in _SPELLED}


def _integer(text: str) -> int | float:
    return int(text) if len(text) <= 11 and text != "-0" else float(text)


def _refuse(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


def _last_wins(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, value in pairs:
        kept.pop(key, None)
        kept[key] = value
    return kept
