"""The election: one leader, and no write of it after its time."""

from __future__ import annotations

import asyncio
import copy
import math
import random
from collections.abc import Callable
from typing import Any

import pytest

from hami_operator import errors
from hami_operator.cluster import ports
from hami_operator.runtime import leader
from tests import fakes


class Leases:
    """A `ports.LeaseStore` on fake time, with faults."""

    def __init__(self, clock: fakes.FakeClock) -> None:
        self.clock = clock
        self.lease: dict[str, Any] | None = None
        self.calls: list[str] = []
        self.time_outs: list[float] = []
        self.fault: Callable[[str], str] = lambda call: ""
        self._version = 0

    async def get_lease(self, namespace: str, name: str, *, timeout_s: float) -> ports.Raw:
        await self._begin("get", timeout_s)
        if self.lease is None:
            raise errors.NotFound("no lease", status=404)
        return copy.deepcopy(self.lease)

    async def create_lease(
        self, namespace: str, body: ports.Body, *, timeout_s: float
    ) -> ports.Raw:
        fault = await self._begin("create", timeout_s)
        if self.lease is not None:
            raise errors.Conflict("exists", status=409)
        return self._store(dict(body), fault)

    async def replace_lease(
        self, namespace: str, name: str, body: ports.Body, *, timeout_s: float
    ) -> ports.Raw:
        fault = await self._begin("replace", timeout_s)
        if self.lease is None:
            raise errors.NotFound("no lease", status=404)
        if body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            raise errors.Conflict("stale", status=409)
        return self._store(dict(body), fault)

    def _store(self, body: dict[str, Any], fault: str) -> ports.Raw:
        self._version += 1
        body["metadata"] = body["metadata"] | {"resourceVersion": str(self._version)}
        self.lease = copy.deepcopy(body)
        if fault == "reply lost":
            raise errors.Unclear("reply lost")
        return copy.deepcopy(body)

    async def _begin(self, call: str, timeout_s: float) -> str:
        self.calls.append(call)
        self.time_outs.append(timeout_s)
        fault = self.fault(call)
        if fault == "hangs":
            await self.clock.sleep(timeout_s)
            raise errors.Unclear("time-out")
        if fault == "fails":
            raise errors.Retryable("503", status=503)
        return fault

    def set(self, holder: str, *, duration: object = 15, transitions: int = 3) -> None:
        """Somebody else writes the Lease."""
        self._version += 1
        spec = {
            "holderIdentity": holder,
            "leaseDurationSeconds": duration,
            "renewTime": f"version {self._version}",
            "leaseTransitions": transitions,
        }
        self.lease = {"metadata": {"resourceVersion": str(self._version)}, "spec": spec}

    @property
    def holder(self) -> str:
        return self.lease["spec"]["holderIdentity"] if self.lease else ""


class Gauge(ports.NoRecorder):
    def __init__(self) -> None:
        self.values: list[float] = []

    def gauge(self, name: str, value: float, /, **labels: str) -> None:
        assert (name, labels) == ("hami_leader", {})
        self.values.append(value)


class Replica:
    """A process that campaigns."""

    def __init__(self, leases: Leases, identity: str = "a_1") -> None:
        self.gauge = Gauge()
        self.leader = leader.Leader(
            leases,
            namespace="hami-system",
            name="hami-scheduler",
            identity=identity,
            time=leases.clock,
            generator=random.Random(1),
            recorder=self.gauge,
        )
        self.task = asyncio.create_task(self.leader.run())

    def leads(self) -> bool:
        return self.leader.leading

    def lost(self) -> str:
        """Why it leads no more; empty while it runs."""
        if not self.task.done():
            return ""
        error = self.task.exception()
        assert isinstance(error, leader.Lost)
        return str(error)

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.wait({self.task})


@pytest.fixture
def clock() -> fakes.FakeClock:
    return fakes.FakeClock()


@pytest.fixture
def leases(clock: fakes.FakeClock) -> Leases:
    return Leases(clock)


def allowed(replica: Replica) -> bool:
    try:
        replica.leader.fence.check()
    except errors.Fenced:
        return False
    return True


async def test_the_first_one_creates_the_lease_and_leads(
    clock: fakes.FakeClock, leases: Leases
) -> None:
    replica = Replica(leases)
    assert not replica.leads()
    assert not allowed(replica)
    waiting = asyncio.create_task(replica.leader.wait_leading())
    await fakes.settle()
    assert waiting.done()
    assert replica.leads()
    assert replica.leader.term == 1
    assert leases.lease == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": "hami-scheduler",
            "namespace": "hami-system",
            "resourceVersion": "1",
        },
        "spec": {
            "holderIdentity": "a_1",
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-03-01T12:00:00.000000Z",
            "renewTime": "2026-03-01T12:00:00.000000Z",
            "leaseTransitions": 1,
        },
    }
    assert replica.gauge.values == [0, 1]
    await replica.end()


async def test_it_renews_every_two_seconds_and_keeps_its_term(
    clock: fakes.FakeClock, leases: Leases
) -> None:
    replica = Replica(leases)
    await clock.advance(60)
    assert replica.leads()
    assert replica.leader.term == 1
    assert leases.lease is not None
    assert leases.lease["spec"]["acquireTime"] == "2026-03-01T12:00:00.000000Z"
    assert leases.lease["spec"]["renewTime"] == "2026-03-01T12:01:00.000000Z"
    assert leases.calls.count("replace") == 30
    assert max(leases.time_outs) < 5
    await replica.end()


async def test_a_held_lease_is_waited_for_until_it_has_not_changed_for_its_duration(
    clock: fakes.FakeClock, leases: Leases
) -> None:
    leases.set("b_1", duration=20)
    replica = Replica(leases)
    await clock.advance(15)
    leases.set("b_1", duration=20)  # b renews once more, then dies
    await clock.advance(20)
    assert not replica.leads()
    await clock.advance(6)
    assert replica.leads()
    assert (leases.holder, replica.leader.term) == ("a_1", 4)
    await replica.end()


async def test_times_inside_the_lease_and_the_time_of_day_do_not_matter(
    clock: fakes.FakeClock, leases: Leases
) -> None:
    leases.set("b_1")
    assert leases.lease is not None
    leases.lease["spec"]["renewTime"] = "1999-01-01T00:00:00.000000Z"
    replica = Replica(leases)
    await clock.advance(5)
    clock.jump(86_400)
    await clock.advance(5)
    assert not replica.leads()
    await clock.advance(8)
    assert replica.leads()
    clock.jump(-86_400)
    await clock.advance(5)
    assert replica.leads()
    await replica.end()


@pytest.mark.parametrize(
    ("duration", "want_s"),
    [
        pytest.param(30, 30, id="a Lease lasts as long as it says"),
        pytest.param(None, 15, id="without a duration as long as ours"),
        pytest.param("30", 15, id="a duration that is no number counts as none"),
        pytest.param(0, 15, id="and so does zero"),
    ],
)
async def test_duration_of_others(
    clock: fakes.FakeClock, leases: Leases, duration: object, want_s: float
) -> None:
    leases.set("b_1", duration=duration)
    replica = Replica(leases)
    await clock.advance(want_s - 0.1)
    assert not replica.leads()
    await clock.advance(3)
    assert replica.leads()
    await replica.end()


async def test_a_lease_that_was_given_up_is_taken_at_the_next_look(
    clock: fakes.FakeClock, leases: Leases
) -> None:
    first, second = Replica(leases, "a_1"), Replica(leases, "b_1")
    await clock.advance(20)
    assert first.leads()
    assert not second.leads()
    await first.end()
    assert not allowed(first)
    await first.leader.release()
    assert leases.holder == ""
    await clock.advance(2 * (1 + leader.JITTER))
    assert (leases.holder, second.leads(), second.leader.term) == ("b_1", True, 2)
    assert first.gauge.values == [0, 1, 0]
    await second.end()


async def test_two_that_race_for_a_free_lease_have_one_winner(
    clock: fakes.FakeClock, leases: Leases
) -> None:
    replicas = [Replica(leases, f"{letter}_1") for letter in "abc"]
    for _ in range(200):
        await clock.advance(0.5)
        assert sum(replica.leads() for replica in replicas) <= 1
    assert sum(replica.leads() for replica in replicas) == 1
    for replica in replicas:
        await replica.end()


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param("hangs", id="every request hangs until its time-out"),
        pytest.param("fails", id="every request is refused"),
    ],
)
async def test_who_cannot_renew_is_lost_at_the_deadline_and_fenced(
    clock: fakes.FakeClock, leases: Leases, fault: str
) -> None:
    replica = Replica(leases)
    await clock.advance(2)
    leases.fault = lambda call: fault
    await clock.advance(9.9)
    assert replica.leads()
    assert allowed(replica)
    await clock.advance(0.1)
    assert not replica.leads()
    assert not allowed(replica)
    assert replica.lost() == "the Lease could not be renewed before the renew deadline"
    assert replica.leader.fence.remaining_s() < 0
    assert replica.gauge.values == [0, 1, 0]


async def test_the_writes_of_the_old_leader_end_before_another_may_lead(
    clock: fakes.FakeClock, leases: Leases
) -> None:
    first, second = Replica(leases, "a_1"), Replica(leases, "b_1")
    await clock.advance(10)
    leases.fault = lambda call: "fails" if first.task is asyncio.current_task() else ""
    latest = -math.inf
    while not second.leads():
        if allowed(first):
            latest = clock.monotonic() + min(10.0, first.leader.fence.remaining_s() - 1.0)
        await clock.advance(0.1)
    assert latest < clock.monotonic()
    await second.end()
    first.lost()


async def test_a_renewal_counts_from_before_its_request(
    clock: fakes.FakeClock, leases: Leases
) -> None:
    replica = Replica(leases)
    await fakes.settle()

    def fault(call: str) -> str:
        if call == "replace":
            clock.forward(4)  # the reply takes four seconds
        return ""

    leases.fault = fault
    await clock.advance(2)
    leases.fault = lambda call: "fails"
    # renewed at 2 s by a request whose answer came at 6 s: the deadline is 12 s, not 16 s
    await clock.advance(6 - 0.1)
    assert replica.leads()
    await clock.advance(0.1)
    assert not replica.leads()
    replica.lost()


async def test_the_fence_closes_by_the_clock_though_the_loop_was_too_busy_to_notice(
    clock: fakes.FakeClock, leases: Leases
) -> None:
    replica = Replica(leases)
    await clock.advance(1)
    clock.forward(9.5)  # nothing else runs meanwhile
    assert not replica.leads()
    assert not allowed(replica)
    await clock.advance(0)
    assert replica.lost()


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param(
            lambda leases: leases.set("b_1"), "the Lease belongs to b_1", id="taken by another"
        ),
        pytest.param(
            lambda leases: leases.set(""), "the Lease belongs to nobody", id="emptied by hand"
        ),
        pytest.param(
            lambda leases: setattr(leases, "lease", None),
            "the Lease belongs to nobody: it was deleted",
            id="deleted",
        ),
    ],
)
async def test_a_lease_that_is_no_longer_ours_ends_the_term_at_the_next_look(
    clock: fakes.FakeClock, leases: Leases, change: Callable[[Leases], None], want: str
) -> None:
    replica = Replica(leases)
    await clock.advance(3)
    change(leases)
    before = copy.deepcopy(leases.lease)
    await clock.advance(1)
    assert replica.lost() == want
    await replica.leader.release()
    assert leases.lease == before


async def test_an_update_by_others_that_is_no_change_of_holder_costs_one_attempt(
    clock: fakes.FakeClock, leases: Leases
) -> None:
    replica = Replica(leases)
    await clock.advance(1)
    raced: list[str] = []

    def fault(call: str) -> str:
        if call == "replace" and not raced:
            raced.append(call)
            assert leases.lease is not None
            leases.lease["metadata"]["resourceVersion"] = "77"
        return ""

    leases.fault = fault
    await clock.advance(30)
    assert raced
    assert replica.leads()
    await replica.end()


@pytest.mark.parametrize(
    "call",
    [
        pytest.param("create", id="the reply to the first POST is lost"),
        pytest.param("replace", id="the reply to a PUT is lost"),
    ],
)
async def test_a_lost_reply_is_found_out_at_the_next_look(
    clock: fakes.FakeClock, leases: Leases, call: str
) -> None:
    if call == "replace":
        leases.set("")
    leases.fault = lambda seen: "reply lost" if seen == call and len(leases.calls) < 3 else ""
    replica = Replica(leases)
    await fakes.settle()
    assert leases.holder == "a_1"
    assert not replica.leads()
    await clock.advance(2 * (1 + leader.JITTER))
    assert replica.leads()
    await replica.end()


async def test_errors_while_campaigning_are_waited_out(
    clock: fakes.FakeClock, leases: Leases
) -> None:
    leases.fault = lambda call: "fails"
    replica = Replica(leases)
    await clock.advance(60)
    assert not replica.task.done()
    leases.fault = lambda call: ""
    await clock.advance(3)
    assert replica.leads()
    await replica.end()


async def test_a_dead_leaders_lease_is_taken_the_moment_it_expires(
    clock: fakes.FakeClock, leases: Leases
) -> None:
    leases.set("b_1", duration=15)
    replica = Replica(leases)  # looks at once, and for the last time just before the expiry
    await clock.advance(14.99)
    assert not replica.leads()
    await clock.advance(0.02)
    assert replica.leads()
    await replica.end()


async def test_a_lease_that_cannot_be_given_up_expires(
    clock: fakes.FakeClock, leases: Leases
) -> None:
    replica = Replica(leases)
    await clock.advance(1)
    await replica.end()
    leases.fault = lambda call: "fails"
    await replica.leader.release()
    assert leases.holder == "a_1"
    assert not allowed(replica)


async def test_what_others_wrote_into_the_lease_stays(
    clock: fakes.FakeClock, leases: Leases
) -> None:
    leases.set("")
    assert leases.lease is not None
    leases.lease["metadata"]["labels"] = {"app": "x"}
    leases.lease["spec"]["strategy"] = "OldestEmulationVersion"
    replica = Replica(leases)
    await clock.advance(3)
    assert leases.lease["metadata"]["labels"] == {"app": "x"}
    assert leases.lease["spec"]["strategy"] == "OldestEmulationVersion"
    await replica.end()


async def test_without_an_election_this_process_leads_for_ever() -> None:
    gauge = Gauge()
    alone: leader.Leadership = leader.AlwaysLeading(gauge)
    await alone.wait_leading()
    assert alone.leading
    assert alone.term == 1
    alone.fence.check()
    assert alone.fence.remaining_s() == math.inf
    task = asyncio.create_task(alone.run())
    await fakes.settle()
    assert not task.done()
    assert gauge.values == [1]
    task.cancel()
    await alone.release()
