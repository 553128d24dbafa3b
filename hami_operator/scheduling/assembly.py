"""Gangs in the running scheduler: all of a gang's pods find room at once, or none takes any.

The whole gang is decided in one step on one state of the cluster, so no two gangs can ever hold
parts of what the other needs. What was decided stays promised to each pod until it is bound. A
gang that is not whole in time, since binds have failed for good, gives everything back.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from hami_operator.protocol import instant
from hami_operator.scheduling import (
    cycle,
    effects,
    fiterror,
    gang,
    gangpreemption,
    ledger,
    preemptor,
    queue,
    rank,
    wakes,
)
from hami_operator.scheduling import pod as pods

RELEASED: Final = "GangReleased"

Effects = tuple[effects.Effect, ...]


class Desk(gangpreemption.Desk, Protocol):
    """What is done with one pod."""

    def undo(self, uid: str) -> None:
        """Take back `suppose`."""
        ...

    def place(self, pod: pods.Pod, placed: cycle.Placed, now: instant.Instant) -> Effects:
        """Reserve what was found, and order the bind."""
        ...

    def park(
        self,
        pod: pods.Pod,
        unplaced: cycle.Unplaced,
        now: instant.Instant,
        verdict: preemptor.Verdict = preemptor.NONE,
    ) -> Effects:
        """Let it wait, and say why."""
        ...


class Assembly:
    """Decides gangs.

    Args:
        desk: decides, places and parks single pods.
        books: who holds what.
        waiting: the queue.
        making: remembers who was promised room, and who has to go for it.
        group: gives the PodGroup of a gang.
        timeout_s: a gang that is not whole so long after its first bind gives everything back.

    Attributes:
        gangs: who belongs to which.
    """

    def __init__(
        self,
        desk: Desk,
        books: ledger.Ledger,
        waiting: queue.Queue[wakes.Wake],
        *,
        making: preemptor.Preemptor,
        group: Callable[[gang.Key], gang.Group | None],
        timeout_s: float,
    ) -> None:
        self._desk = desk
        self._books = books
        self._queue = waiting
        self._making = making
        self._timeout_s = timeout_s
        self._begun: dict[gang.Key, float] = {}
        self._whole: set[gang.Key] = set()
        self._unjudged: set[gang.Key] | None = None
        self.gangs = gang.Gangs(group)

    def lacks(self, pod: pods.Pod) -> int:
        """How many of its gang have to find room together with, and including, this pod.

        No more than 1 for a pod that stands alone, or whose gang is whole but for it.
        """
        if not pod.gang.name:
            return 0
        key = gang.key_of(pod)
        there = len(self._there(key))
        if key in self._whole:
            if there:  # whoever comes now replaces one that has ended
                return 0
            self._whole.remove(key)
        return self.gangs.size(key) - there

    def is_unsized(self, pod: pods.Pod) -> bool:
        """Whether it belongs to a gang of which nobody says how many have to run together."""
        return bool(pod.gang.name) and not self.gangs.size(gang.key_of(pod))

    def run(self, pod: pods.Pod, nodes: int, now: instant.Instant) -> Effects:
        """Try the gang of a pod in flight.

        Args:
            pod: one of several that are missing.
            nodes: how many there are, for the message.
            now: the present.
        """
        key = gang.key_of(pod)
        lacking = self.lacks(pod)
        ready = [one for one in self.gangs.mates(key) if self._is_ready(one, pod)]
        if len(ready) < lacking:
            return self._too_few(key, pod, ready, nodes, now)
        for one in ready:
            self._queue.take(one.uid, now)
        tried = self._try(ready, lacking, now)
        if len(tried.found) < lacking:
            return self._none(key, tried, lacking, nodes, now)
        self._begun.setdefault(key, now.monotonic_s)
        placed = (one for pod, found in tried.found for one in self._desk.place(pod, found, now))
        parked = (one for pod, why in tried.failed for one in self._desk.park(pod, why, now))
        return (*placed, *parked)

    def ended(self, pod: pods.Pod, now: instant.Instant) -> None:
        """A pod is gone; its gang may look different without it."""
        for one in self.gangs.end(pod):
            self._queue.rouse(one.uid, now)

    def joined(self, pod: pods.Pod, now: instant.Instant) -> None:
        """A pod has got a node, and not from us: its gang lacks one less."""
        for one in self.gangs.mates(gang.key_of(pod)):
            self._queue.rouse(one.uid, now)

    def restart(self) -> None:
        """A new term begins; what the last one left half done shows on the pods."""
        self._begun.clear()
        self._whole.clear()
        self._unjudged = None

    def overdue(self, now: instant.Instant) -> Effects:
        """End what runs of gangs that did not become whole in time, so that others find room."""
        unjudged = self.gangs if self._unjudged is None else tuple(self._unjudged)
        self._unjudged = {key for key in unjudged if not self._judge(key, now)}
        told: list[effects.Effect] = []
        for key, at_s in tuple(self._begun.items()):
            bound = self._bound(key)
            missing = [one for one in self.gangs.mates(key) if not one.node_name]
            if len(bound) >= self.gangs.size(key) or not missing:
                del self._begun[key]
                self._whole.add(key)
            elif now.monotonic_s >= at_s + self._timeout_s:
                del self._begun[key]
                told += [self._release(key, one, len(bound)) for one in bound]
        return tuple(told)

    def _try(
        self, ready: Iterable[pods.Pod], lacking: int, now: instant.Instant
    ) -> gangpreemption.Round:
        """Reserve one after the other, as long as enough can still come together."""
        tried = gangpreemption.Round(untried=sorted(ready, key=rank.importance))
        while tried.untried and len(tried.found) + len(tried.untried) >= lacking:
            pod = tried.untried.pop(0)
            outcome = self._desk.decide(pod, now)
            if isinstance(outcome, cycle.Placed):
                self._desk.suppose(pod, outcome)
                tried.found.append((pod, outcome))
            else:
                tried.failed.append((pod, outcome))
        return tried

    def _none(
        self,
        key: gang.Key,
        tried: gangpreemption.Round,
        lacking: int,
        nodes: int,
        now: instant.Instant,
    ) -> Effects:
        """Give everything back. What helps those that failed may help all, and wakes them."""
        first, why = tried.failed[0]
        text = (
            f"{self._needs(key)}: {len(tried.found)} find room, and {first.name} does not: "
            f"{why.message.rstrip('.')}"
        )
        waiting = _waiting(text, nodes)
        helped = gangpreemption.run(tried, lacking, self._desk, self._making, now)
        for pod, _ in reversed(tried.found):
            self._desk.undo(pod.uid)
        told: list[effects.Effect] = []
        for pod, unplaced in tried.failed:
            told += self._wait(key, pod, _retold(unplaced, waiting), tried, now)
        same = _retold(cycle.Unplaced(message="", rejections=why.rejections), waiting)
        for pod, placed in tried.found:
            if helped:
                self._making.promises.put(pod, placed.node, placed.slots)
                tried.verdicts[pod.uid] = preemptor.Verdict(nominated=placed.node)
            told += self._wait(key, pod, same, tried, now)
        for pod in tried.untried:
            told += self._wait(key, pod, same, tried, now)
        return tuple(told)

    def _wait(
        self,
        key: gang.Key,
        pod: pods.Pod,
        unplaced: cycle.Unplaced,
        tried: gangpreemption.Round,
        now: instant.Instant,
    ) -> Effects:
        """Let a pod wait, with what preemption does for it; without, it is promised nothing."""
        verdict = tried.verdicts.get(pod.uid)
        if verdict is None:
            verdict = preemptor.Verdict(nominated=self._withdraw(key, pod))
        verdict = dataclasses.replace(verdict, text=tried.text)
        return self._desk.park(pod, unplaced, now, verdict)

    def _withdraw(self, key: gang.Key, pod: pods.Pod) -> str | None:
        """End what a pod was promised; what is to be written on it.

        Where some of the gang are bound, the others keep their room until all is given back.
        """
        if key in self._begun:
            return None
        before = self._making.promises.drop(pod.uid)
        return "" if before is not None or pod.rank.nominated_node else None

    def _there(self, key: gang.Key) -> list[pods.Pod]:
        """Those that have their room, bound or about to be."""
        mates = self.gangs.mates(key)
        return [one for one in mates if one.uid in self._books and not one.terminating]

    def _bound(self, key: gang.Key) -> list[pods.Pod]:
        return [one for one in self.gangs.mates(key) if one.node_name and not one.terminating]

    def _is_ready(self, one: pods.Pod, flying: pods.Pod) -> bool:
        item = self._queue.get(one.uid)
        if item is None or one.terminating or one.gates:
            return False
        return one.uid == flying.uid or item.place in queue.RESTING

    def _needs(self, key: gang.Key) -> str:
        return f"gang {key.namespace}/{key.name} needs {self.gangs.size(key)} pods at once"

    def _too_few(
        self,
        key: gang.Key,
        flying: pods.Pod,
        ready: list[pods.Pod],
        nodes: int,
        now: instant.Instant,
    ) -> Effects:
        """Wait for more; nobody is promised room until they are there."""
        gated = sum(bool(one.gates) for one in self.gangs.mates(key))
        more = f", and {gated} are gated" if gated else ""
        there = len(self._there(key)) + len(ready)
        waiting = _waiting(f"{self._needs(key)}: {there} are here{more}", nodes)
        told: list[effects.Effect] = []
        for one in ready:
            if one.uid == flying.uid or self._making.promises.get(one.uid) is not None:
                self._queue.take(one.uid, now)
                verdict = preemptor.Verdict(nominated=self._withdraw(key, one))
                told += self._desk.park(one, waiting, now, verdict)
        return tuple(told)

    def _judge(self, key: gang.Key, now: instant.Instant) -> bool:
        """Take up a gang of which the last leader has bound some pods; False: not yet known how.

        Bound a short while ago, it is to become whole. Bound longer ago, it was whole once and
        only lost some pods since.
        """
        size, bound = self.gangs.size(key), self._bound(key)
        if not size:
            return False
        if len(bound) >= size or (bound and not self._is_fresh(bound, now)):
            self._whole.add(key)
        elif bound:
            self._begun.setdefault(key, now.monotonic_s)
        return True

    def _is_fresh(self, bound: list[pods.Pod], now: instant.Instant) -> bool:
        conditions = (one.scheduled_condition for one in bound)
        since = (rank.moment(one.last_transition) for one in conditions if one is not None)
        oldest = now.wall - datetime.timedelta(seconds=self._timeout_s)
        return any(moment is not None and moment > oldest for moment in since)

    def _release(self, key: gang.Key, pod: pods.Pod, bound: int) -> effects.Evict:
        text = (
            f"{self._needs(key)}: {bound} were bound, and the others not within "
            f"{self._timeout_s:g} s; all give their room back"
        )
        ref = effects.PodRef.of(pod)
        return effects.Evict(
            pod=ref,
            node=pod.node_name,
            reason=RELEASED,
            message=f"{pod.scheduler_name}: {text}",
            tell=effects.PodEvent(
                pod=ref,
                type=effects.EventType.WARNING,
                reason=RELEASED,
                message=text,
                action="Releasing",
            ),
        )


def _waiting(text: str, nodes: int) -> cycle.Unplaced:
    why = gang.waits(text)
    message = fiterror.message(nodes, {}, prefilter=", ".join(why.texts))
    return cycle.Unplaced(message=message, rejections={}, refusal=why)


def _retold(unplaced: cycle.Unplaced, waiting: cycle.Unplaced) -> cycle.Unplaced:
    """The gang's text, and its own reason beside those of the nodes."""
    why = {"": waiting.refusal} if waiting.refusal is not None else {}
    rejections = {**unplaced.rejections, **why}
    return dataclasses.replace(unplaced, message=waiting.message, rejections=rejections)
