"""Random scenarios: kube-scheduler's code and ours say the same of every node."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.differential import compare, generate, oracle, ours, real, tally

ROOT: Final = Path(__file__).parents[2]
CHUNK: Final = 150
CHUNKS: Final = 4
FREQUENT: Final = {
    "DynamicResources",
    "InterPodAffinity",
    "NodeAffinity",
    "NodeDeclaredFeatures",
    "NodeName",
    "NodePorts",
    "NodeResourcesFit",
    "NodeUnschedulable",
    "NodeVolumeLimits",
    "PodTopologySpread",
    "SchedulingGates",
    "TaintToleration",
    "VolumeBinding",
    "VolumeRestrictions",
    "VolumeZone",
}
"""What refuses somebody in every run of some hundred scenarios."""


@pytest.mark.e2e
@pytest.mark.parametrize("part", range(CHUNKS))
def test_both_say_the_same_of_every_node(part: int, judge: oracle.Oracle) -> None:
    found = tally.run(range(part * CHUNK, (part + 1) * CHUNK), judge)
    assert found.faults == []
    assert [one for one in found.differences if one.about is compare.About.PLACES] == []
    assert FREQUENT - found.refused.keys() <= {"NodeName", "SchedulingGates"}
    assert found.mixed > CHUNK / 4


def test_equal_seeds_give_equal_scenarios_in_any_process() -> None:
    program = (
        "import json\nfrom tests.differential import generate\n"
        "print(json.dumps([generate.scenario(seed) for seed in range(30)]))"
    )
    run = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        check=True,
        text=True,
    )
    assert json.loads(run.stdout) == [generate.scenario(seed) for seed in range(30)]


@pytest.mark.e2e
async def test_pods_land_where_the_real_kube_scheduler_puts_them(
    judge: oracle.Oracle, tmp_path: Path, built_control_plane: Path
) -> None:
    assert (built_control_plane / "kube-scheduler").exists()
    played = real.Played()
    async for one in real.judged(range(5000, 5030), tmp_path):
        played.add(one, judge)
    assert played.faults == []
    assert played.mixed > 3


# ---- the comparison itself: what it must not overlook


def _open(node: dict[str, Any]) -> None:
    node["spec"].pop("taints", None)


def _widen(node: dict[str, Any]) -> None:
    node["status"]["allocatable"] |= {"cpu": "1k", "memory": "1Ti", "pods": "999"}


def _strip(node: dict[str, Any]) -> None:
    node["metadata"]["labels"] = {}


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param(_open, compare.About.PLACES, id="taints that only one side sees"),
        pytest.param(_widen, compare.About.PLACES, id="room that only one side sees"),
        pytest.param(_strip, compare.About.REFUSES, id="labels that only one side sees"),
        pytest.param(_open, compare.About.REASON, id="another filter refuses"),
        pytest.param(_widen, compare.About.SCORE, id="another score"),
    ],
)
def test_a_planted_fault_is_found(
    change: Callable[[dict[str, Any]], None], want: compare.About, judge: oracle.Oracle
) -> None:
    scenarios = [generate.scenario(seed) for seed in range(60)]
    found: list[compare.Difference] = []
    for scenario, theirs in zip(scenarios, judge.ask(scenarios), strict=True):
        changed = copy.deepcopy(scenario)
        for node in changed["kinds"]["nodes"]:
            change(node)
        found += compare.find(scenario, theirs, ours.judge(changed))
    assert [one for one in found if one.about is want and not one.meant]


REFUSED: Final = oracle.Refusal(plugin="NodePorts", code="Unschedulable", reasons=("a",))
SCENARIO: Final = {
    "id": "s",
    "kinds": {"nodes": [{"metadata": {"name": "n"}}]},
    "pod": {"spec": {}},
}


@pytest.mark.parametrize(
    ("theirs", "said", "want"),
    [
        pytest.param({"feasible": ("n",)}, {"feasible": ("n",)}, [], id="the same node"),
        pytest.param(
            {"refusals": {"n": REFUSED}}, {"feasible": ("n",)}, ["PLACES"], id="one place more"
        ),
        pytest.param(
            {"feasible": ("n",)}, {"prefilter": REFUSED}, ["REFUSES"], id="one place less"
        ),
        pytest.param(
            {"refusals": {"n": REFUSED}, "message": "a"},
            {"refusals": {"n": REFUSED}, "message": "b"},
            ["MESSAGE"],
            id="another message",
        ),
        pytest.param(
            {"feasible": ("n",), "scores": {"n": {"NodeAffinity": 4}}},
            {"feasible": ("n",), "scores": {"n": {"NodeAffinity": 2}}},
            ["SCORE"],
            id="another score",
        ),
    ],
)
def test_every_kind_of_difference_is_told(
    theirs: dict[str, Any], said: dict[str, Any], want: list[str]
) -> None:
    found = compare.find(
        SCENARIO, oracle.Verdict(id="s", **theirs), oracle.Verdict(id="s", **said)
    )
    assert [one.about.name for one in found] == want
    assert not any(one.meant for one in found)


def test_every_difference_that_is_meant_is_told_in_the_documentation() -> None:
    page = " ".join((ROOT / "docs" / "differential.md").read_text().split())
    assert [key for key in compare.MEANT if f"| {key} |" not in page] == []
