"""Every card of a cluster with what is taken of it and by whom, counted as the scheduler counts.

Reads Nodes and pods as the API gives them through the scheduler's own nodes and ledger, so that
what people see is what placement sees.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from hami_operator.devices import account, registry, usage, vendor
from hami_operator.protocol import decision, instant, register
from hami_operator.scheduling import ledger as ledgers
from hami_operator.scheduling import node as records
from hami_operator.scheduling import nodes, pod

Raw = Mapping[str, Any]
_STRAY: Final = "the card is not registered"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Owner:
    """A pod on a card, with what it takes of it.

    Attributes:
        pod: namespace and name.
        slots: how many of the card's slots it takes.
        memory_mib: MiB.
        cores: as users count them.
        foreign: another scheduler decided it.
    """

    pod: str
    slots: int
    memory_mib: int
    cores: int
    foreign: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Holding:
    """One card.

    Attributes:
        node: where it is.
        type: keyword of its vendor's row.
        id: as registered.
        index: ordinal on the node.
        model: product name.
        slots: containers that it can serve at a time.
        slots_used: those that it serves.
        memory_mib: its memory.
        memory_used_mib: what is given away.
        cores: its cores, as users count them (not in compute units, not as a mask).
        cores_used: what is given away.
        healthy: what its plugin says; false also where nobody knows what is left of it.
        available: whether the type takes new pods on this node.
        because: why not, in words; empty where it does.
        owners: the pods on it.
    """

    node: str
    type: str
    id: str
    index: int
    model: str
    slots: int
    slots_used: int
    memory_mib: int
    memory_used_mib: int
    cores: int
    cores_used: int
    healthy: bool
    available: bool
    because: str
    owners: tuple[Owner, ...]


def read(
    found_nodes: Iterable[Raw],
    found_pods: Iterable[Raw],
    rows: registry.Registry,
    *,
    device_timeout_s: float,
    now: instant.Instant,
) -> tuple[Holding, ...]:
    """All cards, by node, type and index; ids that are in use but not registered come last.

    Args:
        found_nodes: Nodes as the API gives them.
        found_pods: pods as the API gives them.
        rows: the vendor rows.
        device_timeout_s: age at which an unanswered question makes a type unavailable.
        now: the present; ages count from the time in the question.
    """
    known = nodes.Nodes(rows, device_timeout_s)
    for raw in found_nodes:
        known.seen(records.read(raw), now, at_start=True)
    known.expire(now)
    ledger = ledgers.Ledger(rows)
    for one in map(pod.read, found_pods):
        if one.node_name:
            ledger.observe(one, ours=True)
    books = Books(rows, known, ledger)
    return tuple(
        holding
        for name in sorted(known)
        for word in books.words(name)
        for holding in (*books.cards(name, word), *books.strays(name, word))
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Books:
    """What the scheduler knows, card by card.

    Attributes:
        rows: the vendor rows.
        known: cards and availability.
        ledger: usage.
        raw: tell cores in the unit of the row: some count in compute units, some by a mask.
    """

    rows: registry.Registry
    known: nodes.Nodes
    ledger: ledgers.Ledger
    raw: bool = False

    def words(self, node: str) -> list[str]:
        """Device types that a node has, or of which pods hold something there; sorted."""
        return sorted({*self.known.standings(node), *self.ledger.words(node)})

    def cards(self, node: str, word: str) -> Iterator[Holding]:
        """The registered cards of a type, usable or not."""
        standing = self.known.standings(node).get(word)
        if standing is None:
            return
        listed = standing.inventory.cards
        owners = self._owners(node, word, {card.id: card for card in listed})
        because = self._because(node, word, standing)
        for each in self.ledger.standing(node, word, listed):
            mine = owners.get(each.card.id, ())
            yield self._holding((node, word), each, mine, because)

    def strays(self, node: str, word: str) -> Iterator[Holding]:
        """Cards of a type that pods hold and no register names."""
        listed = {card.id for card in self.known.cards_of(node, word)}
        strays = [id for id in self.ledger.held(node, word) if id not in listed]
        if not strays:
            return
        taken, owners = self.ledger.card_usage(node, word), self._owners(node, word, {})
        for id in strays:
            stray = usage.CardUsage(register.Card(id=id, healthy=False), taken[id])
            yield self._holding((node, word), stray, owners[id], _STRAY)

    def _because(self, node: str, word: str, standing: nodes.Standing) -> str:
        closers = self.ledger.closed(node).get(word, ())
        if closers:
            return f"the decision of {', '.join(closers)} cannot be read"
        return standing.because.words if standing.because else ""

    def _owners(
        self, node: str, word: str, cards: Mapping[str, register.Card]
    ) -> Mapping[str, tuple[Owner, ...]]:
        owners: dict[str, tuple[Owner, ...]] = {}
        for entry in self.ledger.on(node):
            held = entry.usage.get(word, {})
            mine = [cards.get(id) or register.Card(id=id) for id in held]
            for each in self.ledger.share(entry.uid, word, mine) if mine else ():
                id = each.card.id
                owner = self._owner(word, entry, each, cards.get(id))
                owners[id] = (*owners.get(id, ()), owner)
        return owners

    def _owner(
        self,
        word: str,
        entry: ledgers.Entry,
        each: usage.CardUsage,
        card: register.Card | None,
    ) -> Owner:
        return Owner(
            pod=f"{entry.namespace}/{entry.name}",
            slots=each.usage.used,
            memory_mib=each.usage.memory_mib,
            cores=self._cores(self.rows.by_word[word], each.usage.cores, card),
            foreign=entry.foreign,
        )

    def _holding(
        self,
        place: tuple[str, str],
        each: usage.CardUsage,
        owners: tuple[Owner, ...],
        because: str,
    ) -> Holding:
        card, used = each.card, each.usage
        row, known = self.rows.by_word[place[1]], None if because == _STRAY else card
        return Holding(
            node=place[0],
            type=place[1],
            id=card.id,
            index=card.index,
            model=card.model,
            slots=card.count,
            slots_used=used.used,
            memory_mib=card.memory_mib,
            memory_used_mib=used.memory_mib,
            cores=self._cores(row, card.cores, known) if known else 0,
            cores_used=self._cores(row, used.cores, known),
            healthy=card.healthy,
            available=not because,
            because=because,
            owners=owners,
        )

    @property
    def _cores(self) -> Callable[[vendor.Vendor, int, register.Card | None], int]:
        return _plain if self.raw else cores


def _plain(row: vendor.Vendor, amount: int, card: register.Card | None) -> int:
    return amount


def cores(row: vendor.Vendor, amount: int, card: register.Card | None) -> int:
    """Cores of a card as users count them; None for a card that is not registered."""
    pick = decision.Pick(id="", memory_mib=0, cores=amount)
    return account.metered(row, pick, card).cores
