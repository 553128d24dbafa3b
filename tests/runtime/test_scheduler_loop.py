"""From an object that the API shows to a pod that is bound, over the whole runtime."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
import random
import weakref
from typing import Any

import pytest
from structlog import testing

from hami_operator import errors
from hami_operator.runtime import alarm, heap, leader, scheduler, supervisor
from hami_operator.scheduling import effects, queue, world
from tests import builders, fakes
from tests.runtime import bench

BIND = "POST pods/p/binding"
SOURCES = (world.QUOTAS, world.BUDGETS, world.NODES, world.PODS)
WHOLE = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 32768}


async def test_a_pod_that_cannot_fit_says_so_once_and_is_bound_when_another_ends() -> None:
    async with bench.running() as on:
        on.add_node()
        on.add(on.ask("first", **WHOLE))
        await on.run()
        on.serve("first")
        on.add(on.ask(**WHOLE))
        await on.run(1.0)
        condition = next(
            each for each in on.pod()["status"]["conditions"] if each["type"] == "PodScheduled"
        )
        assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
        assert condition["message"].startswith("0/1 nodes are available: ")
        assert on.notes("FailedScheduling") == [condition["message"]]
        assert on.api.calls.count("PATCH pods/p/status") == 1
        on.delete_pod("first")
        await on.run()
        assert on.node_of() == "n1"


async def test_our_own_condition_does_not_wake_the_pod() -> None:
    async with bench.running() as on:
        on.add_node()
        on.add(on.ask(**{"nvidia.com/gpu": 5}))
        await on.run(120.0)
        key = "hami_scheduling_attempts_total{mode=standalone,result=unschedulable}"
        assert on.metrics.counts[key] == 1


async def test_a_card_that_comes_lets_the_waiting_pod_go() -> None:
    async with bench.running() as on:
        on.add(on.ask())
        await on.run(5.0)
        assert on.node_of() == ""
        on.add_node()
        await on.run(1.0)
        assert on.node_of() == "n1"


async def test_many_pods_fill_the_cards_and_none_is_over_booked() -> None:
    async with bench.running(node_lock="memory", node_scheduler_policy="spread") as on:
        for number in range(4):
            on.add_node(f"n{number}", cards=2)
        for number in range(30):
            on.add(on.ask(f"p{number}", **{"nvidia.com/gpu": 1, "nvidia.com/gpumem": 12000}))
        for _ in range(12):
            await on.run(1.0)
            for number in range(30):
                if on.node_of(f"p{number}"):
                    on.serve(f"p{number}", on.node_of(f"p{number}"))
        bound = [number for number in range(30) if on.node_of(f"p{number}")]
        assert len(bound) == 16, "two of 12000 MiB on each of eight cards"
        for number in range(4):
            for each in on.world.ledger.card_usage(f"n{number}", "NVIDIA").values():
                assert each.memory_mib <= 32768


# ---- the term


@dataclasses.dataclass
class Lead:
    """A leadership that a test gives and takes."""

    leading: bool = False
    term: int = 1
    begun: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)
    fence: Any = dataclasses.field(default_factory=leader.OpenFence)

    async def wait_leading(self) -> None:
        await self.begun.wait()

    async def run(self) -> None: ...

    async def release(self) -> None: ...

    def give(self) -> None:
        self.leading = True
        self.begun.set()


@contextlib.asynccontextmanager
async def term(*, listing: asyncio.Event | None = None, **options: Any) -> Any:
    """A bench whose scheduler waits for a leadership."""
    on, lead = bench.Bench(), Lead()
    shown: list[str] = []

    async def show(source: str) -> None:
        if listing is not None and source == world.PODS:
            await listing.wait()
        shown.append(source)
        on.show()

    on.scheduler = scheduler.Scheduler(
        on.world,
        on.performer,
        leadership=lead,
        sources={source: _shower(show, source) for source in SOURCES},
        bell=on.bell,
        time=on.clock,
        metrics=on.metrics,
        **options,
    )
    on.start()
    await on.run()
    try:
        yield on, lead, shown
    finally:
        await on.stop()


def _shower(show: Any, source: str) -> Any:
    async def one() -> None:
        await show(source)

    return one


async def test_a_follower_knows_everything_and_decides_nothing() -> None:
    async with term() as (on, lead, shown):
        on.add_node()
        on.add(on.ask())
        await on.run(5.0)
        assert on.api.calls == []
        assert "n1" in on.world.nodes
        lead.give()
        await on.run()
        assert shown == list(SOURCES)
        assert on.node_of() == "n1"


async def test_nothing_is_decided_before_everything_was_seen_afresh() -> None:
    listing = asyncio.Event()
    async with term(listing=listing) as (on, lead, _):
        on.add_node()
        on.add(on.ask())
        lead.give()
        await on.run(5.0)
        assert on.api.calls == []
        listing.set()
        await on.run()
        assert on.node_of() == "n1"


@pytest.mark.parametrize(
    ("sources", "want"),
    [
        pytest.param(SOURCES[1:], world.QUOTAS, id="one that nothing shows"),
        pytest.param((*SOURCES, "cars"), "cars", id="one that the world does not know"),
    ],
)
async def test_sources_that_are_not_those_of_the_world_are_refused(
    sources: tuple[str, ...], want: str
) -> None:
    on = bench.Bench()
    with pytest.raises(ValueError, match=f"differ: {want}"):
        scheduler.Scheduler(
            on.world,
            on.performer,
            leadership=Lead(),
            sources={source: on._show_all for source in sources},
            bell=on.bell,
            time=on.clock,
            metrics=on.metrics,
        )


async def test_a_term_that_was_lost_while_everything_was_listed_is_not_said_to_decide() -> None:
    listing = asyncio.Event()
    with testing.capture_logs() as lines:
        async with term(listing=listing) as (on, lead, _):
            lead.give()
            await on.run()
            on.world.step_down()
            listing.set()
            await on.run()
    assert "deciding" not in [line["event"] for line in lines]


async def test_the_heap_is_settled_when_all_was_seen_and_nothing_is_decided_yet() -> None:
    seen: list[tuple[list[str], bool, str]] = []

    def settle() -> None:
        seen.append((shown, on.world.active, on.node_of()))

    async with term(settle=settle) as (on, lead, shown):
        on.add_node()
        on.add(on.ask())
        assert seen == []
        lead.give()
        await on.run()
        assert seen == [(list(SOURCES), True, "")]
        assert on.node_of() == "n1"


def test_what_is_settled_is_walked_by_no_collection_and_garbage_is_not_settled() -> None:
    class Loop:
        """Refers to itself."""

    loop = Loop()
    loop.me = loop  # type: ignore[attr-defined]
    gone = weakref.ref(loop)
    del loop
    kept = ["kept"]
    before = gc.get_freeze_count()
    try:
        heap.settle()
        assert gone() is None
        assert gc.get_freeze_count() > before
        assert not any(one is kept for one in gc.get_objects())
    finally:
        gc.unfreeze()
    assert any(one is kept for one in gc.get_objects())


async def test_what_others_bound_before_us_is_seen_before_we_decide() -> None:
    listing = asyncio.Event()
    async with term(listing=listing) as (on, lead, _):
        on.add_node()
        on.lagging = True
        taken = on.ask("other", **WHOLE).annotate(
            {
                bench.ALLOCATED: "GPU-0,NVIDIA,32768,0:;",
                "hami.io/vgpu-node": "n1",
                "hami.io/bind-phase": "success",
            }
        )
        on.add(taken.on("n1").phase("Running"))
        on.add(on.ask(**WHOLE))
        lead.give()
        await on.run()
        on.lagging = False
        listing.set()
        await on.run(1.0)
        assert on.node_of() == ""
        assert on.entry("other") is not None


async def test_a_leader_past_its_deadline_stops_deciding_at_once() -> None:
    async with term() as (on, lead, _):
        on.add_node()
        lead.give()
        await on.run()
        lead.leading = False
        on.add(on.ask())
        await on.run(5.0)
        assert on.api.calls == []
        lead.leading = True
        await on.run(1.0)
        assert on.node_of() == "n1"


async def test_the_end_of_the_loop_ends_the_term() -> None:
    async with term() as (on, lead, _):
        on.add_node()
        lead.give()
        await on.run()
        assert on.world.active
        on.task("scheduler").cancel()
        await on.run()
        assert not on.world.active


async def test_the_loop_gives_way_between_two_attempts() -> None:
    async with bench.running() as on:
        for number in range(50):
            on.add(on.ask(f"p{number}", cpu="1"))
        turns = 0
        while len(on.world.queue) < 50 or any(
            item.place is queue.Place.ACTIVE for item in on.world.queue.items()
        ):
            turns += 1
            await asyncio.sleep(0)
        assert turns >= 50


async def test_a_pod_that_rests_after_an_error_is_tried_when_its_rest_is_over() -> None:
    async with bench.running() as on:
        on.add_node()
        on.api.fail(BIND, errors.Forbidden("no", status=403), times=2)
        on.add(on.ask())
        await on.run(0.9)
        assert on.api.calls.count(BIND) == 1
        await on.run(0.2)
        assert on.api.calls.count(BIND) == 2
        await on.run(1.8)
        assert on.api.calls.count(BIND) == 2
        await on.run(0.3)
        assert on.node_of() == "n1"


# ---- the intake


async def test_one_bad_object_stops_nothing_and_is_told() -> None:
    async with bench.running() as on:
        broken = {"metadata": {"name": "n0", "annotations": 7}, "spec": [], "status": "x"}
        on.intake.nodes.upsert(broken)
        on.intake.pods.upsert({"metadata": None})
        on.intake.pods.upsert({})
        on.add_node()
        on.add(on.ask())
        await on.run()
        assert on.node_of() == "n1"
        assert on.reasons.count("MalformedNode n0") == 1
        assert "metadata.annotations is not an object" in on.notes("MalformedNode")[0]


async def test_what_is_odd_about_a_node_is_told_once_until_it_changes() -> None:
    async with bench.running() as on:
        for _ in range(3):
            on.intake.nodes.upsert({"metadata": {"name": "n0", "uid": "u", "labels": 1}})
        await on.run()
        on.intake.nodes.upsert({"metadata": {"name": "n0", "uid": "u"}})
        on.intake.nodes.upsert({"metadata": {"labels": 1}})
        on.intake.nodes.upsert({"metadata": {"name": "n0", "uid": "u", "labels": 1}})
        await on.run()
        assert on.reasons == ["MalformedNode n0"]
        series = [body["series"] for call, body in on.api.bodies if call == "PATCH events"]
        assert [each["count"] for each in series] == [2]


@pytest.mark.parametrize(
    ("kind", "raw", "want"),
    [
        pytest.param("nodes", {"metadata": {"name": "n0"}}, ["IntakeFailed n0"], id="a node"),
        pytest.param(
            "pods",
            {"metadata": {"name": "p0", "namespace": "team", "uid": "u"}},
            ["IntakeFailed p0"],
            id="a pod",
        ),
        pytest.param("pods", {"metadata": {}}, [], id="a pod without a name"),
        pytest.param("pods", {"metadata": "x"}, [], id="no object at all"),
    ],
)
async def test_a_bug_met_by_one_object_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch, kind: str, raw: dict, want: list[str]
) -> None:
    async with bench.running() as on:

        def broken(*_: object) -> None:
            raise ValueError("a bug")

        with monkeypatch.context() as patched:
            patched.setattr(on.world, "node_seen", broken)
            patched.setattr(on.world, "pod_seen", broken)
            getattr(on.intake, kind).upsert(raw)
        on.add_node()
        on.add(on.ask())
        await on.run()
        assert on.node_of() == "n1"
        assert [each for each in on.reasons if "IntakeFailed" in each] == want
        name = {"nodes": "Node", "pods": "Pod"}[kind]
        assert on.metrics.counts[f"hami_intake_errors_total{{kind={name}}}"] == 1


async def test_a_late_delete_of_a_node_leaves_the_new_one_of_its_name() -> None:
    async with bench.running() as on:
        on.add_node()
        old = on.node()
        on.delete_node()
        await on.run()
        assert "n1" not in on.world.nodes
        on.add_node()
        await on.run()
        on.intake.node_event("DELETED", old)
        assert "n1" in on.world.nodes
        on.intake.node_event("DELETED", on.node())
        assert "n1" not in on.world.nodes
        on.intake.node_event(None, on.node())
        assert "n1" in on.world.nodes
        known = on.intake.known_nodes()["n1"]
        assert known == (on.node()["metadata"]["uid"], on.node()["metadata"]["resourceVersion"])


async def test_a_pending_pod_from_kopf_is_queued_once_and_its_departure_frees_nothing() -> None:
    async with bench.running() as on:
        on.add(on.ask())
        await on.run()
        raw = on.pod()
        on.intake.pending_event(None, raw)
        on.intake.pending_event("MODIFIED", raw)
        assert len(on.world.queue) == 1
        on.add_node()
        await on.run()
        on.intake.pending_event("DELETED", raw)
        assert len(on.world.queue) == 0
        assert on.entry() is not None


async def test_a_condition_that_stands_on_the_pod_already_is_not_written_again() -> None:
    async with bench.running() as on:
        on.add_node()
        on.add(on.ask(**{"nvidia.com/gpu": 5}))
        await on.run(1.0)
        message = on.notes("FailedScheduling")[0]
        calls = on.api.calls.count("PATCH pods/p/status")
        ref = effects.PodRef(uid=on.pod()["metadata"]["uid"], namespace="default", name="p")
        same = effects.Condition(pod=ref, status="False", reason="Unschedulable", message=message)
        on.performer.perform((same,))
        await on.run()
        assert on.api.calls.count("PATCH pods/p/status") == calls


# ---- the performer


async def test_a_bind_that_cannot_start_gives_its_reservation_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with bench.running() as on:
        on.add_node()

        def refuse(name: str, work: Any) -> None:
            work.close()
            raise supervisor.Stopping(name)

        monkeypatch.setattr(on.performer, "_spawn", refuse)
        on.add(on.ask())
        await on.run(0.5)
        assert on.entry() is None
        assert BIND not in on.api.calls


async def test_attempts_and_refusals_are_counted() -> None:
    async with bench.running() as on:
        on.add_node()
        on.add(on.ask(**{"nvidia.com/gpu": 1, "nvidia.com/gpumem": 99999}))
        on.add(on.ask("q"))
        await on.run(1.0)
        counts = on.metrics.counts
        assert counts["hami_scheduling_attempts_total{mode=standalone,result=scheduled}"] == 1
        assert counts["hami_scheduling_attempts_total{mode=standalone,result=unschedulable}"] == 1
        assert [key for key in counts if key.startswith("hami_fit_rejections_total{reason=Card")]


async def test_the_label_of_a_pod_that_is_gone_is_no_error() -> None:
    async with bench.running(server="1.34.0") as on:
        on.add_node()
        on.api.meanwhile("PATCH pods/p", on.delete_pod)
        on.add(on.ask())
        await on.run()
        assert "hami_labels_dropped_total" not in "".join(on.metrics.counts)


async def test_a_label_that_is_refused_is_counted_and_labels_are_bounded() -> None:
    async with bench.running(server="1.34.0") as on:
        on.api.fail("PATCH pods/p", errors.Forbidden("no", status=403))
        pods = [builders.pod(name).read() for name in ("a", "p")]
        on.labeler = type(on.labeler)(
            on.api,
            time=on.clock,
            metrics=on.metrics,
            generator=random.Random(1),
            limit=1,
        )
        for pod in pods:
            on.labeler.put(pod, {"x": "y"})
        assert await on.labeler.drain(1.0)
        counts = on.metrics.counts
        assert counts["hami_labels_dropped_total{reason=overload}"] == 1
        assert counts["hami_labels_dropped_total{reason=Forbidden}"] == 1


# ---- the alarm


@pytest.mark.parametrize(
    ("delay_s", "rings_at_s", "want_s"),
    [
        pytest.param(5.0, None, 5.0, id="time alone ends the wait"),
        pytest.param(5.0, 2.0, 2.0, id="news end it earlier"),
        pytest.param(None, 2.0, 2.0, id="without a limit news alone end it"),
        pytest.param(5.0, 0.0, 0.0, id="news from before are not lost"),
    ],
)
async def test_alarm(delay_s: float | None, rings_at_s: float | None, want_s: float) -> None:
    clock = fakes.FakeClock()
    bell = alarm.Alarm(clock)
    began_s, ended = clock.monotonic(), []

    async def wait() -> None:
        await bell.wait(delay_s)
        ended.append(clock.monotonic() - began_s)

    if rings_at_s == 0.0:
        bell.ring()
    task = asyncio.ensure_future(wait())
    if rings_at_s:
        await clock.advance(rings_at_s)
        bell.ring()
    await clock.advance(10.0)
    await task
    assert ended == [want_s]
    assert not clock.sleepers
