"""One bind over every fault: which calls it makes, and what is left when it is over."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from hami_operator import errors
from hami_operator.protocol import keys
from hami_operator.scheduling import queue
from tests.runtime import bench

LOCK = "PATCH nodes/n1"
BIND = "POST pods/p/binding"
PATCH = "PATCH pods/p"
READ = "GET pods/p"
READ_NODE = "GET nodes/n1"

Step = Callable[[bench.Bench], Any]


def fails(call: str, error: Exception, *, times: int = 1, after: bool = False) -> Step:
    return lambda on: on.api.fail(call, error, times=times, after=after)


def meanwhile(call: str, action: Step) -> Step:
    return lambda on: on.api.meanwhile(call, lambda: action(on))


def busy(retry_after_s: float | None = None) -> errors.Retryable:
    return errors.Retryable("busy", status=429, retry_after_s=retry_after_s)


def lost() -> errors.Unclear:
    return errors.Unclear("no answer")


def refused(status: int) -> errors.ApiError:
    kinds = {403: errors.Forbidden, 409: errors.Conflict, 422: errors.Invalid}
    return kinds[status](f"injected {status}", status=status)


def edit(on: bench.Bench) -> None:
    edits = on.annotations().get("edits", "")
    on.patch_pod({"metadata": {"annotations": {"edits": edits + "x"}}})


def gate(on: bench.Bench) -> None:
    """Gates cannot come back; the store is told so by force, as if they had never gone."""
    record = on.store.get("pods", ("default", "p"))
    record.obj["spec"]["schedulingGates"] = [{"name": "g"}]
    edit(on)


def end(on: bench.Bench) -> None:
    on.patch_pod({"status": {"phase": "Failed"}}, subresource="status")


def recreate(on: bench.Bench) -> None:
    on.delete_pod()
    on.add(on.ask().annotate(second="yes"))


def bind_elsewhere(on: bench.Bench) -> None:
    target = {"apiVersion": "v1", "kind": "Node", "name": "n9"}
    on.store.bind(("default", "p"), {"metadata": {"name": "p"}, "target": target})


def bind_here_without_decision(on: bench.Bench) -> None:
    target = {"apiVersion": "v1", "kind": "Node", "name": "n1"}
    on.store.bind(("default", "p"), {"metadata": {"name": "p"}, "target": target})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """What goes wrong, the calls that follow within a while, and what is left.

    Attributes:
        node: where the pod is at the end.
        lock: whether the node's lock names the pod.
        booked: whether the ledger still counts the pod.
        place: where the queue has the pod; None where it has it not.
        wait_s: how long to look.
    """

    faults: tuple[Step, ...] = ()
    want: tuple[str, ...]
    node: str = "n1"
    lock: bool = True
    booked: bool = True
    place: queue.Place | None = None
    reason: str = "Scheduled p"
    wait_s: float = 0.9


FIRST_TRY = (LOCK, BIND)
GIVEN_BACK: dict[str, Any] = {"node": "", "lock": False, "booked": False}
AGAIN: dict[str, Any] = {
    **GIVEN_BACK,
    "place": queue.Place.BACKOFF,
    "reason": "FailedScheduling p",
}

CASES = [
    pytest.param(Case(want=FIRST_TRY), id="nothing goes wrong: three writes and no read"),
    # ---- the Binding
    pytest.param(
        Case(faults=(fails(BIND, busy()),), want=(*FIRST_TRY, BIND)),
        id="429 on the Binding: it did not take effect and is sent again",
    ),
    pytest.param(
        Case(faults=(fails(BIND, busy(3.0)),), want=(*FIRST_TRY, BIND), wait_s=3.5),
        id="429 with Retry-After on the Binding: sent again when that is over",
    ),
    pytest.param(
        Case(
            faults=(fails(BIND, busy(), times=99),),
            want=(LOCK, *[BIND] * 4, LOCK),
            **AGAIN,
            wait_s=1.2,
        ),
        id="429 for ever on the Binding: undone and tried again later",
    ),
    pytest.param(
        Case(faults=(fails(BIND, lost()),), want=(*FIRST_TRY, READ, BIND)),
        id="500 on the Binding before it took effect: read, unbound, sent again",
    ),
    pytest.param(
        Case(faults=(fails(BIND, lost(), after=True),), want=(*FIRST_TRY, READ)),
        id="the answer of the Binding is lost after the write: read, and it is ours",
    ),
    pytest.param(
        Case(
            faults=(fails(BIND, lost(), times=99),),
            want=(LOCK, BIND, READ, BIND, READ, BIND, READ, LOCK),
            **AGAIN,
        ),
        id="the Binding never answers and never lands: undone after three tries",
    ),
    pytest.param(
        Case(
            faults=(fails(BIND, lost(), after=True), fails(READ, busy(), times=3)),
            want=(*FIRST_TRY, READ, READ, READ, READ),
            wait_s=7.5,
        ),
        id="lost answer and unanswered reads: asked again after 1, 2 and 4 s until it is known",
    ),
    pytest.param(
        Case(faults=(fails(BIND, refused(403)),), want=(LOCK, BIND, LOCK), **AGAIN),
        id="403 on the Binding: undone, the lock given back",
    ),
    pytest.param(
        Case(faults=(fails(BIND, refused(422)),), want=(LOCK, BIND, LOCK), **AGAIN),
        id="422 on the Binding: undone, the lock given back",
    ),
    pytest.param(
        Case(faults=(meanwhile(BIND, edit),), want=(*FIRST_TRY, READ, BIND)),
        id="the pod was edited meanwhile: read, still ours to bind, sent with the new version",
    ),
    pytest.param(
        Case(
            faults=(meanwhile(BIND, edit), meanwhile(BIND, edit), meanwhile(BIND, edit)),
            want=(LOCK, BIND, READ, BIND, READ, BIND, READ, LOCK),
            **AGAIN,
        ),
        id="the pod is edited without end: given up after three tries",
    ),
    pytest.param(
        Case(
            faults=(meanwhile(BIND, lambda on: on.delete_pod()),),
            want=(LOCK, BIND, LOCK),
            **GIVEN_BACK,
            reason="",
        ),
        id="the pod was deleted meanwhile: 404, everything is given back",
    ),
    pytest.param(
        Case(
            faults=(meanwhile(BIND, bind_elsewhere),),
            want=(LOCK, BIND, READ, LOCK),
            node="n9",
            lock=False,
            reason="AdmissionBypassed p",
        ),
        id="another scheduler was first: the lock is given back, the pod is dropped",
    ),
    pytest.param(
        Case(
            faults=(meanwhile(BIND, bind_here_without_decision),),
            want=(LOCK, BIND, READ, LOCK),
            lock=False,
            reason="AdmissionBypassed p",
        ),
        id="another scheduler bound it to the same node without our decision: not ours",
    ),
    pytest.param(
        Case(
            faults=(meanwhile(BIND, gate),),
            want=(LOCK, BIND, READ, LOCK),
            **{**GIVEN_BACK, "place": queue.Place.GATED, "reason": ""},
        ),
        id="the pod is gated: parked until the gates are gone",
    ),
    pytest.param(
        Case(
            faults=(meanwhile(BIND, end),),
            want=(LOCK, BIND, READ, LOCK),
            **GIVEN_BACK,
            reason="",
        ),
        id="the pod has failed meanwhile: everything is given back",
    ),
    pytest.param(
        Case(
            faults=(fails(BIND, lost()), meanwhile(READ, lambda on: on.delete_pod())),
            want=(LOCK, BIND, READ, LOCK),
            **GIVEN_BACK,
            reason="",
        ),
        id="no answer, and the pod was deleted before it could be read",
    ),
    # ---- the lock
    pytest.param(
        Case(faults=(fails(LOCK, refused(409)),), want=(LOCK, READ_NODE, LOCK, BIND)),
        id="409 on the lock: the Node is read and judged anew",
    ),
    pytest.param(
        Case(
            faults=(meanwhile(LOCK, lambda on: on.annotate_node(other="x")),),
            want=(LOCK, READ_NODE, LOCK, BIND),
        ),
        id="the Node changed meanwhile: read, and the lock written to the new version",
    ),
    pytest.param(
        Case(faults=(fails(LOCK, lost(), after=True),), want=(LOCK, READ_NODE, BIND)),
        id="the answer of the lock is lost after the write: read, and it is ours",
    ),
    pytest.param(
        Case(faults=(fails(LOCK, lost()),), want=(LOCK, READ_NODE, LOCK, BIND)),
        id="500 on the lock before it took effect: read, and written again",
    ),
    pytest.param(
        Case(faults=(fails(LOCK, busy(2.0)),), want=(LOCK, LOCK, BIND), wait_s=2.5),
        id="429 with Retry-After on the lock: written again when that is over",
    ),
    pytest.param(
        Case(
            faults=(fails(LOCK, refused(409), times=99),),
            want=(LOCK, *[READ_NODE, LOCK] * 4),
            **AGAIN,
            wait_s=2.5,
        ),
        id="409 for ever on the lock: given up after five attempts",
    ),
    pytest.param(
        Case(faults=(fails(LOCK, refused(403)),), want=(LOCK,), **AGAIN),
        id="403 on the lock: the pod is tried again later",
    ),
    pytest.param(
        Case(
            faults=(meanwhile(LOCK, lambda on: on.delete_node()),),
            want=(LOCK,),
            **{**AGAIN, "lock": False},
        ),
        id="the Node vanishes before the lock: nothing more is sent",
    ),
]


@pytest.mark.parametrize("case", CASES)
async def test_a_bind_over_its_faults(case: Case) -> None:
    async with bench.running() as on:
        on.add_node()
        for fault in case.faults:
            fault(on)
        on.add(on.ask())
        await on.run(case.wait_s)
        calls = [each for each in on.api.calls if "events" not in each and "status" not in each]
        assert calls == list(case.want)
        _check_state(on, case)


def _check_state(on: bench.Bench, case: Case) -> None:
    exists = on.store.find("pods", ("default", "p")) is not None
    assert (on.node_of() if exists else "") == case.node
    if on.store.find("nodes", ("", "n1")) is not None:
        assert (on.lock() or "").endswith(",default,p" if case.lock else "")
        assert bool(on.lock()) == case.lock
    held = on.entry()
    assert (held is not None) == case.booked
    items = on.world.queue.items()
    assert (items[0].place if items else None) == case.place
    reasons = [each for each in on.reasons if each.endswith(" p")]
    assert reasons == ([case.reason] if case.reason else [])


async def test_a_failed_bind_is_tried_again_and_leaves_exactly_one_reservation() -> None:
    async with bench.running() as on:
        on.add_node()
        on.api.fail(BIND, refused(403))
        on.add(on.ask())
        await on.run(1.5)
        assert on.node_of() == "n1"
        assert len(on.world.ledger) == 1
        on.serve()
        on.delete_pod()
        await on.run()
        assert len(on.world.ledger) == 0


async def test_during_an_unclear_bind_a_competitor_cannot_take_the_slice() -> None:
    async with bench.running() as on:
        on.add_node()
        whole = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 32768}
        on.api.fail(BIND, lost(), after=True)
        on.api.fail(READ, busy(), times=5)
        on.lagging = False
        on.add(on.ask(**whole))
        await on.run()
        on.add(on.ask("q", **whole))
        await on.run(3.0)
        assert on.node_of("q") == ""
        assert on.entry() is not None
        await on.run(30.0)
        assert on.node_of() == "n1"
        assert on.node_of("q") == ""


async def test_the_pod_of_the_same_name_that_came_meanwhile_gets_its_own_bind() -> None:
    async with bench.running() as on:
        on.add_node()
        on.api.meanwhile(BIND, lambda: recreate(on))
        on.add(on.ask())
        await on.run(1.5)
        assert on.node_of() == "n1"
        assert on.annotations()["second"] == "yes"
        entry = on.entry()
        assert entry is not None
        assert entry.uid == on.pod()["metadata"]["uid"]
        assert len(on.world.ledger) == 1


# ---- carriers


async def test_the_binding_carries_decision_label_and_preconditions() -> None:
    async with bench.running() as on:
        on.add_node()
        on.add(on.ask())
        version = on.pod()["metadata"]["resourceVersion"]
        await on.run()
        assert on.api.body(BIND) == {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "name": "p",
                "namespace": "default",
                "uid": on.pod()["metadata"]["uid"],
                "resourceVersion": version,
                "annotations": {
                    bench.TO_ALLOCATE: "GPU-0,NVIDIA,1000,0:;",
                    bench.ALLOCATED: "GPU-0,NVIDIA,1000,0:;",
                    "hami.io/vgpu-node": "n1",
                    "hami.io/vgpu-time": "1772366400",
                    "hami.io/bind-phase": "allocating",
                    "hami.io/bind-time": "1772366400",
                },
                "labels": {"hami.io/vgpu-node": "n1"},
            },
            "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
        }


async def test_below_1_35_the_label_follows_in_one_patch_after_the_binding() -> None:
    async with bench.running(server="1.34.2") as on:
        on.add_node()
        on.add(on.ask())
        await on.run()
        assert on.writes == [LOCK, BIND, PATCH]
        assert on.pod()["metadata"]["labels"] == {"hami.io/vgpu-node": "n1"}
        uid = on.pod()["metadata"]["uid"]
        assert on.api.body(PATCH) == {
            "metadata": {"uid": uid, "labels": {"hami.io/vgpu-node": "n1"}}
        }


async def test_a_lost_answer_below_1_35_does_not_lose_the_label() -> None:
    async with bench.running(server="1.34.2") as on:
        on.add_node()
        on.api.fail(BIND, lost(), after=True)
        on.api.fail(PATCH, busy())
        on.add(on.ask())
        await on.run(1.0)
        assert on.pod()["metadata"]["labels"] == {"hami.io/vgpu-node": "n1"}


async def test_a_stale_protocol_key_is_removed_in_one_patch_before_the_binding() -> None:
    async with bench.running() as on:
        on.add_node()
        stale = {"hami.io/hcu-devices-to-allocate": "x,HCU,1,1:;", "mine": "stays"}
        on.add(on.ask().annotate(stale))
        await on.run()
        assert on.writes == [LOCK, PATCH, BIND]
        assert "annotations" not in on.api.body(BIND)["metadata"]
        found = on.annotations()
        assert found["mine"] == "stays"
        assert found[bench.ALLOCATED] == "GPU-0,NVIDIA,1000,0:;"
        assert "hami.io/hcu-devices-to-allocate" not in found
        assert on.api.body(PATCH)["metadata"]["resourceVersion"]


async def test_a_forged_decision_is_overwritten_without_a_patch_of_its_own() -> None:
    forged = {bench.ALLOCATED: "GPU-9,NVIDIA,1,1:;", keys.VGPU_NODE: "n9"}
    async with bench.running() as on:
        on.add_node()
        on.add(on.ask().annotate(forged))
        await on.run()
        assert on.writes == [LOCK, BIND]
        assert on.annotations()[bench.ALLOCATED] == "GPU-0,NVIDIA,1000,0:;"
        assert on.annotations()[keys.VGPU_NODE] == "n1"


async def test_carrier_patch_writes_the_decision_first() -> None:
    async with bench.running(decision_carrier="patch") as on:
        on.add_node()
        on.add(on.ask())
        await on.run()
        assert on.api.calls == [LOCK, PATCH, BIND, "POST events"]
        assert on.annotations()[keys.BIND_PHASE] == "allocating"
        assert on.pod()["metadata"]["labels"] == {"hami.io/vgpu-node": "n1"}


PATCHED = [
    pytest.param(
        (fails(PATCH, refused(409)),),
        [LOCK, PATCH, READ, PATCH, BIND],
        "n1",
        id="409 on the PATCH: read and judged anew",
    ),
    pytest.param(
        (meanwhile(PATCH, edit),),
        [LOCK, PATCH, READ, PATCH, BIND],
        "n1",
        id="the pod was edited before the PATCH",
    ),
    pytest.param(
        (meanwhile(BIND, edit),),
        [LOCK, PATCH, BIND, READ, PATCH, BIND],
        "n1",
        id="the pod was edited between PATCH and Binding",
    ),
    pytest.param(
        (fails(PATCH, lost(), after=True),),
        [LOCK, PATCH, READ, PATCH, BIND],
        "n1",
        id="the answer of the PATCH is lost: read, written again, bound",
    ),
    pytest.param((fails(PATCH, busy()),), [LOCK, PATCH, PATCH, BIND], "n1", id="429 on the PATCH"),
    pytest.param(
        (fails(BIND, refused(403)),),
        [LOCK, PATCH, BIND, READ, PATCH, LOCK],
        "",
        id="the Binding is refused: decision removed, then the lock given back",
    ),
    pytest.param(
        (fails(BIND, refused(403)), fails(PATCH, refused(422), times=1)),
        [LOCK, PATCH, READ, LOCK],
        "",
        id="the PATCH is refused for its content: nothing is bound, nothing is left",
    ),
    pytest.param(
        (meanwhile(PATCH, lambda on: on.delete_pod()),),
        [LOCK, PATCH, READ, LOCK],
        "",
        id="the pod was deleted before the PATCH",
    ),
]


@pytest.mark.parametrize(("faults", "want", "node"), PATCHED)
async def test_carrier_patch_over_its_faults(
    faults: tuple[Step, ...], want: list[str], node: str
) -> None:
    async with bench.running(decision_carrier="patch") as on:
        on.add_node()
        for fault in faults:
            fault(on)
        on.add(on.ask())
        await on.run(0.9)
        calls = [each for each in on.api.calls if "events" not in each and "status" not in each]
        assert calls == want
        if on.store.find("pods", ("default", "p")) is None:
            return
        assert on.node_of() == node
        if not node:
            assert not [key for key in on.annotations() if key.startswith("hami.io/")]
            assert not on.pod()["metadata"].get("labels")
            assert on.lock() is None
            assert on.entry() is None


async def test_undoing_leaves_a_pod_alone_that_somebody_has_bound_meanwhile() -> None:
    async with bench.running(decision_carrier="patch") as on:
        on.add_node()
        on.api.fail(BIND, refused(403))
        on.api.meanwhile(READ, lambda: bind_elsewhere(on))
        on.add(on.ask())
        await on.run(0.5)
        assert on.writes == [LOCK, PATCH, BIND, LOCK]
        assert on.annotations()[keys.BIND_PHASE] == "allocating"


@pytest.mark.parametrize(
    ("error", "times"),
    [
        pytest.param(refused(409), 3, id="it changes without end"),
        pytest.param(refused(403), 1, id="it may not be written"),
        pytest.param(lost(), 1, id="no answer"),
    ],
)
async def test_a_decision_that_cannot_be_removed_hides_nothing(
    error: Exception, times: int
) -> None:
    async with bench.running(decision_carrier="patch") as on:
        on.add_node()
        on.api.faults.append(
            bench.Fault(
                call=BIND,
                error=refused(403),
                before=lambda: on.api.fail(PATCH, error, times=times),
            )
        )
        on.add(on.ask())
        await on.run(0.5)
        assert on.lock() is None
        assert on.entry() is None
        assert "FailedScheduling p" in on.reasons


# ---- limits of names and sizes


async def test_a_node_name_of_72_characters_is_bound_without_label_and_stays_updatable() -> None:
    name = "node-" + "n" * 67
    async with bench.running() as on:
        on.add_node(name)
        on.add(on.ask())
        await on.run()
        assert on.node_of() == name
        assert on.annotations()[keys.VGPU_NODE] == name
        assert keys.VGPU_NODE not in on.pod()["metadata"].get("labels", {})
        on.patch_pod({"metadata": {"annotations": {"still": "updatable"}}})


async def test_a_pod_that_our_decision_would_break_is_not_bound_and_says_why() -> None:
    async with bench.running() as on:
        on.add_node()
        on.add(on.ask().annotate({"big": "x" * (256 * 1024 - 100)}))
        await on.run(0.5)
        assert on.node_of() == ""
        assert on.writes == []
        assert on.entry() is None
        (note,) = on.notes("FailedScheduling")
        assert "annotations would hold 262252 bytes, more than 262144 (DecisionTooLarge)." in note


async def test_a_pod_that_grows_too_large_meanwhile_is_not_bound_and_says_why() -> None:
    def grow(on: bench.Bench) -> None:
        on.lagging = True
        on.patch_pod({"metadata": {"annotations": {"big": "x" * (256 * 1024 - 100)}}})

    async with bench.running() as on:
        on.add_node()
        on.api.meanwhile(BIND, lambda: grow(on))
        on.add(on.ask())
        await on.run(0.5)
        assert on.node_of() == ""
        (note,) = on.notes("FailedScheduling")
        assert note == "annotations would hold 262252 bytes, more than 262144 (DecisionTooLarge)"


async def test_a_pod_with_255_kib_of_annotations_is_bound_and_stays_updatable() -> None:
    async with bench.running() as on:
        on.add_node()
        on.add(on.ask().annotate({"big": "x" * (255 * 1024)}))
        await on.run()
        assert on.node_of() == "n1"
        on.patch_pod({"metadata": {"annotations": {"ok": "yes"}}})


async def test_annotations_that_grew_during_the_bind_are_weighed_again() -> None:
    def grow(on: bench.Bench) -> None:
        on.patch_pod({"metadata": {"annotations": {"big": "x" * (256 * 1024 - 100)}}})

    async with bench.running() as on:
        on.add_node()
        on.api.meanwhile(BIND, lambda: grow(on))
        on.add(on.ask())
        await on.run(0.5)
        assert on.node_of() == ""
        assert on.lock() is None
        assert on.entry() is None


# ---- limits of time, fences, stops


async def test_a_bind_ends_within_its_limit() -> None:
    async with bench.running(bind_timeout="5s") as on:
        on.add_node()
        on.api.fail(BIND, busy(10.0), times=2)
        on.api.fail(BIND, refused(409))
        on.add(on.ask())
        await on.run(21.0)
        assert on.api.calls[:5] == [LOCK, BIND, BIND, BIND, READ]
        assert on.notes("FailedScheduling")[0].startswith("not bound within 5 s")


async def test_the_node_that_is_gone_gets_no_binding() -> None:
    async with bench.running() as on:
        on.add_node()
        held = on.api.hold(LOCK)
        on.add(on.ask())
        await on.run()
        on.intake.node_is_gone("n1")
        held.set()
        await on.run(0.5)
        assert BIND not in on.api.calls
        assert on.notes("FailedScheduling") == ["node n1 is gone"]


async def test_a_former_leader_sends_nothing_and_keeps_nothing() -> None:
    async with bench.running() as on:
        on.add_node()
        on.api.meanwhile(LOCK, lambda: setattr(on.api, "fence_open", False))
        on.add(on.ask())
        await on.run(0.5)
        assert on.api.calls == [LOCK]
        assert on.node_of() == ""
        assert on.entry() is None


async def test_a_bug_in_a_bind_ends_neither_the_process_nor_the_reservation_wrongly() -> None:
    async with bench.running() as on:
        on.add_node()
        on.api.fail(BIND, ValueError("a bug"), after=True)
        on.add(on.ask())
        await on.run(0.5)
        assert on.node_of() == "n1"
        assert on.entry() is not None
        on.serve()
        on.api.fail("POST pods/q/binding", ValueError("a bug"))
        on.add(on.ask("q"))
        await on.run(3.0)
        assert on.node_of("q") == "n1"


async def test_a_cancelled_bind_lets_its_binding_end_and_leaves_the_lock_to_the_plugin() -> None:
    async with bench.running() as on:
        on.add_node()
        gate = on.api.hold(BIND)
        on.add(on.ask())
        await on.run()
        task = on.task("bind default/p")
        task.cancel()
        await on.run()
        assert not task.done()
        gate.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert on.node_of() == "n1"
        assert on.lock() is not None


@pytest.mark.parametrize("carrier", ["auto", "patch"])
async def test_a_bind_cancelled_before_its_binding_undoes_what_it_wrote(carrier: str) -> None:
    held = PATCH if carrier == "patch" else LOCK
    async with bench.running(decision_carrier=carrier) as on:
        on.add_node()
        gate = on.api.hold(held)
        on.add(on.ask())
        await on.run()
        task = on.task("bind default/p")
        task.cancel()
        await on.run()
        gate.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        await on.run()
        assert BIND not in on.api.calls
        assert on.node_of() == ""
        assert not [key for key in on.annotations() if key.startswith("hami.io/")]
        assert on.lock() is None


async def test_workers_bound_how_many_binds_write_at_once() -> None:
    async with bench.running(bind_workers="2", node_scheduler_policy="spread") as on:
        for number in range(4):
            on.add_node(f"n{number}")
        gates = [on.api.hold(f"POST pods/p{number}/binding") for number in range(4)]
        for number in range(4):
            on.add(on.ask(f"p{number}"))
        await on.run()
        sent = [call for call in on.api.calls if "binding" in call]
        assert len(sent) == 2
        for gate in gates:
            gate.set()
        await on.run()
        assert all(on.node_of(f"p{number}") for number in range(4))


async def test_a_pod_without_devices_needs_no_lock_and_carries_nothing() -> None:
    async with bench.running() as on:
        on.add_node()
        on.add(on.ask(cpu="1"))
        await on.run()
        assert on.api.calls == [BIND, "POST events"]
        assert set(on.api.body(BIND)["metadata"]) == {
            "name",
            "namespace",
            "uid",
            "resourceVersion",
        }
