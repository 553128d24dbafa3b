"""Devices that a node lists in a vendor's own JSON, by the rules of registers in JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from hami_operator.devices import vendor
from hami_operator.protocol import fields, register

Readers = Mapping[str, Callable[[Any], Any]]
"""Name on the wire → reader of its value, None where that is malformed; in the order of blame."""
Build = Callable[[int, Mapping[str, Any]], register.Card | str]
"""Position of an entry and its fields → its card, or the name of a bad field."""

IDENTITY: Final = fields.JSON_READERS["id"]
NUMBER: Final = fields.JSON_READERS["count"]
NUMBER_OR_UNKNOWN: Final = fields.JSON_READERS["numa"]
TEXT: Final = fields.JSON_READERS["type"]
BOOLEAN: Final = fields.JSON_READERS["health"]


def parse(value: str | None) -> Any:
    """The parsed value, None where nothing is there, `UNREADABLE` where it is not JSON."""
    text = (value or "").strip()
    try:
        return fields.parse_json(text) if text.strip(":") else None
    except (ValueError, RecursionError):
        return UNREADABLE


def found(row: vendor.Vendor, listed: Any, readers: Readers, build: Build) -> vendor.Found | None:
    """What a node has of the row, well-formed devices and findings; None for an empty list.

    Args:
        row: whose list it is.
        listed: the list, as it was parsed; anything else cannot be read.
        readers: of the fields that matter; names are matched without regard to case.
        build: makes the card of an entry.
    """
    if listed in (None, []):
        return None
    if isinstance(listed, list):
        cards, findings = _cards(listed, readers, build)
    else:
        cards, findings = (), (register.Finding(entry=0, field=UNREADABLE),)
    return vendor.Found(
        key=row.node.listed,
        allocatable=row.resources.count,
        cards=cards,
        findings=findings,
    )


def _cards(
    entries: Sequence[Any], readers: Readers, build: Build
) -> tuple[tuple[register.Card, ...], tuple[register.Finding, ...]]:
    found: dict[str, register.Card] = {}
    findings: list[register.Finding] = []
    first = next(iter(readers))
    for position, entry in enumerate(entries):
        read = _fields(entry, readers)
        card = read if isinstance(read, str) else build(position, read)
        if isinstance(card, register.Card) and card.id in found:
            card = first
        if isinstance(card, str):
            findings.append(register.Finding(entry=position, field=card))
        else:
            found[card.id] = card
    ordered = sorted(found.values(), key=lambda card: (card.index, card.id))
    return tuple(ordered), tuple(findings)


def _fields(entry: Any, readers: Readers) -> Mapping[str, Any] | str:
    """The values by name, or the name of the first that is malformed."""
    if not isinstance(entry, Mapping):
        return UNREADABLE
    given = {str(key).casefold(): value for key, value in entry.items()}
    values = {}
    for name, read in readers.items():
        values[name] = read(given.get(name.casefold()))
        if values[name] is None:
            return name
    return values


UNREADABLE: Final = "json"
"""Field of a finding for a value, or an entry, that has not the shape of one at all."""
