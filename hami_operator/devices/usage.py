"""How much of a card is given away."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from hami_operator.protocol import decision, register


@dataclasses.dataclass(frozen=True, slots=True)
class Usage:
    """What the pods on a card hold together.

    Attributes:
        used: slots taken.
        memory_mib: MiB taken.
        cores: cores taken, in the unit of the row.
        pods: annotations of the pods on the card, for rows whose hooks look at neighbours.
    """

    used: int = 0
    memory_mib: int = 0
    cores: int = 0
    pods: tuple[Mapping[str, str], ...] = ()

    def add(self, pick: decision.Pick) -> Usage:
        """The usage with one more pick on the card."""
        return Usage(
            self.used + 1,
            self.memory_mib + pick.memory_mib,
            self.cores + pick.cores,
            self.pods,
        )

    def remove(self, pick: decision.Pick) -> Usage:
        """The usage without the pick; never below zero, so that an undo may come twice."""
        return Usage(
            max(self.used - 1, 0),
            max(self.memory_mib - pick.memory_mib, 0),
            max(self.cores - pick.cores, 0),
            self.pods,
        )


UNUSED = Usage()
"""A card that nobody is on."""


@dataclasses.dataclass(frozen=True, slots=True)
class CardUsage:
    """A card and what is taken of it: a candidate of the fit."""

    card: register.Card
    usage: Usage = UNUSED
