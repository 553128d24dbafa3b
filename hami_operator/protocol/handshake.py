"""The handshake value: what it means, and what the next tick does about it.

The sides take turns: the scheduler writes ``Requesting_<time>``, the plugin overwrites it with an
answer. A value that stays ``Requesting_`` for too long is a plugin that has died.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import re
from collections.abc import Mapping
from typing import Final

_ASKED: Final = "Requesting"
_BURIED: Final = "Deleted"
_READABLE: Final = re.compile(
    r"Requesting_(\d{4})([.-])(\d\d)\2(\d\d) (\d\d):(\d\d):(\d\d)", re.ASCII
)


class Kind(enum.Enum):
    """What a handshake value says."""

    ABSENT = "absent"
    REQUESTING = "requesting"
    UNREADABLE = "unreadable"
    TOMBSTONE = "tombstone"
    ANSWER = "answer"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Transition:
    """What follows from a value.

    Attributes:
        ask: the next tick writes a fresh ``Requesting_``.
        can_expire: the value, when it stays, makes the type unavailable.
    """

    ask: bool
    can_expire: bool


TRANSITIONS: Final[Mapping[Kind, Transition]] = {
    Kind.ABSENT: Transition(ask=True, can_expire=False),
    # Never refreshed: its age is the time since the last answer.
    Kind.REQUESTING: Transition(ask=False, can_expire=True),
    Kind.UNREADABLE: Transition(ask=True, can_expire=False),
    Kind.TOMBSTONE: Transition(ask=True, can_expire=False),
    Kind.ANSWER: Transition(ask=True, can_expire=False),
}


def classify(value: str | None) -> Kind:
    """What ``value`` says; None is an annotation that is not there."""
    if value is None:
        return Kind.ABSENT
    if value.startswith(_ASKED):
        return Kind.UNREADABLE if requested_at(value) is None else Kind.REQUESTING
    return Kind.TOMBSTONE if value.startswith(_BURIED) else Kind.ANSWER


def requested_at(value: str | None) -> datetime.datetime | None:
    """The time in a readable ``Requesting_`` value, taken as UTC; None for any other value."""
    found = _READABLE.fullmatch(value or "")
    if found is None:
        return None
    year, _, month, day, hour, minute, second = found.groups()
    date = f"{year}-{month}-{day}T{hour}:{minute}:{second}+00:00"
    try:
        return datetime.datetime.fromisoformat(date)
    except ValueError:
        return None


def encode(wall: datetime.datetime) -> str:
    """``Requesting_2006.01.02 15:04:05`` in UTC, whatever zone ``wall`` is in."""
    utc = wall.astimezone(datetime.UTC)
    return f"{_ASKED}_{utc.year:04}.{utc:%m.%d %H:%M:%S}"
