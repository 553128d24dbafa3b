"""Scores by how full a node would be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_operator.scheduling import fitscore
from tests import builders

MIB = 2**20
POD = builders.pod("p").container(requests={"cpu": "1", "memory": "1Gi"})
NODE = builders.node("n").allocatable(cpu="4", memory="4Gi")
RATIO = fitscore.Strategy.REQUESTED_TO_CAPACITY_RATIO


def ratio(*corners: tuple[int, int]) -> fitscore.Scoring:
    shape = tuple(fitscore.Point(utilization=one, score=other) for one, other in corners)
    return fitscore.Scoring(strategy=RATIO, weights=(("cpu", 1),), shape=shape)


@pytest.mark.parametrize(
    ("pod", "node", "scoring", "want"),
    [
        pytest.param(POD, NODE, fitscore.DEFAULT, 75, id="three quarters stay free"),
        pytest.param(
            POD, NODE, fitscore.Scoring(strategy=fitscore.Strategy.MOST_ALLOCATED), 25, id="most"
        ),
        pytest.param(
            POD, builders.node("n"), fitscore.DEFAULT, 0, id="a node that offers nothing"
        ),
        pytest.param(
            POD, NODE.allocatable(cpu="500m"), fitscore.DEFAULT, 37, id="over counts nothing"
        ),
        pytest.param(
            builders.pod("p").container(),
            NODE.allocatable(cpu="1", memory="400Mi"),
            fitscore.DEFAULT,
            70,
            id="no request counts as a small one",
        ),
        pytest.param(POD, NODE, ratio((0, 0), (100, 10)), 25, id="on a rising line"),
        pytest.param(POD, NODE, ratio((0, 10), (100, 0)), 75, id="on a falling line"),
        pytest.param(POD, NODE, ratio((50, 4), (100, 10)), 40, id="before the first corner"),
        pytest.param(POD, NODE, ratio((0, 0), (10, 7)), 70, id="behind the last corner"),
        pytest.param(POD, NODE, ratio(), 0, id="without a shape"),
        pytest.param(
            POD, NODE.allocatable(cpu="500m"), ratio((0, 0), (100, 9)), 90, id="over is full"
        ),
    ],
)
def test_score(
    pod: builders.PodBuilder, node: builders.NodeBuilder, scoring: fitscore.Scoring, want: int
) -> None:
    assert fitscore.score(pod.read(), node.read(), (), scoring) == want


@given(
    st.sampled_from(sorted(fitscore.Strategy, key=str)),
    st.integers(0, 8000),
    st.integers(0, 8000),
)
def test_scores_stay_in_bounds(strategy: fitscore.Strategy, asked: int, booked: int) -> None:
    shape = (fitscore.Point(utilization=0, score=10), fitscore.Point(utilization=100, score=0))
    scoring = fitscore.Scoring(strategy=strategy, shape=shape)
    pod = builders.pod("p").container(requests={"cpu": f"{asked}m"}).read()
    other = builders.pod("o").container(requests={"cpu": f"{booked}m"}).read()
    assert 0 <= fitscore.score(pod, NODE.read(), [other], scoring) <= 100


WHOLE = {"requests": {"cpu": "1"}}


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(builders.pod("p").container(), (100, 200 * MIB), id="without a request"),
        pytest.param(
            builders.pod("p").container(requests={"cpu": "2"}),
            (2000, 200 * MIB),
            id="what is missing is filled in",
        ),
        pytest.param(
            builders.pod("p").container().container().put("spec.resources", WHOLE),
            (1000, 400 * MIB),
            id="with a request as a whole only what that lacks",
        ),
        pytest.param(
            builders.pod("p")
            .container(requests={"memory": "1Mi"})
            .container()
            .put("spec.resources", WHOLE),
            (1000, MIB),
            id="and nothing that any container requests",
        ),
        pytest.param(
            builders.pod("p")
            .container("c", requests={"cpu": "1"})
            .append(
                "status.containerStatuses",
                {"name": "c", "allocatedResources": {"cpu": "3"}},
            ),
            (3000, 200 * MIB),
            id="as much more as a resize has given it",
        ),
    ],
)
def test_what_a_pod_on_a_node_counts_with(pod: builders.PodBuilder, want: tuple[int, int]) -> None:
    amounts = fitscore.assumed(pod.read())
    assert (amounts["cpu"], amounts["memory"]) == want


def test_what_a_new_pod_requests_as_a_whole_does_not_count() -> None:
    pod = builders.pod("p").container(requests={"cpu": "200m"}).put("spec.resources", WHOLE)
    pod = pod.put("spec.overhead", {"cpu": "50m"})
    assert fitscore.asked(pod.read()) == {"cpu": 250, "memory": 200 * MIB}
