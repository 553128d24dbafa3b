"""The scores beside the filters: wishes about other pods, even spread, balance, images."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_operator.scheduling import (
    affinityscore,
    balance,
    imagescore,
    neighbours,
    preferences,
    ranking,
    spreadscore,
)
from tests import builders
from tests.unit.scheduling import scenes

WISH = "preferredDuringSchedulingIgnoredDuringExecution"
MIB = 2**20
HOST = "kubernetes.io/hostname"


def node(name: str, zone: str = "") -> builders.NodeBuilder:
    made = builders.node(name).allocatable(cpu="10", memory="10Gi", pods="10").label(HOST, name)
    return made.label("zone", zone) if zone else made


NODES = [node("n1", "a"), node("n2", "a"), node("n3", "b"), node("n4")]
POD = builders.pod("p").label("app", "web")


def wish(
    pod: builders.PodBuilder, weight: int, app: str, key: str = "zone"
) -> builders.PodBuilder:
    """Wants pods of an app near; less than nothing: rather not."""
    kind = "podAffinity" if weight > 0 else "podAntiAffinity"
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
    entry = {"weight": abs(weight), "podAffinityTerm": term}
    return pod.append(f"spec.affinity.{kind}.{WISH}", entry)


def other(name: str, where: str, app: str = "db") -> builders.PodBuilder:
    return builders.pod(name).label("app", app).on(where)


@pytest.mark.parametrize(
    ("pod", "others", "want"),
    [
        pytest.param(POD, [other("o", "n1")], [0, 0, 0, 0], id="no wish"),
        pytest.param(
            wish(POD, 10, "db"), [other("o", "n1")], [100, 100, 0, 0], id="near, by zone"
        ),
        pytest.param(
            wish(POD, -10, "db"), [other("o", "n1")], [0, 0, 100, 100], id="rather not near"
        ),
        pytest.param(
            wish(wish(POD, 10, "db"), 10, "db", HOST),
            [other("o", "n1"), other("q", "n3")],
            [100, 50, 100, 0],
            id="wishes add up",
        ),
        pytest.param(
            POD,
            [wish(other("o", "n3"), 7, "web")],
            [0, 0, 100, 0],
            id="others would like the pod near",
        ),
        pytest.param(
            POD,
            [
                other("o", "n3").append(
                    "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution",
                    {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"},
                )
            ],
            [0, 0, 100, 0],
            id="others need pods like it near",
        ),
        pytest.param(
            wish(POD, 10, "db"), [other("o", "gone")], [0, 0, 0, 0], id="on a node that is gone"
        ),
    ],
)
def test_wishes_about_other_pods(
    pod: builders.PodBuilder, others: list[builders.PodBuilder], want: list[int]
) -> None:
    cluster = scenes.around(NODES, others)
    found = affinityscore.scores(pod.read(), [one.read() for one in NODES], cluster)
    assert list(found.values()) == want
    assert affinityscore.matters(pod.read(), cluster) or set(want) == {0}


def soft(key: str, *, skew: int = 1, **more: Any) -> builders.PodBuilder:
    constraint = {
        "maxSkew": skew,
        "topologyKey": key,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "web"}},
        **more,
    }
    return POD.append("spec.topologySpreadConstraints", constraint)


WEBS = [other("1", "n1", "web"), other("2", "n1", "web"), other("3", "n3", "web")]


@pytest.mark.parametrize(
    ("pod", "others", "want"),
    [
        pytest.param(POD, WEBS, [0, 0, 0, 0], id="no constraint"),
        pytest.param(soft("zone"), [], [100, 100, 100, 0], id="empty everywhere but off the map"),
        # a holds two and b one: log(2 + 2) each, rounded to 3 and 1
        pytest.param(soft("zone"), WEBS, [33, 33, 100, 0], id="the emptier zone"),
        # per node 2, 0, 1 and 0, each times log(4 + 2)
        pytest.param(soft(HOST), WEBS, [0, 100, 50, 100], id="the emptier nodes"),
        pytest.param(soft("rack"), WEBS, [0, 0, 0, 0], id="a label that no node has"),
        pytest.param(
            soft("zone").node_selector({HOST: "n3"}), WEBS, [100, 100, 0, 0],
            id="pods on nodes that the pod does not want do not count",
        ),
    ],
)  # fmt: skip
def test_even_spread(
    pod: builders.PodBuilder, others: list[builders.PodBuilder], want: list[int]
) -> None:
    cluster = scenes.around(NODES, others)
    found = spreadscore.scores(pod.read(), [one.read() for one in NODES], cluster)
    assert list(found.values()) == want


@given(st.floats(min_value=0, max_value=1e6))
def test_rounding_is_to_the_nearest(value: float) -> None:
    assert abs(spreadscore.round_half_up(value) - value) <= 0.5
    assert spreadscore.round_half_up(math.floor(value) + 0.5) == math.floor(value) + 1


@pytest.mark.parametrize(
    ("requests", "booked", "want"),
    [
        pytest.param({}, {}, 0, id="a pod without requests is not rated"),
        pytest.param({"cpu": "5", "memory": "5Gi"}, {}, 75, id="even before and after"),
        pytest.param({"cpu": "5"}, {}, 62, id="made uneven"),
        pytest.param({"cpu": "5"}, {"memory": 5 * 2**30}, 87, id="evened out"),
        pytest.param({"cpu": "99"}, {}, 50, id="more than there is counts as all"),
    ],
)
def test_balance(requests: dict[str, str], booked: dict[str, int], want: int) -> None:
    pod = POD.container(requests=requests)
    assert balance.score(pod.read(), NODES[0].read(), booked) == want


def test_a_node_that_offers_one_of_both_is_even() -> None:
    half = builders.node("n").allocatable(cpu="1").read()
    assert balance.score(POD.container(requests={"cpu": "1"}).read(), half, {}) == 75


def holding(name: str, **images: int) -> builders.NodeBuilder:
    listed = [
        {"names": [f"example.com/{image}:latest"], "sizeBytes": size * MIB}
        for image, size in images.items()
    ]
    return builders.node(name).put("status.images", listed)


def test_images() -> None:
    pod = builders.pod("p").append("spec.containers", {"name": "c", "image": "example.com/a"})
    nodes = [holding("n1", a=1023, b=50), holding("n2", a=523), holding("n3", b=1), node("n4")]
    cluster = scenes.around(nodes)
    score = imagescore.scorer(pod.read(), cluster.nodes)
    assert score is not None
    # Two of four nodes hold it, so half of its size counts, less 23 MiB of 977.
    assert [score(one.read()) for one in nodes] == [50, 24, 0, 0]
    assert imagescore.scorer(builders.pod("q").read(), cluster.nodes) is None
    assert imagescore.scorer(pod.read(), scenes.around([node("n")]).nodes) is None


def test_what_stands_on_a_node_makes_its_rank() -> None:
    placed = neighbours.Neighbours(lambda _: {})
    placed.add(other("o", "n1").container(requests={"cpu": "5", "memory": "5Gi"}).read(), "n1")
    pod = POD.container(requests={"cpu": "1", "memory": "1Gi"}).read()
    rank = ranking.Ranking(pod, placed.load)
    full = scenes.View(node=NODES[0].read(), requested={"cpu": 5000, "memory": 5 * 2**30})
    free = scenes.View(node=NODES[1].read())
    assert (rank.of(full), rank.of(free)) == (40 + 75, 90 + 75)
    assert rank.shape == ranking.Ranking(pod, placed.load).shape


def test_all_wishes_together() -> None:
    pod = wish(soft("zone"), 10, "db").prefers(1, builders.expression("zone", "In", "a"))
    tainted = [*NODES[:3], NODES[3].taint("t", effect="PreferNoSchedule")]
    cluster = scenes.around(tainted, [*WEBS, other("o", "n3")])
    nodes = [one.read() for one in tainted]
    assert preferences.says_something(pod.read(), nodes)
    assert preferences.totals(pod.read(), nodes, around=cluster) == {
        "n1": 300 + 200 + 2 * 33,
        "n2": 300 + 200 + 2 * 33,
        "n3": 300 + 2 * 100 + 2 * 100,
        "n4": 0,
    }
    assert not preferences.says_something(POD.read(), nodes[:3])
