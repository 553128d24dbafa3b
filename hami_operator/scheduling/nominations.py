"""Who was promised room on which node, and how others see that room taken.

A promise is kept against pods of lower priority, and against those of the same priority that
come later; more important ones may take the room. It ends when the pod is bound or gone.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Mapping
from types import MappingProxyType

from hami_operator.devices import registry as registries
from hami_operator.protocol import decision
from hami_operator.scheduling import ledger, snapshot, whatif
from hami_operator.scheduling import nodes as registered
from hami_operator.scheduling import pod as pods


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Nomination:
    """A promise.

    Attributes:
        pod: to whom.
        node: where.
        slots: the cards that it would get; empty where that is not known.
    """

    pod: pods.Pod
    node: str
    slots: Mapping[str, decision.Slots]

    def is_for(self, node: str, slots: Mapping[str, decision.Slots]) -> bool:
        """Whether it is about this node and these cards."""
        return (self.node, self.slots) == (node, slots)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Saved:
    """All promises of a moment, to be restored."""

    known: Mapping[str, Nomination]
    ended: tuple[Nomination, ...]


class Nominations:
    """All promises, by pod and by node.

    Args:
        registry: the device types.
        nodes: where cards and availability come from.
        books: what is held; a pod that holds its room already needs no promise.
    """

    def __init__(
        self, registry: registries.Registry, nodes: registered.Nodes, books: ledger.Ledger
    ) -> None:
        self._registry = registry
        self._nodes = nodes
        self._books = books
        self._known: dict[str, Nomination] = {}
        self._on: dict[str, dict[str, Nomination]] = {}
        self._ended: list[Nomination] = []
        self._views: dict[
            tuple[str, tuple[str, ...]], tuple[snapshot.NodeView, snapshot.NodeView]
        ] = {}

    def put(self, pod: pods.Pod, node: str, slots: Mapping[str, decision.Slots]) -> None:
        """Promise a pod room on a node, instead of any other that it was promised."""
        before = self.drop(pod.uid)
        made = Nomination(pod=pod, node=node, slots=slots)
        if before is not None and before.is_for(node, slots):
            self._ended.remove(before)
        self._known[pod.uid] = made
        self._on.setdefault(node, {})[pod.uid] = made

    def drop(self, uid: str) -> Nomination | None:
        """End a promise; returns what it was."""
        found = self._known.pop(uid, None)
        if found is not None:
            del self._on[found.node][uid]
            if not self._on[found.node]:
                del self._on[found.node]
            self._forget_views(found.node)
            self._ended.append(found)
        return found

    def take_ended(self) -> tuple[Nomination, ...]:
        """Promises that hold since the last call no more: others may have that room now."""
        ended = tuple(self._ended)
        self._ended.clear()
        return ended

    def save(self) -> Saved:
        """All promises as they are."""
        return Saved(known=dict(self._known), ended=tuple(self._ended))

    def restore(self, saved: Saved) -> None:
        """Make it that moment again."""
        self._known = dict(saved.known)
        self._ended = list(saved.ended)
        self._on = {}
        for uid, one in self._known.items():
            self._on.setdefault(one.node, {})[uid] = one
        self._views.clear()

    def get(self, uid: str) -> Nomination | None:
        """What a pod was promised."""
        return self._known.get(uid)

    def on(self, node: str) -> tuple[Nomination, ...]:
        """What was promised on a node."""
        return tuple(self._on.get(node, {}).values())

    def guests(self, node: str, pod: pods.Pod) -> tuple[whatif.Guest, ...]:
        """Who holds a promise there against ``pod``, and does not hold the room yet."""
        return tuple(
            whatif.Guest(pod=one.pod, slots=one.slots)
            for one in self.on(node)
            if one.pod.uid != pod.uid
            and one.pod.priority >= pod.priority
            and one.pod.uid not in self._books
        )

    def against(self, pod: pods.Pod) -> tuple[tuple[pods.Pod, str], ...]:
        """All who hold a promise against ``pod``, with the node, and do not hold the room yet."""
        found = ((guest.pod, node) for node in self._on for guest in self.guests(node, pod))
        return tuple(found)

    def over(
        self, views: tuple[snapshot.NodeView, ...], pod: pods.Pod
    ) -> tuple[snapshot.NodeView, ...]:
        """The nodes as ``pod`` is to see them, in the same order.

        Args:
            views: as they are, in the order of names.
            pod: the pod to be placed.
        """
        changed = {}
        for node in self._on:
            at = bisect.bisect_left(views, node, key=lambda view: view.name)
            if at == len(views) or views[at].name != node:
                continue
            guests = self.guests(node, pod)
            if guests:
                changed[at] = self._view(views[at], guests)
        if not changed:
            return views
        return tuple(changed.get(at, view) for at, view in enumerate(views))

    def room(
        self, views: tuple[snapshot.NodeView, ...], pod: pods.Pod
    ) -> tuple[snapshot.NodeView, ...]:
        """The node that ``pod`` was promised, without the cards of those types that it was not.

        None where it was promised no cards. Others may have been promised those that are free.
        """
        promise = self._known.get(pod.uid)
        if promise is None or not promise.slots:
            return ()
        return tuple(_narrowed(view, promise) for view in views if view.name == promise.node)

    def _view(
        self, view: snapshot.NodeView, guests: tuple[whatif.Guest, ...]
    ) -> snapshot.NodeView:
        """The same object while nothing changes: answers are remembered by it."""
        key = view.name, tuple(guest.pod.uid for guest in guests)
        base, made = self._views.get(key, (None, None))
        if base is view and made is not None:
            return made
        entries = self._books.on(view.name)
        made = whatif.suppose(view, entries, guests, nodes=self._nodes, registry=self._registry)
        self._views[key] = view, made
        return made

    def _forget_views(self, node: str) -> None:
        for key in [key for key in self._views if key[0] == node]:
            del self._views[key]


def _narrowed(view: snapshot.NodeView, promise: Nomination) -> snapshot.NodeView:
    cards = dict(view.cards)
    for word, slots in promise.slots.items():
        ids = {pick.id for slot in slots for pick in slot}
        cards[word] = tuple(one for one in view.cards.get(word, ()) if one.card.id in ids)
    return dataclasses.replace(view, cards=MappingProxyType(cards))
