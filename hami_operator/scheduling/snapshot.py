"""What one scheduling cycle sees: every node with its cards and what is taken of both.

A view, not a copy of the cluster: a node is put together again only after it changed, at a cost
that grows with its own cards alone.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from hami_operator import errors
from hami_operator.devices import usage
from hami_operator.scheduling import fields
from hami_operator.scheduling import ledger as ledgers
from hami_operator.scheduling import node as records
from hami_operator.scheduling import nodes as registered


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Totals:
    """Sums over all usable cards of a node, of all types: what the node score counts with."""

    used: int = 0
    count: int = 0
    cores: int = 0
    total_cores: int = 0
    memory_mib: int = 0
    total_memory_mib: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class NodeView:
    """One node in one cycle.

    Attributes:
        node: its record.
        cards: word to its cards in the order of (index, id), for usable types only.
        unavailable: word to why it takes no new pods, for types that the node has all the same.
        requested: ordinary resources that its pods hold: cpu in thousandths, else whole units.
        pod_count: how many pods these are.
        base: sums over ``cards``.
        version: no two views of any two nodes bear the same; a later view bears a higher one.
    """

    node: records.Node
    cards: Mapping[str, tuple[usage.CardUsage, ...]] = dataclasses.field(
        default_factory=fields.empty
    )
    unavailable: Mapping[str, errors.Reason] = dataclasses.field(default_factory=fields.empty)
    requested: Mapping[str, int] = dataclasses.field(default_factory=fields.empty)
    pod_count: int = 0
    base: Totals = Totals()
    version: int = 0

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.name


class Snapshot:
    """All nodes in name order, brought up to date each time it is looked at.

    Args:
        nodes: where records, cards and availability come from.
        ledger: where usage comes from.
    """

    def __init__(self, nodes: registered.Nodes, ledger: ledgers.Ledger) -> None:
        self._nodes = nodes
        self._ledger = ledger
        self._names: list[str] = []
        self._views: list[NodeView] = []
        self._sequence: tuple[NodeView, ...] | None = ()
        self._version = 0
        self._rebuilt = 0

    def views(self) -> tuple[NodeView, ...]:
        """Every node, in the order of the names; the same object while nothing changes."""
        self._refresh()
        if self._sequence is None:
            self._sequence = tuple(self._views)
        return self._sequence

    def view(self, name: str) -> NodeView | None:
        """One node; None if it is not known."""
        self._refresh()
        at = bisect.bisect_left(self._names, name)
        found = at < len(self._names) and self._names[at] == name
        return self._views[at] if found else None

    @property
    def names(self) -> tuple[str, ...]:
        """The names, sorted."""
        self._refresh()
        return tuple(self._names)

    @property
    def version(self) -> int:
        """Grows with every view that is put together; equal means that nothing changed."""
        self._refresh()
        return self._version

    @property
    def rebuilt(self) -> int:
        """How many views were put together so far; for tests and benchmarks."""
        return self._rebuilt

    def __iter__(self) -> Iterator[NodeView]:
        return iter(self.views())

    def __len__(self) -> int:
        self._refresh()
        return len(self._names)

    def _refresh(self) -> None:
        changed = {*self._nodes.take_changed(), *self._ledger.take_changed()}
        for name in changed:
            self._renew(name)
        if changed:
            self._sequence = None

    def _renew(self, name: str) -> None:
        at = bisect.bisect_left(self._names, name)
        known = at < len(self._names) and self._names[at] == name
        record = self._nodes.get(name)
        self._version += 1
        if record is None:
            if known:
                del self._names[at], self._views[at]
            return
        self._rebuilt += 1
        view = put_together(record, self._nodes, self._ledger, self._version)
        if known:
            self._views[at] = view
        else:
            self._names.insert(at, name)
            self._views.insert(at, view)


def totals(cards: Mapping[str, tuple[usage.CardUsage, ...]]) -> Totals:
    """The sums over all cards."""
    used = count = cores_used = total_cores = memory_mib = total_memory_mib = 0
    for each in itertools.chain.from_iterable(cards.values()):
        card, taken = each.card, each.usage
        used += taken.used
        count += card.count
        cores_used += taken.cores
        total_cores += card.cores
        memory_mib += taken.memory_mib
        total_memory_mib += card.memory_mib
    return Totals(
        used=used,
        count=count,
        cores=cores_used,
        total_cores=total_cores,
        memory_mib=memory_mib,
        total_memory_mib=total_memory_mib,
    )


def put_together(
    record: records.Node, nodes: registered.Nodes, ledger: ledgers.Ledger, version: int
) -> NodeView:
    """A node with what a ledger has booked on it: the one that is true, or one that supposes."""
    closed = ledger.closed(record.name)
    cards: dict[str, tuple[usage.CardUsage, ...]] = {}
    unavailable: dict[str, errors.Reason] = {}
    for word, standing in nodes.standings(record.name).items():
        if standing.because is not None:
            unavailable[word] = standing.because
        elif word in closed:
            unavailable[word] = errors.Reason.DECISION_UNREADABLE
        else:
            cards[word] = ledger.standing(record.name, word, standing.inventory.cards)
    requested, pod_count = ledger.requested(record.name)
    return NodeView(
        node=record,
        cards=MappingProxyType(cards),
        unavailable=MappingProxyType(unavailable),
        requested=MappingProxyType(dict(requested)),
        pod_count=pod_count,
        base=totals(cards),
        version=version,
    )
