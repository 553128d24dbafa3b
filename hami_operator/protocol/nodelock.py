"""The node lock: its value, who holds it, and whether it may be taken or removed.

A plugin's allocation call does not say for which pod it is; the plugin serves the pod named in
the lock. So between the binding of a pod and the end of its allocations the lock is its own, and
a lock handed on too early swaps the devices of two pods.

Judging is a look-up in a table of rows, first match wins; a row with a number is that row of the
protocol's table.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import re
from collections.abc import Callable, Sequence
from typing import Final

from hami_operator import errors
from hami_operator.protocol import bindphase, instant, keys

EARLIER: Final = datetime.timedelta(seconds=60)
"""A lock so much older than a pod of that name was taken for an earlier pod of that name."""

SERVED: Final = 9
"""Number of the row for a holder that needs its lock no more."""

_TIME: Final = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{1,6})?\d*(Z|[+-]\d\d:\d\d)", re.ASCII
)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Lock:
    """A lock value.

    Attributes:
        at: when it was taken, UTC.
        namespace: namespace of the holder; empty in values that hold a time only.
        name: name of the holder; empty in values that hold a time only.
    """

    at: datetime.datetime
    namespace: str = ""
    name: str = ""

    @property
    def ownerless(self) -> bool:
        """The value does not say who holds it."""
        return not (self.namespace and self.name)


def encode(lock: Lock) -> str:
    """``<RFC 3339 time, whole seconds, UTC>,<namespace>,<name>``, or the time alone."""
    utc = lock.at.astimezone(datetime.UTC)
    time = f"{utc.year:04}-{utc:%m-%dT%H:%M:%S}Z"
    return time if lock.ownerless else f"{time},{lock.namespace},{lock.name}"


def decode(value: str) -> Lock:
    """Read a lock value, also a time with an offset and a value without a holder.

    Raises:
        errors.DecodeError: not a time, or commas but not three parts.
    """
    parts = value.split(",")
    if len(parts) not in (1, 3):
        raise errors.DecodeError(keys.NODE_LOCK, "fields", f"{value[:80]!r} has not three parts")
    at = _time(parts[0])
    if at is None:
        raise errors.DecodeError(keys.NODE_LOCK, "time", f"{parts[0][:80]!r} is not a time")
    namespace, name = parts[1:] or ("", "")
    return Lock(at=at, namespace=namespace, name=name)


def _time(text: str) -> datetime.datetime | None:
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    try:
        read = datetime.datetime.fromisoformat(f"{found[1]}{found[2] or ''}{found[3]}")
        return read.astimezone(datetime.UTC)
    except (ValueError, OverflowError):
        return None


def age_s(
    lock: Lock, *, first_seen: instant.Instant, now: instant.Instant, at_start: bool
) -> float:
    """Age of a value in seconds, never negative.

    Args:
        lock: the value.
        first_seen: when this process first saw this very value.
        now: the present.
        at_start: the value was there when this process started; only then its own time counts.
    """
    seen_s = now.monotonic_s - first_seen.monotonic_s
    written_s = (now.wall - lock.at).total_seconds() if at_start else 0.0
    return max(seen_s, written_s, 0.0)


def contention(node: str, value: str | None, timeout_s: float) -> str:
    """Text for whoever has to wait for the lock of ``node``."""
    owner = (value or "").partition(",")[2].replace(",", "/") or "an unknown holder"
    within = go_duration(timeout_s)
    return f"node {node} has been locked within {within} by {owner}: node lock contention"


def go_duration(seconds: float) -> str:
    """Seconds as Go prints a duration of whole seconds: ``5m0s``, ``1h0m0s``, ``28s``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{rest}s"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """The pod that wants the lock, or wants to be rid of it."""

    namespace: str
    name: str
    uid: str
    created: datetime.datetime | None = None


class Trace(enum.Enum):
    """What is known about the holder when no pod object is at hand."""

    UNSEEN = "not in the watch cache; only the API server can tell"
    GONE = "the API server has no such pod"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Holder:
    """Facts about the pod whose namespace and name the lock bears.

    Attributes:
        uid: its UID.
        created: its creation time.
        node_name: ``spec.nodeName``, empty while it is not bound.
        phase: ``status.phase``.
        bind_phase: how far its allocation has come.
        unserved: devices of a type whose plugin erases what it serves are still in its
            to-allocate values.
    """

    uid: str
    created: datetime.datetime | None = None
    node_name: str = ""
    phase: str = ""
    bind_phase: bindphase.Phase = bindphase.Phase.NONE
    unserved: bool = False

    def past_allocation(self, node: str) -> bool:
        """The plugin of ``node`` has nothing to serve to this pod any more (rows 9 and 10)."""
        if self.phase in ("Running", "Succeeded", "Failed") or self.node_name not in ("", node):
            return True
        served = self.bind_phase is bindphase.Phase.SUCCESS and not self.unserved
        return served or self.bind_phase is bindphase.Phase.FAILED


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """All that a judgement depends on.

    Attributes:
        value: the node's annotation, None where it is absent.
        node: name of the node.
        claim: the pod that wants the lock.
        set_for: UID of the pod for which this operator wrote this very value, None where
            somebody else wrote it.
        holder: the pod that the value names, looked up.
        expired: the value is older than its limit, see `age_s`.
        bind_in_flight: a bind of ours for the holder is under way.
    """

    value: str | None
    node: str
    claim: Claim
    set_for: str | None = None
    holder: Holder | Trace = Trace.UNSEEN
    expired: bool = False
    bind_in_flight: bool = False

    @property
    def lock(self) -> Lock | None:
        """The value, read; None where it is absent or unreadable."""
        try:
            return None if self.value is None else decode(self.value)
        except errors.DecodeError:
            return None


class Verdict(enum.Enum):
    """What to do about the lock."""

    SET = "the lock is free: write it"
    REPLACE = "the lock is dead: write ours over it, in one PATCH"
    OWN = "the lock is ours already"
    RENEW = "the lock is ours and has expired: write it again"
    WAIT = "the lock is in use"
    ASK = "only the API server knows the holder: read it and judge again"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """The answer of the table.

    Attributes:
        verdict: what to do.
        row: which row matched.
        takeover_reason: why a lock that others may miss is taken, for an event on the node.
        overdue: the lock has expired and yet must stay; an event on the node says so.
    """

    verdict: Verdict
    row: int
    takeover_reason: str | None = None
    overdue: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One row: when it matches, and what follows while the value is fresh and once it expired."""

    number: int
    matches: Callable[[Facts], bool]
    fresh: Verdict
    expired: Verdict
    takeover_reason: str | None = None


def _ours(facts: Facts) -> bool:
    lock = facts.lock
    claim = (facts.claim.namespace, facts.claim.name)
    return lock is not None and not lock.ownerless and (lock.namespace, lock.name) == claim


def _for_earlier_pod(facts: Facts, uid: str, created: datetime.datetime | None) -> bool:
    """The lock bears a name that a later pod has now."""
    if facts.set_for is not None:
        return facts.set_for != uid
    lock = facts.lock
    return lock is not None and created is not None and created - lock.at > EARLIER


def _set_for_earlier_claim(facts: Facts) -> bool:
    return _ours(facts) and _for_earlier_pod(facts, facts.claim.uid, facts.claim.created)


def _holder_is_later(facts: Facts) -> bool:
    holder = facts.holder
    return isinstance(holder, Holder) and _for_earlier_pod(facts, holder.uid, holder.created)


def _holder_done(facts: Facts) -> bool:
    return isinstance(facts.holder, Holder) and facts.holder.past_allocation(facts.node)


def _holder_bound(facts: Facts) -> bool:
    return isinstance(facts.holder, Holder) and bool(facts.holder.node_name)


def _ownerless(facts: Facts) -> bool:
    return facts.lock is not None and facts.lock.ownerless


SHARED: Final = (
    Row(
        number=1,
        matches=lambda facts: facts.value is None,
        fresh=Verdict.SET,
        expired=Verdict.SET,
    ),
    Row(
        number=2,
        matches=lambda facts: facts.lock is None,
        fresh=Verdict.REPLACE,
        expired=Verdict.REPLACE,
        takeover_reason="its value cannot be read",
    ),
    Row(
        number=4,
        matches=_set_for_earlier_claim,
        fresh=Verdict.REPLACE,
        expired=Verdict.REPLACE,
    ),
    Row(number=3, matches=_ours, fresh=Verdict.OWN, expired=Verdict.RENEW),
    Row(
        number=5,
        matches=_ownerless,
        fresh=Verdict.WAIT,
        expired=Verdict.REPLACE,
        takeover_reason="it names no holder and has expired",
    ),
    Row(
        number=6,
        matches=lambda facts: facts.holder is Trace.UNSEEN,
        fresh=Verdict.ASK,
        expired=Verdict.ASK,
    ),
    Row(
        number=6,
        matches=lambda facts: facts.holder is Trace.GONE,
        fresh=Verdict.REPLACE,
        expired=Verdict.REPLACE,
    ),
    Row(number=8, matches=_holder_is_later, fresh=Verdict.REPLACE, expired=Verdict.REPLACE),
    Row(number=SERVED, matches=_holder_done, fresh=Verdict.REPLACE, expired=Verdict.REPLACE),
    # The plugin may still serve this pod, however old the lock is.
    Row(number=11, matches=_holder_bound, fresh=Verdict.WAIT, expired=Verdict.WAIT),
    Row(
        number=12,
        matches=lambda facts: facts.bind_in_flight,
        fresh=Verdict.WAIT,
        expired=Verdict.WAIT,
    ),
    Row(
        number=12,
        matches=lambda _: True,
        fresh=Verdict.WAIT,
        expired=Verdict.REPLACE,
        takeover_reason="its holder was not bound in time",
    ),
)
"""The shared lock. Rows 9 and 10 of the protocol are one row here, numbered 9; row 7 is an error
of the API and no judgement."""


def _waits_here(facts: Facts) -> bool:
    """This operator set the lock for a pod that still waits for its devices here."""
    if facts.set_for is None or not isinstance(facts.holder, Holder):
        return False
    holder = facts.holder
    if facts.set_for != holder.uid or holder.past_allocation(facts.node):
        return False
    return bool(holder.node_name) or facts.bind_in_flight


OWNERLESS: Final = (
    Row(
        number=1,
        matches=lambda facts: facts.value is None,
        fresh=Verdict.SET,
        expired=Verdict.SET,
    ),
    Row(
        number=2,
        matches=lambda facts: facts.lock is None,
        fresh=Verdict.REPLACE,
        expired=Verdict.REPLACE,
        takeover_reason="its value cannot be read",
    ),
    Row(
        number=3,
        matches=lambda facts: facts.set_for == facts.claim.uid,
        fresh=Verdict.OWN,
        expired=Verdict.RENEW,
    ),
    Row(
        number=4,
        matches=lambda facts: facts.set_for is not None and facts.holder is Trace.UNSEEN,
        fresh=Verdict.WAIT,
        expired=Verdict.ASK,
    ),
    Row(number=5, matches=_waits_here, fresh=Verdict.WAIT, expired=Verdict.WAIT),
    Row(
        number=6,
        matches=lambda _: True,
        fresh=Verdict.WAIT,
        expired=Verdict.REPLACE,
        takeover_reason="it has expired",
    ),
)
"""A vendor's own lock, whose value is a time and names nobody."""


def judge(facts: Facts, table: Sequence[Row] = SHARED) -> Judgement:
    """Whether the lock may be taken.

    Raises:
        LookupError: no row matches; the table is broken.
    """
    for row in table:
        if row.matches(facts):
            return _judgement(row, expired=facts.expired)
    raise LookupError(f"no row for {facts!r}")


def _judgement(row: Row, *, expired: bool) -> Judgement:
    verdict = row.expired if expired else row.fresh
    taken = verdict is Verdict.REPLACE
    return Judgement(
        verdict=verdict,
        row=row.number,
        takeover_reason=row.takeover_reason if taken else None,
        overdue=expired and verdict is Verdict.WAIT,
    )


class Release(enum.Enum):
    """What to do about a lock that is no longer wanted."""

    DONE = "nothing is there"
    REMOVE = "remove it, with the resourceVersion that was read"
    LEAVE = "it is somebody else's"


RELEASES: Final[Sequence[tuple[Callable[[Facts], bool], Release]]] = (
    (lambda facts: facts.value is None, Release.DONE),
    (lambda facts: facts.set_for not in (None, facts.claim.uid), Release.LEAVE),
    (_ours, Release.REMOVE),
    # A time alone belongs to nobody, so anyone may remove it.
    (_ownerless, Release.REMOVE),
    (lambda _: True, Release.LEAVE),
)
"""Releasing the shared lock; the claim is the pod that gives it up."""

OWNERLESS_RELEASES: Final[Sequence[tuple[Callable[[Facts], bool], Release]]] = (
    (lambda facts: facts.value is None, Release.DONE),
    (lambda facts: facts.set_for == facts.claim.uid, Release.REMOVE),
    (lambda _: True, Release.LEAVE),
)
"""Releasing a vendor's own lock: only what this operator set, for the pod it set it for."""


def release(
    facts: Facts, table: Sequence[tuple[Callable[[Facts], bool], Release]] = RELEASES
) -> Release:
    """Whether the lock may be removed on behalf of ``facts.claim``.

    Raises:
        LookupError: no row matches; the table is broken.
    """
    for matches, verdict in table:
        if matches(facts):
            return verdict
    raise LookupError(f"no row for {facts!r}")
