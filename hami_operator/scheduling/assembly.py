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
    ledger,
    queue,
    rank,
    wakes,
)
from hami_operator.scheduling import pod as pods

RELEASED: Final = "GangReleased"

Effects = tuple[effects.Effect, ...]


class Desk(Protocol):
    """What is done with one pod."""

    def decide(self, pod: pods.Pod, now: instant.Instant) -> cycle.Placed | cycle.Unplaced:
        """Find a node for it, as things stand."""
        ...

    def suppose(self, pod: pods.Pod, placed: cycle.Placed) -> None:
        """Reserve what was found, to be undone or placed within this step."""
        ...

    def undo(self, uid: str) -> None:
        """Take back `suppose`."""
        ...

    def place(self, pod: pods.Pod, placed: cycle.Placed, now: instant.Instant) -> Effects:
        """Reserve what was found, and order the bind."""
        ...

    def park(self, pod: pods.Pod, unplaced: cycle.Unplaced, now: instant.Instant) -> Effects:
        """Let it wait, and say why."""
        ...


@dataclasses.dataclass(slots=True)
class _Round:
    """One try of a gang: who found room, who did not, and who was not asked any more."""

    untried: list[pods.Pod]
    found: list[tuple[pods.Pod, cycle.Placed]] = dataclasses.field(default_factory=list)
    failed: list[tuple[pods.Pod, cycle.Unplaced]] = dataclasses.field(default_factory=list)


class Assembly:
    """Decides gangs.

    Args:
        desk: decides, places and parks single pods.
        books: who holds what.
        waiting: the queue.
        group: gives a PodGroup by name and namespace.
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
        group: Callable[[str, str], gang.Group | None],
        timeout_s: float,
    ) -> None:
        self._desk = desk
        self._books = books
        self._queue = waiting
        self._timeout_s = timeout_s
        self._begun: dict[gang.Key, float] = {}
        self._whole: set[gang.Key] = set()
        self._looks_back = True
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
            text = self._too_few(key, len(ready))
            return self._desk.park(pod, _waiting(text, nodes), now)
        for one in ready:
            self._queue.take(one.uid, now)
        tried = self._try(ready, lacking, now)
        if len(tried.found) < lacking:
            return self._none(key, tried, nodes, now)
        self._begun.setdefault(key, now.monotonic_s)
        placed = (one for pod, found in tried.found for one in self._desk.place(pod, found, now))
        parked = (one for pod, why in tried.failed for one in self._desk.park(pod, why, now))
        return (*placed, *parked)

    def ended(self, pod: pods.Pod, now: instant.Instant) -> None:
        """A pod is gone; its gang may look different without it."""
        for one in self.gangs.end(pod):
            self._queue.rouse(one.uid, now)

    def restart(self) -> None:
        """A new term begins; what the last one left half done shows on the pods."""
        self._begun.clear()
        self._whole.clear()
        self._looks_back = True

    def overdue(self, now: instant.Instant) -> Effects:
        """End what runs of gangs that did not become whole in time, so that others find room."""
        if self._looks_back:
            self._looks_back = False
            self._look_back(now)
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

    def _try(self, ready: Iterable[pods.Pod], lacking: int, now: instant.Instant) -> _Round:
        """Reserve one after the other, as long as enough can still come together."""
        tried = _Round(untried=sorted(ready, key=rank.importance))
        while tried.untried and len(tried.found) + len(tried.untried) >= lacking:
            pod = tried.untried.pop(0)
            outcome = self._desk.decide(pod, now)
            if isinstance(outcome, cycle.Placed):
                self._desk.suppose(pod, outcome)
                tried.found.append((pod, outcome))
            else:
                tried.failed.append((pod, outcome))
        return tried

    def _none(self, key: gang.Key, tried: _Round, nodes: int, now: instant.Instant) -> Effects:
        """Give everything back. What helps those that failed may help all, and wakes them."""
        for pod, _ in reversed(tried.found):
            self._desk.undo(pod.uid)
        first, why = tried.failed[0]
        text = (
            f"{self._needs(key)}: {len(tried.found)} find room, and {first.name} does not: "
            f"{why.message.rstrip('.')}"
        )
        waiting = _waiting(text, nodes)
        told: list[effects.Effect] = []
        for pod, unplaced in tried.failed:
            told += self._desk.park(pod, _retold(unplaced, waiting), now)
        same = _retold(cycle.Unplaced(message="", rejections=why.rejections), waiting)
        for pod in (*(pod for pod, _ in tried.found), *tried.untried):
            told += self._desk.park(pod, same, now)
        return tuple(told)

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
        return f"gang {key[0]}/{key[1]} needs {self.gangs.size(key)} pods at once"

    def _too_few(self, key: gang.Key, ready: int) -> str:
        there = len(self._there(key))
        gated = sum(bool(one.gates) for one in self.gangs.mates(key))
        more = f", and {gated} are gated" if gated else ""
        return f"{self._needs(key)}: {there + ready} are here{more}"

    def _look_back(self, now: instant.Instant) -> None:
        """Find gangs of which the last leader has bound some pods, a short while ago.

        Bound longer ago, a gang was whole once and only lost some pods since.
        """
        for key in self.gangs:
            bound = self._bound(key)
            if len(bound) >= self.gangs.size(key) or (bound and not self._is_fresh(bound, now)):
                self._whole.add(key)
            elif bound:
                self._begun[key] = now.monotonic_s

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
