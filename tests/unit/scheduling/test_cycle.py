"""One scheduling cycle, from a pod and nodes to a decision or the reasons."""

from __future__ import annotations

import dataclasses
import datetime
import re
from collections.abc import Mapping
from typing import Any

import pytest

from hami_operator import errors
from hami_operator import settings as config
from hami_operator.devices import registry, score, usage, vendor
from hami_operator.protocol import decision, instant
from hami_operator.scheduling import (
    allocator,
    cycle,
    demand,
    outcomes,
    quota,
    snapshot,
    surroundings,
    written,
)
from hami_operator.scheduling import rejection as rejections
from tests import builders
from tests.unit.scheduling import scenes

REGISTRY = registry.default()
NOW = instant.Instant(monotonic_s=0.0, wall=datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC))
Reason = errors.Reason
NVIDIA_KEY = "hami.io/vgpu-devices-allocated"


def view(
    node: builders.NodeBuilder | str,
    used: int = 0,
    *,
    cards: int = 1,
    memory_mib: int = 0,
    requested: Mapping[str, int] | None = None,
) -> snapshot.NodeView:
    """A node with cards ``<name>-0`` …, on each of which ``used`` slots are taken."""
    builder = builders.roomy(node) if isinstance(node, str) else node
    record = builder.read()
    taken = usage.Usage(used, memory_mib, 0)
    every = tuple(usage.CardUsage(card, taken) for card in builders.cards(cards, word=record.name))
    listed = {"NVIDIA": every} if cards else {}
    return snapshot.NodeView(
        node=record, cards=listed, base=snapshot.totals(listed), requested=requested or {}
    )


def gpu(count: int = 1, memory_mib: int = 1000) -> dict[str, str]:
    return {"nvidia.com/gpu": str(count), "nvidia.com/gpumem": str(memory_mib)}


POD = builders.pod("p").container(limits=gpu())


def run(
    pod: builders.PodBuilder,
    *views: snapshot.NodeView,
    settings: Mapping[str, Any] | None = None,
    accounts: quota.Accounts | None = None,
    around: surroundings.Surroundings | None = None,
    memo: outcomes.Memo | None = None,
) -> cycle.Placed | cycle.Unplaced:
    read = pod.read()
    return cycle.run(
        read,
        demand.read(read, REGISTRY),
        views,
        rules=cycle.Rules.of(REGISTRY, config.load(settings or {})),
        now=NOW,
        accounts=accounts,
        around=around,
        memo=memo,
    )


def node_of(outcome: cycle.Placed | cycle.Unplaced) -> str:
    return outcome.node if isinstance(outcome, cycle.Placed) else outcome.message


def test_a_decision_is_complete() -> None:
    pick = decision.Pick(id="n1-0", memory_mib=1000, cores=0, index=0)
    value = "n1-0,NVIDIA,1000,0:;"
    full = view("n0", used=10)
    assert run(POD, full, view("n1")) == cycle.Placed(
        node="n1",
        slots={"NVIDIA": ((pick,),)},
        decision=written.Decision(
            node="n1",
            annotations={
                "hami.io/vgpu-devices-to-allocate": value,
                NVIDIA_KEY: value,
                "hami.io/vgpu-node": "n1",
                "hami.io/vgpu-time": "1767225600",
                "hami.io/bind-phase": "allocating",
                "hami.io/bind-time": "1767225600",
            },
            labels={"hami.io/vgpu-node": "n1"},
        ),
        scores={"n1": 0.0},
        rejections={
            "n0": rejections.Rejection(
                plugin="Devices",
                texts=("card(s) have no free slot (CardTimeSlicingExhausted)",),
                resolvable=True,
                reasons=(Reason.CARD_SLOTS_EXHAUSTED,),
                detail="1/1 CardTimeSlicingExhausted",
            )
        },
    )


def test_a_pod_without_devices_is_placed_without_a_decision() -> None:
    outcome = run(builders.pod("p").container(limits={"cpu": "1"}), view("n1", cards=0))
    assert outcome == cycle.Placed(
        node="n1",
        slots={},
        decision=written.Decision(node="n1", annotations={}, labels={}),
        scores={"n1": 0.0},
        rejections={},
    )


@pytest.mark.parametrize(
    ("annotation", "setting", "want"),
    [
        pytest.param(None, "binpack", "half", id="the setting: fullest first"),
        pytest.param(None, "spread", "a-empty", id="the setting: emptiest first, then by name"),
        pytest.param("spread", "binpack", "a-empty", id="the pod's word outranks the setting"),
        pytest.param("nonsense", "binpack", "half", id="a word that means nothing"),
    ],
)
def test_the_node_policy_chooses_by_score(annotation: str | None, setting: str, want: str) -> None:
    pod = POD.annotate({"hami.io/node-scheduler-policy": annotation} if annotation else {})
    views = [view("a-empty"), view("b-empty"), view("half", used=5)]
    assert node_of(run(pod, *views, settings={"node_scheduler_policy": setting})) == want


@pytest.mark.parametrize("names", ["ab", "ba"])
def test_equals_are_decided_by_name_in_whatever_order_they_come(names: str) -> None:
    assert node_of(run(POD, *map(view, names))) == "a"


@pytest.mark.parametrize(
    ("pod", "tainted", "want"),
    [
        pytest.param(POD, True, "empty", id="a taint that deters outranks the score"),
        pytest.param(
            POD.toleration("soft", operator="Exists"), True, "half", id="unless tolerated"
        ),
        pytest.param(
            POD.prefers(1, builders.pin("empty")), False, "empty", id="a preference does too"
        ),
        pytest.param(
            POD.prefers(1, builders.pin("none")), False, "half", id="one that no node meets"
        ),
    ],
)
def test_what_the_pod_prefers_outranks_the_device_score(
    pod: builders.PodBuilder, tainted: bool, want: str
) -> None:
    half = builders.roomy("half")
    if tainted:
        half = half.taint("soft", effect="PreferNoSchedule")
    assert node_of(run(pod, view("empty"), view(half, used=5))) == want


def test_a_policy_that_is_not_understood_is_told() -> None:
    pod = POD.annotate({"hami.io/gpu-scheduler-policy": "nonsense"})
    for views in ([view("n")], [view("n", used=10)]):
        assert run(pod, *views).warnings == (
            'hami.io/gpu-scheduler-policy: "nonsense" is none of binpack, spread, numa, mutex, '
            "topology-aware; spread is used",
        )


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(
            builders.pod("p").container("c", limits={"nvidia.com/gpu": "-1"}),
            "container c: nvidia.com/gpu: '-1' is not between 0 and 2147483647",
            id="an amount that no device can have",
        ),
        pytest.param(
            builders.pod("p").container("c", privileged=True, limits=gpu()),
            "container c is privileged",
            id="a privileged container beside devices",
        ),
        pytest.param(
            POD.annotate({"hami.io/device-scoring-weights": "slot=1"}),
            'invalid hami.io/device-scoring-weights annotation "slot=1": '
            "expected slot, core, and memory weights",
            id="weights that cannot be read",
        ),
    ],
)
def test_an_error_of_the_pod_is_the_same_on_every_node(
    pod: builders.PodBuilder, want: str
) -> None:
    outcome = run(pod, view("a"), view("b"))
    want += " (InvalidDeviceRequest)"
    assert outcome == cycle.Unplaced(
        message=f"0/2 nodes are available: {want}.",
        rejections={},
        refusal=rejections.Rejection(
            plugin="PodSpec",
            texts=(want,),
            resolvable=False,
            reasons=(Reason.INVALID_REQUEST,),
            detail=want,
        ),
    )
    assert (outcome.plugins, outcome.reasons) == (
        frozenset({"PodSpec"}),
        (Reason.INVALID_REQUEST,),
    )


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(
            builders.pod("p").container(privileged=True), id="a privileged pod without devices"
        ),
        pytest.param(
            builders.pod("p").container().annotate({"hami.io/device-scoring-weights": "x"}),
            id="bad weights without devices",
        ),
    ],
)
def test_rules_for_devices_leave_other_pods_alone(pod: builders.PodBuilder) -> None:
    assert node_of(run(pod, view("n"))) == "n"


def test_a_rule_that_is_not_built_makes_the_pod_wait() -> None:
    outcome = run(POD.put("spec.workloadRef", {"name": "w", "podGroup": "g"}), view("a"))
    assert isinstance(outcome, cycle.Unplaced)
    assert outcome.reasons == (Reason.FILTER_NOT_BUILT,)
    assert "spec.workloadRef" in outcome.message


def test_reasons_are_counted_over_all_nodes() -> None:
    cordoned = builders.roomy("cordoned").cordoned()
    small = builders.node("small").allocatable(cpu="1", memory="1Gi", pods="10")
    outcome = run(
        builders.pod("p").container(limits=gpu() | {"cpu": "2"}),
        view("bare", cards=0),
        view(cordoned),
        view("full-1", memory_mib=32000),
        view("full-2", memory_mib=32000),
        view(small),
    )
    assert isinstance(outcome, cycle.Unplaced)
    assert outcome.message == (
        "0/5 nodes are available: 1 Insufficient cpu, "
        "1 fewer cards of the type are registered than asked for (NodeInsufficientDevice), "
        "1 node(s) were unschedulable, "
        "2 card(s) have too little free memory (CardInsufficientMemory)."
    )
    assert outcome.plugins == {"Devices", "NodeUnschedulable", "NodeResourcesFit"}
    assert sorted(outcome.rejections) == ["bare", "cordoned", "full-1", "full-2", "small"]
    assert outcome.refusal is None


def test_without_any_node_there_is_nothing_to_count() -> None:
    assert run(POD) == cycle.Unplaced(message="no nodes available to schedule pods", rejections={})


def test_our_devices_are_not_compared_with_what_kubelet_offers() -> None:
    """Memory and cores of cards are known to us alone; other extended resources are not ours."""
    other = POD.container(limits={"example.com/x": "1"})
    assert node_of(run(POD, view("n"))) == "n"
    assert node_of(run(other, view("n"))) == (
        "0/1 nodes are available: 1 Insufficient example.com/x."
    )


def test_a_place_that_repels_the_pod_is_left_alone() -> None:
    here = builders.roomy("here").label("zone", "z")
    cluster = scenes.around([here], [builders.pod("r").repels({}, "zone").on("here")])
    outcome = run(POD, view(here, used=5), view("there"), around=cluster)
    assert node_of(outcome) == "there"


def test_the_quota_of_the_namespace_is_asked() -> None:
    account = quota.Account(memory_mib=999, used=usage.Usage(1, 300, 0))
    outcome = run(POD, view("n"), view("m"), accounts=lambda _: account)
    assert node_of(outcome) == (
        "0/2 nodes are available: 2 the namespace's quota limits.nvidia.com/gpumem has no room: "
        "300 used of 999 MiB, 1000 asked (ResourceQuotaNotFit)."
    )
    assert {one.detail for one in outcome.rejections.values()} == {"1/1 ResourceQuotaNotFit"}
    assert isinstance(outcome, cycle.Unplaced)
    assert outcome.plugins == {"DeviceQuota"}


@pytest.mark.parametrize(
    ("node_policy", "want", "want_scores"),
    [
        pytest.param("binpack", "b", {"a": 5.5, "b": 7.0}, id="added under binpack"),
        pytest.param("spread", "b", {"a": -4.5, "b": -7.0}, id="taken off under spread"),
    ],
)
def test_a_row_may_add_its_own_term_to_the_score(
    node_policy: str, want: str, want_scores: Mapping[str, float]
) -> None:
    """Higher is better for the row, whatever the policy."""

    def term(_: vendor.Vendor, facts: score.Facts) -> float:
        assert facts.slots == ((facts.slots[0][0],),)
        assert facts.before[0].card.id == facts.slots[0][0].id
        return {"a": 2.5, "b": 3.5}[facts.node_annotations["name"]]

    row = dataclasses.replace(
        REGISTRY.by_word["NVIDIA"], hooks=vendor.Hooks(score=term), score_weight=2
    )
    rows = registry.build([row])
    read = POD.annotate({"hami.io/node-scheduler-policy": node_policy}).read()
    outcome = cycle.run(
        read,
        demand.read(read, rows),
        [
            view(builders.roomy("a").annotate(name="a"), used=0, memory_mib=1638),
            view(builders.roomy("b").annotate(name="b")),
        ],
        rules=cycle.Rules.of(rows, config.Settings()),
        now=NOW,
    )
    assert isinstance(outcome, cycle.Placed)
    assert outcome.node == want
    assert {name: round(one, 1) for name, one in outcome.scores.items()} == want_scores


def test_compatible_scores_are_a_setting() -> None:
    """The request alone makes the smaller card the fuller one."""
    pod = builders.pod("p").container(limits=gpu(1, 8000) | {"nvidia.com/gpucores": "20"})
    cards = tuple(
        usage.CardUsage(
            builders.cards(2, memory_mib=size, word=word)[index], usage.Usage(1, used, 10)
        )
        for index, (word, size, used) in enumerate(
            [("small", 16000, 7900), ("large", 32000, 16000)]
        )
    )
    on = snapshot.NodeView(node=builders.roomy("n").read(), cards={"NVIDIA": cards})
    values = []
    for compatible in (False, True):
        outcome = run(pod, on, settings={"compat": {"hami_scores": compatible}})
        assert isinstance(outcome, cycle.Placed)
        values.append(outcome.decision.annotations[NVIDIA_KEY])
    assert values == ["large-1,NVIDIA,8000,20:;", "small-0,NVIDIA,8000,20:;"]


def test_a_decision_that_cannot_be_written_is_none() -> None:
    outcome = run(POD.annotate({"k": "x" * (256 * 1024 - 10)}), view("a"), view("b"))
    assert isinstance(outcome, cycle.Unplaced)
    assert outcome.reasons == (Reason.DECISION_TOO_LARGE,)
    assert re.fullmatch(
        r"0/2 nodes are available: annotations would hold \d+ bytes, more than 262144 "
        r"\(DecisionTooLarge\)\.",
        outcome.message,
    )


def test_a_cycle_changes_nothing_it_was_given() -> None:
    views = [view("a"), view("b", used=3)]
    before = repr(views)
    assert run(POD, *views) == run(POD, *views)
    assert repr(views) == before


# The memory of outcomes.


class Counting:
    """Counts how many nodes are really judged."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.judged: list[str] = []
        allocate = allocator.allocate

        def counted(order: Any, on: snapshot.NodeView) -> Any:
            self.judged.append(on.name)
            return allocate(order, on)

        monkeypatch.setattr(allocator, "allocate", counted)

    def take(self) -> list[str]:
        found, self.judged = self.judged, []
        return found


def test_only_nodes_that_changed_are_judged_again(monkeypatch: pytest.MonkeyPatch) -> None:
    counting, memo = Counting(monkeypatch), outcomes.Memo()
    a, b = view("a"), view("b", used=5)
    first = run(POD, a, b, memo=memo)
    assert counting.take() == ["a", "b"]
    assert run(POD, a, b, memo=memo) == first
    assert counting.take() == []
    assert node_of(run(POD, a, view("b", used=10), memo=memo)) == "a"
    assert counting.take() == ["b"]


@pytest.mark.parametrize(
    ("other", "want"),
    [
        pytest.param(builders.pod("q", "ns").container(limits=gpu()), [], id="another name"),
        pytest.param(
            POD.annotate({"hami.io/vgpu-time": "1", "hami.io/bind-phase": "failed"}),
            [],
            id="keys of an attempt that failed",
        ),
        pytest.param(POD.annotate({"nvidia.com/use-gpuuuid": "x"}), ["a"], id="annotations"),
        pytest.param(builders.pod("p").container(limits=gpu(2)), ["a"], id="another request"),
        pytest.param(builders.pod("p").init(limits=gpu()), ["a"], id="another kind of container"),
        pytest.param(POD.container(), ["a"], id="another number of containers"),
        pytest.param(POD.toleration("t"), ["a"], id="a toleration"),
        pytest.param(POD.node_selector({"a": "b"}), [], id="a selector that no node meets"),
        pytest.param(POD.requires(builders.pin("a")), ["a"], id="a required affinity"),
        pytest.param(POD.prefers(1, builders.pin("a")), ["a"], id="a preference"),
        pytest.param(POD.container(limits={"cpu": "1"}), ["a"], id="ordinary resources"),
    ],
)
def test_only_pods_of_the_same_shape_share_answers(
    monkeypatch: pytest.MonkeyPatch, other: builders.PodBuilder, want: list[str]
) -> None:
    counting, memo, a = Counting(monkeypatch), outcomes.Memo(), view("a")
    run(POD, a, memo=memo)
    counting.take()
    outcome = run(other, a, memo=memo)
    assert counting.take() == want
    assert outcome == run(other, a)


def test_places_that_repel_the_pod_make_another_shape() -> None:
    memo = outcomes.Memo()
    node = builders.roomy("here").label("zone", "z")
    here = view(node)
    assert node_of(run(POD, here, memo=memo)) == "here"
    cluster = scenes.around([node], [builders.pod("r").repels({}, "zone").on("here")])
    outcome = run(POD, here, memo=memo, around=cluster)
    assert isinstance(outcome, cycle.Unplaced)


def limited(memory_mib: int, used: int = 0) -> quota.Accounts:
    return lambda _: quota.Account(memory_mib=memory_mib, used=usage.Usage(1, used, 0))


@pytest.mark.parametrize(
    ("first", "then", "want"),
    [
        pytest.param(limited(9000), limited(9000, 5000), [], id="the pod has room as before"),
        pytest.param(limited(9000), limited(9000, 8001), ["a"], id="the pod has no room any more"),
        pytest.param(limited(999), limited(999), [], id="refused, and nothing has changed"),
        pytest.param(limited(999), limited(1000), ["a"], id="refused, and the limit was raised"),
        pytest.param(limited(999, 9), limited(999, 8), ["a"], id="refused, and used is less"),
        pytest.param(None, limited(9000), ["a"], id="a first limit"),
        pytest.param(limited(9000), None, ["a"], id="no limit any more"),
    ],
)
def test_answers_are_shared_as_far_as_the_quota_answers_the_same(
    monkeypatch: pytest.MonkeyPatch,
    first: quota.Accounts | None,
    then: quota.Accounts | None,
    want: list[str],
) -> None:
    counting, memo, a = Counting(monkeypatch), outcomes.Memo(), view("a")
    run(POD, a, memo=memo, accounts=first)
    counting.take()
    outcome = run(POD, a, memo=memo, accounts=then)
    assert counting.take() == want
    assert outcome == run(POD, a, accounts=then)


def test_a_node_that_was_refused_before_its_cards_is_not_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counting, memo = Counting(monkeypatch), outcomes.Memo()
    views = view("a"), view(builders.roomy("b").cordoned())
    for used in (9000, 9001):
        run(POD, *views, memo=memo, accounts=limited(9000, used))
    assert counting.take() == ["a", "a"]


def test_the_memory_is_bounded_in_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    counting, memo, a = Counting(monkeypatch), outcomes.Memo(shapes=2), view("a")
    pods = [builders.pod("p").container(limits=gpu(1, size)) for size in (1, 2, 3)]
    for pod in (*pods, pods[1], pods[0]):
        run(pod, a, memo=memo)
    assert counting.take() == ["a", "a", "a", "a"]


def test_the_memory_is_bounded_in_nodes() -> None:
    memo = outcomes.Memo()
    for number in range(20):
        run(POD, view(f"n{number}"), view("steady"), memo=memo)
    ((_, known),) = memo._shapes.items()
    assert len(known) <= 6
