"""The register value: the cards of one type on one node, in three encodings.

Seven text fields, nine text fields (``,index,mode``) or a JSON array, told apart per value. What
cannot be read is left out and reported; it never takes well-formed entries with it.
"""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from hami_operator.protocol import fields

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Placement:
    """Where an instance may lie on a partitioned card: ``[start, start + size)``."""

    start: int
    size: int


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Profile:
    """A size of instance that a partitioned card can have, with the places it may take."""

    name: str
    memory_mib: int
    cores: int
    slices: int
    placements: tuple[Placement, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Card:
    """One device of a node.

    Attributes:
        id: unique in node and row; without separators and control characters.
        index: ordinal on the node, -1 where unknown.
        count: how many containers may share the card.
        memory_mib: its memory, as the plugin scales it.
        cores: its cores, mostly 100 for percent; the row may use another unit.
        model: product name, for type selection only (``type`` on the wire).
        numa: NUMA node, -1 where unknown: a group of its own.
        mode: how it is shared, where the vendor has several ways.
        healthy: false takes no new pods.
        mig_profiles: instance sizes of a partitioned card.
        custom: free facts for the row's hooks (``custominfo`` on the wire).
    """

    id: str
    index: int = -1
    count: int = 0
    memory_mib: int = 0
    cores: int = 0
    model: str = ""
    numa: int = 0
    mode: str = ""
    healthy: bool = True
    mig_profiles: tuple[Profile, ...] = ()
    custom: Mapping[str, Any] = dataclasses.field(default_factory=lambda: NOTHING, hash=False)


class Form(enum.Enum):
    """How a value is written."""

    EMPTY = "empty"
    JSON = "json"
    TEXT = "text"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """A malformed entry.

    Attributes:
        entry: its position in the value, from 0, empty pieces not counted.
        field: the first bad field by its wire name, or ``fields`` or ``json``.
    """

    entry: int
    field: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Register:
    """What a value says: well-formed cards by (index, id), and what could not be read."""

    form: Form
    cards: tuple[Card, ...] = ()
    findings: tuple[Finding, ...] = ()


_EMPTY: Final = Register(form=Form.EMPTY)
_Entry = Mapping[str, Any] | str  # wire fields still to be read, or the name of what is wrong


Refine = Callable[[Card], Card | str]
"""A card → the card as its backend takes it, or the wire name of what is wrong with it."""


def decode(value: str | None, refine: Refine | None = None) -> Register:
    """Read a register value; None is an annotation that is not there. Never raises."""
    text = (value or "").strip()
    if text == "null" or not text.strip(":"):
        return _EMPTY
    if not text.startswith("["):
        return _collect(Form.TEXT, _text_entries(text), fields.TEXT_READERS, refine)
    entries = _json_entries(text)
    return _collect(Form.JSON, entries, fields.JSON_READERS, refine) if entries else _EMPTY


def _text_entries(text: str) -> Iterator[_Entry]:
    for position, piece in enumerate(filter(None, text.split(":"))):
        parts = piece.split(",")
        if len(parts) == 7:
            parts += [str(position), "hami-core"]
        named = dict(zip(fields.WIRE_ORDER, parts, strict=False))
        yield named if len(parts) == 9 else "fields"


def _json_entries(text: str) -> Sequence[_Entry]:
    try:
        parsed = fields.parse_json(text)
    except (ValueError, RecursionError):
        return ["json"]
    return [fields.folded(item) if isinstance(item, dict) else "json" for item in parsed]


def _collect(
    form: Form,
    entries: Iterable[_Entry],
    readers: Mapping[str, Callable[[Any], Any]],
    refine: Refine | None,
) -> Register:
    cards: dict[str, Card] = {}
    findings = []
    for position, entry in enumerate(entries):
        read = entry if isinstance(entry, str) else _card(entry, readers)
        if isinstance(read, Card) and read.id in cards:
            read = "id"
        if isinstance(read, Card) and refine is not None:
            read = refine(read)
        if isinstance(read, str):
            findings.append(Finding(entry=position, field=read))
        else:
            cards[read.id] = read
    ordered = sorted(cards.values(), key=lambda card: (card.index, card.id))
    return Register(form=form, cards=tuple(ordered), findings=tuple(findings))


def _card(entry: Mapping[str, Any], readers: Mapping[str, Callable[[Any], Any]]) -> Card | str:
    """The card, or the wire name of its first bad field."""
    values: dict[str, Any] = {}
    get = entry.get
    for field, read in readers.items():
        value = values[field] = read(get(field))
        if value is None:
            return field
    return Card(
        id=values["id"],
        index=values["index"],
        count=values["count"],
        memory_mib=values["devmem"],
        cores=values["devcore"],
        model=values["type"],
        numa=values["numa"],
        mode=values["mode"],
        healthy=values["health"],
        mig_profiles=tuple(map(_profile, values["migProfiles"])) if "migProfiles" in entry else (),
        custom=MappingProxyType(values["custominfo"]) if values.get("custominfo") else NOTHING,
    )


def _profile(raw: Mapping[str, Any]) -> Profile:
    return Profile(
        name=raw["name"],
        memory_mib=raw["memoryMB"],
        cores=raw["core"],
        slices=raw["sliceCount"],
        placements=tuple(Placement(**place) for place in raw["placements"]),
    )


def encode(cards: Sequence[Card], form: Form, *, width: int = 7) -> str:
    """Write cards as a device plugin does; the operator itself never writes a register.

    Args:
        cards: in the order of the value.
        form: the encoding.
        width: 7 or 9 text fields; with 7 the index is the position and the mode is lost.

    Raises:
        ValueError: a text field of the card cannot be written in this form.
    """
    if form is Form.JSON:
        return json.dumps([_json(card) for card in cards], separators=(",", ":"))
    return "".join(_text(card, width) for card in cards)


def _text(card: Card, width: int) -> str:
    health = "true" if card.healthy else "false"
    amounts = f"{card.count},{card.memory_mib},{card.cores}"
    parts = f"{card.id},{amounts},{card.model},{card.numa},{health}"
    if width == 9:
        parts += f",{card.index},{card.mode}"
    if ":" in parts or parts.count(",") != width - 1:
        raise ValueError(f"{card!r} cannot be written in {width} text fields")
    return f"{parts}:"


def _json(card: Card) -> Mapping[str, Any]:
    """The object, zero values left out as plugins do."""
    values = {
        "id": card.id,
        "index": card.index,
        "count": card.count,
        "devmem": card.memory_mib,
        "devcore": card.cores,
        "type": card.model,
        "numa": card.numa,
        "mode": card.mode,
        "migProfiles": [_json_profile(profile) for profile in card.mig_profiles],
        "health": card.healthy,
        "custominfo": dict(card.custom),
    }
    return {name: value for name, value in values.items() if value}


def _json_profile(profile: Profile) -> Mapping[str, Any]:
    return {
        "name": profile.name,
        "memoryMB": profile.memory_mib,
        "core": profile.cores,
        "sliceCount": profile.slices,
        "placements": [dataclasses.asdict(place) for place in profile.placements],
    }
