"""What is taken of one node, kept as entries of the ledger come and go."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hami_operator.devices import account, usage, vendor
from hami_operator.devices import registry as registries
from hami_operator.scheduling import effective

if TYPE_CHECKING:
    from hami_operator.scheduling import ledger


@dataclasses.dataclass(slots=True)
class Sum:
    """Slots, memory and cores that are taken together."""

    used: int = 0
    memory_mib: int = 0
    cores: int = 0

    def add(self, one: usage.Usage, sign: int) -> bool:
        """Add, or take away; whether more was taken away by now than ever added."""
        self.used += sign * one.used
        self.memory_mib += sign * one.memory_mib
        self.cores += sign * one.cores
        return sign < 0 and (self.used < 0 or self.memory_mib < 0 or self.cores < 0)


@dataclasses.dataclass(slots=True)
class Card(Sum):
    """The same of one card.

    Attributes:
        owners: UIDs of the pods on it, with their annotations.
    """

    owners: dict[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(slots=True)
class Table:
    """The totals of one node.

    Attributes:
        cards: word to card id to what is taken of it.
        requested: ordinary resources.
        uids: the pods.
        closed: word to the UIDs that close it, with their ``namespace/name``.
        holders: word to UID to what a row's own way of counting needs to know of a pod.
    """

    cards: dict[str, dict[str, Card]] = dataclasses.field(default_factory=dict)
    requested: dict[str, int] = dataclasses.field(default_factory=dict)
    uids: dict[str, None] = dataclasses.field(default_factory=dict)
    closed: dict[str, dict[str, str]] = dataclasses.field(default_factory=dict)
    holders: dict[str, dict[str, usage.Holder]] = dataclasses.field(default_factory=dict)

    def count(self, entry: ledger.Entry, sign: int, registry: registries.Registry) -> list[str]:
        """Add an entry, or take it away; the cards of which less than nothing is taken now."""
        if sign > 0:
            self.uids[entry.uid] = None
        else:
            self.uids.pop(entry.uid, None)
        requested = self.requested
        for name, amount in entry.requests.items():
            requested[name] = requested.get(name, 0) + sign * amount
            if not requested[name]:
                del requested[name]
        negative: list[str] = []
        for word, cards in entry.usage.items():
            totals = self.cards.setdefault(word, {})
            for card, one in cards.items():
                if _count_card(totals, card, one, entry, sign):
                    negative.append(card)
            if not totals:
                del self.cards[word]
            row = registry.by_word[word]
            if row.hooks.settle is not None:
                _hold(self.holders.setdefault(word, {}), row, entry, sign)
        for word in entry.unreadable:
            _count_closed(self.closed, word, entry, sign)
        return negative


def _count_card(
    cards: dict[str, Card], card: str, one: usage.Usage, entry: ledger.Entry, sign: int
) -> bool:
    total = cards.get(card)
    if total is None:
        total = cards[card] = Card()
    is_negative = total.add(one, sign)
    if sign > 0:
        total.owners[entry.uid] = entry.annotations
        return is_negative
    total.owners.pop(entry.uid, None)
    if not total.owners:
        del cards[card]
    return is_negative


def _count_closed(
    closed: dict[str, dict[str, str]], word: str, entry: ledger.Entry, sign: int
) -> None:
    closers = closed.setdefault(word, {})
    if sign > 0:
        closers[entry.uid] = f"{entry.namespace}/{entry.name}"
        return
    closers.pop(entry.uid, None)
    if not closers:
        del closed[word]


def _hold(
    holders: dict[str, usage.Holder], row: vendor.Vendor, entry: ledger.Entry, sign: int
) -> None:
    """Keep, or drop, what the row's own way of counting needs to know of a pod."""
    if sign < 0:
        holders.pop(entry.uid, None)
        return
    slots = entry.slots[row.keyword]

    def recount(add: usage.Account) -> Mapping[str, usage.Usage]:
        return effective.effective(slots, entry.kinds, released=entry.released, account=add)

    holders[entry.uid] = usage.Holder(
        annotations=entry.annotations,
        slots=slots,
        note=account.note(row, entry.annotations, slots),
        recount=recount,
    )
