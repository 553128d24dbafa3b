"""Who was promised room on which node, and how others see that room taken.

A promise is kept against pods of lower priority, and against those of the same priority that
come later; more important ones may take the room. It ends when the pod is bound or gone.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Mapping

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
        self._views: dict[
            tuple[str, tuple[str, ...]], tuple[snapshot.NodeView, snapshot.NodeView]
        ] = {}

    def put(self, pod: pods.Pod, node: str, slots: Mapping[str, decision.Slots]) -> None:
        """Promise a pod room on a node, instead of any other that it was promised."""
        self.drop(pod.uid)
        made = Nomination(pod=pod, node=node, slots=slots)
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
        return found

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
