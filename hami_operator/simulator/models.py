"""What there is to know of a product to play its device plugin, beside its vendor's row."""

from __future__ import annotations

import dataclasses
import enum
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from hami_operator.protocol import decision, register

_IDS: Final = uuid.UUID("7c9e6a52-0f6f-4c1c-9d8e-3c1a5b0d2f41")

Cards = Sequence[register.Card]
Measure = Callable[[decision.Pick], int]
"""How much of what kubelet asked for a pick is."""


class Shown(enum.Enum):
    """How a plugin publishes its cards."""

    SEVEN = "a register of seven text fields"
    NINE = "a register of nine text fields"
    JSON = "a register in JSON"
    OWN = "a list in a form of the vendor's own"
    CAPACITY = "capacity of the node alone"


def each(pick: decision.Pick) -> int:
    """Kubelet asks for so many cards."""
    return 1


def nothing_special(index: int) -> Mapping[str, Any]:
    """A card with no facts but the usual."""
    return register.NOTHING


def no_notes(cards: Cards) -> tuple[str, ...]:
    """A plugin that writes nothing else on its node."""
    return ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Model:
    """One product.

    Attributes:
        word: keyword of the vendor's row.
        shown: how its plugin publishes it.
        product: model text of the register.
        prefix: what its card ids begin with.
        count: how many containers may share a card.
        memory_mib: memory of a card.
        cores: cores of a card, in the unit of the row.
        mode: mode text of the register.
        legacy: an old plugin, which uses the row's older handshake key.
        offers: what kubelet offers of a card, by names in `vendor.Resources`; its slots unless
            said otherwise.
        asked: by what a container asks the plugin, likewise, the first that it names counting,
            and how much of it a pick is; None where a pick does not tell.
        limited: its plugin brings the library into containers that holds them to their share.
        profiles: sizes of the instances of a partitioned card.
        facts: what the register says more of the card with an index (``custominfo``).
        listed: the list in the vendor's own form.
        notes: values of the row's further node annotations (`vendor.NodeKeys.extra`), in order.
        labels: labels of its nodes.
    """

    word: str
    shown: Shown
    product: str = ""
    prefix: str = ""
    count: int = 10
    memory_mib: int = 0
    cores: int = 100
    mode: str = ""
    legacy: bool = False
    offers: Mapping[str, int] = dataclasses.field(default_factory=dict)
    asked: Mapping[str, Measure | None] = dataclasses.field(default_factory=lambda: BY_CARDS)
    limited: bool = False
    profiles: tuple[register.Profile, ...] = ()
    facts: Callable[[int], Mapping[str, Any]] = nothing_special
    listed: Callable[[Cards], str] | None = None
    notes: Callable[[Cards], tuple[str, ...]] = no_notes
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def cards(self, node: str, number: int) -> tuple[register.Card, ...]:
        """Cards with ids that are the same in every run and differ between nodes."""
        return tuple(
            register.Card(
                id=f"{self.prefix}-{uuid.uuid5(_IDS, f'{node}/{self.word}/{index}')}",
                index=index,
                count=self.count,
                memory_mib=self.memory_mib,
                cores=self.cores,
                model=self.product,
                numa=2 * index // max(number, 2),
                mode=self.mode,
                mig_profiles=self.profiles,
                custom=self.facts(index),
            )
            for index in range(number)
        )


BY_CARDS: Final[Mapping[str, Measure | None]] = {"count": each}
"""The usual way: kubelet asks for so many cards, and the decision has as many."""
