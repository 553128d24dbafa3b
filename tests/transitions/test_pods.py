"""What a pod's event changes: who holds what, who waits where, what is told."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hami_operator.protocol import keys
from hami_operator.scheduling import claim, effects, queue
from tests import builders
from tests.transitions.stage import AL, Stage, gpus, placed, wants

Place = queue.Place
ALLOCATED = "GPU-0,NVIDIA,1000,0:;"


def test_a_pending_pod_of_ours_is_queued_and_bound() -> None:
    stage = Stage()
    stage.node(gpus("n1"))
    before = stage.state
    assert stage.pod(wants("a")) == []
    assert stage.state - before == ({}, {"a": "active"})
    before = stage.state
    assert stage.run() == ["bind a to n1"]
    assert stage.state - before == ({"a": "n1 reserved"}, {"a": "binding"})
    assert stage.usage("n1") == {"GPU-0": (1, 1000)}


def test_the_order_to_bind_carries_the_whole_decision() -> None:
    stage = Stage()
    stage.node(gpus("n1"))
    stage.pod(wants("a"))
    order = stage.order()
    assert order.decision.annotations[AL] == ALLOCATED
    assert order.decision.annotations[keys.VGPU_NODE] == "n1"
    assert order.decision.labels == {keys.VGPU_NODE: "n1"}


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(wants("a"), ({}, {"a": "active"}), id="pending and ours"),
        pytest.param(wants("a").gate("g"), ({}, {"a": "gated"}), id="gated"),
        pytest.param(wants("a").scheduler("other"), ({}, {}), id="pending and another's"),
        pytest.param(wants("a").terminating(), ({}, {}), id="pending and being deleted"),
        pytest.param(wants("a").phase("Failed"), ({}, {}), id="ended before it was placed"),
        pytest.param(
            wants("a").annotate({keys.VGPU_NODE: "n1", AL: ALLOCATED}),
            ({}, {"a": "active"}),
            id="pending with an old or forged decision: no usage, decided afresh",
        ),
        pytest.param(
            placed(wants("a"), "n1", ALLOCATED).scheduler("other"),
            ({"a": "n1 bound foreign"}, {}),
            id="bound with the decision of another scheduler",
        ),
        pytest.param(
            placed(wants("a"), "n1", ALLOCATED),
            ({"a": "n1 bound foreign"}, {}),
            id="bound behind our back, though in our name",
        ),
        pytest.param(
            wants("a").on("n1"), ({"a": "n1 bound"}, {}), id="bound by hand without a decision"
        ),
        pytest.param(
            placed(wants("a"), "n1", ALLOCATED).phase("Succeeded"), ({}, {}), id="bound and ended"
        ),
    ],
)
def test_a_pod_that_appears(
    pod: builders.PodBuilder, want: tuple[dict[str, str], dict[str, str]]
) -> None:
    stage = Stage()
    stage.node(gpus("n1"))
    before = stage.state
    stage.pod(pod)
    assert stage.state - before == want
    after = stage.state
    assert stage.pod(pod) == []
    assert stage.state == after


@pytest.mark.parametrize(
    ("pod", "want", "want_words"),
    [
        pytest.param(
            wants("a").on("n1"),
            ["a: AdmissionBypassed"],
            "container c asks for nvidia.com/gpu",
            id="no decision",
        ),
        pytest.param(
            placed(wants("a"), "n1", ALLOCATED),
            ["a: ForeignDecision", "n1: lock changed"],
            "counted as foreign usage of GPU-0",
            id="not our decision",
        ),
        pytest.param(
            wants("a").on("n1").annotate({keys.VGPU_NODE: "n2", AL: ALLOCATED}),
            ["a: ForeignDecision"],
            "bound to node n1, but hami.io/vgpu-node is 'n2'",
            id="a decision for another node",
        ),
        pytest.param(
            wants("a").on("n1").annotate({keys.VGPU_NODE: "n1", AL: "GPU-0,NVIDIA,x,0:;"}),
            ["n1: UnreadableDecision"],
            "until pod default/a is gone: its decision cannot be read: "
            "hami.io/vgpu-devices-allocated: memory: 'x'",
            id="a decision that cannot be read",
        ),
        pytest.param(
            placed(wants("a"), "n1", "GPU-9,NVIDIA,1000,0:;").phase("Running"),
            ["a: ForeignDecision", "n1: UnknownDevice"],
            "pods hold NVIDIA devices that are not registered here: GPU-9",
            id="a card that is not registered",
        ),
        pytest.param(
            placed(wants("a"), "n1", ALLOCATED).annotate({keys.BIND_PHASE: "failed"}),
            ["a: ForeignDecision", "a: DeviceAllocationFailed"],
            "the device plugin of node n1 could not hand out GPU-0",
            id="refused by its plugin",
        ),
    ],
)
def test_what_is_odd_is_told_once(
    pod: builders.PodBuilder, want: list[str], want_words: str
) -> None:
    stage = Stage()
    stage.node(gpus("n1"))
    told = stage.world.pod_seen(pod.read(), stage.now)
    texts = [
        effect.message
        for effect in told
        if isinstance(effect, effects.PodEvent | effects.NodeEvent)
    ]
    assert any(want_words in text for text in texts)
    fresh = Stage()
    fresh.node(gpus("n1"))
    assert fresh.pod(pod) == want
    assert fresh.pod(pod.version(9)) == []


def test_oddities_can_be_counted_until_their_pods_are_gone() -> None:
    stage = Stage()
    stage.node(gpus("n1"))
    stage.pod(wants("a").on("n1"))
    found = stage.world.oddities.findings()
    assert [[one.oddity for one in each] for each in found.values()] == [[claim.Oddity.BYPASSED]]
    stage.gone("a")
    assert stage.world.oddities.findings() == {}


def test_a_decision_that_cannot_be_read_closes_its_type_until_the_pod_is_gone() -> None:
    stage = Stage()
    stage.node(gpus("n1"), gpus("n2"))
    bad = wants("bad").on("n1").annotate({keys.VGPU_NODE: "n1", AL: "x"})
    stage.pod(bad, wants("a"))
    assert stage.bind() == {"a": "n2"}
    stage.pod(wants("big", mem=32000))
    assert stage.run() == ["big: condition Unschedulable", "big: FailedScheduling"]
    assert stage.gone("bad") == ["n1: DeviceTypeAvailable"]
    assert stage.bind() == {"big": "n1"}


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda stage, pod: stage.gone("a"), id="deleted"),
        pytest.param(lambda stage, pod: stage.pod(pod.phase("Succeeded")), id="succeeded"),
        pytest.param(lambda stage, pod: stage.pod(pod.phase("Failed")), id="failed"),
    ],
)
def test_a_pod_that_fits_after_another_ends_is_tried_at_once(
    end: Callable[[Stage, builders.PodBuilder], object],
) -> None:
    stage = Stage()
    stage.node(gpus("n1"))
    stage.pod(wants("a", mem=30000))
    assert stage.bind() == {"a": "n1"}
    stage.pod(wants("b", mem=30000))
    assert stage.run() == ["b: condition Unschedulable", "b: FailedScheduling"]
    assert stage.run() == []
    end(stage, placed(wants("a", mem=30000).version(8), "n1", ""))
    assert stage.world.next_due(stage.now) == 0
    assert stage.bind() == {"b": "n1"}
    assert stage.usage("n1") == {"GPU-0": (1, 30000)}


def test_a_pod_that_is_being_deleted_keeps_what_it_holds_until_it_is_gone() -> None:
    stage = Stage()
    stage.node(gpus("n1"))
    bound = placed(wants("a", mem=30000), "n1", "GPU-0,NVIDIA,30000,0:;")
    stage.pod(bound, bound.version(7).terminating(), wants("b", mem=30000))
    assert stage.bind() == {}
    stage.gone("a")
    assert stage.bind() == {"b": "n1"}


def test_init_containers_that_end_wake_who_fits_now() -> None:
    stage = Stage()
    stage.node(gpus("n1"))
    pod = builders.pod("a").on("n1").phase("Running").annotate({keys.VGPU_NODE: "n1"})
    pod = pod.init("i", limits={"nvidia.com/gpu": 1}).container("c", limits={"nvidia.com/gpu": 1})
    pod = pod.annotate({AL: "GPU-0,NVIDIA,30000,0:;GPU-0,NVIDIA,1000,0:;"})
    stage.pod(pod, wants("b", mem=20000))
    assert stage.bind() == {}
    stage.pod(pod.version(2).init_ended("i"))
    assert stage.bind() == {"b": "n1"}


def test_a_smaller_ordinary_request_wakes_who_lacked_it() -> None:
    stage = Stage()
    stage.node(gpus("n1").allocatable(cpu="2"))
    other = builders.pod("other").on("n1")
    stage.pod(other.container(requests={"cpu": "2"}))
    stage.pod(wants("a").container(requests={"cpu": "1"}))
    assert stage.bind() == {}
    stage.pod(other.version(2).container(requests={"cpu": "1"}))
    assert stage.bind() == {"a": "n1"}


def test_the_watch_of_pending_pods_only_feeds_the_queue() -> None:
    stage = Stage()
    stage.node(gpus("n1"))
    stage.world.pending_seen(wants("a").read(), stage.now)
    assert stage.bind() == {"a": "n1"}
    before = stage.state
    stage.world.pending_gone("uid-a")
    stage.world.pending_gone("uid-a")
    assert stage.state == before
    stage.world.pending_seen(wants("b").read(), stage.now)
    stage.world.pending_gone("uid-b")
    assert stage.place("b") is None
    assert stage.usage("n1") == {"GPU-0": (1, 1000)}


def test_late_news_of_a_pending_pod_does_not_queue_it_again() -> None:
    stage = Stage()
    stage.node(gpus("n1"))
    pending = wants("a").version(5)
    stage.pod(pending)
    assert stage.bind() == {"a": "n1"}
    stage.world.pending_seen(pending.version(4).read(), stage.now)
    stage.world.pending_seen(pending.version(5).read(), stage.now)
    assert stage.place("a") is None
    stage.gone("a")
    stage.world.pending_seen(pending.version(5).read(), stage.now)
    stage.world.pending_seen(pending.version(99).read(), stage.now)
    assert (stage.place("a"), stage.usage("n1")) == (None, {})


def test_a_pod_that_has_a_node_never_loses_it_whatever_the_version_says() -> None:
    stage = Stage()
    stage.node(gpus("n1"))
    stage.pod(placed(wants("a"), "n1", ALLOCATED).version(""))
    stage.pod(wants("a").version("99"), wants("a").version(""))
    assert stage.place("a") is None
    known = stage.world.pod("uid-a")
    assert known is not None
    assert known.node_name == "n1"


def test_the_pod_is_bound_elsewhere_while_it_waits() -> None:
    stage = Stage()
    stage.pod(wants("a"))
    before = stage.state
    stage.pod(wants("a").version(2).on("n7"))
    assert stage.state - before == ({"a": "n7 bound"}, {"a": "left"})


def test_a_pod_that_is_deleted_in_every_stage_leaves_nothing() -> None:
    stage = Stage()
    stage.node(gpus("n1"))
    empty = stage.state
    stage.pod(wants("waiting"))
    stage.gone("waiting")
    stage.pod(wants("reserved"))
    order = stage.order()
    stage.gone("reserved")
    assert stage.state == empty
    assert stage.world.bind_failed(order.pod.uid, stage.now, message="404") == ()
    stage.pod(wants("parked", mem=99999))
    stage.run()
    stage.gone("parked", "parked", "nobody")
    assert stage.state == empty


def test_a_terminating_pod_of_the_queue_is_skipped_with_an_event() -> None:
    stage = Stage()
    stage.pod(wants("a"), wants("a").version(2).terminating())
    (event,) = stage.attempts()
    assert isinstance(event, effects.PodEvent)
    assert (event.reason, event.message) == (
        "FailedScheduling",
        "skip schedule deleting pod: default/a",
    )
    stage.pod(wants("a").version(3).terminating())
    assert stage.state.waiting == frozenset()


def test_a_pod_that_is_assumed_already_is_not_tried() -> None:
    stage = Stage()
    stage.node(gpus("n1"))
    stage.pod(wants("a"))
    stage.world.ledger.assume(wants("a").read(), "n1", {})
    assert stage.run() == []
    assert stage.place("a") is None


def test_a_pod_that_asks_for_what_no_device_can_have_waits_with_the_field_named() -> None:
    stage = Stage()
    stage.node(gpus("n1"))
    stage.pod(wants("a").container("bad", limits={"nvidia.com/gpu": "-1"}))
    assert stage.run() == [
        "a: condition Unschedulable",
        "a: FailedScheduling",
        "a: InvalidDeviceRequest",
    ]
    assert stage.place("a") is Place.UNSCHEDULABLE


def test_a_condition_that_stands_on_the_pod_is_not_ordered_again() -> None:
    stage = Stage()
    stage.node(gpus("n1"))
    stage.pod(wants("a", mem=99999))
    (condition,) = (c for c in stage.attempts() if isinstance(c, effects.Condition))
    shown = wants("a", mem=99999).condition(
        "PodScheduled", condition.status, reason=condition.reason, message=condition.message
    )
    stage.pod(shown.version(2))
    assert stage.place("a") is Place.UNSCHEDULABLE
    stage.wait(301)
    assert stage.run() == ["a: FailedScheduling"]


def test_a_condition_that_was_ordered_and_does_not_show_is_ordered_again_after_a_while() -> None:
    stage = Stage()
    stage.node(gpus("n1"))
    stage.pod(wants("a", mem=99999))
    assert stage.run() == ["a: condition Unschedulable", "a: FailedScheduling"]
    stage.wait(30)
    stage.pod(wants("a", mem=99999).version(2).label("x"))
    assert stage.run() == ["a: FailedScheduling"]
    stage.wait(31)
    stage.pod(wants("a", mem=99999).version(3).label("y"))
    assert stage.run() == ["a: condition Unschedulable", "a: FailedScheduling"]


def test_a_wish_that_is_not_understood_is_told() -> None:
    stage = Stage()
    stage.node(gpus("n1"))
    stage.pod(wants("a").annotate({keys.NODE_POLICY: "odd"}))
    assert stage.run() == ["a: PolicyNotUnderstood", "bind a to n1"]
