"""What would be on one node if some of its pods were gone, or others were there."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

from hami_operator.devices import registry as registries
from hami_operator.protocol import decision
from hami_operator.scheduling import ledger, outcomes, rank, snapshot
from hami_operator.scheduling import nodes as registered
from hami_operator.scheduling import pod as pods

Judge = Callable[[frozenset[str], ledger.Ledger], outcomes.Judge]
"""(UIDs of pods that are gone, what is then held) → who judges the incoming pod."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Guest:
    """A pod that is not on the node, and is to be counted there all the same."""

    pod: pods.Pod
    slots: Mapping[str, decision.Slots]


def suppose(
    view: snapshot.NodeView,
    entries: Iterable[ledger.Entry],
    guests: Iterable[Guest],
    *,
    nodes: registered.Nodes,
    registry: registries.Registry,
) -> snapshot.NodeView:
    """The node of ``view`` as it would be with these entries and guests, and nobody else."""
    books = ledger.Ledger(registry)
    for entry in entries:
        books.put(entry)
    for guest in guests:
        books.assume(guest.pod, view.name, guest.slots)
    return snapshot.put_together(view.node, nodes, books, view.version)


class Bench:
    """One node, from which pods can be taken; the truth is not touched.

    Args:
        view: the node as it is.
        entries: what is held on it, and whatever else counts for quotas.
        movable: the pods that may be taken, the most important first.
        guests: who is to be counted as well.
        nodes: where cards and availability come from.
        registry: the device types.
        words: the device types that the incoming pod asks for.
        judge: gives who judges.
        empties: some of its pods are leaving, and count no more.

    Attributes:
        movable: the pods that may be taken.
        empties: as given.
    """

    def __init__(
        self,
        view: snapshot.NodeView,
        entries: Iterable[ledger.Entry],
        movable: Sequence[pods.Pod],
        guests: Iterable[Guest],
        *,
        nodes: registered.Nodes,
        registry: registries.Registry,
        words: Iterable[str],
        judge: Judge,
        empties: bool = False,
    ) -> None:
        self.empties = empties
        self.movable = sorted(movable, key=rank.importance)
        self._view = view
        self._nodes = nodes
        self._words = tuple(words)
        self._judge = judge
        self._books = ledger.Ledger(registry)
        self._gone = frozenset(pod.uid for pod in movable)
        self._entries: dict[str, ledger.Entry] = {}
        for entry in entries:
            if entry.uid in self._gone:
                self._entries[entry.uid] = entry
            else:
                self._books.put(entry)
        for guest in guests:
            self._books.assume(guest.pod, view.name, guest.slots)

    @property
    def node(self) -> str:
        """The node's name."""
        return self._view.name

    @property
    def groups(self) -> tuple[frozenset[str], ...]:
        """UIDs of movable pods that share a card of a type that is asked for, card by card."""
        found: dict[tuple[str, str], set[str]] = {}
        for uid, entry in self._entries.items():
            for word in self._words:
                for card in entry.usage.get(word, ()):
                    found.setdefault((word, card), set()).add(uid)
        return tuple(frozenset(found[key]) for key in sorted(found))

    def share(self, uid: str) -> Hashable:
        """How much a movable pod holds of how many cards, and of everything else."""
        entry = self._entries[uid]
        cards = (one for each in entry.usage.values() for one in each.values())
        shares = sorted((one.used, one.memory_mib, one.cores) for one in cards)
        return tuple(shares), frozenset(entry.requests.items())

    def fits(self, gone: frozenset[str]) -> bool:
        """Whether the incoming pod would fit if these were gone and all others there."""
        return self.fitting(gone) is not None

    def fitting(self, gone: frozenset[str]) -> outcomes.Fitting | None:
        """The cards that it would get; None where it does not fit."""
        for uid in gone - self._gone:
            self._books.gone(uid)
        for uid in self._gone - gone:
            self._books.put(self._entries[uid])
        self._gone = gone
        view = snapshot.put_together(self._view.node, self._nodes, self._books, self._view.version)
        fitting, _ = self._judge(gone, self._books).all((view,))
        return fitting.get(view.name)
