"""Rules of single families that no case row states."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

import pytest

from hami_operator import errors
from hami_operator.devices import (
    admit,
    annotate,
    capacity,
    fit,
    inventory,
    overrides,
    registry,
    request,
    usage,
)
from hami_operator.protocol import decision, instant, register
from tests.unit.devices.rows import Node, candidate, taken

ROWS = registry.default().by_word
NOW = instant.Instant(
    monotonic_s=0.0, wall=datetime.datetime(2026, 2, 1, 8, 15, 30, tzinfo=datetime.UTC)
)


def place(
    word: str, cards: list[usage.CardUsage], *, count: int = 1, **context: Any
) -> fit.Fit | fit.NoFit:
    asked = request.Request(word=word, count=count, memory_mib=1000, cores=10)
    return fit.fit(ROWS[word], asked, cards, fit.Context(**context))


def refusal(answer: fit.Fit | fit.NoFit) -> str:
    assert isinstance(answer, fit.NoFit), answer
    return answer.text()


def admitted(word: str, limits: dict[str, str], **changes: Any) -> admit.Admitted:
    row = dataclasses.replace(ROWS[word], **changes)
    answer = admit.admit(row, admit.Container(name="main", limits=limits), admit.Pod())
    assert isinstance(answer, admit.Admitted), answer.text()
    return answer


# --- NVIDIA ----------------------------------------------------------------------------------

MIG = candidate("GPU-m", mode="mig")
CORE = candidate("GPU-c", mode="hami-core")


def test_a_partitioned_card_is_never_handed_out_whole() -> None:
    assert refusal(place("NVIDIA", [MIG])) == "1/1 CardMigTopologyInfeasible"


def test_a_partitioned_card_is_passed_over_for_others() -> None:
    answer = place("NVIDIA", [MIG, CORE])
    assert isinstance(answer, fit.Fit)
    assert [pick.id for pick in answer.picks] == ["GPU-c"]


@pytest.mark.parametrize(
    ("mode", "want"),
    [
        pytest.param(None, "1/1 CardMigTopologyInfeasible", id="any mode: one card may do"),
        pytest.param("mig", "1/1 CardMigTopologyInfeasible", id="mig: one card may do"),
        pytest.param("hami-core", "NodeInsufficientDevice", id="hami-core: too few cards"),
    ],
)
def test_a_partitioned_card_may_serve_more_devices_than_there_are_cards(
    mode: str | None, want: str
) -> None:
    annotations = {} if mode is None else {"nvidia.com/vgpu-mode": mode}
    assert refusal(place("NVIDIA", [MIG], count=2, pod_annotations=annotations)) == want


def test_without_a_partitioned_card_too_few_cards_are_too_few() -> None:
    assert refusal(place("NVIDIA", [CORE], count=2)) == "NodeInsufficientDevice"


@pytest.mark.parametrize(
    ("mode", "card", "fits"),
    [
        ("hami-core,mig", CORE, True),
        ("hami-core", CORE, True),
        ("mps", CORE, False),
        ("", CORE, False),
        ("mps", candidate(mode=""), True),
    ],
)
def test_the_mode_of_a_card_is_contained_in_what_the_pod_allows(
    mode: str, card: usage.CardUsage, fits: bool
) -> None:
    answer = place("NVIDIA", [card], pod_annotations={"nvidia.com/vgpu-mode": mode})
    assert isinstance(answer, fit.Fit) is fits


@pytest.mark.parametrize(
    ("limits", "want"),
    [
        pytest.param({"gpumem": "0", "gpu": "1"}, "100", id="an explicit memory 0"),
        pytest.param({"gpu": "1", "gpumem-percentage": "100"}, "100", id="all of the memory"),
        pytest.param({"gpu": "1", "gpucores": "0"}, "0", id="cores are named"),
        pytest.param({"gpu": "1", "gpumem-percentage": "50"}, None, id="half of the memory"),
        pytest.param(
            {"gpu": "1", "gpumem": "5", "gpumem-percentage": "100"}, None, id="memory wins"
        ),
    ],
)
def test_whoever_takes_all_the_memory_takes_all_cores(
    limits: dict[str, str], want: str | None
) -> None:
    answer = admitted("NVIDIA", {f"nvidia.com/{name}": value for name, value in limits.items()})
    assert answer.container.limits.get("nvidia.com/gpucores") == want


def test_a_default_memory_is_not_the_whole_card() -> None:
    answer = admitted("NVIDIA", {"nvidia.com/gpu": "1"}, default_memory_mib=2000)
    assert answer.container.limits == {"nvidia.com/gpu": "1"}


def test_no_count_is_added_where_the_default_is_none() -> None:
    answer = admitted("NVIDIA", {"nvidia.com/gpumem": "5"}, default_count=0)
    assert (answer.takes, answer.container.limits) == (False, {"nvidia.com/gpumem": "5"})


def test_a_container_without_gpu_sees_none_where_that_is_asked() -> None:
    answer = admitted("NVIDIA", {"cpu": "1"}, overwrite_env=True)
    assert answer.container.env == ({"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"},)
    assert admitted("NVIDIA", {"cpu": "1"}).container.env == ()


def test_a_container_without_gpu_gets_no_policy_and_no_runtime_class() -> None:
    answer = admitted("NVIDIA", {"cpu": "1"}, core_policy="force", runtime_class="nvidia")
    assert (answer.container.env, answer.pod) == ((), admit.Pod())


def test_an_unreadable_count_is_denied() -> None:
    container = admit.Container(name="main", limits={"nvidia.com/gpu": "one"})
    answer = admit.admit(ROWS["NVIDIA"], container, admit.Pod())
    assert isinstance(answer, admit.Denied)
    assert answer.problem.resource == "nvidia.com/gpu"


# --- Cambricon -------------------------------------------------------------------------------


def test_a_registered_mlu_without_cores_accounts_none() -> None:
    """The protocol's own example registers so."""
    card = candidate("MLU-1", cores=0, model="MLU370-X4", used=taken(1, 0, 50))
    asked = request.Request(word="MLU", count=1, memory_mib=1000, cores=100)
    answer = fit.fit(ROWS["MLU"], asked, [card], fit.Context())
    assert isinstance(answer, fit.Fit)
    assert [(pick.id, pick.memory_mib, pick.cores) for pick in answer.picks] == [
        ("MLU-1", 1000, 0)
    ]


def test_an_mlu_from_capacity_accounts_its_cores() -> None:
    card = candidate("mlu-1", custom=capacity.SOURCE, used=taken(1, 0, 95))
    assert refusal(place("MLU", [card])) == "1/1 CardInsufficientCore"


def test_types_are_asked_of_registered_mlus_only() -> None:
    wanted = {"cambricon.com/use-mlutype": "MLU590"}
    registered = candidate("MLU-1", model="MLU-MLU370-X4")
    counted = candidate("mlu-1", model="MLU", custom=capacity.SOURCE)
    answer = place("MLU", [registered, counted], pod_annotations=wanted)
    assert isinstance(answer, fit.Fit)
    assert answer.picks[0].id == "mlu-1"
    assert refusal(place("MLU", [registered], pod_annotations=wanted)) == "1/1 CardTypeMismatch"


def test_the_profile_is_that_of_the_first_device_of_the_first_slot_with_one() -> None:
    slots = (
        (),
        (pick("m1", 1, 6144, 50), pick("m0", 0, 512, 1)),
        (pick("m2", 2, 512, 1),),
    )
    facts = annotate.decision_annotations([ROWS["MLU"]], {"MLU": slots}, node_name="n1", now=NOW)
    assert facts["CAMBRICON_DSMLU_PROFILE"] == "1_50_24"
    assert facts["CAMBRICON_DSMLU_ASSIGNED"] == "false"


def pick(id: str, index: int, memory_mib: int, cores: int) -> decision.Pick:
    return decision.Pick(id=id, index=index, memory_mib=memory_mib, cores=cores)


# --- Moore Threads ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("earlier", "fits"),
    [
        pytest.param((), True, id="the first container"),
        pytest.param(((), ("c0",)), True, id="the card of an earlier container"),
        pytest.param((("c1",),), False, id="another card"),
        pytest.param((("c0", "c1"),), False, id="an earlier container has two"),
    ],
)
def test_all_containers_of_a_pod_share_one_card(
    earlier: tuple[tuple[str, ...], ...], fits: bool
) -> None:
    answer = place("Mthreads", [candidate("c0", cores=16)], earlier=earlier)
    if fits:
        assert isinstance(answer, fit.Fit)
    else:
        assert refusal(answer) == f"1/1 {errors.Reason.CARD_CUSTOM_RULE.word}"


def test_a_total_that_leaves_nothing_for_each_card_is_invalid() -> None:
    limits = {"mthreads.com/vgpu": "600", "mthreads.com/sgpu-memory": "1"}
    found = request.read(ROWS["Mthreads"], limits=limits, requests={})
    assert isinstance(found, request.Invalid)
    assert (found.resource, found.value) == ("mthreads.com/sgpu-memory", "1")


@pytest.mark.parametrize(
    ("limits", "want_limits", "want_number"),
    [
        pytest.param(
            {"vgpu": "2", "sgpu-memory": "3"},
            {"vgpu": "2", "sgpu-core": "32", "sgpu-memory": "192"},
            "2",
            id="several cards are whole",
        ),
        pytest.param(
            {"vgpu": "1", "sgpu-memory": "32"},
            {"vgpu": "1", "sgpu-memory": "32"},
            None,
            id="a slice of one card",
        ),
        pytest.param({"sgpu-memory": "3"}, {"sgpu-memory": "3"}, None, id="no card"),
    ],
)
def test_mthreads_admission(
    limits: dict[str, str], want_limits: dict[str, str], want_number: str | None
) -> None:
    answer = admitted(
        "Mthreads", {f"mthreads.com/{name}": value for name, value in limits.items()}
    )
    want = {f"mthreads.com/{name}": value for name, value in want_limits.items()}
    assert answer.container.limits == want
    assert answer.pod.annotations.get("mthreads.com/request-gpu-num") == want_number


@pytest.mark.parametrize(
    ("limits", "want"),
    [
        ({"mthreads.com/vgpu": "x"}, "mthreads.com/vgpu"),
        ({"mthreads.com/vgpu": "1", "mthreads.com/sgpu-memory": "x"}, "mthreads.com/sgpu-memory"),
        ({"mthreads.com/vgpu": "100000"}, "mthreads.com/sgpu-memory"),
    ],
)
def test_mthreads_denials(limits: dict[str, str], want: str) -> None:
    container = admit.Container(name="main", limits=limits)
    answer = admit.admit(ROWS["Mthreads"], container, admit.Pod())
    assert isinstance(answer, admit.Denied)
    assert answer.problem.resource == want


def test_the_card_list_is_that_of_the_last_slot_with_devices() -> None:
    slots = ((pick("c0", 0, 512, 1),), (pick("c1", 1, 512, 1), pick("c2", 2, 512, 1)), ())
    found = annotate.decision_annotations(
        [ROWS["Mthreads"]], {"Mthreads": slots}, node_name="n1", now=NOW
    )
    assert found["mthreads.com/gpu-index"] == "1,2"
    assert found["mthreads.com/predicate-node"] == "n1"
    assert found["mthreads.com/predicate-time"] == "1769933730000000000"


# --- Hygon -----------------------------------------------------------------------------------


def test_hcu_and_dcu_stand_beside_each_other_on_one_node() -> None:
    node = Node(
        annotations={
            "hami.io/node-hcu-register": "H-0,4,65520,100,HCU-K100_AI,0,true,0,hami:",
            "hami.io/node-dcu-register": "D-0,4,16368,100,DCU-Z100L,0,true:",
        }
    )
    found = {word: inventory.read(node, ROWS[word]) for word in ("HCU", "DCU")}
    assert {word: one.cards[0].id for word, one in found.items()} == {"HCU": "H-0", "DCU": "D-0"}
    assert {word: one.handshake_key for word, one in found.items()} == {
        "HCU": "hami.io/node-handshake-hcu",
        "DCU": "hami.io/node-handshake-dcu",
    }
    assert isinstance(found["HCU"].cards[0], register.Card)


# --- checks ----------------------------------------------------------------------------------

SHARED = "F1 F5 F6 F7 F8 F9 F10 F11 F12 F13"
CHIPS = [word for word in ROWS if word.startswith(("Ascend", "MR-", "BI-"))]
USED = {
    "NVIDIA": "F1 F2 F3 F4 F5 F6 F7 F8 F9 F10 F11 F12 F13",
    "MLU": f"F1 F3 {SHARED[3:]}",
    "HCU": f"F1 F3 {SHARED[3:]}",
    "DCU": f"F1 F3 {SHARED[3:]}",
    **dict.fromkeys(CHIPS, SHARED),
    "Mthreads": SHARED,
    "Metax-GPU": "F1 F6 F7 F8 F10 F11 F12 F13",
    "Metax-SGPU": "F1 F3 F5 F6 F7 F9 F10 F11 F12 F13",  # class and QoS in the place of models
    "GCU": "F1 F7",
    "Enflame": "F1 F5 F6 F7 F9 F10 F11",
    "kunlun": "F1 F5 F7",
    "XPU": "F1 F5 F7 F9 F10",
    "AWSNeuron": "F1 F5 F6 F7 F9 F11",
    "AMD": "F1 F3 F5 F6 F7 F9 F10 F11",
    "Vastai": "F1 F5 F6 F7",
    "Biren": "F1 F5 F6 F7",
}


def test_every_row_uses_the_checks_that_its_cards_have() -> None:
    assert {word: overrides.plain(row)["checks"] for word, row in ROWS.items()} == {
        word: text.split() for word, text in USED.items()
    }
