"""Switches of a simulated fleet as lines of text: ``die sim-01 NVIDIA``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from hami_operator import errors, settings
from hami_operator.simulator import fleet

Switch = Callable[[fleet.Fleet, str, str, str], Awaitable[None]]
"""Fleet, node, type, and what follows."""


def _card(simulated: fleet.Fleet, node: str, word: str, number: str) -> str:
    """The id of the card with that number."""
    ids = {str(card.index): card.id for card in simulated.plugin(node, word).cards}
    if number not in ids:
        raise errors.SettingsError(f"{node} {word}", f"{number!r} is none of {', '.join(ids)}")
    return ids[number]


def _whole(text: str) -> int:
    if not text.isdecimal():
        raise errors.SettingsError("amount", f"{text!r} is not a whole number")
    return int(text)


SWITCHES: Final[Mapping[str, tuple[str, Switch]]] = {
    "die": ("", lambda all, node, word, _: all.die(node, word)),
    "crash": ("", lambda all, node, word, _: all.die(node, word, noticed=True)),
    "revive": ("", lambda all, node, word, _: all.revive(node, word)),
    "slow": (
        "DURATION",
        lambda all, node, word, rest: all.slow(
            node, word, settings.duration_s(rest, field="duration")
        ),
    ),
    "fail": ("TIMES", lambda all, node, word, rest: all.fail_next(node, word, times=_whole(rest))),
    "lose": ("CARD", lambda all, *at: all.lose(*at[:2], _card(all, *at))),
    "find": ("CARD", lambda all, *at: all.find(*at[:2], _card(all, *at))),
    "sicken": ("CARD", lambda all, *at: all.sicken(*at[:2], _card(all, *at))),
    "heal": ("CARD", lambda all, *at: all.heal(*at[:2], _card(all, *at))),
    "offer": ("AMOUNT", lambda all, node, word, rest: all.offer(node, word, _whole(rest))),
    "restore": ("", lambda all, node, word, _: all.offer(node, word, None)),
}
"""Word to what follows node and type, and what it does; cards are numbered from 0."""


def usage() -> str:
    """All switches, a line each."""
    return "\n".join(f"{word} NODE TYPE {rest}".rstrip() for word, (rest, _) in SWITCHES.items())


async def turn(simulated: fleet.Fleet, line: str) -> None:
    """Do what a line says.

    Raises:
        errors.SettingsError: it says nothing that can be done.
    """
    word, *given = line.split()
    rest, switch = SWITCHES.get(word, ("", None))
    if switch is None or len(given) != 2 + bool(rest):
        raise errors.SettingsError(line.strip(), f"not a switch; these are:\n{usage()}")
    node, name, *more = given
    await switch(simulated, node, name, *(more or [""]))
