"""Taking and giving back one node lock: judged from the cache, written on condition (D13).

Every write carries the resourceVersion that was judged. A conflict, or a lost answer, means:
read the Node and judge anew; the table decides, never the error.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Final, Protocol

from hami_operator import clock, errors
from hami_operator.cluster import ports
from hami_operator.protocol import instant, keys, nodelock
from hami_operator.runtime import lockbook, present, retry
from hami_operator.scheduling import effects, locks
from hami_operator.scheduling import pod as pods

ATTEMPTS: Final = 5
UNLOCK_S: Final = 1.0
"""So soon after it has served a pod its plugin removes the lock, if it ever does."""
OWN_LOCK_TIMEOUT_S: Final = 120.0
"""Age at which a vendor's own lock, which names nobody, counts as expired."""


class Api(ports.NodeReader, ports.NodeWriter, ports.PodReader, Protocol):
    """What a lock asks of the API server."""


class Latch:
    """All single locks; who may try, and when, is decided elsewhere."""

    def __init__(
        self,
        api: Api,
        watched: lockbook.Watched,
        *,
        read_holder: Callable[[pods.Pod], nodelock.Holder],
        tell: Callable[[effects.Effect], None],
        time: clock.Clock,
        metrics: ports.Recorder,
        generator: random.Random,
        timeout_s: float,
    ) -> None:
        self._api = api
        self._watched = watched
        self._read_holder = read_holder
        self._tell = tell
        self._time = time
        self._metrics = metrics
        self._generator = generator
        self._timeout_s = timeout_s
        self._told: dict[tuple[str, str], str] = {}
        self.book = lockbook.Book(watched)

    def judge(
        self,
        claim: nodelock.Claim,
        node: str,
        key: str,
        holder: nodelock.Holder | nodelock.Trace | None = None,
    ) -> nodelock.Judgement:
        """What the cache says about a lock.

        Args:
            claim: the pod that wants it.
            node: name of the node.
            key: which lock.
            holder: its holder, where the API server was asked.
        """
        facts = self._facts(claim, node, key, holder)
        table = nodelock.SHARED if self.is_shared(key) else nodelock.OWNERLESS
        judgement = nodelock.judge(facts, table)
        if judgement.overdue:
            self._tell_overdue(node, key, facts.value or "")
        return judgement

    def is_leaving(self, node: str, key: str, judgement: nodelock.Judgement) -> bool:
        """Whether the plugin is about to remove a lock that its holder needs no more.

        It says on the pod that all is served and removes the lock right after. A write of ours
        in between would meet its write, and cost a conflict, a read and another write.
        """
        if judgement.verdict is not nodelock.Verdict.REPLACE or judgement.row != nodelock.SERVED:
            return False
        holder = self.holder(node, key)
        if not isinstance(holder, nodelock.Holder) or holder.node_name != node:
            return False
        now = self.now()
        seen = self.book.look(node, key, now)
        facts = self._watched.lock_facts(node)
        since_s = facts.leaving_since_s
        if since_s is None or _text(facts) != seen.value:
            since_s = seen.first_seen.monotonic_s  # no watch has shown this lock yet
        return now.monotonic_s < since_s + UNLOCK_S

    def contention(self, node: str, key: str) -> str:
        """Why somebody has to wait for a lock, naming its holder."""
        value = self.book.look(node, key, self.now()).value
        return nodelock.contention(node, value, self._limit_s(key))

    async def take(self, claim: nodelock.Claim, node: str, key: str) -> bool:
        """Take a lock; False where it is in use.

        Raises:
            errors.ApiError: it could be neither taken nor found in use.
            errors.Fenced: this process leads no more.
        """
        problem: errors.ApiError | None = None
        for attempt in range(ATTEMPTS):
            try:
                await self._look_again(node, attempt, problem)
                judgement = await self._judged(claim, node, key)
                if judgement.verdict is nodelock.Verdict.WAIT:
                    return False
                await self._occupy(claim, node, key, judgement)
            except (errors.Conflict, errors.Unclear, errors.Retryable) as error:
                problem = error
            else:
                return True
        raise errors.ApiError(f"failed to set node lock (node={node}): {problem}")

    async def release(self, claim: nodelock.Claim, node: str, key: str) -> bool:
        """Give a lock back; False where it was gone, or somebody else's, by now.

        Raises:
            errors.ApiError: the Node could not be written; the lock stays and will expire.
            errors.Fenced: this process leads no more.
        """
        problem: errors.ApiError | None = None
        for attempt in range(ATTEMPTS):
            try:
                await self._look_again(node, attempt, problem)
                return await self._vacate(claim, node, key)
            except errors.NotFound:
                return False
            except (errors.Conflict, errors.Unclear, errors.Retryable) as error:
                problem = error
        raise errors.ApiError(f"failed to release node lock (node={node}): {problem}")

    async def remove_dead(self, node: str, key: str, value: str) -> bool:
        """Remove a lock whose holder needs it no more; False where that is not so any more."""
        claim = self.book.claim(node, key, value) or _named(value)
        if claim is None or self.book.look(node, key, self.now()).value != value:
            return False
        holder = await self._ask(claim, node)
        if isinstance(holder, nodelock.Holder):
            if not holder.past_allocation(node):
                return False
            claim = dataclasses.replace(claim, uid=claim.uid or holder.uid)
        return await self.release(claim, node, key)

    def holder_of(self, claim: nodelock.Claim, node: str = "") -> nodelock.Holder | nodelock.Trace:
        """The pod of a claim as the watch has it: by UID, else the latest one of its name."""
        found: pods.Pod | None = None
        if claim.uid:
            found = self._watched.pod(claim.uid)
        else:
            facts = self._watched.lock_facts(node)
            if _named(_text(facts)) == claim:
                return facts.holder
            named = [pod for pod in self._watched.known_pods() if pod.key == _key(claim)]
            found = named[-1] if named else None
        return nodelock.Trace.UNSEEN if found is None else self._read_holder(found)

    def holder(self, node: str, key: str) -> nodelock.Holder | nodelock.Trace:
        """Who holds a lock, as the watch has it."""
        value = self.book.look(node, key, self.now()).value
        claim = self.book.claim(node, key, value)
        if self.is_shared(key):
            claim = _named(value)
        return nodelock.Trace.UNSEEN if claim is None else self.holder_of(claim, node)

    @staticmethod
    def is_shared(key: str) -> bool:
        """Whether a lock is the one of all backends, whose value names its holder."""
        return key == keys.NODE_LOCK

    def now(self) -> instant.Instant:
        """This moment."""
        return present.read(self._time)

    async def _look_again(self, node: str, attempt: int, problem: errors.ApiError | None) -> None:
        """Before any attempt but the first: a pause, and a read if the cache is out of date.

        Whoever's write met ours has written by then, so after the first conflict there is no
        reason to wait.
        """
        if attempt == 0:
            if not self._watched.lock_facts(node).known:
                raise errors.NotFound(f"failed to get node {node}: not found", status=404)
            return
        if attempt > 1 or not isinstance(problem, errors.Conflict):
            pause_s = retry.pause_s(attempt - 1, problem, generator=self._generator)
            await self._time.sleep(pause_s)
        if not isinstance(problem, errors.Retryable):
            self.book.answered(node, await self._api.get_node(node), self.now())

    async def _judged(self, claim: nodelock.Claim, node: str, key: str) -> nodelock.Judgement:
        judgement = self.judge(claim, node, key)
        if judgement.verdict is not nodelock.Verdict.ASK:
            return judgement
        named = _named(self.book.look(node, key, self.now()).value)
        holder = nodelock.Trace.GONE if named is None else await self._ask(named, node)
        return self.judge(claim, node, key, holder)

    async def _ask(self, claim: nodelock.Claim, node: str) -> nodelock.Holder | nodelock.Trace:
        """The pod of a claim, from the API server where the watch does not know it."""
        holder = self.holder_of(claim, node)
        if holder is not nodelock.Trace.UNSEEN:
            return holder
        try:
            raw = await self._api.get_pod(claim.namespace, claim.name)
        except errors.NotFound:
            return nodelock.Trace.GONE
        found = pods.read(raw)
        if claim.uid and found.uid != claim.uid:
            return nodelock.Trace.GONE
        return self._read_holder(found)

    async def _occupy(
        self, claim: nodelock.Claim, node: str, key: str, judgement: nodelock.Judgement
    ) -> None:
        if judgement.verdict is nodelock.Verdict.OWN:
            seen = self.book.look(node, key, self.now())
            self.book.set(node, key, seen.value or "", claim)
            return
        lock = nodelock.Lock(at=self._time.wall())
        if self.is_shared(key):
            lock = dataclasses.replace(lock, namespace=claim.namespace, name=claim.name)
        before = self.book.look(node, key, self.now()).value
        value = nodelock.encode(lock)
        await self._write(node, key, value)
        self.book.set(node, key, value, claim)
        if judgement.verdict is nodelock.Verdict.REPLACE:
            self._tell_takeover(node, key, before or "", judgement)

    async def _vacate(self, claim: nodelock.Claim, node: str, key: str) -> bool:
        facts = self._facts(claim, node, key, None)
        shared = self.is_shared(key)
        table = nodelock.RELEASES if shared else nodelock.OWNERLESS_RELEASES
        removes = nodelock.release(facts, table) is nodelock.Release.REMOVE
        if removes:
            await self._write(node, key, None)
        self.book.unset(node, key, claim)
        return removes

    async def _write(self, node: str, key: str, value: str | None) -> None:
        seen = self.book.look(node, key, self.now())
        metadata = {"resourceVersion": seen.version, "annotations": {key: value}}
        raw = await self._api.patch_node(node, {"metadata": metadata})
        self.book.answered(node, raw, self.now())

    def _facts(
        self,
        claim: nodelock.Claim,
        node: str,
        key: str,
        holder: nodelock.Holder | nodelock.Trace | None,
    ) -> nodelock.Facts:
        now = self.now()
        seen = self.book.look(node, key, now)
        set_for = self.book.claim(node, key, seen.value)
        named = _named(seen.value) if self.is_shared(key) else set_for
        if holder is None:
            holder = nodelock.Trace.UNSEEN if named is None else self.holder_of(named, node)
        bare = nodelock.Facts(value=seen.value, node=node, claim=claim)
        return dataclasses.replace(
            bare,
            set_for=set_for.uid if set_for is not None else None,
            holder=holder,
            expired=bare.lock is not None and self._expired(bare.lock, seen, key, now),
            bind_in_flight=isinstance(holder, nodelock.Holder)
            and self._watched.is_binding(holder.uid),
        )

    def _expired(
        self, lock: nodelock.Lock, seen: lockbook.Seen, key: str, now: instant.Instant
    ) -> bool:
        age_s = nodelock.age_s(lock, first_seen=seen.first_seen, now=now, at_start=seen.at_start)
        return age_s > self._limit_s(key)

    def _limit_s(self, key: str) -> float:
        return self._timeout_s if self.is_shared(key) else OWN_LOCK_TIMEOUT_S

    def _tell_takeover(
        self, node: str, key: str, before: str, judgement: nodelock.Judgement
    ) -> None:
        reason = judgement.takeover_reason
        self._metrics.count(
            "hami_node_lock_takeovers_total", reason=reason or "its holder needs it no more"
        )
        if reason is not None:
            self._tell(_warning(node, "NodeLockTakenOver", f"{key}={before!r}: {reason}"))

    def _tell_overdue(self, node: str, key: str, value: str) -> None:
        """Once per value: the lock is old, but its holder may still be served (D13)."""
        if self._told.get((node, key)) == value:
            return
        self._told[node, key] = value
        text = f"{key}={value!r} has expired, but its holder still waits for its devices here"
        self._tell(_warning(node, "NodeLockOverdue", text))


def _named(value: str | None) -> nodelock.Claim | None:
    """The pod that a shared lock names, of whatever UID."""
    try:
        lock = nodelock.decode(value or "")
    except errors.DecodeError:
        return None
    if lock.ownerless:
        return None
    return nodelock.Claim(namespace=lock.namespace, name=lock.name, uid="")


def _text(facts: locks.Facts) -> str | None:
    shared = facts.values.get(keys.NODE_LOCK)
    return None if shared is None else shared.text


def _key(claim: nodelock.Claim) -> tuple[str, str]:
    return claim.namespace, claim.name


def _warning(node: str, reason: str, message: str) -> effects.NodeEvent:
    return effects.NodeEvent(
        node=node, type=effects.EventType.WARNING, reason=reason, message=message
    )
