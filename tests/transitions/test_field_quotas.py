"""Faults that people met with quotas and forged or odd pods, at admission and past it."""

from __future__ import annotations

from typing import Any

import pytest

from hami_operator.admission import mutate, rules, verdict
from hami_operator.devices import registry as registries
from hami_operator.protocol import keys
from hami_operator.scheduling import effects, policy, queue, world
from hami_operator.settings import Settings
from tests import builders
from tests.transitions import field
from tests.transitions.field import amounts, asks, bare, card, cards, silent
from tests.transitions.stage import OURS, ROWS, Stage

Place = queue.Place


def limits(memory: Any = None, cores: Any = None, name: str = "q") -> dict[str, Any]:
    """A ResourceQuota of the pods' namespace."""
    given = {"gpumem": memory, "gpucores": cores}
    hard = {f"limits.nvidia.com/{key}": str(one) for key, one in given.items() if one is not None}
    about = {"namespace": "default", "name": name, "uid": f"uid-{name}"}
    return {"metadata": about, "spec": {"hard": hard}}


def admitted(stage: Stage, pod: builders.PodBuilder, **more: Any) -> verdict.Verdict:
    """What the webhook of this process says to a pod that is to be created."""
    known = rules.build(
        ROWS,
        scheduler_name=OURS,
        limits=stage.world.accounts,
        preferences=lambda found: policy.read(
            found, node_setting="binpack", card_setting="spread"
        ),
        **more,
    )
    return mutate.admit_pod(pod.raw(), "default", known)


def two(name: str, **more: Any) -> builders.PodBuilder:
    return asks(name, **more).container("second", limits=amounts(1, **more))


@pytest.mark.parametrize(
    ("quota", "pod", "want"),
    [
        pytest.param(limits(0), asks("a", gpumem=1), False, id="an explicit zero is none"),
        pytest.param({**limits(), "spec": {"hard": {}}}, asks("a"), True, id="no limit"),
        pytest.param(limits(3000), asks("a", 2, gpumem=2048), False, id="two cards count twice"),
        pytest.param(limits(4096), asks("a", 2, gpumem=2048), True, id="and fit exactly"),
        pytest.param(
            limits(cores=50), asks("a", 2, gpumem=1, gpucores=30), False, id="so do their cores"
        ),
        pytest.param(limits(3000), two("a", gpumem=2000), False, id="two containers"),
        pytest.param(
            limits(3000), two("a", gpumem=2000).init("i"), False, id="beside one without devices"
        ),
        pytest.param(
            limits(4000), two("a", gpumem=2000).init("i", limits=amounts(1, gpumem=4000)), True,
            id="an init container has its turn before",
        ),
    ],
)  # fmt: skip
def test_a_quota_says_the_same_at_admission_and_past_it(
    quota: dict[str, Any], pod: builders.PodBuilder, want: bool
) -> None:
    stage = field.start(silent(*cards(2)))
    stage.quota(quota)
    assert isinstance(admitted(stage, pod), verdict.Allowed) is want
    text = field.tried(stage, pod)
    assert ("ResourceQuotaNotFit" in text, bool(stage.state.held)) == (not want, want)


@pytest.mark.parametrize("init", [False, True], ids=["alone", "behind an init container"])
def test_percentages_count_with_the_mib_that_they_come_to(init: bool) -> None:
    stage = field.start(silent(card(memory_mib=40000)))
    stage.quota(limits(24000))
    pod = bare("a").init("i") if init else bare("a")
    for name in ("x", "y"):
        pod = pod.container(name, limits=amounts(1, gpumem_percentage=40))
    assert "ResourceQuotaNotFit" in field.tried(stage, pod)
    assert stage.state.held == frozenset()


def test_a_limit_that_is_taken_away_lets_pods_in() -> None:
    stage = field.start(silent(card()))
    stage.quota(limits(0))
    assert "ResourceQuotaNotFit" in field.tried(stage, asks("a", gpumem=1))
    stage.wait(2)
    stage.quota({**limits(), "spec": {"hard": {}}})
    assert stage.bind() == {"a": "n1"}


def test_a_factor_is_applied_once_and_every_type_is_limited() -> None:
    overrides = {"NVIDIA": {"memory_factor": 10}}
    state = world.World(registries.build(overrides=overrides), Settings())
    stage = Stage(active=False)
    stage.world = state
    stage.node(silent(card()))
    stage.lead()
    stage.quota(limits(100))
    assert field.decided(stage, asks("a", gpumem=100)) == {"a": "GPU-A,NVIDIA,1000,0:;"}
    assert "1000 used of 1000 MiB" in field.tried(stage, asks("b", gpumem=100))


def test_every_type_that_has_a_name_for_it_is_limited() -> None:
    hcu = {"metadata": {"namespace": "default", "name": "h", "uid": "h"}}
    hcu["spec"] = {"hard": {"limits.hygon.com/hcumem": "3000"}}  # type: ignore[dict-item]
    stage = field.start(builders.roomy("n1").register("HCU", builders.cards(1, word="HCU")))
    stage.quota(hcu)
    pods = [
        bare(name).container(limits={"hygon.com/hcunum": 1, "hygon.com/hcumem": 2000})
        for name in ("a", "b")
    ]
    stage.pod(*pods)
    assert len(stage.bind()) == 1


# ---- what admission says to odd pods


FORGED = (keys.VGPU_NODE, "hami.io/vgpu-devices-to-allocate", keys.BIND_TIME, keys.BIND_PHASE)


@pytest.mark.parametrize("key", FORGED)
def test_a_forged_key_never_comes_in_with_a_pod_of_ours(key: str) -> None:
    stage = field.start(silent(card()))
    pod = asks("a").annotate({key: "allocating", keys.GPU_POLICY: "binpack"})
    found = admitted(stage, pod)
    assert isinstance(found, verdict.Allowed)
    assert found.raw["metadata"]["annotations"] == {keys.GPU_POLICY: "binpack"}
    assert any(key in text for text in found.warnings)
    denied = admitted(stage, pod, strict=True)
    assert isinstance(denied, verdict.Denied)
    assert key in denied.message


def test_no_label_of_a_pod_switches_admission_off() -> None:
    stage = field.start(silent(card()))
    pod = asks("a").label("hami.io/webhook", "ignore").annotate({keys.BIND_PHASE: "allocating"})
    found = admitted(stage, pod)
    assert isinstance(found, verdict.Allowed)
    assert keys.BIND_PHASE not in found.raw["metadata"].get("annotations", {})


@pytest.mark.parametrize("percent", [101, 150, 4294967346, -1])
def test_a_percentage_beyond_100_is_denied_with_its_name(percent: int) -> None:
    found = admitted(field.start(), asks("a", gpumem_percentage=percent))
    assert isinstance(found, verdict.Denied)
    assert "nvidia.com/gpumem-percentage" in found.message


def test_memory_with_a_unit_is_denied_with_its_name() -> None:
    found = admitted(field.start(), asks("a", gpumem="16Gi"))
    assert isinstance(found, verdict.Denied)
    assert "nvidia.com/gpumem" in found.message


@pytest.mark.parametrize(
    ("limits_of", "want"),
    [
        pytest.param(amounts(1), "GPU-A,NVIDIA,24576,100:;", id="a card alone"),
        pytest.param(amounts(1, gpumem=20480), "GPU-A,NVIDIA,20480,0:;", id="with memory"),
        pytest.param(amounts(1, gpumem_percentage=50), "GPU-A,NVIDIA,12288,0:;", id="half"),
        pytest.param(amounts(None, gpumem=3000), "GPU-A,NVIDIA,3000,0:;", id="memory alone"),
    ],
)
def test_what_a_request_means_after_admission(limits_of: dict[str, Any], want: str) -> None:
    stage = field.start(silent(card()))
    found = admitted(stage, builders.pod("a").container(limits=limits_of))
    assert isinstance(found, verdict.Allowed)
    pod = builders.PodBuilder(dict(found.raw))
    assert field.decided(stage, pod) == {"a": want}


def test_shares_of_one_card_are_possible_with_explicit_memory() -> None:
    stage = field.start(silent(card()))
    given = [asks("a", gpumem=20480), asks("b", gpumem=4000)]
    assert set(field.decided(stage, *given)) == {"a", "b"}


@pytest.mark.parametrize("policy_text", ["pack", "BinPack"])
def test_an_unknown_policy_is_warned_of_and_told(policy_text: str) -> None:
    stage = field.start(silent(card()))
    pod = asks("a", gpumem=1000).annotate({keys.GPU_POLICY: policy_text})
    found = admitted(stage, pod)
    assert isinstance(found, verdict.Allowed)
    assert any(policy_text in text for text in found.warnings)
    stage.pod(pod)
    assert policy_text in _events(stage)


def test_memory_as_an_annotation_is_warned_of_and_told() -> None:
    stage = field.start(silent(card()))
    pod = asks("a").annotate({"nvidia.com/gpumem": "3000"})
    found = admitted(stage, pod)
    assert isinstance(found, verdict.Allowed)
    assert any("nvidia.com/gpumem asks for nothing" in text for text in found.warnings)
    stage.pod(pod)
    assert "nvidia.com/gpumem" in _events(stage)


def _events(stage: Stage) -> str:
    told = stage.attempts()
    return field.messages(one for one in told if isinstance(one, effects.PodEvent))
