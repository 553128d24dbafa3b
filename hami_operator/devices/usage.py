"""How much of a card is given away."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from hami_operator.protocol import decision, register

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclasses.dataclass(frozen=True, slots=True)
class Usage:
    """What the pods on a card hold together.

    Attributes:
        used: slots taken.
        memory_mib: MiB taken.
        cores: cores taken, in the unit of the row.
        pods: annotations of the pods on the card, for rows whose hooks look at neighbours.
        places: where instances lie on a partitioned card.
    """

    used: int = 0
    memory_mib: int = 0
    cores: int = 0
    pods: tuple[Mapping[str, str], ...] = ()
    places: tuple[register.Placement, ...] = ()

    def add(self, pick: decision.Pick) -> Usage:
        """The usage with one more pick on the card."""
        return Usage(
            self.used + 1,
            self.memory_mib + pick.memory_mib,
            self.cores + pick.cores,
            self.pods,
            self.places,
        )

    def remove(self, pick: decision.Pick) -> Usage:
        """The usage without the pick; never below zero, so that an undo may come twice."""
        return Usage(
            max(self.used - 1, 0),
            max(self.memory_mib - pick.memory_mib, 0),
            max(self.cores - pick.cores, 0),
            self.pods,
            self.places,
        )


UNUSED = Usage()
"""A card that nobody is on."""


@dataclasses.dataclass(frozen=True, slots=True)
class CardUsage:
    """A card and what is taken of it: a candidate of the fit."""

    card: register.Card
    usage: Usage = UNUSED


Account = Callable[[Usage, decision.Pick], Usage]
"""(usage of a card, a pick on it) → the usage with the pick."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Holder:
    """A pod that holds cards of one backend on a node, for rows that count in their own way.

    Attributes:
        annotations: of the pod.
        slots: what it holds of the backend, per container.
        note: what the row has noted about it when it was counted.
        recount: card id to what the pod takes of it, its init containers considered, if a pick
            adds to a card as the given function says.
    """

    annotations: Mapping[str, str] = dataclasses.field(default_factory=lambda: _NOTHING)
    slots: decision.Slots = ()
    note: Any = None
    recount: Callable[[Account], Mapping[str, Usage]] = dataclasses.field(compare=False)
