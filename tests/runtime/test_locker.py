"""Node locks: who waits for whom, what is written, and what a dead lock costs nobody."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from hami_operator import errors
from hami_operator.protocol import keys, nodelock
from hami_operator.protocol import register as registers
from hami_operator.runtime import arrivals, locker
from hami_operator.scheduling import queue
from tests import builders, fakes
from tests.moments import at
from tests.runtime import bench

LOCK = "PATCH nodes/n1"
BIND = "POST pods/p/binding"
CONTENTION = "has been locked within 5m0s by default/holder: node lock contention"


def stamp(age_s: float = 0.0) -> str:
    at = fakes.START - datetime.timedelta(seconds=age_s)
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def holder(**facts: Any) -> builders.PodBuilder:
    """A pod that a lock may name; bound to n1 and allocating unless told otherwise."""
    made = builders.pod("holder").container("c", limits={"nvidia.com/gpu": 1})
    node = facts.pop("node", "n1")
    decision = {
        bench.ALLOCATED: "GPU-0,NVIDIA,1000,0:;",
        bench.TO_ALLOCATE: facts.pop("left", "GPU-0,NVIDIA,1000,0:;"),
        keys.VGPU_NODE: node or "n1",
        keys.BIND_PHASE: facts.pop("bind_phase", "allocating"),
        keys.BIND_TIME: str(int(fakes.START.timestamp())),
    }
    made = made.annotate({key: value for key, value in decision.items() if value})
    made = made.phase(facts.pop("phase", "Pending"))
    assert not facts
    return made.on(node) if node else made


HOLDERS = [
    pytest.param(holder(), False, id="bound here and allocating: waits"),
    pytest.param(holder(bind_phase="success"), False, id="success with segments left: waits"),
    pytest.param(
        holder(bind_phase="success", left=";;"), True, id="success and all served: replaced"
    ),
    pytest.param(holder(bind_phase="failed"), True, id="its allocation failed: replaced"),
    pytest.param(holder(phase="Running"), True, id="it runs: replaced"),
    pytest.param(holder(phase="Succeeded"), True, id="it has succeeded: replaced"),
    pytest.param(holder(phase="Failed"), True, id="it has failed: replaced"),
    pytest.param(holder(node="n2"), True, id="it is bound to another node: replaced"),
    pytest.param(holder(node=""), False, id="it is not bound yet: waits"),
    pytest.param(None, True, id="it does not exist: replaced"),
]


@pytest.mark.parametrize(("built", "want_bound"), HOLDERS)
async def test_a_fresh_lock_of_another_pod(
    built: builders.PodBuilder | None, want_bound: bool
) -> None:
    async with bench.running() as on:
        on.add_node()
        if built is not None:
            on.add(built)
        on.set_lock(f"{stamp()},default,holder")
        on.add(on.ask())
        await on.run(2.0)
        assert on.node_of() == ("n1" if want_bound else "")
        assert (on.lock() or "").endswith(",default,p" if want_bound else ",default,holder")
        assert on.writes == ([LOCK, BIND] if want_bound else [])


@pytest.mark.parametrize(("built", "want_fresh"), HOLDERS)
async def test_an_expired_lock_is_taken_unless_its_holder_may_still_be_served(
    built: builders.PodBuilder | None, want_fresh: bool
) -> None:
    async with bench.running() as on:
        on.add_node()
        if built is not None:
            on.add(built)
        on.set_lock(f"{stamp()},default,holder")
        await on.run(200.0)
        on.set_lock(f"{stamp()},default,holder") if want_fresh else None
        await on.run(101.0)
        on.add(on.ask())
        await on.run(1.0)
        stays = built is not None and on.store.get("pods", ("default", "holder")).obj["spec"].get(
            "nodeName"
        )
        assert bool(on.node_of()) == (want_fresh or not stays)


DONE = [
    pytest.param({"bind_phase": "success", "left": ";;"}, True, id="success and all served"),
    pytest.param({"bind_phase": "failed"}, True, id="its allocation failed"),
    pytest.param({"phase": "Running"}, True, id="it runs"),
    pytest.param({"node": "n2"}, False, id="no plugin of this node was ever asked for it"),
]


@pytest.mark.parametrize(("facts", "want_wait"), DONE)
async def test_the_plugin_of_a_served_pod_has_its_chance_to_remove_the_lock(
    facts: dict[str, Any], want_wait: bool
) -> None:
    async with bench.running() as on:
        on.add_node()
        on.add(holder(**facts))
        on.set_lock(f"{stamp()},default,holder")
        on.add(on.ask())
        await on.run()
        assert on.writes == ([] if want_wait else [LOCK, BIND])
        on.set_lock(None) if want_wait else None
        await on.run()
        assert on.writes == [LOCK, BIND], "the removal ends the wait"
        assert not [call for call in on.api.calls if call.startswith("GET")]


async def test_a_lock_that_was_left_behind_for_longer_is_replaced_at_once() -> None:
    async with bench.running() as on:
        on.add_node()
        on.add(holder(phase="Running"))
        on.set_lock(f"{stamp()},default,holder")
        await on.run(1.5)
        on.add(on.ask())
        await on.run()
        assert on.writes == [LOCK, BIND]


async def test_a_lock_whose_holder_is_seen_to_be_served_before_the_lock_itself_is_seen() -> None:
    async with bench.running() as on:
        on.add_node()
        await on.run()
        on.late = {"nodes"}
        on.add(on.ask())
        await on.run()
        on.serve("p")
        on.add(on.ask("q"))
        await on.run()
        assert on.writes == [LOCK, BIND], "the plugin's write is not met by ours"
        on.late = set()
        on.show()
        await on.run()
        assert on.writes == [LOCK, BIND, LOCK, "POST pods/q/binding"]
        assert not [call for call in on.api.calls if call.startswith("GET")]


async def test_a_waiting_bind_holds_no_worker_and_goes_on_with_the_release() -> None:
    async with bench.running(bind_workers="1", node_scheduler_policy="spread") as on:
        on.add_node("n1")
        on.add(holder())
        on.set_lock(f"{stamp()},default,holder")
        on.add(on.ask())
        await on.run()
        assert on.writes == []
        on.add_node("n2")
        on.add(on.ask("q"))
        await on.run()
        assert on.node_of("q") == "n2"
        assert on.entry() is not None, "the reservation stays"
        on.serve("holder")
        await on.run()
        assert on.node_of() == "n1"
        assert on.metrics.counts["hami_node_lock_contention_total"] == 1


async def test_a_bind_that_waited_too_long_goes_back_to_the_queue_and_names_the_holder() -> None:
    async with bench.running() as on:
        on.add_node()
        on.add(holder())
        on.set_lock(f"{stamp()},default,holder")
        on.add(on.ask())
        await on.run(299.0)
        assert on.entry() is not None
        await on.run(3.0)
        assert on.notes("FailedScheduling") == [f"node n1 {CONTENTION}"]
        assert not on.writes


async def test_the_pod_that_is_deleted_while_it_waits_leaves_the_line() -> None:
    async with bench.running() as on:
        on.add_node()
        on.add(holder())
        on.set_lock(f"{stamp()},default,holder")
        on.add(on.ask())
        await on.run()
        on.delete_pod()
        await on.run(1.0)
        assert on.locker.waiting == 0
        assert on.entry() is None
        assert on.writes == []


async def test_five_pods_share_a_node_one_after_the_other() -> None:
    async with bench.running() as on:
        on.add_node()
        for number in range(5):
            on.add(on.ask(f"p{number}"))
        await on.run()
        order: list[str] = []
        for _ in range(5):
            bound = [f"p{n}" for n in range(5) if on.node_of(f"p{n}")]
            (served,) = set(bound) - set(order)
            order.append(served)
            assert (on.lock() or "").endswith(f",default,{served}")
            on.serve(served)
            await on.run()
        assert order == [f"p{number}" for number in range(5)]
        assert on.writes.count(LOCK) == 5
        assert not [call for call in on.api.calls if call.startswith("GET")]
        assert on.lock() is None


async def test_binds_on_different_nodes_overlap() -> None:
    async with bench.running(node_scheduler_policy="spread") as on:
        for name in ("n1", "n2"):
            on.add_node(name)
        gates = [on.api.hold(f"POST pods/{name}/binding") for name in ("p", "q")]
        on.add(on.ask("p"))
        on.add(on.ask("q"))
        await on.run()
        assert {"POST pods/p/binding", "POST pods/q/binding"} <= set(on.api.calls)
        for gate in gates:
            gate.set()


async def test_a_pod_with_devices_in_init_containers_alone_takes_the_lock() -> None:
    async with bench.running() as on:
        on.add_node()
        limits = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1024}
        for name in ("p", "q"):
            on.add(builders.pod(name).scheduler(bench.SCHEDULER).init(limits=limits).container())
        await on.run()
        assert sorted(map(on.node_of, ("p", "q"))) == ["", "n1"]
        assert on.writes == [LOCK, BIND]


# ---- unreadable and ownerless values


@pytest.mark.parametrize(
    ("value", "want_text"),
    [
        pytest.param("lock", "its value cannot be read", id="no time at all"),
        pytest.param("2026-03-01T12:00:00Z,a", "its value cannot be read", id="two parts"),
    ],
)
async def test_an_unreadable_lock_is_taken_over_at_once_and_the_node_says_so(
    value: str, want_text: str
) -> None:
    async with bench.running() as on:
        on.add_node()
        on.set_lock(value)
        on.add(on.ask())
        await on.run()
        assert on.node_of() == "n1"
        assert on.notes("NodeLockTakenOver") == [f"{bench.LOCK}={value!r}: {want_text}"]
        assert on.metrics.counts[f"hami_node_lock_takeovers_total{{reason={want_text}}}"] == 1


async def test_a_lock_without_owner_is_waited_for_until_it_has_expired() -> None:
    async with bench.running() as on:
        on.add_node()
        on.set_lock(stamp())
        on.add(on.ask())
        await on.run(290.0)
        assert on.node_of() == ""
        await on.run(30.0)
        assert on.node_of() == "n1"
        assert "NodeLockTakenOver n1" in on.reasons


async def test_a_lock_that_was_there_at_start_has_its_own_age() -> None:
    on = bench.Bench()
    on.add_node()
    on.set_lock(stamp(age_s=301))
    on.add(on.ask())
    on.start()
    try:
        await on.run()
        assert on.node_of() == "n1"
    finally:
        await on.stop()


async def test_an_expired_lock_of_a_pod_that_waits_for_its_devices_is_told_once() -> None:
    async with bench.running() as on:
        on.add_node()
        on.add(holder())
        on.set_lock(f"{stamp()},default,holder")
        await on.run(10.0)
        on.add(on.ask())
        await on.run(400.0)
        assert on.reasons.count("NodeLockOverdue n1") == 1
        assert (on.lock() or "").endswith(",holder")
        on.delete_pod("holder")
        await on.run(12.0)
        assert on.node_of() == "n1"


async def test_an_expired_lock_is_left_to_its_holder_while_we_bind_that_one() -> None:
    """An earlier life of ours took it for p, which now stands behind a in the same line."""
    together = {keys.GANG_NAME: "g", keys.GANG_MIN_MEMBER: "2"}  # decided in one step
    async with bench.running() as on:
        on.add_node()
        on.add(on.ask("p").annotate(together).gate("later"))
        on.set_lock(f"{stamp()},default,p")
        await on.run(310.0)
        on.add(on.ask("a").annotate(together))
        on.patch_pod({"spec": {"schedulingGates": None}}, "p")
        await on.run(2.0)
        assert (on.node_of("p"), on.node_of("a")) == ("n1", "")
        assert (on.lock() or "").endswith(",default,p")
        assert on.notes("NodeLockTakenOver") == []
        on.serve("p")
        await on.run(10.0)
        assert on.node_of("a") == "n1"


# ---- asking for the holder


async def test_a_holder_that_cannot_be_looked_up_is_not_taken_for_gone() -> None:
    async with bench.running() as on:
        on.add_node()
        on.set_lock(f"{stamp()},default,holder")
        on.api.fail("GET pods/holder", errors.Retryable("500", status=500), times=99)
        on.add(on.ask())
        await on.run(2.5)
        assert on.writes == []
        assert on.node_of() == ""
        (note,) = on.notes("FailedScheduling")
        assert note == "failed to set node lock (node=n1): 500"


async def test_a_failed_holder_that_no_watch_shows_is_found_out_by_one_read() -> None:
    async with bench.running() as on:
        on.add_node()
        on.lagging = True
        on.add(holder(phase="Failed"))
        on.set_lock(f"{stamp()},default,holder")
        on._shown["pods"] = on.store.version
        on.lagging = False
        on.show()
        on.add(on.ask())
        await on.run()
        assert on.api.calls[:3] == ["GET pods/holder", LOCK, BIND]


async def test_a_lock_of_an_earlier_pod_of_our_name_is_replaced() -> None:
    async with bench.running() as on:
        on.add_node()
        on.set_lock(f"{stamp(age_s=3600)},default,p")
        on.add(on.ask())
        await on.run()
        assert on.node_of() == "n1"
        assert on.lock() == f"{stamp()},default,p"


async def test_a_lock_that_an_earlier_process_took_for_this_pod_is_ours() -> None:
    async with bench.running() as on:
        on.add_node()
        on.set_lock(f"{stamp()},default,p")
        on.add(on.ask())
        await on.run()
        assert on.writes == [BIND]


async def test_a_pod_further_back_in_the_line_goes_first_if_the_lock_is_its_own() -> None:
    on = bench.Bench()
    on.add_node()
    on.set_lock(f"{stamp()},default,late")
    on.add(on.ask("early"))
    on.add(on.ask("late"))
    on.start()
    try:
        await on.run()
        assert on.node_of("late") == "n1"
        assert on.node_of("early") == ""
        on.serve("late")
        await on.run()
        assert on.node_of("early") == "n1"
    finally:
        await on.stop()


# ---- conflicts


async def test_after_a_conflict_another_ones_fresh_lock_is_waited_for() -> None:
    def take(on: bench.Bench) -> None:
        on.set_lock(f"{stamp()},default,holder")
        on.add(holder())

    async with bench.running() as on:
        on.add_node()
        on.api.meanwhile(LOCK, lambda: take(on))
        on.add(on.ask())
        await on.run(1.0)
        assert on.writes == [LOCK]
        assert (on.lock() or "").endswith(",holder")
        assert on.entry() is not None


async def test_the_first_look_after_a_conflict_does_not_wait() -> None:
    async with bench.running() as on:
        on.add_node()
        on.api.meanwhile(LOCK, lambda: on.annotate_node(other="new"))
        on.add(on.ask())
        await on.run()
        assert on.api.calls[:4] == [LOCK, "GET nodes/n1", LOCK, BIND]


async def test_a_release_that_finds_the_lock_in_other_hands_leaves_it() -> None:
    def take(on: bench.Bench) -> None:
        on.lagging = True
        on.set_lock(f"{stamp()},default,holder")

    async with bench.running() as on:
        on.add_node()
        no = errors.Forbidden("no", status=403)
        on.api.faults.append(bench.Fault(call=BIND, error=no, before=lambda: take(on)))
        on.add(on.ask())
        await on.run(0.5)
        assert on.lock() == f"{stamp()},default,holder"
        assert on.api.calls[:4] == [LOCK, BIND, LOCK, "GET nodes/n1"]


async def test_an_error_while_releasing_does_not_hide_what_led_there() -> None:
    async with bench.running() as on:
        on.add_node()
        on.api.faults.append(
            bench.Fault(
                call=BIND,
                error=errors.Forbidden("no binding", status=403),
                before=lambda: on.api.fail(LOCK, errors.Forbidden("no patch", status=403)),
            )
        )
        on.add(on.ask())
        await on.run(0.5)
        assert on.notes("FailedScheduling") == ["no binding"]
        assert on.metrics.counts["hami_node_lock_release_failures_total"] == 1
        assert on.entry() is None


@pytest.mark.parametrize(
    ("then", "want_calls", "want_failures"),
    [
        pytest.param(
            lambda on: on.api.fail(LOCK, errors.Conflict("409", status=409), times=99),
            5,
            1,
            id="it conflicts for ever: given up after five attempts",
        ),
        pytest.param(
            lambda on: on.api.fail(LOCK, errors.Unclear("500"), after=True),
            1,
            0,
            id="its answer is lost: read, and the lock is gone",
        ),
        pytest.param(lambda on: on.delete_node(), 1, 0, id="the Node is gone"),
        pytest.param(lambda on: on.set_lock(None), 1, 0, id="somebody has removed it"),
    ],
)
async def test_a_release_over_its_faults(
    then: Callable[[bench.Bench], Any], want_calls: int, want_failures: int
) -> None:
    async with bench.running() as on:
        on.add_node()
        no = errors.Forbidden("no", status=403)

        def before() -> None:
            on.lagging = True
            then(on)

        on.api.faults.append(bench.Fault(call=BIND, error=no, before=before))
        on.add(on.ask())
        await on.run(2.3 if want_failures else 0.9)
        after = on.api.calls[on.api.calls.index(BIND) + 1 :]
        assert after.count(LOCK) == want_calls
        key = "hami_node_lock_release_failures_total"
        assert on.metrics.counts.get(key, 0) == want_failures
        assert on.entry() is None


# ---- dead locks


async def test_an_order_to_remove_a_lock_is_judged_again_when_it_is_carried_out() -> None:
    async with bench.running() as on:
        on.add_node()
        on.add(holder())
        value = f"{stamp()},default,holder"
        on.set_lock(value)
        await on.run()
        assert not await on.latch.remove_dead("n1", bench.LOCK, value), "it is needed"
        assert not await on.latch.remove_dead("n1", bench.LOCK, "other"), "it is another one"
        on.delete_pod("holder")
        await on.run()
        assert await on.latch.remove_dead("n1", bench.LOCK, value)
        assert on.lock() is None


async def test_the_lock_of_a_pod_whose_name_another_one_has_now_is_dead() -> None:
    async with bench.running() as on:
        on.add_node()
        on.add(on.ask())
        await on.run()
        value = on.lock()
        on.delete_pod()
        on.add(builders.pod("p").container("c").on("n1"))
        await on.run()
        assert value is not None
        assert await on.latch.remove_dead("n1", bench.LOCK, value)


@pytest.mark.parametrize(
    ("change", "want_gone"),
    [
        pytest.param({"bind_phase": "failed"}, True, id="the allocation failed"),
        pytest.param({"phase": "Running"}, True, id="the holder runs"),
        pytest.param({}, False, id="the holder may still be served"),
    ],
)
async def test_a_dead_lock_goes_after_five_seconds_although_nobody_waits(
    change: Mapping[str, Any], want_gone: bool
) -> None:
    async with bench.running() as on:
        on.add_node()
        on.add(holder(**change))
        on.set_lock(f"{stamp()},default,holder")
        await on.run(3.0)
        assert on.lock() is not None
        await on.run(5.0)
        assert (on.lock() is None) == want_gone
        assert on.metrics.counts.get("hami_node_locks_removed_total", 0) == want_gone


async def test_the_lock_of_a_deleted_pod_goes_after_five_seconds() -> None:
    async with bench.running() as on:
        on.add_node()
        on.add(on.ask())
        await on.run()
        on.delete_pod()
        await on.run(8.0)
        assert on.lock() is None
        assert len(on.world.ledger) == 0


async def test_a_dead_lock_that_was_taken_meanwhile_stays() -> None:
    async with bench.running() as on:
        on.add_node()
        on.add(holder(phase="Running"))
        on.set_lock(f"{stamp()},default,holder")
        on.api.meanwhile(LOCK, lambda: on.set_lock(f"{stamp()},other,pod"))
        await on.run(8.0)
        assert on.lock() == f"{stamp()},other,pod"
        assert "hami_node_locks_removed_total" not in on.metrics.counts


async def test_a_dead_lock_that_cannot_be_removed_is_tried_again() -> None:
    async with bench.running() as on:
        on.add_node()
        on.add(holder(phase="Running"))
        on.set_lock(f"{stamp()},default,holder")
        on.api.fail(LOCK, errors.Forbidden("no", status=403))
        await on.run(7.0)
        assert on.lock() is not None
        await on.run(6.0)
        assert on.lock() is None


# ---- several locks


def both() -> builders.PodBuilder:
    """A pod that needs the shared lock and Cambricon's own."""
    gpu = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000}
    mlu = {"cambricon.com/vmlu": 1}
    made = builders.pod("p").scheduler(bench.SCHEDULER)
    return made.container("a", limits=gpu).container("b", limits=mlu)


def add_both_kinds(on: bench.Bench) -> None:
    mlus = builders.cards(1, word="MLU", model="MLU-MLU370-X4")
    made = builders.roomy("n1").register("NVIDIA", builders.cards(1), form=registers.Form.JSON)
    made = made.register("MLU", mlus)
    on.add(made.allocatable({"nvidia.com/gpu": "10", "cambricon.com/vmlu": "10"}))


async def test_two_locks_are_taken_in_order_and_kept() -> None:
    async with bench.running() as on:
        add_both_kinds(on)
        on.add(both())
        await on.run()
        assert on.writes == [LOCK, LOCK, BIND]
        assert on.lock() == f"{stamp()},default,p"
        assert on.lock(key=bench.MLU_LOCK) == stamp()


async def test_locks_are_given_back_in_reverse_order() -> None:
    async with bench.running() as on:
        add_both_kinds(on)
        on.api.fail(BIND, errors.Forbidden("no", status=403))
        on.add(both())
        await on.run(0.5)
        bodies = [body["metadata"]["annotations"] for call, body in on.api.bodies if call == LOCK]
        assert bodies == [
            {bench.LOCK: f"{stamp()},default,p"},
            {bench.MLU_LOCK: stamp()},
            {bench.MLU_LOCK: None},
            {bench.LOCK: None},
        ]
        assert on.lock() is None
        assert on.lock(key=bench.MLU_LOCK) is None


async def test_where_the_second_lock_fails_the_first_is_given_back() -> None:
    async with bench.running() as on:
        add_both_kinds(on)
        on.api.meanwhile(LOCK, lambda: on.api.fail(LOCK, errors.Forbidden("second", status=403)))
        on.add(both())
        await on.run(0.5)
        assert on.writes == [LOCK, LOCK, LOCK]
        assert on.lock() is None
        assert on.notes("FailedScheduling") == ["second"]


async def test_a_vendors_own_lock_of_others_is_waited_for_until_it_expires() -> None:
    async with bench.running() as on:
        add_both_kinds(on)
        on.set_lock(stamp(), key=bench.MLU_LOCK)
        on.add(both())
        await on.run(100.0)
        assert on.writes == []
        await on.run(25.0)
        assert on.node_of() == "n1"


async def test_a_vendors_own_lock_that_we_set_goes_when_its_pod_runs() -> None:
    async with bench.running() as on:
        add_both_kinds(on)
        on.add(both())
        await on.run()
        on.patch_pod({"status": {"phase": "Running"}}, subresource="status")
        on.api.fail(LOCK, errors.Forbidden("no", status=403), times=2)
        await on.run(7.0)
        assert on.lock(key=bench.MLU_LOCK) is not None
        await on.run(6.0)
        assert on.lock(key=bench.MLU_LOCK) is None
        assert on.lock() is None


# ---- in memory


async def test_in_memory_nothing_is_written_and_the_next_pod_waits_all_the_same() -> None:
    async with bench.running(node_lock="memory") as on:
        on.add_node()
        on.add(on.ask("p"))
        on.add(on.ask("q"))
        await on.run(2.0)
        assert on.api.calls == [BIND, "POST events"]
        on.serve("p")
        on.admit("p", "Running")
        await on.run(1.0)
        assert on.node_of("q") == "n1"
        assert on.writes == [BIND, "POST pods/q/binding"]


def on_node(annotations: Mapping[str, str], phase: str = "Pending") -> builders.PodBuilder:
    """Another pod on n1, as a bind leaves it and its plugin may have changed it."""
    under_way = {
        keys.VGPU_NODE: "n1",
        keys.BIND_TIME: "1772366400",
        keys.BIND_PHASE: "success",
    }
    made = builders.pod("holder").container("c").on("n1").phase(phase)
    return made.annotate(under_way | dict(annotations))


ALLOCATING = {keys.BIND_PHASE: "allocating"}
NVIDIA = {bench.ALLOCATED: "GPU-0,NVIDIA,1000,0:;", bench.TO_ALLOCATE: ";;"}
HCU = {"hami.io/hcu-devices-allocated": "HCU-0,HCU,1,1:;"}
FREE = {"hami.io/mthreads-vgpu-devices-allocated": "T,Mthreads,1,1:;"}
STANDING = [
    # What stands on the node, whether a plugin that finds no lock may take it, and whether it
    # is waited for in any case.
    pytest.param(on_node(NVIDIA), True, False, id="served, and still pending"),
    pytest.param(on_node(HCU), True, False, id="served by a plugin that erases nothing"),
    pytest.param(on_node(FREE | ALLOCATING), True, False, id="of a type that needs no lock"),
    pytest.param(on_node(HCU | ALLOCATING), True, True, id="not served yet"),
    pytest.param(on_node(NVIDIA, "Running"), False, False, id="running"),
    pytest.param(on_node(NVIDIA, "Failed"), False, False, id="failed"),
    pytest.param(on_node(NVIDIA | {keys.BIND_PHASE: "failed"}), False, False, id="refused"),
    pytest.param(on_node(NVIDIA | {keys.VGPU_NODE: "n2"}), False, False, id="decided elsewhere"),
    pytest.param(builders.pod("holder").container("c").on("n1"), False, False, id="plain"),
]


@pytest.mark.parametrize(("other", "is_open", "waits"), STANDING)
async def test_in_memory_the_lock_is_written_where_the_plugin_might_find_another_pod(
    other: builders.PodBuilder, is_open: bool, waits: bool
) -> None:
    async with bench.running(node_lock="memory") as on:
        on.add_node()
        on.add(other)
        on.add(on.ask())
        await on.run(1.0)
        written = [LOCK, BIND] if is_open else [BIND]
        assert on.writes == ([] if waits else written)
        assert (on.lock() is not None) == (is_open and not waits)


async def test_in_memory_the_lock_is_written_where_pods_of_other_types_come_without_one() -> None:
    async with bench.running(node_lock="memory") as on:
        made = builders.roomy("n1").register("NVIDIA", builders.cards(1), form=registers.Form.JSON)
        made = made.capacity({"enflame.com/gcu": "4"})
        on.add(made.allocatable({"nvidia.com/gpu": "10"}))
        on.add(on.ask())
        await on.run()
        assert on.writes == [LOCK, BIND]


async def test_in_memory_a_lock_that_was_written_is_given_back_when_the_bind_fails() -> None:
    async with bench.running(node_lock="memory") as on:
        on.add_node()
        on.add(on_node(NVIDIA))
        on.api.fail(BIND, errors.Forbidden("no", status=403))
        on.add(on.ask())
        await on.run(0.5)
        assert on.writes == [LOCK, BIND, LOCK]
        assert on.lock() is None


async def test_in_memory_a_lock_that_its_plugin_left_is_removed_like_any_other() -> None:
    async with bench.running(node_lock="memory") as on:
        on.add_node()
        on.add(on_node(NVIDIA))
        on.add(on.ask())
        await on.run()
        on.patch_pod({"metadata": {"annotations": NVIDIA | {keys.BIND_PHASE: "failed"}}})
        await on.run(3.0)
        assert on.lock() is not None
        await on.run(5.0)
        assert on.lock() is None


async def test_in_memory_a_pod_of_two_locks_is_waited_for_until_kubelet_has_asked_both() -> None:
    async with bench.running(node_lock="memory") as on:
        add_both_kinds(on)
        on.add(both())
        on.add(on.ask("q"))
        await on.run()
        on.serve()
        await on.run(2.0)
        assert on.node_of("q") == ""
        on.admit()
        await on.run()
        assert on.node_of("q") == "n1"


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda on: on.delete_pod(), id="it is deleted"),
        pytest.param(
            lambda on: on.patch_pod({"status": {"phase": "Failed"}}, subresource="status"),
            id="it fails",
        ),
        pytest.param(lambda on: on.serve(phase="failed"), id="its allocation fails"),
    ],
)
async def test_in_memory_the_next_pod_follows_when_the_first_needs_no_more(end: Any) -> None:
    async with bench.running(node_lock="memory") as on:
        on.add_node()
        on.add(on.ask("p"))
        on.add(on.ask("q"))
        await on.run()
        end(on)
        await on.run(1.0)
        assert on.node_of("q") == "n1"


async def test_in_memory_a_lock_of_others_is_respected() -> None:
    async with bench.running(node_lock="memory") as on:
        on.add_node()
        on.add(holder())
        on.set_lock(f"{stamp()},default,holder")
        on.add(on.ask())
        await on.run(2.0)
        assert on.writes == []
        on.serve("holder")
        on.admit("holder", "Running")
        await on.run(1.0)
        assert on.writes == [BIND]


async def test_in_memory_a_dead_lock_is_replaced_since_plugins_believe_it() -> None:
    async with bench.running(node_lock="memory") as on:
        on.add_node()
        on.add(holder(phase="Running"))
        on.set_lock(f"{stamp()},default,holder")
        on.add(on.ask())
        await on.run(2.0)
        assert (on.lock() or "").endswith(",default,p")


async def test_in_memory_a_pod_that_was_bound_before_the_start_is_waited_for() -> None:
    async with bench.running(node_lock="memory") as on:
        on.add_node()
        on.add(holder())
        on.add(on.ask())
        await on.run(2.0)
        assert on.writes == []
        on.delete_pod("holder")
        await on.run(1.0)
        assert on.node_of() == "n1"


# ---- the extra condition


async def test_a_free_lock_is_not_taken_while_a_pod_still_has_segments_to_be_served() -> None:
    async with bench.running() as on:
        on.add_node()
        on.add(holder(bind_phase="success"))
        on.add(on.ask())
        await on.run(2.0)
        assert on.writes == []
        await on.run(305.0)
        assert on.node_of() == "n1", "after the lock's time it stands in nobody's way"


# ---- types that share one lock


def mixed(name: str = "p") -> builders.PodBuilder:
    """A pod whose two types share the lock."""
    gpu = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000}
    hcu = {"hygon.com/hcunum": 1, "hygon.com/hcumem": 1000}
    made = builders.pod(name).scheduler(bench.SCHEDULER)
    return made.container("a", limits=gpu).container("b", limits=hcu)


def add_two_types(on: bench.Bench) -> None:
    made = builders.roomy("n1").register("NVIDIA", builders.cards(1), form=registers.Form.JSON)
    made = made.register("HCU", builders.cards(2, word="HCU"))
    on.add(made.allocatable({"nvidia.com/gpu": "10", "hygon.com/hcunum": "10"}))


MODES = pytest.mark.parametrize("mode", ["annotation", "memory"])


@MODES
@pytest.mark.parametrize(("other", "is_open", "waits"), STANDING)
async def test_a_mixed_pod_goes_where_its_second_plugin_can_find_no_other(
    mode: str, other: builders.PodBuilder, is_open: bool, waits: bool
) -> None:
    async with bench.running(node_lock=mode) as on:
        add_two_types(on)
        on.add(other)
        on.add(mixed())
        await on.run(2.0)
        assert (on.node_of() == "") == is_open
        if is_open:
            assert on.writes == []
            on.admit("holder", "Running")
            await on.run()
        assert on.writes == ([LOCK, BIND] if mode == "annotation" else [BIND])


async def test_a_mixed_pod_that_waits_in_vain_names_whom_it_waited_for() -> None:
    async with bench.running() as on:
        add_two_types(on)
        on.add(on_node(NVIDIA))
        await on.run(10.0)
        on.add(mixed())
        await on.run(289.0)
        assert on.entry() is not None
        on.add(on.ask("q"))
        await on.run(2.0)
        assert on.notes("FailedScheduling") == [f"node n1 {CONTENTION}"]
        assert on.node_of("q") == "n1", "nobody waits behind it for ever"
        assert on.node_of() == ""


async def test_a_mixed_pod_holds_up_nobody_where_another_has_long_been_pending() -> None:
    async with bench.running() as on:
        add_two_types(on)
        on.add(on_node(NVIDIA))
        await on.run(301.0)
        on.add(mixed())
        on.add(on.ask("q"))
        await on.run()
        assert on.notes("FailedScheduling") == [f"node n1 {CONTENTION}"]
        assert on.node_of("q") == "n1"


@MODES
async def test_after_a_mixed_pod_nobody_comes_before_kubelet_has_asked_both_plugins(
    mode: str,
) -> None:
    async with bench.running(node_lock=mode) as on:
        add_two_types(on)
        on.add(mixed())
        on.add(on.ask("q"))
        await on.run()
        on.serve()
        await on.run(2.0)
        assert (on.node_of(), on.node_of("q")) == ("n1", "")
        on.admit()
        await on.run()
        assert on.node_of("q") == "n1"


# ---- bound, and not shown yet


@pytest.mark.parametrize(
    ("first", "second", "want_second"),
    [
        pytest.param(mixed("p"), mixed("q"), "", id="two mixed pods"),
        pytest.param(mixed("p"), bench.Bench().ask("q"), "", id="the first is mixed"),
        pytest.param(bench.Bench().ask("p"), mixed("q"), "", id="the second is mixed"),
        pytest.param(bench.Bench().ask("p"), bench.Bench().ask("q"), "n1", id="neither"),
    ],
)
async def test_a_lock_that_is_seen_to_go_before_its_pod_is_seen_to_come(
    first: builders.PodBuilder, second: builders.PodBuilder, want_second: str
) -> None:
    async with bench.running() as on:
        add_two_types(on)
        on.add(first)
        on.add(second)
        on.api.meanwhile(BIND, lambda: on.late.add("pods"))
        await on.run()
        on.serve()
        await on.run(2.0)
        assert on.node_of("q") == want_second
        on.admit("p", "Running")
        on.late.clear()
        on.show()
        await on.run(1.0)
        assert on.node_of("q") == "n1"


async def test_a_bind_that_never_shows_is_not_waited_for_for_ever() -> None:
    on = bench.Bench()
    pod = on.ask("p").read()
    claim = nodelock.Claim(namespace="default", name="p", uid=pod.uid)
    expected = arrivals.Arrivals(on.world)
    arrival = arrivals.Arrival(claim=claim, is_mixed=False, until_s=300.0)
    expected.add("n1", arrival)
    assert expected.on("n1", 0.0) == (), "it has ended"
    on.world.pod_seen(pod, at(0))
    expected.add("n1", arrival)
    assert expected.on("n2", 299.0) == ()
    assert expected.on("n1", 299.0) == (arrival,)
    assert expected.on("n1", 300.0) == ()
    expected.add("n1", arrival)
    on.world.pod_seen(dataclasses.replace(pod, node_name="n1", resource_version="9"), at(0))
    assert expected.on("n1", 0.0) == (), "it shows"


# ---- stop


async def test_stop_ends_every_wait_and_nothing_is_written() -> None:
    async with bench.running() as on:
        on.add_node()
        on.add(holder())
        on.set_lock(f"{stamp()},default,holder")
        for name in ("p", "q", "r"):
            on.add(on.ask(name))
        await on.run()
        assert on.locker.waiting == 3
        on.locker.stop()
        await on.run()
        assert on.locker.waiting == 0
        assert on.writes == []


@pytest.mark.parametrize(
    ("annotations", "want", "want_mixed"),
    [
        pytest.param({}, (), False, id="no devices, no lock"),
        pytest.param({bench.ALLOCATED: "x"}, (bench.LOCK,), False, id="NVIDIA: the shared one"),
        pytest.param(
            {bench.ALLOCATED: "x", "hami.io/cambricon-mlu-devices-allocated": "z"},
            (bench.LOCK, bench.MLU_LOCK),
            False,
            id="two types, two locks",
        ),
        pytest.param(
            {
                bench.ALLOCATED: "x",
                "hami.io/hcu-devices-allocated": "y",
                "hami.io/cambricon-mlu-devices-allocated": "z",
            },
            (bench.LOCK, bench.MLU_LOCK),
            True,
            id="three types, two locks: the shared one first, and once",
        ),
        pytest.param(
            {"hami.io/mthreads-vgpu-devices-allocated": "x"},
            (),
            False,
            id="Moore Threads needs none",
        ),
    ],
)
async def test_which_locks_a_decision_needs(
    annotations: dict[str, str], want: tuple[str, ...], want_mixed: bool
) -> None:
    need = locker.needed(annotations, bench.Bench().registry)
    assert need == locker.Need(keys=want, is_mixed=want_mixed)


async def test_a_pod_in_line_stays_in_the_ledger_and_out_of_the_queue() -> None:
    async with bench.running() as on:
        on.add_node()
        on.add(holder())
        on.set_lock(f"{stamp()},default,holder")
        on.add(on.ask())
        await on.run(5.0)
        (item,) = on.world.queue.items()
        assert item.place is queue.Place.BINDING
