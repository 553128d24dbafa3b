"""One leader among the replicas, by a Lease; and the fence that ends its writes in time.

A holder has expired when its Lease has not changed, on *our* monotonic clock, for as long as
the Lease says. The times inside it are written for people and never compared. A renewal counts
from before its request was sent; who could not renew for the renew deadline leads no more,
though the others wait until the whole duration has passed.
"""

from __future__ import annotations

import asyncio
import datetime
import math
import random
from typing import Any, Final, Protocol

import structlog

from hami_operator import clock, errors
from hami_operator.cluster import ports

CALL_PART: Final = 0.9
"""A Lease call takes at most this part of the time between renew deadline and duration."""
JITTER: Final = 0.2

_log = structlog.get_logger(__name__)


class Lost(errors.OperatorError):
    """This process led and leads no more; nothing of its term may go on."""


class Leadership(Protocol):
    """What the rest of the runtime knows of the election."""

    @property
    def leading(self) -> bool:
        """Whether this process may decide now, by the clock."""
        ...

    @property
    def term(self) -> int:
        """Number of the term; grows with each change of leader."""
        ...

    @property
    def fence(self) -> ports.Fence:
        """Guards the writes of the term."""
        ...

    async def wait_leading(self) -> None:
        """Wait until this process leads."""
        ...

    async def run(self) -> None:
        """Campaign, then lead; raises `Lost`."""
        ...

    async def release(self) -> None:
        """Give the Lease up, once nothing of the term runs any more."""
        ...


class OpenFence:
    """Lets every write through: without an election nobody else leads."""

    def check(self) -> None:
        """See `ports.Fence`."""

    def remaining_s(self) -> float:
        """See `ports.Fence`."""
        return math.inf


class LeaseFence:
    """Closed until the first renewal, and again when the renew deadline has passed."""

    def __init__(self, time: clock.Clock, *, lease_s: float, renew_s: float) -> None:
        self._time = time
        self._lease_s = lease_s
        self._renew_s = renew_s
        self._renewed_s = -math.inf

    def renewed(self, at_s: float) -> None:
        """A renewal succeeded whose request was sent at ``at_s``."""
        self._renewed_s = at_s

    def close(self) -> None:
        """Let nothing through any more."""
        self._renewed_s = -math.inf

    def check(self) -> None:
        """See `ports.Fence`."""
        if self.until_deadline_s() <= 0:
            raise errors.Fenced("the renew deadline has passed, another process may soon lead")

    def remaining_s(self) -> float:
        """See `ports.Fence`."""
        return self._renewed_s + self._lease_s - self._time.monotonic()

    def until_deadline_s(self) -> float:
        """Seconds until this process must have renewed."""
        return self._renewed_s + self._renew_s - self._time.monotonic()


class AlwaysLeading:
    """Stands in for the election where only one process runs."""

    leading = True
    term = 1

    def __init__(self, recorder: ports.Recorder) -> None:
        self.fence: ports.Fence = OpenFence()
        self._recorder = recorder

    async def wait_leading(self) -> None:
        """See `Leadership`."""

    async def run(self) -> None:
        """See `Leadership`; never ends by itself."""
        self._recorder.gauge("hami_leader", 1)
        await asyncio.Event().wait()

    async def release(self) -> None:
        """See `Leadership`."""


class Leader:
    """The election, for one term: a process that lost it ends, and campaigns as a new one."""

    def __init__(
        self,
        store: ports.LeaseStore,
        *,
        namespace: str,
        name: str,
        identity: str,
        time: clock.Clock,
        generator: random.Random,
        recorder: ports.Recorder,
        lease_s: float = 15.0,
        renew_s: float = 10.0,
        retry_s: float = 2.0,
    ) -> None:
        self._store = store
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._time = time
        self._generator = generator
        self._recorder = recorder
        self._lease_s = lease_s
        self._retry_s = retry_s
        self._call_s = (lease_s - renew_s) * CALL_PART
        self._fence = LeaseFence(time, lease_s=lease_s, renew_s=renew_s)
        self._acquired = asyncio.Event()
        self._term = 0
        self._seen: tuple[dict[str, Any], float] = ({}, -math.inf)

    @property
    def leading(self) -> bool:
        """See `Leadership`; false at the deadline even if nobody told this process."""
        return self._acquired.is_set() and self._fence.until_deadline_s() > 0

    @property
    def term(self) -> int:
        """See `Leadership`; 0 until this process leads."""
        return self._term

    @property
    def fence(self) -> ports.Fence:
        """See `Leadership`."""
        return self._fence

    async def wait_leading(self) -> None:
        """See `Leadership`."""
        await self._acquired.wait()

    async def run(self) -> None:
        """See `Leadership`.

        Raises:
            Lost: the Lease is somebody else's, was deleted, or could not be renewed in time.
        """
        self._recorder.gauge("hami_leader", 0)
        while not await self._campaign():
            await self._time.sleep(self._pause_s())
        self._acquired.set()
        self._recorder.gauge("hami_leader", 1)
        _log.info("leading", lease=self._name, term=self._term)
        try:
            await self._hold()
        finally:
            self._fence.close()
            self._acquired.clear()
            self._recorder.gauge("hami_leader", 0)

    async def release(self) -> None:
        """See `Leadership`; the next process then need not wait for the expiry."""
        self._fence.close()
        self._acquired.clear()
        try:
            lease = await self._store.get_lease(
                self._namespace, self._name, timeout_s=self._call_s
            )
            if _holder(lease) == self._identity:
                await self._replace(lease, holder="")
                _log.info("lease given up", lease=self._name)
        except errors.ApiError as error:
            _log.warning("lease not given up, it will expire", error=str(error))

    def _pause_s(self) -> float:
        """Until the next look: the retry period, or less where the Lease expires before."""
        pause_s = self._retry_s * (1 + JITTER * self._generator.random())
        spec, since_s = self._seen
        left_s = since_s + self._lasts_s(spec) - self._time.monotonic()
        return min(pause_s, left_s) if left_s > 0 else pause_s

    async def _campaign(self) -> bool:
        """Look at the Lease once, and take it if nobody holds it; whether we do now."""
        try:
            lease = await self._look(self._call_s)
            if lease is not None and not self._may_take(lease):
                return False
            await self._write(lease, self._call_s)
        except errors.Conflict:
            return False  # somebody else was first
        except errors.ApiError as error:
            _log.warning("election attempt failed", error=str(error))
            return False
        return True

    async def _hold(self) -> None:
        while True:
            left_s = self._fence.until_deadline_s()
            await self._time.sleep(max(0.0, min(self._retry_s, left_s)))
            if self._fence.until_deadline_s() <= 0:
                raise Lost("the Lease could not be renewed before the renew deadline")
            await self._renew()

    async def _renew(self) -> None:
        """One attempt, over before the deadline; what fails is tried again."""
        try:
            lease = await self._look(self._within_deadline_s())
            holder = _holder(lease) if lease is not None else "nobody: it was deleted"
            if lease is None or holder != self._identity:
                raise Lost(f"the Lease belongs to {holder or 'nobody'}")
            left_s = self._within_deadline_s()
            if left_s > 0:
                await self._write(lease, left_s)
        except errors.ApiError as error:
            _log.warning("lease not renewed", error=str(error))

    def _within_deadline_s(self) -> float:
        return min(self._call_s, self._fence.until_deadline_s())

    async def _look(self, timeout_s: float) -> ports.Raw | None:
        try:
            lease = await self._store.get_lease(self._namespace, self._name, timeout_s=timeout_s)
        except errors.NotFound:
            return None
        spec = _spec(lease)
        if spec != self._seen[0]:
            if spec.get("holderIdentity") != self._seen[0].get("holderIdentity"):
                _log.info("lease seen", lease=self._name, holder=_holder(lease))
            self._seen = (spec, self._time.monotonic())
        return lease

    def _may_take(self, lease: ports.Raw) -> bool:
        if _holder(lease) in ("", self._identity):
            return True
        spec, since_s = self._seen
        return self._time.monotonic() - since_s >= self._lasts_s(spec)

    def _lasts_s(self, spec: dict[str, Any]) -> float:
        """How long a Lease lasts by its own word, else as long as ours would."""
        lasts_s = spec.get("leaseDurationSeconds")
        return lasts_s if isinstance(lasts_s, int) and lasts_s > 0 else math.ceil(self._lease_s)

    async def _write(self, lease: ports.Raw | None, timeout_s: float) -> None:
        """Create, take or renew; counts from now, before the request is sent."""
        sent_s = self._time.monotonic()
        if lease is None:
            written = await self._create(timeout_s)
        else:
            written = await self._replace(lease, holder=self._identity, timeout_s=timeout_s)
        self._fence.renewed(sent_s)
        self._seen = (_spec(written), sent_s)
        self._term = _transitions(_spec(written))

    async def _create(self, timeout_s: float) -> ports.Raw:
        spec = self._filled({}, self._identity)
        metadata = {"name": self._name, "namespace": self._namespace}
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": metadata,
            "spec": spec,
        }
        return await self._store.create_lease(self._namespace, body, timeout_s=timeout_s)

    async def _replace(
        self, lease: ports.Raw, *, holder: str, timeout_s: float | None = None
    ) -> ports.Raw:
        body = lease | {"spec": self._filled(_spec(lease), holder)}
        return await self._store.replace_lease(
            self._namespace, self._name, body, timeout_s=timeout_s or self._call_s
        )

    def _filled(self, spec: dict[str, Any], holder: str) -> dict[str, Any]:
        now = _micro(self._time.wall())
        renewed = spec | {
            "holderIdentity": holder,
            "leaseDurationSeconds": math.ceil(self._lease_s),
            "renewTime": now,
        }
        if holder and holder != spec.get("holderIdentity"):
            renewed |= {"acquireTime": now, "leaseTransitions": _transitions(spec) + 1}
        return renewed


def _spec(lease: ports.Raw) -> dict[str, Any]:
    spec = lease.get("spec")
    return spec if isinstance(spec, dict) else {}


def _holder(lease: ports.Raw) -> str:
    return str(_spec(lease).get("holderIdentity") or "")


def _transitions(spec: dict[str, Any]) -> int:
    count = spec.get("leaseTransitions")
    return count if isinstance(count, int) else 0


def _micro(wall: datetime.datetime) -> str:
    return wall.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
