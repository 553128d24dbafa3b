"""The demo's scenario: complete, consistent, and as its issue orders it."""

from __future__ import annotations

import pytest

from hami_operator.devices import registry, request
from hami_operator.simulator import models, plugin, scenario

ROWS = registry.default()
NAMES = [name for name, _ in scenario.every()]


def test_eight_nodes_of_all_families_and_about_120_pods() -> None:
    words = {one.model.word for host in scenario.HOSTS for one in host.equipment}
    assert len(scenario.HOSTS) == 8
    assert words == {"NVIDIA", "MLU", "HCU", "DCU", "Mthreads"}
    assert 110 <= len(NAMES) <= 130
    assert len(set(NAMES)) == len(NAMES)


def test_the_mortal_plugin_answers_the_handshake() -> None:
    node, word = scenario.MORTAL
    (host,) = (host for host in scenario.HOSTS if host.name == node)
    (equipment,) = (one for one in host.equipment if one.model.word == word)
    assert equipment.model.shown is models.Shown.SEVEN
    assert plugin.install(ROWS.by_word[word], equipment, node).handshake_key
    assert len(host.equipment) == 2, "another type must be there to go on"


def test_the_kinds_of_pods_that_the_demo_promises() -> None:
    shapes = scenario.SHAPES
    words_of = {
        shape.name: {
            row.keyword
            for limits in (*shape.inits, *shape.sidecars, *shape.apps)
            for row in ROWS
            if row.resources.count in limits
        }
        for shape in shapes
    }
    assert any(len(words) == 2 for words in words_of.values()), "two families in one pod"
    assert any(shape.inits for shape in shapes), "init container"
    assert any(shape.sidecars for shape in shapes), "sidecar"
    assert any(len(shape.apps) > 2 for shape in shapes), "several containers"
    assert any(shape.run_for_s for shape in shapes), "pods that end by themselves"
    assert {shape.want for shape in shapes} == set(scenario.Want)
    assert {shape.act for shape in shapes} == set(scenario.Act)


def test_every_pod_that_must_wait_has_a_reason_to() -> None:
    waiting = [shape for shape in scenario.SHAPES if shape.want is scenario.Want.WAITS]
    assert all(shape.because for shape in waiting)
    assert len(waiting) >= 5


def test_those_that_give_way_are_in_the_scenario() -> None:
    assert set(scenario.GIVE_WAY) < set(NAMES)


@pytest.mark.parametrize(
    ("name", "shape"),
    [pytest.param(name, shape, id=name) for name, shape in scenario.every()],
)
def test_manifests_ask_for_what_the_shape_says(name: str, shape: scenario.Shape) -> None:
    made = scenario.manifest(name, shape, "sched")
    spec = made["spec"]
    assert made["metadata"]["name"] == name
    assert spec["schedulerName"] == "sched"
    assert [one["resources"]["limits"] for one in spec["containers"]] == list(shape.apps)
    inits = spec.get("initContainers", [])
    assert [one["resources"]["limits"] for one in inits] == [*shape.inits, *shape.sidecars]
    assert [one.get("restartPolicy") for one in inits] == [None] * len(shape.inits) + [
        "Always"
    ] * len(shape.sidecars)
    assert spec.get("nodeSelector", {}).get("kubernetes.io/hostname", "") == shape.node
    assert set(shape.annotations) <= set(made["metadata"]["annotations"])


@pytest.mark.parametrize(
    "shape",
    [
        pytest.param(shape, id=shape.name)
        for shape in scenario.SHAPES
        if shape.want is scenario.Want.RUNS
    ],
)
def test_requests_that_must_fit_are_valid(shape: scenario.Shape) -> None:
    for limits in (*shape.inits, *shape.sidecars, *shape.apps):
        for row in ROWS:
            found = request.read(row, limits=limits, requests={})
            assert not isinstance(found, request.Invalid)
