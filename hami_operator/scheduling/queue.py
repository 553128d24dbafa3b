"""The waiting pods: which is tried next, which rests, and which event wakes which.

Places of a pod, and what moves it (a pod is in exactly one):

    add ──────────────► ACTIVE ──pop──► IN_FLIGHT ──assumed──► BINDING ──remove──► (bound)
     │ gates            ▲  ▲ ▲              │ park    │ backoff    │ backoff
     ▼                  │  │ │              ▼         ▼            ▼
    GATED ─gates gone───┘  │ └─ woken ─ UNSCHEDULABLE BACKOFF ◄────┘
                           └──────── rested ──────────┘

Rules as kube-scheduler keeps them: priority first, then time of queueing; rests of 1, 2, 4, 8 and
at most 10 s by number of failures; a parked pod is woken by an event that may help it, and
by a net after 5 min whatever happened. When nothing is active, a pod that rests after a mere
rejection is tried before its rest is over, so freed capacity is used at once; a rest after
an error is always kept.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Hashable, Mapping
from typing import Final, Generic, TypeVar

from hami_operator.protocol import instant
from hami_operator.scheduling import heap
from hami_operator.scheduling import pod as pods

INITIAL_REST_S: Final = 1.0
LONGEST_REST_S: Final = 10.0
NET_S: Final = 300.0

_NOBODY: Final = ""
"""Who rejected a pod where there was no node."""

Event = TypeVar("Event")


class Place(enum.Enum):
    """Where a pod of the queue is."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "in flight"
    BINDING = "binding"


RESTING: Final = frozenset({Place.ACTIVE, Place.BACKOFF, Place.UNSCHEDULABLE})
"""Where a pod may be taken from for its gang."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One pod of the queue.

    Attributes:
        since_s: monotonic time at which it came to its place.
        added_s: monotonic time at which it came to the queue.
        failures: attempts in a row that found no node.
        errors: attempts in a row that broke; their rests are never cut short.
        rested_from_s: when the last attempt ended; the rest counts from here.
        plugins: names of the filters that rejected it on any node, at the last attempt.
        words: device types that it asks for.
        ticket: grows with every move; tells an old place from the present one.
    """

    pod: pods.Pod
    place: Place
    since_s: float
    added_s: float
    failures: int = 0
    errors: int = 0
    rested_from_s: float = 0.0
    plugins: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()
    ticket: int = 0

    @property
    def rests_until_s(self) -> float:
        """End of the rest that the last failure earned; in the past before the first one."""
        count = self.errors or self.failures
        if count == 0:
            return self.rested_from_s
        exponent = min(count - 1, 10)
        return self.rested_from_s + min(INITIAL_REST_S * 2.0**exponent, LONGEST_REST_S)


def significant(pod: pods.Pod, ignored: frozenset[str] = frozenset()) -> Hashable:
    """What of a waiting pod decides where it may go; all else changes without effect.

    Args:
        pod: the pod.
        ignored: annotation keys that we write ourselves: our own patch is no news.
    """
    return (
        tuple(sorted(pod.labels.items())),
        tuple(sorted(item for item in pod.annotations.items() if item[0] not in ignored)),
        pod.gates,
        repr(pod.tolerations),
        repr(pod.node_selector),
        repr(pod.affinity),
        tuple(sorted(pod.requests.items())),
        pod.priority,
        pod.resource_claims,
    )


class Queue(Generic[Event]):
    """All pods that wait for a node.

    Args:
        helps: may this event let that parked pod be scheduled?
        ignored_keys: annotation keys that we write ourselves.
    """

    def __init__(
        self,
        *,
        helps: Callable[[Event, Item], bool],
        ignored_keys: frozenset[str] = frozenset(),
    ) -> None:
        self._helps = helps
        self._ignored = ignored_keys
        self._items: dict[str, Item] = {}
        self._tickets = 0
        self._active = heap.Heap[tuple[int, float, int]]()
        self._resting = heap.Heap[tuple[float, int]]()
        self._erred = heap.Heap[tuple[float, int]]()
        self._parked: dict[str, None] = {}
        self._rejected: dict[str, dict[str, None]] = {}
        self._flights: dict[str, int] = {}
        self._missed: list[Event] = []
        self._touched: set[str] = set()

    def add(self, pod: pods.Pod, now: instant.Instant) -> None:
        """Queue a pod, or take up the new version of one that is known."""
        if pod.uid in self._items:
            self.update(pod, now)
            return
        place = Place.GATED if pod.gates else Place.ACTIVE
        at_s = now.monotonic_s
        item = Item(pod=pod, place=place, since_s=at_s, added_s=at_s, rested_from_s=at_s)
        self._put(item, place, at_s)

    def update(self, pod: pods.Pod, now: instant.Instant) -> None:
        """Take up a new version; only a change of what placement reads moves the pod."""
        item = self._items.get(pod.uid)
        if item is None:
            self.add(pod, now)
            return
        changed = self._news(item.pod, pod)
        self._items[pod.uid] = item = dataclasses.replace(item, pod=pod)
        if not changed:
            return
        opened = item.place is Place.GATED and not pod.gates
        if opened or item.place is Place.UNSCHEDULABLE:
            self._ready(item, now)
        elif item.place is Place.IN_FLIGHT:
            self._touched.add(pod.uid)
        elif item.place is Place.ACTIVE:
            self._put(item, item.place, item.since_s)

    def remove(self, uid: str) -> None:
        """Forget a pod, wherever it is: bound, deleted, or no longer ours."""
        item = self._items.pop(uid, None)
        if item is not None:
            self._leave(item)

    def pop(self, now: instant.Instant) -> Item | None:
        """The pod to try now, which is in flight from here on; None if none is due."""
        self._end_rests(now)
        uid = self._active.pop()
        if uid is None:
            uid = self._resting.pop()
        if uid is None:
            return None
        return self._move(self._items[uid], Place.IN_FLIGHT, now)

    def take(self, uid: str, now: instant.Instant) -> None:
        """Let a pod of `RESTING` be in flight, out of its turn; harmless anywhere else."""
        item = self._items.get(uid)
        if item is not None and item.place in RESTING:
            self._move(item, Place.IN_FLIGHT, now)

    def assumed(self, uid: str, now: instant.Instant) -> None:
        """The pod in flight has a node and its bind has begun."""
        item = self._flying(uid)
        if item is not None:
            self._move(item, Place.BINDING, now)

    def park(
        self,
        uid: str,
        plugins: frozenset[str],
        now: instant.Instant,
        *,
        words: frozenset[str] = frozenset(),
    ) -> None:
        """No node took the pod in flight; wait for an event that may help.

        Events that came during the flight are looked at now; one that may help sends the
        pod to rest instead.

        Args:
            uid: the pod.
            plugins: filters that rejected it on any node.
            now: the present.
            words: device types that it asks for.
        """
        item = self._flying(uid)
        if item is None:
            return
        at_s = now.monotonic_s
        item = dataclasses.replace(
            item,
            plugins=plugins,
            words=words,
            failures=item.failures + 1,
            errors=0,
            rested_from_s=at_s,
        )
        missed = self._missed[self._flights.get(uid, len(self._missed)) :]
        if item.pod.gates:
            self._move(item, Place.GATED, now)
        elif uid in self._touched or any(self._helps(event, item) for event in missed):
            self._move(item, Place.BACKOFF, now)
        else:
            self._move(item, Place.UNSCHEDULABLE, now)

    def backoff(self, uid: str, now: instant.Instant) -> None:
        """The attempt or the bind of this pod broke; try again after a rest."""
        item = self._items.get(uid)
        if item is None:
            return
        item = dataclasses.replace(item, errors=item.errors + 1, rested_from_s=now.monotonic_s)
        self._move(item, Place.GATED if item.pod.gates else Place.BACKOFF, now)

    def wake(
        self, event: Event, now: instant.Instant, *, among: frozenset[str] | None = None
    ) -> int:
        """Let every parked pod that the event may help be tried; how many these were.

        To be called after the state that the event changed was brought up to date.

        Args:
            event: what happened.
            now: the present.
            among: the event helps pods that one of these filters rejected, and no others.
        """
        if self._flights:
            self._missed.append(event)
        woken = [item for item in self._candidates(among) if self._helps(event, item)]
        for item in woken:
            self._ready(item, now)
        return len(woken)

    def rouse(self, uid: str, now: instant.Instant) -> None:
        """Let this pod be tried again, if it is parked."""
        item = self._items.get(uid)
        if item is not None and item.place is Place.UNSCHEDULABLE:
            self._ready(item, now)

    def flush(self, now: instant.Instant) -> None:
        """End the rests that are over, and try what was parked for 5 minutes."""
        self._end_rests(now)
        while self._parked:
            item = self._items[next(iter(self._parked))]
            if item.since_s + NET_S > now.monotonic_s:
                return
            self._ready(item, now)

    def next_due(self, now: instant.Instant) -> float | None:
        """Seconds until `pop` or `flush` would do something by time alone; None if never."""
        if self._active or self._resting:
            return 0.0
        due: list[float] = []
        if (rest := self._erred.first()) is not None:
            due.append(rest[0])
        if self._parked:
            due.append(self._items[next(iter(self._parked))].since_s + NET_S)
        return max(0.0, min(due) - now.monotonic_s) if due else None

    def get(self, uid: str) -> Item | None:
        """The entry of that pod."""
        return self._items.get(uid)

    def items(self) -> tuple[Item, ...]:
        """Every entry, in the order in which the pods came."""
        return tuple(self._items.values())

    def counts(self) -> Mapping[Place, int]:
        """How many pods are in each place."""
        counts = dict.fromkeys(Place, 0)
        for item in self._items.values():
            counts[item.place] += 1
        return counts

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, uid: object) -> bool:
        return uid in self._items

    def _candidates(self, among: frozenset[str] | None) -> list[Item]:
        """Parked pods, in the order in which they were parked."""
        if among is None:
            return [self._items[uid] for uid in self._parked]
        found = {uid for name in (*among, _NOBODY) for uid in self._rejected.get(name, ())}
        return sorted((self._items[uid] for uid in found), key=lambda item: item.ticket)

    def _news(self, old: pods.Pod, new: pods.Pod) -> bool:
        return significant(old, self._ignored) != significant(new, self._ignored)

    def _flying(self, uid: str) -> Item | None:
        item = self._items.get(uid)
        flying = item is not None and item.place in {Place.IN_FLIGHT, Place.BINDING}
        return item if flying else None

    def _ready(self, item: Item, now: instant.Instant) -> None:
        rested = item.rests_until_s <= now.monotonic_s
        self._move(item, Place.ACTIVE if rested else Place.BACKOFF, now)

    def _end_rests(self, now: instant.Instant) -> None:
        for resting in (self._resting, self._erred):
            while (first := resting.first()) is not None and first[0] <= now.monotonic_s:
                uid = resting.pop()
                if uid is not None:  # pragma: no branch - first() has just seen one
                    self._move(self._items[uid], Place.ACTIVE, now)

    def _move(self, item: Item, place: Place, now: instant.Instant) -> Item:
        self._leave(item)
        return self._put(item, place, now.monotonic_s)

    def _leave(self, item: Item) -> None:
        """Take the pod out of whatever place holds it; harmless where it is not."""
        uid = item.pod.uid
        self._active.discard(uid)
        self._resting.discard(uid)
        self._erred.discard(uid)
        if uid in self._parked:
            del self._parked[uid]
            for name in item.plugins or (_NOBODY,):
                self._rejected.get(name, {}).pop(uid, None)
        self._touched.discard(uid)
        if self._flights.pop(uid, None) is not None and not self._flights:
            self._missed.clear()

    def _put(self, item: Item, place: Place, since_s: float) -> Item:
        self._tickets += 1
        item = dataclasses.replace(item, place=place, since_s=since_s, ticket=self._tickets)
        uid = item.pod.uid
        self._items[uid] = item
        if item.place is Place.ACTIVE:
            self._active.push((-item.pod.priority, item.since_s, item.ticket), uid)
        elif item.place is Place.BACKOFF:
            resting = self._erred if item.errors else self._resting
            resting.push((item.rests_until_s, item.ticket), uid)
        elif item.place is Place.UNSCHEDULABLE:
            self._parked[uid] = None
            for name in item.plugins or (_NOBODY,):
                self._rejected.setdefault(name, {})[uid] = None
        elif item.place is Place.IN_FLIGHT:
            self._flights[uid] = len(self._missed)
        return item
