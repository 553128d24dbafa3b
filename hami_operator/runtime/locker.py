"""The locks of a whole pod: one pod per node between its binding and its last allocation.

Binds stand in line per node, and only the first may try. Several locks are taken in one order
and given back in reverse; a retry starts from the first. With locks kept in memory nothing is
written where the annotation is free, but one that others have left is respected all the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from hami_operator import errors
from hami_operator.cluster import ports
from hami_operator.devices import registry as registries
from hami_operator.protocol import nodelock
from hami_operator.runtime import latch as latches
from hami_operator.runtime import line, lockbook, outcome
from hami_operator.scheduling import effects

GRACE_S: Final = 5.0
"""How long a plugin has to remove the lock of a pod that needs it no more."""

_log = structlog.get_logger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Hold:
    """What one bind holds until `Locker.finish`: its place in line, and locks in their order."""

    claim: nodelock.Claim
    node: str
    keys: tuple[str, ...]
    place: line.Place


def needed(annotations: Mapping[str, str], registry: registries.Registry) -> tuple[str, ...]:
    """The locks that a decision with these annotations needs, in the order of taking."""
    words = [row.keyword for row in registry if row.pod.recorded in annotations]
    return registry.lock_keys(words)


class Locker:
    """Hands the locks of a node to one pod after the other.

    Args:
        latch: takes and releases single locks.
        watched: what the watch tells.
        is_wanted: whether the pod still has its reservation.
        in_memory: no lock is written where none is found.
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
        self._last: dict[str, nodelock.Claim] = {}
        self._dead_since_s: dict[tuple[str, str, str], float] = {}
        self._stopping = False

    async def acquire(self, order: effects.Bind, keys: tuple[str, ...]) -> Hold | outcome.Outcome:
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
            hold = await self._wait(Hold(claim=claim, node=order.node, keys=keys, place=place))
        finally:
            if not isinstance(hold, Hold):
                self._lines.leave(place)
        self._metrics.observe("hami_node_lock_wait_seconds", self._now_s() - began_s)
        return hold

    async def finish(self, hold: Hold, *, keep: bool) -> None:
        """The bind is over: leave the locks to the plugin, or give them back."""
        try:
            if keep:
                self._last[hold.node] = hold.claim
            else:
                await self._give_back(hold, hold.keys)
        finally:
            self._lines.leave(hold.place)

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
            if self._now_s() >= wanted.place.until_s:
                return _ended(outcome.Ending.CONTENDED, answer)
            await wanted.place.wait()

    async def _look(self, wanted: Hold) -> Hold | outcome.Outcome | str:
        """Try if it is this one's turn; a text says why it must wait."""
        if self._stopping:
            return _ended(outcome.Ending.STOPPED, "the process stops")
        if not self._is_wanted(wanted.claim.uid):
            return _ended(outcome.Ending.GONE, "the pod went while it waited for the node lock")
        if not self._lines.is_first(wanted.place):
            return self._latch.contention(wanted.node, wanted.keys[0])
        blocked = self._blocked(wanted)
        if blocked:
            return blocked
        return await self._take(wanted)

    def _blocked(self, wanted: Hold) -> str:
        """Why a try would be in vain, as far as the cache knows; costs no request."""
        claim, node = wanted.claim, wanted.node
        ahead = self._served_first(claim, node)
        if ahead:
            return nodelock.contention(node, f",{ahead}", self._timeout_s)
        for key in wanted.keys:
            if self._latch.judge(claim, node, key).verdict is nodelock.Verdict.WAIT:
                self._let_holder_first(node, key)
                return self._latch.contention(node, key)
        return ""

    def _let_holder_first(self, node: str, key: str) -> None:
        """A lock that an earlier life of ours took for a pod further back in the same line."""
        holder = self._latch.holder(node, key)
        if isinstance(holder, nodelock.Holder):
            self._lines.promote(node, holder.uid)

    def _served_first(self, claim: nodelock.Claim, node: str) -> str:
        """A pod that is being served there although no lock says so; empty if none."""
        last = self._last.get(node)
        if self._in_memory and last is not None and last.uid != claim.uid:
            if not self._is_past(last, node):
                return f"{last.namespace}/{last.name}"
            del self._last[node]
        limit_s = float("inf") if self._in_memory else self._timeout_s
        facts = self._watched.lock_facts(node)
        return facts.in_the_way(claim.uid, limit_s, self._latch.now())

    def _is_past(self, claim: nodelock.Claim, node: str) -> bool:
        """Whether the plugin has nothing to do for this pod any more, as the watch has it."""
        holder = self._latch.holder_of(claim)
        return not isinstance(holder, nodelock.Holder) or holder.past_allocation(node)

    async def _take(self, wanted: Hold) -> Hold | outcome.Outcome | str:
        """All locks, or none and the first thing that went wrong."""
        taken: tuple[str, ...] = ()
        try:
            for key in wanted.keys:
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
        return dataclasses.replace(wanted, keys=taken)

    def _is_left_out(self, wanted: Hold, key: str) -> bool:
        if not self._in_memory:
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
