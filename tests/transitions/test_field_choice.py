"""Faults that people met with the choice of cards and nodes: none happens here."""

from __future__ import annotations

import random
from typing import Any

import pytest

from hami_operator.protocol import keys, register
from hami_operator.scheduling import queue
from tests import builders
from tests.transitions import field
from tests.transitions.field import GPU_POLICY, MIB, MODE, NODE_POLICY, asks, card, cards, silent
from tests.transitions.stage import Stage, placed

Place = queue.Place


def chosen(value: str) -> list[str]:
    """The ids of a decision of one container."""
    return [item.split(",")[0] for item in value.rstrip(":;").split(":")]


# ---- whole cards, percents, amounts


@pytest.mark.parametrize("first", ["whole", "small"])
def test_all_cores_of_a_card_are_exclusive_both_ways(first: str) -> None:
    whole, small = asks("whole", gpumem=1000, gpucores=100), asks("small", gpumem=1000)
    order = [whole, small] if first == "whole" else [small, whole]
    stage = field.start(silent(card()))
    assert set(field.decided(stage, order[0])) == {first}
    text = field.tried(stage, order[1])
    assert "CardComputeUnitsExhausted" in text or "ExclusiveDeviceAllocateConflict" in text
    assert len(stage.state.held) == 1


def test_a_percentage_of_0_is_no_free_lunch() -> None:
    full = placed(asks("x", gpumem=80000), "n1", "GPU-A,NVIDIA,80000,0:;").phase("Running")
    stage = field.start(silent(card(memory_mib=81920)), pods=(full,))
    for name, more in (("a", {"gpumem_percentage": 0}), ("b", {"gpumem": 0})):
        assert "CardInsufficientMemory" in field.tried(stage, asks(name, **more))
    empty = field.start(silent(card(memory_mib=81920)))
    value = field.decided(empty, asks("a", gpumem_percentage=0))
    assert value == {"a": "GPU-A,NVIDIA,81920,0:;"}


@pytest.mark.parametrize("percent", [101, 150, 4294967346, -1])
def test_a_percentage_beyond_100_waits_with_its_name(percent: int) -> None:
    stage = field.start(silent(card()))
    text = field.tried(stage, asks("a", gpumem_percentage=percent))
    assert "nvidia.com/gpumem-percentage" in text
    assert stage.place("a") is Place.UNSCHEDULABLE


def test_memory_with_a_unit_does_not_overflow() -> None:
    stage = field.start(silent(card()))
    assert "nvidia.com/gpumem" in field.tried(stage, asks("a", gpumem="16Gi"))
    assert field.decided(stage, asks("b", gpumem="20k")) == {"b": "GPU-A,NVIDIA,20000,0:;"}


def test_two_cards_are_two_physical_cards_and_two_containers_may_share_one() -> None:
    stage = field.start(silent(card()))
    assert "NodeInsufficientDevice" in field.tried(stage, asks("a", 2, gpumem=1000))
    two = asks("b", gpumem=1000).container("d", limits=field.amounts(1, gpumem=1000))
    assert set(field.decided(stage, two)) == {"b"}


# ---- selection


TYPES = {"use": "nvidia.com/use-gputype", "nouse": "nvidia.com/nouse-gputype"}
UUIDS = {"use": "nvidia.com/use-gpuuuid", "nouse": "nvidia.com/nouse-gpuuuid"}


@pytest.mark.parametrize(
    ("wish", "want"),
    [
        ({"use": "A10"}, "A10 A100"),
        ({"use": "A10", "nouse": "A100"}, "A10"),
        ({"nouse": "A100,"}, "A10 T4"),
        ({"use": "A100,"}, "A100"),
        ({"use": " a100 , T4"}, "A100 T4"),
        ({"use": ","}, ""),
    ],
)
def test_models_are_selected_by_a_part_of_their_text(wish: dict[str, str], want: str) -> None:
    models = {"GPU-A": "NVIDIA A10", "GPU-B": "NVIDIA A100", "GPU-C": "NVIDIA T4"}
    given = [card(id[-1], index, model=text) for index, (id, text) in enumerate(models.items())]
    assert _allowed(given, {TYPES[key]: text for key, text in wish.items()}) == {
        id for id, text in models.items() if text.split()[1] in want.split()
    }


@pytest.mark.parametrize(
    ("wish", "want"),
    [
        ({"use": ""}, {"GPU-A", "GPU-B", "GPU-C"}),
        ({"use": " "}, {"GPU-A", "GPU-B", "GPU-C"}),
        ({"use": "GPU-A, GPU-B"}, {"GPU-A", "GPU-B"}),
        ({"use": "GPU-A,GPU-B", "nouse": "GPU-A"}, {"GPU-B"}),
        ({"use": "GPU-Z"}, set()),
        ({"nouse": ""}, {"GPU-A", "GPU-B", "GPU-C"}),
    ],
)
def test_cards_are_selected_by_their_uuid(wish: dict[str, str], want: set[str]) -> None:
    assert _allowed(cards(3), {UUIDS[key]: text for key, text in wish.items()}) == want


def _allowed(given: Any, annotations: dict[str, str]) -> set[str]:
    """Every card that such pods come to when they take whole cards."""
    stage = field.start(silent(*given))
    pods = [asks(f"p{number}").annotate(annotations) for number in range(len(given))]
    return {chosen(value)[0] for value in field.decided(stage, *pods).values()}


def test_two_cards_of_one_named_card_are_refused_by_their_uuid() -> None:
    stage = field.start(silent(*cards(2)))
    pod = asks("a", 2).annotate({UUIDS["use"]: "GPU-A"})
    assert "CardUuidMismatch" in field.tried(stage, pod)


def test_the_mutex_policy_works_one_way() -> None:
    alone = {GPU_POLICY: "mutex"}
    stage = field.start(silent(card()))
    field.decided(stage, asks("m", gpumem=2000).annotate(alone))
    assert set(field.decided(stage, asks("s", gpumem=1000))) == {"s"}
    text = field.tried(stage, asks("n", gpumem=1000).annotate(alone))
    assert "ExclusiveDeviceAllocateConflict" in text


@pytest.mark.parametrize(
    ("taken", "bind", "want"),
    [
        pytest.param("", "true", {"0", "1"}, id="one of the nodes"),
        pytest.param("A", "true", {"1"}, id="the one with two free cards"),
        pytest.param("AB", "true", set(), id="none has two"),
        pytest.param("AB", "false", {"0, 1"}, id="off"),
        pytest.param("AB", "x", {"0, 1"}, id="another word is off"),
    ],
)
def test_cards_of_a_container_come_from_one_numa_node(
    taken: str, bind: str, want: set[str]
) -> None:
    given = [card(letter, index, numa=index % 2) for index, letter in enumerate("ABCD")]
    numas = {one.id: str(one.numa) for one in given}
    busy = tuple(
        placed(asks(f"b{letter}"), "n1", f"GPU-{letter},NVIDIA,{MIB},100:;").phase("Running")
        for letter in taken
    )
    stage = field.start(silent(*given), pods=busy)
    pod = asks("a", 2).annotate({"nvidia.com/numa-bind": bind})
    found = field.decided(stage, pod)
    if not want:
        assert not found
        return
    assert ", ".join(sorted({numas[id] for id in chosen(found["a"])})) in want


def test_a_cordoned_card_takes_nobody_and_keeps_what_runs() -> None:
    stage = field.start(silent(*cards(3)))
    field.decided(stage, asks("a", gpumem=1000).annotate({UUIDS["use"]: "GPU-A"}))
    cordon = {keys.DEVICE_CORDON: "GPU-A, GPU-B,"}
    stage.node(silent(*cards(3)).annotate(cordon).version(2))
    assert chosen(field.decided(stage, asks("b"))["b"]) == ["GPU-C"]
    assert "CardCordoned" in field.tried(stage, asks("c"))
    assert stage.usage("n1")["GPU-A"] == (1, 1000)
    stage.node(silent(*cards(3)).version(3))
    assert stage.bind() == {"c": "n1"}


def test_reasons_add_up_over_the_cards() -> None:
    full = placed(asks("x", gpumem=24000), "n1", "GPU-C,NVIDIA,24000,0:;").phase("Running")
    stage = field.start(silent(*cards(3)), pods=(full,))
    text = field.tried(stage, asks("a", 3, gpumem=1000))
    assert "AllocatedCardsInsufficientRequest" in text
    assert "CardInsufficientMemory" in text


def test_three_reasons_of_three_nodes_are_one_text() -> None:
    full = placed(asks("x", gpumem=24000), "n1", "GPU-A,NVIDIA,24000,0:;").phase("Running")
    sick = silent(card(healthy=False), name="n2")
    stage = field.start(silent(card()), sick, builders.roomy("n3"), pods=(full,))
    text = field.tried(stage, asks("a", gpumem=1000))
    assert text.count("nodes are available") == 2  # one of them is preemption's
    for word in ("CardInsufficientMemory", "CardNotHealth", "are registered than asked for"):
        assert word in text


def test_memory_as_an_annotation_is_no_request() -> None:
    stage = field.start(silent(card()))
    pod = asks("a").annotate({"nvidia.com/gpumem": "3000"})
    assert field.decided(stage, pod) == {"a": f"GPU-A,NVIDIA,{MIB},0:;"}


# ---- policies and scores


def quarter() -> list[register.Card]:
    """Four cards of two NUMA nodes; the first two are busier."""
    facts = {"count": 10, "cores": 100, "memory_mib": 40960}
    return [card(letter, index, numa=index // 2, **facts) for index, letter in enumerate("ABCD")]


BUSY = {"A": (8, 10, 4096), "B": (6, 10, 4096), "C": (2, 10, 4096)}


@pytest.mark.parametrize(("policy", "want"), [("spread", "GPU-D"), ("binpack", "GPU-A")])
def test_the_least_busy_card_counts_and_not_its_numa_node(policy: str, want: str) -> None:
    busy = [
        placed(asks(f"{letter.lower()}{number}"), "n1", f"GPU-{letter},NVIDIA,{mem},{cores}:;")
        for letter, (pods, cores, mem) in BUSY.items()
        for number in range(pods)
    ]
    stage = field.start(silent(*quarter()), pods=tuple(busy))
    pod = asks("p", gpumem=4096, gpucores=10).annotate({GPU_POLICY: policy})
    assert chosen(field.decided(stage, pod)["p"]) == [want]


@pytest.mark.parametrize(
    ("policy", "want"),
    [
        pytest.param("binpack", 1, id="pack"),
        pytest.param("spread", 2, id="spread"),
        pytest.param("pack", 2, id="an unknown word is as the setting"),
        pytest.param("BinPack", 2, id="case matters"),
        pytest.param("", 2, id="empty"),
    ],
)
def test_policies_do_what_their_names_say(policy: str, want: int) -> None:
    stage = field.start(silent(*cards(2)))
    used = set()
    for number in range(2):
        pod = asks(f"p{number}", gpumem=1000).annotate({GPU_POLICY: policy})
        used |= set(chosen(field.decided(stage, pod)[f"p{number}"]))
    assert len(used) == want


@pytest.mark.parametrize("seed", range(10))
def test_nodes_are_compared_as_they_were_before_any_trial(seed: int) -> None:
    busy = placed(asks("x", gpumem=1000), "n2", "GPU-A,NVIDIA,1000,0:;").phase("Running")
    nodes = [silent(card(), name=f"n{number}") for number in range(4)]
    random.Random(seed).shuffle(nodes)
    stage = field.start(*nodes, pods=(busy,))
    stage.pod(asks("p", gpumem=1000).annotate({NODE_POLICY: "binpack"}))
    assert stage.bind() == {"p": "n2"}


def test_of_empty_cards_the_larger_one_is_spread_to() -> None:
    given = [card("A", 0, memory_mib=65536), card("B", 1, memory_mib=16384)]
    stage = field.start(silent(*given))
    assert chosen(field.decided(stage, asks("p", gpumem=8192))["p"]) == ["GPU-A"]


def test_what_the_pod_prefers_comes_before_the_score_of_devices() -> None:
    busy = placed(asks("x", gpumem=9000), "nB", "GPU-A,NVIDIA,9000,0:;").phase("Running")
    nodes = [silent(card(), name=name) for name in ("nA", "nB")]
    wish = builders.expression("kubernetes.io/hostname", "In", "nA")
    stage = field.start(*nodes, pods=(busy,))
    stage.pod(asks("p", gpumem=1000).prefers(100, wish))
    assert stage.bind() == {"p": "nA"}
    again = field.start(*nodes, pods=(busy,))
    again.pod(asks("p", gpumem=1000))
    assert again.bind() == {"p": "nB"}
    even = field.start(*nodes)
    even.pod(asks("p", gpumem=1000))
    assert even.bind() == {"p": "nA"}


def chips(name: str, *networks: int) -> builders.NodeBuilder:
    """A node with Ascend chips, each in a network."""
    given = [
        register.Card(
            id=f"{name}-{index}", index=index, count=4, memory_mib=65536, cores=20,
            model="910B3", custom={"NetworkID": network},
        )
        for index, network in enumerate(networks)
    ]  # fmt: skip
    made = builders.roomy(name)
    return made.register("Ascend910B3", given, form=register.Form.JSON)


@pytest.mark.parametrize("policy", ["binpack", "spread"])
def test_the_better_topology_wins_under_both_policies(policy: str) -> None:
    stage = field.start(chips("nA", 0, 1), chips("nB", 0, 0))
    pod = field.bare("p").container(limits={"huawei.com/Ascend910B3": 2})
    stage.pod(pod.annotate({NODE_POLICY: policy}))
    assert stage.bind() == {"p": "nB"}
    metax = [
        builders.roomy(name)
        .capacity({"metax-tech.com/gpu": 8})
        .allocatable({"metax-tech.com/gpu": 8})
        .annotate({
            "metax-tech.com/gpu.topology.losses": f'{{"2":{20 if name == "nA" else 10}}}',
            "metax-tech.com/gpu.topology.scores": f'{{"2":{50 if name == "nA" else 100}}}',
        })
        for name in ("nA", "nB")
    ]  # fmt: skip
    other = field.start(*metax)
    whole = field.bare("m").container(limits={"metax-tech.com/gpu": 2})
    other.pod(whole.annotate({NODE_POLICY: policy}))
    assert other.bind() == {"m": "nB"}


@pytest.mark.parametrize("policy", ["binpack", "spread"])
def test_equal_cards_are_taken_from_the_highest_index(policy: str) -> None:
    stage = field.start(silent(*cards(2)))
    first = field.decided(stage, asks("a", gpumem=1000).annotate({GPU_POLICY: policy}))
    second = field.decided(stage, asks("b", gpumem=1000).annotate({GPU_POLICY: policy}))
    assert chosen(first["a"]) == ["GPU-B"]
    assert chosen(second["b"]) == (["GPU-B"] if policy == "binpack" else ["GPU-A"])


# ---- partitioned cards


def profile(name: str, mib: int, cores: int, size: int, *starts: int) -> register.Profile:
    places = tuple(register.Placement(start=start, size=size) for start in starts)
    return register.Profile(name=name, memory_mib=mib, cores=cores, slices=size, placements=places)


SEVENTH = profile("1g.5gb", 5120, 14, 1, *range(7))
HALF = profile("3g.20gb", 20480, 42, 4, 0, 4)


def mig(letter: str = "A", *profiles: register.Profile, **facts: Any) -> register.Card:
    usual = {"count": 7, "memory_mib": 40960, "mode": "mig", "mig_profiles": profiles}
    return card(letter, **{**usual, **facts})


def test_one_partitioned_card_serves_several_devices_without_overlap() -> None:
    stage = field.start(silent(mig("A", SEVENTH, count=8)))
    pods = [asks(f"p{number}", 2, gpumem=4000) for number in range(3)]
    assert len(field.decided(stage, *pods)) == 3
    text = field.tried(stage, asks("p3", 2, gpumem=4000))
    assert "CardMigTopologyInfeasible" in text
    assert "CardInsufficientMemory" not in text


@pytest.mark.parametrize(
    ("smaller", "want"), [(20480, "20480"), (19968, "40960")], ids=["exact", "the next larger"]
)
def test_half_of_a_partitioned_card_is_the_smallest_profile_that_is_half(
    smaller: int, want: str
) -> None:
    half = profile("3g.20gb", smaller, 42, 4, 0, 4)
    whole = profile("7g.40gb", 40960, 100, 8, 0)
    stage = field.start(silent(mig("A", SEVENTH, half, whole)))
    value = field.decided(stage, asks("a", gpumem_percentage=50))["a"]
    assert value.split(",")[2] == want


@pytest.mark.parametrize(
    ("mode", "given", "want"),
    [
        pytest.param("mig", [card()], "CardTypeMismatch", id="no card of the mode"),
        pytest.param("mig", [card(), mig("B", HALF, index=1)], "GPU-B", id="a mixed node"),
        pytest.param("hami-core", [card(), mig("B", HALF, index=1)], "GPU-A", id="the other mode"),
        pytest.param("", [mig("A", HALF)], "GPU-A", id="either"),
    ],
)
def test_the_mode_of_a_pod_finds_its_cards(mode: str, given: Any, want: str) -> None:
    stage = field.start(silent(*given))
    pod = asks("a", gpumem=4000)
    pod = pod.annotate({MODE: mode}) if mode else pod
    if want.startswith("GPU"):
        assert chosen(field.decided(stage, pod)["a"]) == [want]
    else:
        assert want in field.tried(stage, pod)


def old(name: str, value: str, **more: str) -> builders.PodBuilder:
    return placed(asks(name, gpumem=1000), "n1", value).annotate(more).phase("Running")


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(old("x", "GPU-A[3-5],NVIDIA,1000,0:;"), id="an index of an older scheme"),
        pytest.param(
            old("x", "GPU-A,NVIDIA,1000,0:;", **{
                "hami.io/vgpu-mig-allocations": '[{"containerIndex":0,"deviceIndex":0,'
                '"gpuUUID":"GPU-A","profile":"1g.5gb","placement":{"start":0,"size":1}}]'
            }),
            id="an instance of a card that is not partitioned any more",
        ),
    ],
)  # fmt: skip
def test_what_an_older_scheme_left_closes_its_card_alone(pod: builders.PodBuilder) -> None:
    stage = field.start(silent(*cards(2)), pods=(pod,))
    assert chosen(field.decided(stage, asks("a", gpumem=1000))["a"]) == ["GPU-B"]
    assert "unhealthy" in field.tried(stage, asks("b", 2, gpumem=1000))
    stage.gone("x")
    assert set(stage.bind()) == {"b"}


def test_two_pods_of_different_templates_close_no_other_card() -> None:
    pods = (old("x", "GPU-A[1-2],NVIDIA,1000,0:;"), old("y", "GPU-A[3-5],NVIDIA,1000,0:;"))
    stage = field.start(silent(*cards(2)), pods=pods)
    assert chosen(field.decided(stage, asks("a"))["a"]) == ["GPU-B"]


def test_a_reservation_of_an_unknown_card_stops_the_partitioned_cards_of_its_node() -> None:
    stray = '[{"containerIndex":0,"deviceIndex":0,"gpuUUID":"GPU-Z","profile":"1g.5gb",'
    stray += '"placement":{"start":0,"size":1}}]'
    pod = old("x", "GPU-Z,NVIDIA,5120,14:;", **{"hami.io/vgpu-mig-allocations": stray})
    stage = field.start(silent(mig("A", SEVENTH), card("B", 1)), pods=(pod,))
    found: Stage = stage
    wish = {MODE: "mig"}
    assert found.bind() == {}
    assert "unhealthy" in field.tried(found, asks("m", gpumem=1000).annotate(wish))
    assert chosen(field.decided(found, asks("a", gpumem=1000))["a"]) == ["GPU-B"]
