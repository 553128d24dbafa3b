"""Binds: they land, fail, are lost, and are told of twice."""

from __future__ import annotations

import pytest

from hami_operator.protocol import keys
from hami_operator.scheduling import effects, queue
from tests import builders
from tests.transitions.stage import AL, Stage, brief, gpus, placed, wants

Place = queue.Place
ALLOCATED = "GPU-0,NVIDIA,1000,0:;"


def reserved(mem: int = 1000) -> tuple[Stage, effects.Bind]:
    stage = Stage()
    stage.node(gpus("n1"))
    stage.pod(wants("a", mem=mem))
    return stage, stage.order()


def test_a_bind_that_lands_is_told_once_and_leaves_the_queue() -> None:
    stage, order = reserved()
    before = stage.state
    assert stage.land(order) == ["a: Scheduled", "n1: lock changed"]
    assert stage.state - before == ({"a": "n1 bound"}, {"a": "left"})
    assert stage.world.bind_done("uid-a") == ()


def test_the_event_of_a_success_has_the_words_that_users_know() -> None:
    stage, _ = reserved()
    (event,) = stage.world.bind_done("uid-a")
    assert event == effects.PodEvent(
        pod=effects.PodRef(uid="uid-a", namespace="default", name="a"),
        type=effects.EventType.NORMAL,
        reason="Scheduled",
        message="Successfully assigned default/a to n1",
        action="Binding",
    )


def test_the_watch_may_be_faster_than_the_answer() -> None:
    stage, _ = reserved()
    assert stage.pod(placed(wants("a"), "n1", ALLOCATED)) == ["n1: lock changed"]
    assert stage.state.held == {("a", "n1", "bound")}
    assert stage.world.bind_failed("uid-a", stage.now, message="late")[0] == effects.PodEvent(
        pod=effects.PodRef(uid="uid-a", namespace="default", name="a"),
        type=effects.EventType.NORMAL,
        reason="Scheduled",
        message="Successfully assigned default/a to n1",
        action="Binding",
    )
    assert stage.usage("n1") == {"GPU-0": (1, 1000)}


def test_a_bind_that_fails_gives_back_everything_and_the_pod_rests() -> None:
    stage, _ = reserved()
    told = stage.world.bind_failed("uid-a", stage.now, message="lock: no")
    assert [type(each).__name__ for each in told] == ["Condition", "PodEvent", "Attempt"]
    assert stage.state.held == frozenset()
    assert stage.place("a") is Place.BACKOFF
    assert stage.run() == []
    stage.wait(1)
    assert stage.run() == ["bind a to n1"]


@pytest.mark.parametrize("times", [2, 3])
def test_a_failure_may_be_told_more_than_once(times: int) -> None:
    stage, _ = reserved()
    told = [stage.world.bind_failed("uid-a", stage.now, message="no") for _ in range(times)]
    assert [bool(each) for each in told] == [True] + [False] * (times - 1)
    assert stage.usage("n1") == {}


def test_a_failure_wakes_who_can_use_what_it_gives_back() -> None:
    stage, _ = reserved(mem=30000)
    stage.pod(wants("b", mem=30000))
    assert stage.bind() == {}
    stage.world.bind_failed("uid-a", stage.now, message="no")
    assert stage.bind() == {"b": "n1"}


@pytest.mark.parametrize(
    ("seen", "lost"),
    [
        pytest.param(wants("a").version(2).on("n2"), True, id="bound elsewhere, as was read"),
        pytest.param(wants("a").version(2).on("n2"), False, id="bound elsewhere, as was seen"),
        pytest.param(wants("a").version(2).terminating(), False, id="being deleted"),
        pytest.param(None, True, id="gone, as was read"),
    ],
)
def test_a_pod_that_is_lost_is_not_tried_again(
    seen: builders.PodBuilder | None, lost: bool
) -> None:
    stage, _ = reserved()
    if seen is not None:
        stage.pod(seen)
    assert stage.world.bind_failed("uid-a", stage.now, message="409", lost=lost) == ()
    assert stage.place("a") is None
    assert stage.usage("n1") == {}
    stage.wait(1000)
    assert stage.run() == []


def test_a_pod_whose_watch_said_farewell_is_tried_again_when_its_bind_fails() -> None:
    stage, _ = reserved()
    stage.world.pending_gone("uid-a")
    stage.world.bind_failed("uid-a", stage.now, message="500")
    assert stage.place("a") is Place.BACKOFF


def test_a_pod_that_was_gated_meanwhile_is_parked_without_a_word_when_its_bind_fails() -> None:
    stage, _ = reserved()
    stage.pod(wants("a").version(2).gate("g"))
    assert stage.world.bind_failed("uid-a", stage.now, message="409 gates") == ()
    assert stage.place("a") is Place.GATED
    assert stage.usage("n1") == {}
    stage.pod(wants("a").version(3))
    stage.wait(1)
    assert stage.run() == ["bind a to n1"]


@pytest.mark.parametrize(
    ("seen", "lost", "want"),
    [
        pytest.param(
            placed(wants("a"), "n1", ALLOCATED), True, [], id="our decision, but read as not ours"
        ),
        pytest.param(
            placed(wants("a"), "n1", "GPU-0,NVIDIA,2000,0:;"), False, [], id="another decision"
        ),
        pytest.param(wants("a").version(2).on("n1"), False, [], id="no decision"),
        pytest.param(wants("a").version(2).on("n1"), True, [], id="no decision, as was read"),
        pytest.param(
            placed(wants("a"), "n1", ALLOCATED), False, ["a: Scheduled"], id="our decision"
        ),
    ],
)
def test_only_a_bind_of_ours_is_reported_when_the_pod_is_found_on_our_node(
    seen: builders.PodBuilder, lost: bool, want: list[str]
) -> None:
    stage, _ = reserved()
    stage.pod(seen)
    told = stage.world.bind_failed("uid-a", stage.now, message="409", lost=lost)
    assert brief(told) == want
    assert stage.place("a") is None
    assert stage.world.ledger.requested("n1")[1] == 1, "it is counted, whoever bound it"
    assert stage.world.bind_done("uid-a") == ()


def test_no_two_pods_get_the_same_slice() -> None:
    stage = Stage()
    stage.node(gpus("n1", memory_mib=24576))
    stage.pod(*(wants(name, mem=12288) for name in "abc"))
    assert stage.bind() == {"a": "n1", "b": "n1"}
    assert stage.usage("n1") == {"GPU-0": (2, 24576)}


def test_what_was_counted_at_the_decision_is_not_counted_again_from_the_watch() -> None:
    stage = Stage()
    stage.node(gpus("n1", memory_mib=24576))
    names = "abcdefghi"
    stage.pod(*(wants(name, mem=3072) for name in names))
    assert len(stage.bind()) == 8
    assert stage.usage("n1") == {"GPU-0": (8, 24576)}
    assert stage.place("i") is Place.UNSCHEDULABLE


def test_an_edited_annotation_frees_nothing() -> None:
    stage = Stage()
    stage.node(gpus("n1", memory_mib=24576))
    stage.pod(wants("a", mem=10000))
    stage.bind()
    for version, text in enumerate(["GPU-0,NVIDIA,abc,30:;", "GPU-0,NVIDIA:;", ""], 10):
        stage.pod(placed(wants("a", mem=10000).version(version), "n1", text))
    stage.pod(wants("big", mem=20000), wants("small", mem=14000))
    assert stage.bind() == {"small": "n1"}


def test_a_pod_that_binds_with_another_decision_than_ours_is_counted_as_it_says() -> None:
    stage, _ = reserved()
    told = stage.pod(placed(wants("a"), "n1", "GPU-0,NVIDIA,2000,0:;"))
    assert told == ["a: ForeignDecision", "a: ForeignDecision", "n1: lock changed"]
    assert stage.usage("n1") == {"GPU-0": (1, 2000)}


def test_the_plugin_that_refuses_is_told_once_and_the_usage_stays_until_the_end() -> None:
    stage, order = reserved()
    stage.land(order)
    refused = placed(wants("a").version(5), "n1", ALLOCATED).annotate(
        {keys.BIND_PHASE: "failed", AL: ALLOCATED}
    )
    assert stage.pod(refused) == ["a: DeviceAllocationFailed", "n1: lock changed"]
    assert stage.pod(refused.version(9).label("x")) == []
    assert stage.usage("n1") == {"GPU-0": (1, 1000)}
    stage.pod(refused.version(10).phase("Failed"))
    assert stage.usage("n1") == {}


def test_a_pod_without_devices_is_bound_without_a_decision() -> None:
    stage = Stage()
    stage.node(builders.roomy("n1"))
    pod = wants("a").put("spec.containers", []).container(requests={"cpu": "1"})
    stage.pod(pod)
    order = stage.order()
    assert (order.node, order.decision.annotations) == ("n1", {})
    assert stage.land(order) == ["a: Scheduled"]
    assert stage.world.ledger.requested("n1") == ({"cpu": 1000}, 1)


def test_pods_that_do_not_want_each_other_stay_apart() -> None:
    stage = Stage()
    stage.node(builders.roomy("n1").label("host", "n1"))
    hermit = wants("a").put("spec.containers", []).container(requests={"cpu": "1"})
    stage.pod(hermit.repels({"matchLabels": {"app": "x"}}, "host").on("n1"))
    other = wants("b").put("spec.containers", []).container(requests={"cpu": "1"})
    stage.pod(other.label("app", "x"))
    assert stage.bind() == {}
    stage.gone("a")
    assert stage.bind() == {"b": "n1"}
