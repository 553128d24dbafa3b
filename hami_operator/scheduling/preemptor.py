"""Preemption in the running scheduler: when it is tried, what it orders, what it remembers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from hami_operator import errors
from hami_operator.devices import registry as registries
from hami_operator.scheduling import (
    allocator,
    disruption,
    effects,
    gang,
    ledger,
    nominations,
    preemption,
    rank,
    rejection,
    reports,
    sightings,
    snapshot,
    whatif,
)
from hami_operator.scheduling import nodes as registered
from hami_operator.scheduling import pod as pods

ENOUGH: Final = 100
"""No more nodes are weighed against each other; in large clusters a tenth of all."""

_MIRROR: Final = "kubernetes.io/config.mirror"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What became of one try.

    Attributes:
        text: what follows the reasons of the nodes; empty where it is hoped for.
        nominated: the node to be written on the pod; empty to take it away, None to leave it.
        victims: who is to go.
        displaced: pods of lower priority that have lost their promise on that node.
    """

    text: str = ""
    nominated: str | None = None
    victims: tuple[effects.Evict, ...] = ()
    displaced: tuple[pods.Pod, ...] = ()


NONE: Final = Verdict()
"""It was not tried."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Try:
    """A pod that no node takes.

    Attributes:
        pod: the pod.
        words: the device types that it asks for.
        views: all nodes as it sees them, in the order of names.
        rejections: by node; empty where the pod itself is refused.
        judge: gives who judges it where others are gone.
        quota_held: all that the pods of its namespace hold counts, not only that on the node.
    """

    pod: pods.Pod
    words: frozenset[str]
    views: tuple[snapshot.NodeView, ...]
    rejections: Mapping[str, rejection.Rejection]
    judge: whatif.Judge
    quota_held: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Saved:
    """What a preemptor remembers, to be restored."""

    promises: nominations.Saved
    doomed: Mapping[str, str]
    budgets: disruption.Budgets


class Preemptor:
    """Tries to make room for pods that found none.

    Args:
        registry: the device types.
        nodes: cards and availability.
        books: what is held where.
        seen: the pods as they were last seen.

    Attributes:
        promises: who was promised room.
        budgets: whom to spare.
    """

    def __init__(
        self,
        registry: registries.Registry,
        nodes: registered.Nodes,
        books: ledger.Ledger,
        seen: sightings.Sightings,
    ) -> None:
        self._registry = registry
        self._nodes = nodes
        self._books = books
        self._seen = seen
        self._doomed: dict[str, str] = {}
        self._turn = 0
        self.promises = nominations.Nominations(registry, nodes, books)
        self.budgets = disruption.Budgets()

    def run(self, wanted: Try) -> Verdict:
        """Choose victims for a pod, and promise it the room that they will leave."""
        pod = wanted.pod
        if not pod.rank.preempts:
            return Verdict(text=preemption.NEVER)
        if self._waits(wanted):
            self._learn_cards(wanted)
            return Verdict(text=preemption.WAITING)
        nodes = [view.name for view in wanted.views]
        benches = self._benches(wanted)
        enough = max(ENOUGH, len(nodes) // 10)
        best, helpless = preemption.choose(benches, self.budgets, enough=enough)
        if best is None:
            before = self.promises.drop(pod.uid)
            hopeful = (name for name, one in wanted.rejections.items() if one.resolvable)
            text = preemption.explain(nodes, helpless.union(hopeful))
            promised = before is not None or pod.rank.nominated_node
            return Verdict(text=text, nominated="" if promised else None)
        return self._promise(wanted, best)

    def spared(self, uid: str) -> str:
        """The pod stays, since its end could not be ordered; for whom it should have gone."""
        return self._doomed.pop(uid, "")

    def gone(self, uid: str) -> None:
        """The pod is gone: nobody waits for its end, and it waits for nobody's."""
        self._doomed.pop(uid, None)
        self.promises.drop(uid)

    def save(self) -> Saved:
        """All that `run` changes."""
        promises = self.promises.save()
        return Saved(promises=promises, doomed=dict(self._doomed), budgets=self.budgets)

    def restore(self, saved: Saved) -> None:
        """Undo every `run` since."""
        self.promises.restore(saved.promises)
        self._doomed = dict(saved.doomed)
        self.budgets = saved.budgets

    def charge(self, verdict: Verdict) -> None:
        """Let the budgets allow less by the victims of this verdict."""
        victims = (self._seen.get(one.pod.uid) for one in verdict.victims)
        self.budgets = self.budgets.after(pod for pod in victims if pod is not None)

    def restart(self, waiting: Iterable[pods.Pod]) -> None:
        """A new term begins: what the last one promised, and whose end it ordered, is on the pods.

        Args:
            waiting: the pods that have no node.
        """
        self._doomed.clear()
        for pod in waiting:
            self.promises.drop(pod.uid)
            if pod.rank.nominated_node:
                self.promises.put(pod, pod.rank.nominated_node, {})

    def _waits(self, wanted: Try) -> bool:
        """Whether pods on the node that it was promised are still on their way out."""
        promised = self.promises.get(wanted.pod.uid)
        if promised is None:
            return False
        refused = wanted.rejections.get(promised.node)
        if refused is None or not refused.resolvable:
            return False
        return any(
            self._leaves(one) and (one.uid in self._doomed or one.rank.yields)
            for one in self._lower(promised.node, wanted.pod)
        )

    def _learn_cards(self, wanted: Try) -> None:
        """A promise that was read from the pod says nothing about cards; look which they are."""
        promised = self.promises.get(wanted.pod.uid)
        if promised is None or promised.slots or not wanted.words:
            return
        for view in wanted.views:
            if view.name == promised.node:
                bench = self._bench(wanted, view, ())
                fitting = bench.fitting(frozenset())
                if fitting is not None:
                    self.promises.put(wanted.pod, view.name, fitting.slots)

    def _benches(self, wanted: Try) -> Iterator[whatif.Bench]:
        """Nodes where the end of others may help, from another one each time."""
        count = len(wanted.views)
        start = self._turn % count if count > ENOUGH else 0
        for number in range(count):
            view = wanted.views[(start + number) % count]
            refused = wanted.rejections.get(view.name)
            if refused is None or not refused.resolvable:
                continue
            lower = list(self._lower(view.name, wanted.pod))
            if lower and self._concerns(lower, refused, wanted.words):
                self._turn += 1
                movable = tuple(one for one in lower if self._may_go(one, wanted.pod))
                yield self._bench(wanted, view, movable)

    def _concerns(
        self, lower: list[pods.Pod], refused: rejection.Rejection, words: frozenset[str]
    ) -> bool:
        """False where only cards are short, and none of these pods is on any of them."""
        if refused.plugin != allocator.PLUGIN or errors.Reason.QUOTA_NOT_FIT in refused.reasons:
            return True
        held = (self._books.get(one.uid) for one in lower)
        return any(entry is not None and not words.isdisjoint(entry.usage) for entry in held)

    def _bench(
        self, wanted: Try, view: snapshot.NodeView, movable: tuple[pods.Pod, ...]
    ) -> whatif.Bench:
        leaving = {one.uid for one in self._lower(view.name, wanted.pod) if self._leaves(one)}
        held = self._books.on(view.name)
        if wanted.quota_held:
            namespace = wanted.pod.namespace
            elsewhere = (one for one in self._books if one.namespace == namespace)
            held = (*held, *(one for one in elsewhere if one.node != view.name))
        return whatif.Bench(
            view,
            (entry for entry in held if entry.uid not in leaving),
            movable,
            self.promises.guests(view.name, wanted.pod),
            nodes=self._nodes,
            registry=self._registry,
            words=wanted.words,
            judge=lambda gone, books: wanted.judge(gone | leaving, books),
            empties=bool(leaving),
        )

    def _lower(self, node: str, pod: pods.Pod) -> Iterator[pods.Pod]:
        """Pods on a node that are less important, and whose end would be one."""
        found = (self._seen.get(entry.uid) for entry in self._books.on(node))
        return (
            one
            for one in found
            if one is not None and one.priority < pod.priority and _MIRROR not in one.annotations
        )

    def _may_go(self, one: pods.Pod, pod: pods.Pod) -> bool:
        """Whether it stays so far, and is not of the gang that it would have to go for."""
        is_mate = bool(pod.gang.name) and gang.key_of(one) == gang.key_of(pod)
        return not is_mate and not self._leaves(one)

    def _leaves(self, pod: pods.Pod) -> bool:
        return pod.terminating or pod.uid in self._doomed

    def _promise(self, wanted: Try, best: preemption.Victims) -> Verdict:
        pod = wanted.pod
        displaced = tuple(
            one.pod for one in self.promises.on(best.node) if one.pod.priority < pod.priority
        )
        for one in displaced:
            self.promises.drop(one.uid)
        view = next(view for view in wanted.views if view.name == best.node)
        fitting = self._bench(wanted, view, best.pods).fitting(best.uids)
        self.promises.put(pod, best.node, fitting.slots if fitting is not None else {})
        self._doomed.update(dict.fromkeys(best.uids, pod.uid))
        victims = tuple(_order(one, best.node, pod) for one in best.pods)
        return Verdict(nominated=best.node, victims=victims, displaced=displaced)


def _order(victim: pods.Pod, node: str, pod: pods.Pod) -> effects.Evict:
    ref = effects.PodRef.of(victim)
    return effects.Evict(
        pod=ref,
        node=node,
        reason=rank.PREEMPTED,
        message=f"{pod.scheduler_name}: preempting to accommodate a higher priority pod",
        tell=reports.preempted(ref, node, pod.uid),
    )
