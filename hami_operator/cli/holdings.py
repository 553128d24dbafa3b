"""Every card of a cluster with what is taken of it and by whom, counted as the scheduler counts.

Reads Nodes and pods as the API gives them through the scheduler's own nodes and ledger, so that
what people see is what placement sees.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from hami_operator.devices import registry, usage
from hami_operator.protocol import instant, register
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
        slots: how many of its containers share the card at a time.
        memory_mib: MiB.
        cores: in the unit of the row.
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
        cores: its cores.
        cores_used: what is given away.
        healthy: what its plugin says.
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
    return tuple(holding for name in sorted(known) for holding in _of_node(name, known, ledger))


def _of_node(name: str, known: nodes.Nodes, ledger: ledgers.Ledger) -> Iterator[Holding]:
    standings = known.standings(name)
    closed = ledger.closed(name)
    for word in sorted(standings.keys() | set(ledger.words(name))):
        standing = standings.get(word)
        cards = standing.inventory.cards if standing else ()
        taken = dict(ledger.card_usage(name, word))
        owners = _owners(ledger, name, word)
        because = standing.because.words if standing and standing.because else ""
        if word in closed:
            because = f"the decision of {', '.join(closed[word])} cannot be read"
        for card in cards:
            used = taken.pop(card.id, usage.UNUSED)
            yield _holding((name, word), card, used, owners.get(card.id, ()), because)
        for id, used in taken.items():
            stray = register.Card(id=id, healthy=False)
            yield _holding((name, word), stray, used, owners[id], _STRAY)


def _owners(ledger: ledgers.Ledger, node: str, word: str) -> Mapping[str, tuple[Owner, ...]]:
    owners: dict[str, tuple[Owner, ...]] = {}
    for entry in ledger.entries() if word in ledger.words(node) else ():
        if entry.node != node:
            continue
        for card, used in entry.usage.get(word, {}).items():
            owner = Owner(
                pod=f"{entry.namespace}/{entry.name}",
                slots=used.used,
                memory_mib=used.memory_mib,
                cores=used.cores,
                foreign=entry.foreign,
            )
            owners[card] = (*owners.get(card, ()), owner)
    return owners


def _holding(
    place: tuple[str, str],
    card: register.Card,
    used: usage.Usage,
    owners: tuple[Owner, ...],
    because: str,
) -> Holding:
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
        cores=card.cores,
        cores_used=used.cores,
        healthy=card.healthy,
        available=not because,
        because=because,
        owners=owners,
    )
