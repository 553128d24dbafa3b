"""Attempts to place the waiting pods, and what becomes of the binds that follow from them.

Reading usage, deciding and reserving is one uninterrupted step for one pod at a time. A bind that
is ordered here is answered once: done, or failed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Final

from hami_operator import errors
from hami_operator.protocol import instant
from hami_operator.scheduling import (
    assembly,
    cycle,
    effects,
    filters,
    ledger,
    neighbours,
    nodeorder,
    nodes,
    nominations,
    objects,
    outcomes,
    preemptor,
    preparation,
    quota,
    reports,
    sightings,
    snapshot,
    surroundings,
    wakes,
    whatif,
)
from hami_operator.scheduling import demand as demands
from hami_operator.scheduling import pod as pods
from hami_operator.scheduling import rules as all_rules

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
        locked_for: names of the nodes whose lock bears a pod's namespace and name.

    Attributes:
        preemptor: makes room for pods that find none.
        assembly: decides pods that run together or not at all.
        snapshot: what a cycle sees.
        neighbours: pods on nodes, as other pods see them.
        objects: claims, volumes and what else placement depends on.
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
        locked_for: Callable[[str, str], tuple[str, ...]],
    ) -> None:
        self._rules = rules
        self._nodes = nodes
        self._books = books
        self._waking = waking
        self._queue = waking.queue
        self._seen = seen
        self._accounts = accounts
        self._locked_for = locked_for
        self._memo = outcomes.Memo()
        self._order = nodeorder.Order()
        self._binding: dict[str, effects.Bind] = {}
        self._conditions: dict[str, tuple[effects.Condition, float]] = {}
        self._demands: dict[str, tuple[pods.Pod, demands.Demand]] = {}
        self.preemptor = preemptor.Preemptor(rules.registry, nodes, books, seen)
        self.snapshot = snapshot.Snapshot(nodes, books)
        self.neighbours = neighbours.Neighbours(self._node_labels)
        self.objects = objects.Objects()
        self.assembly = assembly.Assembly(
            self,
            books,
            waking.queue,
            making=self.preemptor,
            group=self.objects.group_of,
            timeout_s=rules.settings.gang_timeout_s,
        )

    def run(self, now: instant.Instant) -> Effects:
        """Try the next pod; nothing where none is due."""
        while (item := self._queue.pop(now)) is not None:
            pod = item.pod
            if pod.terminating:
                self._queue.remove(pod.uid)
                return (reports.skipped(pod),)
            if pod.uid not in self._books:
                told = self._try(pod, now)
                self.offer(now)
                return told
            self._queue.remove(pod.uid)
        return ()

    def offer(self, now: instant.Instant) -> None:
        """Let others try for room whose promise has ended without being kept."""
        for promise in self.preemptor.promises.take_ended():
            if not self._is_kept(promise):
                self._waking.by_promise(promise, now)

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
        self.neighbours.remove(uid)
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
        self.preemptor.restart(item.pod for item in self._queue.items())
        self.assembly.restart()
        for transition in self._books.drop_reservations():
            if transition.before is not None:
                self.neighbours.remove(transition.before.uid)
                self._requeue(transition.before.uid, now)
        for item in self._queue.items():
            self._queue.rouse(item.pod.uid, now)

    def forget(self, uid: str) -> None:
        """The pod waits no more; nothing about it need be remembered."""
        self._conditions.pop(uid, None)
        self._demands.pop(uid, None)

    def lose_node(self, name: str, now: instant.Instant) -> None:
        """A node is gone, and with it what was promised there."""
        for promise in self.preemptor.promises.on(name):
            self.preemptor.promises.drop(promise.pod.uid)
            self._queue.rouse(promise.pod.uid, now)

    def under_way(self) -> Set[str]:
        """UIDs of the pods whose bind is ordered and not answered yet."""
        return self._binding.keys()

    def decide(self, pod: pods.Pod, now: instant.Instant) -> cycle.Placed | cycle.Unplaced:
        """Find a node for a pod, as things stand."""
        views = self._views(pod)
        room = self.preemptor.promises.room(views, pod)
        due = [tuple(one for one in views if one.name == name) for name in self._due_there(pod)]
        for alone in filter(None, (room, *due)):  # tried first
            outcome = self._cycle(pod, alone, now)
            if isinstance(outcome, cycle.Placed):
                return outcome
        return self._cycle(pod, views, now, self._order)

    def suppose(self, pod: pods.Pod, placed: cycle.Placed) -> None:
        """Reserve what was found, to be undone or placed within this step."""
        self._books.assume(pod, placed.node, placed.slots)
        self.neighbours.add(pod, placed.node)

    def undo(self, uid: str) -> None:
        """Take back `suppose`."""
        self._books.forget(uid)
        self.neighbours.remove(uid)

    def place(self, pod: pods.Pod, placed: cycle.Placed, now: instant.Instant) -> Effects:
        """Reserve what was found, and order the bind."""
        self.suppose(pod, placed)
        self._queue.assumed(pod.uid, now)
        self._conditions.pop(pod.uid, None)
        if pod.gang.name:  # where its bind fails, nobody else takes what the others wait for
            self.preemptor.promises.put(pod, placed.node, placed.slots)
        promise = self.preemptor.promises.get(pod.uid)
        if promise is not None and not self._is_kept(promise):
            self._waking.by_promise(promise, now)
        bind = effects.Bind(
            pod=pod,
            node=placed.node,
            decision=placed.decision,
            preparation=self._preparation(pod, placed.node),
        )
        self._binding[pod.uid] = bind
        ref = effects.PodRef.of(pod)
        attempt = effects.Attempt(pod=ref, result=effects.Result.SCHEDULED)
        return (*_misunderstood(pod, placed), attempt, bind)

    def park(
        self,
        pod: pods.Pod,
        unplaced: cycle.Unplaced,
        now: instant.Instant,
        verdict: preemptor.Verdict = preemptor.NONE,
    ) -> Effects:
        """Let a pod wait, and say why."""
        words = frozenset(self._demand(pod).words)
        self._queue.park(pod.uid, unplaced.plugins, now, words=words)
        message = " ".join(part for part in (unplaced.message, verdict.text) if part)
        nominated = verdict.nominated
        told: list[effects.Effect] = [
            *_misunderstood(pod, unplaced),
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

    def preempt(self, pod: pods.Pod, unplaced: cycle.Unplaced) -> preemptor.Verdict:
        """Choose who has to go for a pod that found no node, and promise it their room."""
        views = self._views(pod)
        if not views:
            return preemptor.NONE
        wanted = preemptor.Try(
            pod=pod,
            words=frozenset(self._demand(pod).words),
            views=views,
            rejections=unplaced.rejections,
            judge=self._judge(pod),
            quota_held=self._accounts(pod.namespace, self._books) is not None,
        )
        return self.preemptor.run(wanted)

    def _try(self, pod: pods.Pod, now: instant.Instant) -> Effects:
        if self.assembly.lacks(pod) > 1:
            return self.assembly.run(pod, len(self.snapshot), now)
        outcome = self.decide(pod, now)
        if isinstance(outcome, cycle.Unplaced):
            return self.park(pod, outcome, now, self.preempt(pod, outcome))
        alone = (reports.unsized(pod),) if self.assembly.is_unsized(pod) else ()
        return (*alone, *self.place(pod, outcome, now))

    def _due_there(self, pod: pods.Pod) -> tuple[str, ...]:
        """The node that a pod was promised, and nodes whose lock bears its name.

        Such a lock was taken by an earlier leader whose bind never came. Bound there, the pod
        uses it; bound elsewhere, it would keep others from the node until the lock expires, and
        two pods that hold each other's locks would both wait as long.
        """
        promised = self.preemptor.promises.get(pod.uid)
        locked = self._locked_for(*pod.key)
        return locked if promised is None else (promised.node, *locked)

    def _views(self, pod: pods.Pod) -> tuple[snapshot.NodeView, ...]:
        return self.preemptor.promises.over(self.snapshot.views(), pod)

    def _cycle(
        self,
        pod: pods.Pod,
        views: tuple[snapshot.NodeView, ...],
        now: instant.Instant,
        order: nodeorder.Order | None = None,
    ) -> cycle.Placed | cycle.Unplaced:
        return cycle.run(
            pod,
            self._demand(pod),
            views,
            rules=self._rules,
            now=now,
            accounts=self._accounts(pod.namespace, self._books),
            around=self._around(pod),
            memo=self._memo,
            order=order,
        )

    def _around(
        self, pod: pods.Pod, gone: frozenset[str] = frozenset()
    ) -> surroundings.Surroundings:
        """The cluster as the pod is to see it, or would if others were gone."""
        guests = self.preemptor.promises.against(pod)
        known, supposed = self.neighbours, neighbours.Supposed
        return surroundings.Surroundings(
            nodes=self.snapshot.views(),
            pods=supposed(known, gone) if gone else known,
            objects=self.objects,
            promised=supposed(known, gone, guests) if guests else None,
        )

    def _judge(self, pod: pods.Pod) -> whatif.Judge:
        """Who judges ``pod`` where others are gone: all that their absence changes is new."""
        limited = self._accounts(pod.namespace, self._books) is not None

        def made(gone: frozenset[str], books: ledger.Ledger) -> outcomes.Judge:
            return cycle.judge(
                pod,
                self._demand(pod),
                rules=self._rules,
                accounts=self._accounts(pod.namespace, books) if limited else None,
                around=self._around(pod, gone),
            )

        same = made(frozenset(), self._books)
        if limited or pod.ports or same.looks_around:
            return made
        return lambda gone, books: same

    def _is_kept(self, promise: nominations.Nomination) -> bool:
        """Whether the pod holds exactly what it was promised."""
        entry = self._books.get(promise.pod.uid)
        return entry is not None and promise.is_for(entry.node, entry.slots)

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
            generation=pod.generation,
        )
        if _stands(wanted, pod):
            return ()
        ordered, at_s = self._conditions.get(pod.uid, (None, 0.0))
        if ordered == wanted and now.monotonic_s < at_s + ECHO_S:
            return ()
        self._conditions[pod.uid] = (wanted, now.monotonic_s)
        return (wanted,)

    def _preparation(self, pod: pods.Pod, name: str) -> preparation.Preparation | None:
        node = self._nodes.get(name)
        if node is None or not filters.needs(pod):
            return None
        return preparation.of(pod, node, self._around(pod))

    def _demand(self, pod: pods.Pod) -> demands.Demand:
        known = self._demands.get(pod.uid)
        if known is None or known[0] is not pod:
            known = self._demands[pod.uid] = (pod, demands.read(pod, self._rules.registry))
        return known[1]

    def _node_labels(self, name: str) -> Mapping[str, str]:
        node = self._nodes.get(name)
        return node.labels if node is not None else {}


def _misunderstood(pod: pods.Pod, outcome: cycle.Placed | cycle.Unplaced) -> Effects:
    return tuple(reports.misunderstood(pod, text) for text in outcome.warnings)


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
