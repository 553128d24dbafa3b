"""The decision value: which devices each container of a pod gets.

``id,word,memory,cores:`` per device, ``;`` after each container, init containers first. Empty
slots are kept, since the position tells the plugin which container it serves.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from hami_operator import errors

INT32_MAX: Final = 2**31 - 1
MAX_BYTES: Final = 128 * 1024
MAX_DEVICES: Final = 4096

_NUMBER: Final = re.compile(r"[0-9]{1,10}")
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
FORBIDDEN: Final = re.compile("[,:;\\x00-\\x1f\\x7f-\\x9f\\ud800-\\udfff]")
"""What no text field of a decision may hold: separators, control characters, half characters."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Pick:
    """One device given to one container.

    Attributes:
        id: the card.
        memory_mib: MiB of it.
        cores: cores of it, in the unit of the row (mostly percent).
        index: the card's ordinal on its node, -1 where unknown (always after reading).
        custom: what a row's hooks pass on from the fit to the annotations; not in the value.
    """

    id: str
    memory_mib: int
    cores: int
    index: int = -1
    custom: Mapping[str, Any] = dataclasses.field(default_factory=lambda: _NOTHING, hash=False)


Slots = tuple[tuple[Pick, ...], ...]
"""Picks per container: slot i is container i, init containers first."""


def encode(slots: Slots, word: str | Callable[[Pick], str]) -> str:
    """The value for one device type.

    Args:
        slots: one slot for each container of the pod, also those without devices.
        word: second field of every device, or a function that names it per pick.

    Raises:
        ValueError: a number beyond 32 bits or a forbidden character; cards that come from a
            register have neither.
    """
    name = word if callable(word) else lambda _: word
    return "".join("".join(_device(pick, name(pick)) for pick in slot) + ";" for slot in slots)


def _device(pick: Pick, word: str) -> str:
    if not pick.id or FORBIDDEN.search(pick.id) or FORBIDDEN.search(word):
        raise ValueError(f"{pick.id!r} of {word!r} cannot be written into a decision")
    if not (0 <= pick.memory_mib <= INT32_MAX and 0 <= pick.cores <= INT32_MAX):
        raise ValueError(f"{pick!r} holds a number beyond 32 bits")
    return f"{pick.id},{word},{pick.memory_mib},{pick.cores}:"


def decode(text: str, *, key: str) -> Slots:
    """Read a value that anybody may have written.

    Args:
        text: the annotation's value; an empty text is one empty slot.
        key: the annotation, for the error.

    Raises:
        errors.DecodeError: the value is unreadable; no part of it may be believed then.
    """
    if len(text) > MAX_BYTES // 4 and len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise errors.DecodeError(key, "length", f"more than {MAX_BYTES} bytes")
    pieces = text.split(";")
    if len(pieces) > 1 and not pieces[-1]:
        pieces.pop()
    slots = tuple(_slot(piece, key, number) for number, piece in enumerate(pieces))
    if sum(map(len, slots)) > MAX_DEVICES:
        raise errors.DecodeError(key, "length", f"more than {MAX_DEVICES} devices")
    return slots


def _slot(text: str, key: str, number: int) -> tuple[Pick, ...]:
    picks = [_pick(item, key, number) for item in text.split(":") if item]
    return tuple([pick for pick in picks if pick.id])


def _pick(item: str, key: str, slot: int) -> Pick:
    fields = item.split(",")
    if len(fields) < 4:
        raise errors.DecodeError(key, "fields", f"slot {slot} holds {item[:80]!r}")
    memory_mib = _number(fields[2], key, "memory")
    cores = _number(fields[3], key, "cores")
    return Pick(id=fields[0], memory_mib=memory_mib, cores=cores, custom=_NOTHING)


def _number(text: str, key: str, field: str) -> int:
    if len(text) < 10 and text.isascii() and text.isdigit():  # most are; a match costs more
        return int(text)
    if not _NUMBER.fullmatch(text) or int(text) > INT32_MAX:
        raise errors.DecodeError(key, field, f"{text[:80]!r} is not a 32-bit number")
    return int(text)


def unserved(text: str | None, word: str) -> bool:
    """Whether a to-allocate value still holds devices that its plugin has not handed out.

    Only for rows whose plugin erases what it has served; it looks for the word as plugins do.
    """
    return word in (text or "")
