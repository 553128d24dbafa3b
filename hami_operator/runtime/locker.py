"""The locks of a whole pod: one pod per node between its binding and its last allocation.

Binds stand in line per node, and only the first may try. Several locks are taken in one order
and given back in reverse; a retry starts from the first.

A plugin that finds no lock searches its node for the pod, and may find any that is open
(`serving`). Therefore:

- with locks kept in memory the shared one is written only where the search could go wrong; a
  lock that others have left is respected all the same;
- a pod of several types that share the lock is searched for in any case, by all plugins but the
  one that is done first and removes the lock: it goes where no other pod is open, and nobody
  follows it before kubelet has taken it on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from hami_operator import errors
from hami_operator.cluster import ports
from hami_operator.devices import registry as registries
from hami_operator.protocol import keys, nodelock
from hami_operator.runtime import arrivals, line, lockbook, outcome
from hami_operator.runtime import latch as latches
from hami_operator.scheduling import effects

GRACE_S: Final = 5.0
"""How long a plugin has to remove the lock of a pod that needs it no more."""

_log = structlog.get_logger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Need:
    """What a decision needs of the locks of its node.

    Attributes:
        keys: the locks, in the order of taking.
        is_mixed: several of its types share one lock.
    """

    keys: tuple[str, ...] = ()
    is_mixed: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Hold:
    """What one bind holds until `Locker.finish`: its place in line, and locks in their order."""

    claim: nodelock.Claim
    node: str
    need: Need
    place: line.Place
    taken: tuple[str, ...] = ()


def needed(annotations: Mapping[str, str], registry: registries.Registry) -> Need:
    """What a decision with these annotations needs."""
    rows = [row for row in registry if row.lock and row.pod.recorded in annotations]
    sharing = [row for row in rows if row.lock == keys.NODE_LOCK]
    locks = registry.lock_keys(row.keyword for row in rows)
    return Need(keys=locks, is_mixed=len(sharing) > 1)


class Locker:
    """Hands the locks of a node to one pod after the other.

    Args:
        latch: takes and releases single locks.
        watched: what the watch tells.
        is_wanted: whether the pod still has its reservation.
        in_memory: no lock is written where none is found and no plugin can take a wrong pod.
        timeout_s: patience of one bind.
    """

    def __init__(
        self,
        latch: latches.Latch,
        watched: lockbook.Watched,
        *,
        is_wanted: Callable[[str], bool],
        metrics: ports.Recorder,
        in_memory: bool,
        timeout_s: float,
    ) -> None:
        self._latch = latch
        self._watched = watched
        self._is_wanted = is_wanted
        self._metrics = metrics
        self._in_memory = in_memory
        self._timeout_s = timeout_s
        self._lines = line.Lines()
        self._arrivals = arrivals.Arrivals(watched)
        self._dead_since_s: dict[tuple[str, str, str], float] = {}
        self._stopping = False

    async def acquire(self, order: effects.Bind, need: Need) -> Hold | outcome.Outcome:
        """Wait for the turn of a pod and take its locks; `finish` must follow a `Hold`.

        The wait ends with the locks, with the patience, with the pod, or with this process.
        """
        pod, began_s = order.pod, self._now_s()
        claim = nodelock.Claim(
            namespace=pod.namespace, name=pod.name, uid=pod.uid, created=pod.created
        )
        place = self._lines.join(order.node, pod.uid, until_s=began_s + self._timeout_s)
        hold: Hold | outcome.Outcome | None = None
        try:
            hold = await self._wait(Hold(claim=claim, node=order.node, need=need, place=place))
        finally:
            if not isinstance(hold, Hold):
                self._lines.leave(place)
        self._metrics.observe("hami_node_lock_wait_seconds", self._now_s() - began_s)
        return hold

    async def finish(self, hold: Hold, *, keep: bool) -> None:
        """The bind is over: leave the locks to the plugin, or give them back."""
        try:
            if keep:
                self._expect(hold)
            else:
                await self._give_back(hold, hold.taken)
        finally:
            self._lines.leave(hold.place)

    def _expect(self, hold: Hold) -> None:
        arrival = arrivals.Arrival(
            claim=hold.claim,
            is_mixed=hold.need.is_mixed,
            until_s=self._now_s() + self._timeout_s,
        )
        self._arrivals.add(hold.node, arrival)

    def changed(self, node: str) -> None:
        """Something about a lock or its holder changed: the first in line looks again."""
        self._lines.wake(node)

    def tick(self) -> None:
        """Time has passed; to be called about once a second."""
        self._lines.tick(self._now_s())

    def stop(self) -> None:
        """Nobody waits for a lock any longer; binds that hold theirs go on."""
        self._stopping = True
        self._lines.wake_all()

    @property
    def waiting(self) -> int:
        """How many binds stand in line or hold locks."""
        return len(self._lines)

    def dead(self) -> tuple[effects.StaleLock, ...]:
        """Vendors' own locks that we set, and whose pods have needed them no more for a while.

        The watch knows the holder of the shared lock alone; of these only we know it.
        """
        since: dict[tuple[str, str, str], float] = {}
        for node, key, value, claim in self._latch.book.sets():
            if self._latch.is_shared(key) or not self._is_past(claim, node):
                continue
            found = (node, key, value)
            since[found] = self._dead_since_s.get(found, self._now_s())
        late = [found for found, at in since.items() if self._now_s() - at >= GRACE_S]
        since.update(dict.fromkeys(late, self._now_s()))  # again after as long, if it fails
        self._dead_since_s = since
        return tuple(effects.StaleLock(node=node, key=key, value=v) for node, key, v in late)

    async def remove_dead(self, order: effects.StaleLock) -> None:
        """Remove a lock that outlived its holder; what fails is ordered again after a while."""
        try:
            removed = await self._latch.remove_dead(order.node, order.key, order.value)
        except (errors.ApiError, errors.Fenced) as error:
            _log.warning("dead lock not removed", node=order.node, error=str(error))
            return
        if removed:
            _log.info("dead lock removed", node=order.node, key=order.key, value=order.value)
            self._metrics.count("hami_node_locks_removed_total")
            self.changed(order.node)

    async def _wait(self, wanted: Hold) -> Hold | outcome.Outcome:
        contended = False
        while True:
            answer = await self._look(wanted)
            if not isinstance(answer, str):
                return answer
            if not contended:
                contended = True
                self._metrics.count("hami_node_lock_contention_total")
            if self._now_s() >= wanted.place.until_s or self._is_in_vain(wanted):
                return _ended(outcome.Ending.CONTENDED, answer)
            await wanted.place.wait()

    async def _look(self, wanted: Hold) -> Hold | outcome.Outcome | str:
        """Try if it is this one's turn; a text says why it must wait."""
        if self._stopping:
            return _ended(outcome.Ending.STOPPED, "the process stops")
        if not self._is_wanted(wanted.claim.uid):
            return _ended(outcome.Ending.GONE, "the pod went while it waited for the node lock")
        if not self._lines.is_first(wanted.place):
            return self._latch.contention(wanted.node, wanted.need.keys[0])
        blocked = self._blocked(wanted)
        if blocked:
            return blocked
        return await self._take(wanted)

    def _blocked(self, wanted: Hold) -> str:
        """Why a try would be in vain, as far as the cache knows; costs no request."""
        claim, node = wanted.claim, wanted.node
        ahead = self._served_first(wanted)
        if ahead:
            return nodelock.contention(node, f",{ahead}", self._timeout_s)
        for key in wanted.need.keys:
            judgement = self._latch.judge(claim, node, key)
            if judgement.verdict is nodelock.Verdict.WAIT:
                self._let_holder_first(node, key)
                return self._latch.contention(node, key)
            if self._latch.is_leaving(node, key, judgement):
                return self._latch.contention(node, key)
        return ""

    def _let_holder_first(self, node: str, key: str) -> None:
        """A lock that an earlier life of ours took for a pod further back in the same line."""
        holder = self._latch.holder(node, key)
        if isinstance(holder, nodelock.Holder):
            self._lines.promote(node, holder.uid)

    def _served_first(self, wanted: Hold) -> str:
        """A pod that must be past its allocation first, whatever the locks say; empty if none."""
        uid, is_mixed = wanted.claim.uid, wanted.need.is_mixed
        for arrival in self._arrivals.on(wanted.node, self._now_s()):
            counts = self._in_memory or is_mixed or arrival.is_mixed
            if counts and arrival.claim.uid != uid:
                return str(arrival)
        facts = self._watched.lock_facts(wanted.node)
        if is_mixed and (others := facts.others(uid)):
            return str(others[0].pod)
        if self._in_memory:
            return facts.occupant(uid)
        return facts.in_the_way(uid, self._timeout_s, self._latch.now())

    def _is_in_vain(self, wanted: Hold) -> bool:
        """Whether it waits for a pod that has been pending for longer than anybody may wait.

        Everybody behind it in the line would wait as well, again and again.
        """
        others = self._watched.lock_facts(wanted.node).others(wanted.claim.uid)
        now = self._latch.now()
        return wanted.need.is_mixed and any(one.age_s(now) > self._timeout_s for one in others)

    def _is_past(self, claim: nodelock.Claim, node: str) -> bool:
        """Whether the plugin has nothing to do for this pod any more, as the watch has it."""
        holder = self._latch.holder_of(claim)
        return not isinstance(holder, nodelock.Holder) or holder.past_allocation(node)

    async def _take(self, wanted: Hold) -> Hold | outcome.Outcome | str:
        """All locks, or none and the first thing that went wrong."""
        taken: tuple[str, ...] = ()
        try:
            for key in wanted.need.keys:
                if self._is_left_out(wanted, key):
                    continue
                if not await self._latch.take(wanted.claim, wanted.node, key):
                    await self._give_back(wanted, taken)
                    return self._latch.contention(wanted.node, key)
                taken = (*taken, key)
        except (errors.ApiError, errors.Fenced) as error:
            await self._give_back(wanted, taken)
            fenced = isinstance(error, errors.Fenced)
            ending = outcome.Ending.STOPPED if fenced else outcome.Ending.FAILED
            return _ended(ending, str(error))
        return dataclasses.replace(wanted, taken=taken)

    def _is_left_out(self, wanted: Hold, key: str) -> bool:
        """Whether no plugin needs this lock to find its pod, and there is none to be replaced."""
        if not self._in_memory:
            return False
        facts = self._watched.lock_facts(wanted.node)
        is_crowded = facts.has_free_types or bool(facts.others(wanted.claim.uid))
        if self._latch.is_shared(key) and is_crowded:
            return False
        verdict = self._latch.judge(wanted.claim, wanted.node, key).verdict
        return verdict is nodelock.Verdict.SET

    async def _give_back(self, hold: Hold, taken: tuple[str, ...]) -> None:
        """In reverse order, all of them, whatever happens; errors never hide what led here."""
        for key in reversed(taken):
            try:
                await self._latch.release(hold.claim, hold.node, key)
            except (errors.ApiError, errors.Fenced) as error:
                self._metrics.count("hami_node_lock_release_failures_total")
                _log.warning("lock not released", node=hold.node, key=key, error=str(error))

    def _now_s(self) -> float:
        return self._latch.now().monotonic_s


def _ended(ending: outcome.Ending, message: str) -> outcome.Outcome:
    return outcome.Outcome(ending=ending, message=message)
