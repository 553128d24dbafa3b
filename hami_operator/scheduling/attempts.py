"""Attempts to place the waiting pods, and what becomes of the binds that follow from them.

Reading usage, deciding and reserving is one uninterrupted step for one pod at a time. A bind that
is ordered here is answered once: done, or failed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from hami_operator import errors
from hami_operator.protocol import instant
from hami_operator.scheduling import (
    cycle,
    effects,
    ledger,
    nodes,
    outcomes,
    preemptor,
    quota,
    reports,
    sightings,
    snapshot,
    wakes,
    whatif,
)
from hami_operator.scheduling import demand as demands
from hami_operator.scheduling import pod as pods
from hami_operator.scheduling import rules as all_rules
from hami_operator.scheduling.filters import symmetry

ECHO_S: Final = 60.0
"""A condition that does not show on its pod after so long was lost and is ordered again."""

Effects = tuple[effects.Effect, ...]


class Attempts:
    """From the queue to a bind, and back where the bind fails.

    Args:
        rules: what holds for every pod.
        nodes: records, cards and availability.
        books: where decisions are reserved.
        waking: the queue.
        seen: the pods as they were last seen.
        accounts: what a namespace may hold, and holds as a ledger says; None where nothing
            limits it.

    Attributes:
        preemptor: makes room for pods that find none.
        snapshot: what a cycle sees.
        repellers: pods on nodes that do not want others near.
    """

    def __init__(
        self,
        rules: all_rules.Rules,
        nodes: nodes.Nodes,
        books: ledger.Ledger,
        waking: wakes.Wakes,
        seen: sightings.Sightings,
        *,
        accounts: Callable[[str, ledger.Ledger], quota.Accounts | None],
    ) -> None:
        self._rules = rules
        self._nodes = nodes
        self._books = books
        self._waking = waking
        self._queue = waking.queue
        self._seen = seen
        self._accounts = accounts
        self._memo = outcomes.Memo()
        self._binding: dict[str, effects.Bind] = {}
        self._conditions: dict[str, tuple[effects.Condition, float]] = {}
        self._demands: dict[str, tuple[pods.Pod, demands.Demand]] = {}
        self.preemptor = preemptor.Preemptor(rules.registry, nodes, books, seen)
        self.snapshot = snapshot.Snapshot(nodes, books)
        self.repellers = symmetry.Owners()

    def run(self, now: instant.Instant) -> Effects:
        """Try the next pod; nothing where none is due."""
        while (item := self._queue.pop(now)) is not None:
            pod = item.pod
            if pod.terminating:
                self._queue.remove(pod.uid)
                return (reports.skipped(pod),)
            if pod.uid not in self._books:
                return self._try(pod, now)
            self._queue.remove(pod.uid)
        return ()

    def done(self, uid: str) -> Effects:
        """The bind has landed."""
        bind = self._binding.pop(uid, None)
        self._queue.remove(uid)
        self._books.confirm(uid)
        return (reports.scheduled(bind.pod, bind.node),) if bind is not None else ()

    def failed(self, uid: str, now: instant.Instant, message: str, *, lost: bool) -> Effects:
        """The bind has failed; see `World.bind_failed`."""
        bind = self._binding.get(uid)
        if bind is None:
            return ()
        entry = self._books.get(uid)
        if entry is not None and entry.state is ledger.State.BOUND:
            landed = not lost and _is_as_decided(entry, bind)
            return self.done(uid) if landed else self._drop(uid)
        del self._binding[uid]
        self.repellers.remove(uid)
        self._waking.by_pod(bind.pod, None, self._books.forget(uid), now)
        pod = self._requeue(uid, now) if not lost else None
        if pod is None:
            return self._drop(uid)
        if pod.gates:
            return ()  # nothing broke: it is parked until its gates are gone
        failed = effects.Attempt(pod=effects.PodRef.of(pod), result=effects.Result.ERROR)
        said = self._condition(pod, "SchedulerError", message, now)
        return (*said, reports.unplaced(pod, message), failed)

    def restart(self, now: instant.Instant) -> None:
        """Drop what is reserved and not bound, and let its pods be decided afresh."""
        self._binding.clear()
        self.preemptor.restart()
        for transition in self._books.drop_reservations():
            if transition.before is not None:
                self.repellers.remove(transition.before.uid)
                self._requeue(transition.before.uid, now)

    def forget(self, uid: str) -> None:
        """The pod waits no more; nothing about it need be remembered."""
        self._conditions.pop(uid, None)
        self._demands.pop(uid, None)

    def lose_node(self, name: str, now: instant.Instant) -> None:
        """A node is gone, and with it what was promised there."""
        for promise in self.preemptor.promises.on(name):
            self.preemptor.promises.drop(promise.pod.uid)
            self._queue.rouse(promise.pod.uid, now)

    def under_way(self) -> tuple[pods.Pod, ...]:
        """Pods whose bind is ordered and not answered yet."""
        return tuple(bind.pod for bind in self._binding.values())

    def _try(self, pod: pods.Pod, now: instant.Instant) -> Effects:
        views = self.preemptor.promises.over(self.snapshot.views(), pod)
        promised = self.preemptor.promises.get(pod.uid)
        outcome: cycle.Placed | cycle.Unplaced | None = None
        if promised is not None:  # what it was promised is tried first, and alone
            alone = tuple(view for view in views if view.name == promised.node)
            outcome = self._decide(pod, alone, now)
        if not isinstance(outcome, cycle.Placed):
            outcome = self._decide(pod, views, now)
        told = tuple(reports.misunderstood(pod, text) for text in outcome.warnings)
        if isinstance(outcome, cycle.Placed):
            return (*told, *self._place(pod, outcome, now))
        return (*told, *self._park(pod, outcome, views, now))

    def _decide(
        self, pod: pods.Pod, views: tuple[snapshot.NodeView, ...], now: instant.Instant
    ) -> cycle.Placed | cycle.Unplaced:
        return cycle.run(
            pod,
            self._demand(pod),
            views,
            rules=self._rules,
            now=now,
            accounts=self._accounts(pod.namespace, self._books),
            repelled=self.repellers.places(pod, self._node_labels),
            memo=self._memo,
        )

    def _judge(self, pod: pods.Pod) -> whatif.Judge:
        """Who judges ``pod`` where others are gone: all that their absence changes is new."""
        repelled = self.repellers.places(pod, self._node_labels)
        limited = self._accounts(pod.namespace, self._books) is not None

        def made(gone: frozenset[str], books: ledger.Ledger) -> outcomes.Judge:
            return cycle.judge(
                pod,
                self._demand(pod),
                rules=self._rules,
                accounts=self._accounts(pod.namespace, books) if limited else None,
                repelled=self._repelled(pod, gone) if repelled else repelled,
            )

        if repelled or limited:
            return made
        same = made(frozenset(), self._books)
        return lambda gone, books: same

    def _repelled(self, pod: pods.Pod, gone: frozenset[str]) -> frozenset[symmetry.Place]:
        """Where the pod is not wanted by those that are left."""
        owners = [(self._seen.get(uid), self._books.get(uid)) for uid in gone]
        for uid in gone:
            self.repellers.remove(uid)
        try:
            return self.repellers.places(pod, self._node_labels)
        finally:
            for owner, entry in owners:
                if owner is not None and entry is not None:
                    self.repellers.add(owner, entry.node)

    def _place(self, pod: pods.Pod, placed: cycle.Placed, now: instant.Instant) -> Effects:
        self._books.assume(pod, placed.node, placed.slots)
        self.repellers.add(pod, placed.node)
        self._queue.assumed(pod.uid, now)
        self._conditions.pop(pod.uid, None)
        bind = effects.Bind(pod=pod, node=placed.node, decision=placed.decision)
        self._binding[pod.uid] = bind
        ref = effects.PodRef.of(pod)
        return (effects.Attempt(pod=ref, result=effects.Result.SCHEDULED), bind)

    def _park(
        self,
        pod: pods.Pod,
        unplaced: cycle.Unplaced,
        views: tuple[snapshot.NodeView, ...],
        now: instant.Instant,
    ) -> Effects:
        words = frozenset(self._demand(pod).words)
        verdict = self._preempt(pod, unplaced, views, words)
        self._queue.park(pod.uid, unplaced.plugins, now, words=words)
        message = " ".join(part for part in (unplaced.message, verdict.text) if part)
        nominated = verdict.nominated
        told: list[effects.Effect] = [
            *self._condition(pod, "Unschedulable", message, now, nominated=nominated),
            reports.unplaced(pod, message),
            *verdict.victims,
            *self._displace(verdict.displaced, now),
        ]
        if errors.Reason.INVALID_REQUEST in unplaced.reasons:
            told.append(reports.invalid(pod, unplaced.message))
        attempt = effects.Attempt(
            pod=effects.PodRef.of(pod),
            result=effects.Result.UNSCHEDULABLE,
            reasons=unplaced.reasons,
        )
        return (*told, attempt)

    def _preempt(
        self,
        pod: pods.Pod,
        unplaced: cycle.Unplaced,
        views: tuple[snapshot.NodeView, ...],
        words: frozenset[str],
    ) -> preemptor.Verdict:
        if not views:
            return preemptor.Verdict()
        wanted = preemptor.Try(
            pod=pod,
            words=words,
            views=views,
            rejections=unplaced.rejections,
            judge=self._judge(pod),
            quota_held=self._accounts(pod.namespace, self._books) is not None,
        )
        return self.preemptor.run(wanted)

    def _displace(self, losers: tuple[pods.Pod, ...], now: instant.Instant) -> Effects:
        """Pods whose room was promised to a more important one look for other room."""
        told: list[effects.Effect] = []
        for pod in losers:
            self._queue.rouse(pod.uid, now)
            stands = pod.scheduled_condition
            if stands is not None:
                told += self._condition(pod, stands.reason, stands.message, now, nominated="")
        return tuple(told)

    def _requeue(self, uid: str, now: instant.Instant) -> pods.Pod | None:
        """Let a pod whose bind came to nothing rest and try again; None if it cannot be."""
        pod = self._seen.get(uid)
        if pod is None or pod.node_name or pod.terminating:
            return None
        self._queue.add(pod, now)
        self._queue.backoff(uid, now)
        return pod

    def _drop(self, uid: str) -> Effects:
        self._binding.pop(uid, None)
        self._queue.remove(uid)
        return ()

    def _condition(
        self,
        pod: pods.Pod,
        reason: str,
        message: str,
        now: instant.Instant,
        *,
        nominated: str | None = None,
    ) -> Effects:
        """The condition, unless it stands on the pod or was ordered just now."""
        wanted = effects.Condition(
            pod=effects.PodRef.of(pod),
            status="False",
            reason=reason,
            message=message,
            nominated=nominated,
        )
        if _stands(wanted, pod):
            return ()
        ordered, at_s = self._conditions.get(pod.uid, (None, 0.0))
        if ordered == wanted and now.monotonic_s < at_s + ECHO_S:
            return ()
        self._conditions[pod.uid] = (wanted, now.monotonic_s)
        return (wanted,)

    def _demand(self, pod: pods.Pod) -> demands.Demand:
        known = self._demands.get(pod.uid)
        if known is None or known[0] is not pod:
            known = self._demands[pod.uid] = (pod, demands.read(pod, self._rules.registry))
        return known[1]

    def _node_labels(self, name: str) -> Mapping[str, str]:
        node = self._nodes.get(name)
        return node.labels if node is not None else {}


def _is_as_decided(entry: ledger.Entry, bind: effects.Bind) -> bool:
    """Whether a bound pod is where we sent it, with our decision rather than with another's."""
    with_devices = bool(entry.slots) == bool(bind.decision.annotations)
    return entry.node == bind.node and with_devices and not entry.foreign


def _stands(wanted: effects.Condition, pod: pods.Pod) -> bool:
    """Whether the pod says so already."""
    stands = pod.scheduled_condition
    if stands is None or wanted.nominated not in {None, pod.rank.nominated_node}:
        return False
    said = (stands.status, stands.reason, stands.message)
    return said == (wanted.status, wanted.reason, wanted.message)
