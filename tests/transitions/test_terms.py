"""Terms: nothing is decided before everything was seen, and a new leader begins afresh."""

from __future__ import annotations

import itertools

import pytest

from hami_operator.protocol import keys
from hami_operator.scheduling import effects, world
from tests import builders
from tests.moments import asked
from tests.transitions.stage import AL, Stage, gpus, placed, wants

STEPS = {
    "lead": lambda stage: stage.world.take_over(stage.now),
    "nodes": lambda stage: stage.world.synced(world.NODES, stage.now),
    "pods": lambda stage: stage.world.synced(world.PODS, stage.now),
    "quotas": lambda stage: stage.world.synced(world.QUOTAS, stage.now),
    "budgets": lambda stage: stage.world.synced(world.BUDGETS, stage.now),
}
ALL = ["nodes", "pods", "quotas", "budgets"]


@pytest.mark.parametrize(
    ("steps", "want"),
    [
        pytest.param([], False, id="nothing yet"),
        pytest.param(ALL, False, id="all is seen, but we do not lead"),
        pytest.param(["lead"], False, id="we lead and have seen nothing"),
        pytest.param(["lead", "nodes", "quotas", "budgets"], False, id="pods are missing"),
        pytest.param(["lead", "pods", "pods", "quotas", "budgets"], False, id="nodes are missing"),
        pytest.param(["lead", "nodes", "pods", "budgets"], False, id="quotas are missing"),
        pytest.param(["lead", "nodes", "pods", "quotas"], False, id="budgets are missing"),
        pytest.param(["lead", *ALL], True, id="all is seen in this term"),
        pytest.param([*ALL, "lead"], False, id="what was seen before is not enough"),
        pytest.param(["lead", *ALL, "lead"], False, id="a second term looks again"),
    ],
)
def test_when_decisions_may_be_made(steps: list[str], want: bool) -> None:
    stage = Stage(active=False)
    stage.node(gpus("n1"))
    stage.pod(wants("a"))
    for step in steps:
        STEPS[step](stage)
    assert stage.world.active is want
    assert stage.world.next_due(stage.now) == (0 if want else None)
    assert stage.run() == (["bind a to n1"] if want else [])


def test_who_steps_down_decides_no_more_and_keeps_what_may_still_land() -> None:
    stage = Stage()
    stage.node(gpus("n1"))
    stage.pod(wants("a"), wants("b"))
    first = stage.world.attempt(stage.now)
    assert any(isinstance(each, effects.Bind) for each in first)
    stage.world.step_down()
    assert stage.run() == []
    assert stage.state.held == {("a", "n1", "reserved")}
    assert stage.world.bind_done("uid-a") == ()
    assert stage.state.held == {("a", "n1", "bound")}


def test_a_new_leader_forgets_what_its_last_term_did_not_bind() -> None:
    stage = Stage()
    stage.node(gpus("n1"))
    stage.pod(wants("a"))
    stage.order()
    stage.world.step_down()
    stage.wait(60)
    stage.world.take_over(stage.now)
    assert stage.state.held == frozenset()
    stage.world.bind_failed("uid-a", stage.now, message="late")
    for source in world.SOURCES:
        stage.world.synced(source, stage.now)
    stage.wait(1)
    assert stage.run() == ["bind a to n1"]


def test_pods_bound_by_another_leader_of_ours_are_ours() -> None:
    stage = Stage(active=False)
    stage.node(gpus("n1"))
    stage.pod(placed(wants("a"), "n1", "GPU-0,NVIDIA,1000,0:;"))
    stage.lead()
    assert stage.state.held == {("a", "n1", "bound")}


def test_a_follower_is_silent_and_a_leader_tells_everything_that_is_amiss() -> None:
    stage = Stage(active=False)
    silent = [
        *stage.node(
            gpus("n1").allocatable({"nvidia.com/gpu": 0}),
            builders.roomy("n2").annotate({"hami.io/node-nvidia-register": "bad:"}),
        ),
        *stage.pod(
            wants("a").on("n1"),
            wants("b").on("n1").annotate({keys.VGPU_NODE: "n1", AL: "x"}),
            placed(wants("c"), "n1", "GPU-7,NVIDIA,1,1:;").phase("Running"),
        ),
        *stage.wait(1000),
    ]
    assert silent == []
    assert stage.lead() == [
        "n1: DeviceTypeUnavailable",
        "n2: DeviceTypeUnavailable",
        "n2: MalformedDeviceRegister",
        "a: AdmissionBypassed",
        "n1: UnreadableDecision",
        "c: ForeignDecision",
        "n1: UnknownDevice",
    ]
    assert stage.world.synced(world.PODS, stage.now) == ()
    assert len(stage.lead()) == 7


def test_ages_start_anew_with_a_term() -> None:
    stage = Stage()
    text = builders.roomy("n1").register("NVIDIA", builders.cards(1), handshake=asked(0))
    stage.node(text)
    stage.wait(200)
    assert stage.lead() == []
    assert stage.wait(100) == []
    assert stage.wait(1) == ["n1: DeviceTypeUnavailable"]


def test_a_stale_decision_on_a_pending_pod_is_no_usage_after_a_restart() -> None:
    stage = Stage(active=False)
    stage.node(gpus("n1"))
    stale = {keys.VGPU_NODE: "n1", AL: "GPU-0,NVIDIA,32768,0:;"}
    stage.pod(wants("a", mem=30000).annotate(stale))
    stage.lead()
    order = stage.order()
    assert order.decision.annotations[AL] == "GPU-0,NVIDIA,30000,0:;"


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_what_is_found_at_the_start_does_not_depend_on_its_order(order: tuple[int, ...]) -> None:
    stage = Stage(active=False)
    steps = [
        lambda: stage.node(gpus("n1", memory_mib=24576)),
        lambda: stage.pod(placed(wants("a"), "n1", "GPU-0,NVIDIA,20000,0:;")),
        lambda: stage.pod(wants("bad").on("n2").annotate({keys.VGPU_NODE: "n2", AL: "x"})),
        lambda: stage.pod(wants("b", mem=8000), wants("c", mem=4000)),
    ]
    for step in order:
        steps[step]()
    stage.lead()
    assert stage.bind() == {"c": "n1"}
    assert stage.usage("n1") == {"GPU-0": (2, 24000)}
