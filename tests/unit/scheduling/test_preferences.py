"""How much a pod would like a node."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_operator.scheduling import nodeselector, preferences
from hami_operator.scheduling.filters import check
from tests import builders

POD = builders.pod("p")
PLAIN = builders.node("plain")
GOOD = builders.node("good").label("disk", "ssd")
BEST = builders.node("best").label("disk", "ssd").label("zone", "z1")
TAINTED = builders.node("tainted").taint("a", effect="PreferNoSchedule")
WORSE = TAINTED.put("metadata.name", "worse").taint("b", effect="PreferNoSchedule")
SSD = builders.expression("disk", "In", "ssd")
ZONE = builders.expression("zone", "In", "z1")


@pytest.mark.parametrize(
    ("pod", "nodes", "want"),
    [
        pytest.param(POD, [], {}, id="no node"),
        pytest.param(POD, [PLAIN, GOOD], {"plain": 300, "good": 300}, id="no wishes, no taints"),
        pytest.param(
            POD.prefers(10, SSD), [PLAIN, GOOD], {"plain": 300, "good": 500}, id="one wish"
        ),
        pytest.param(
            POD.prefers(10, SSD).prefers(20, ZONE),
            [PLAIN, GOOD, BEST],
            {"plain": 300, "good": 366, "best": 500},
            id="wishes add up, in proportion to the best node",
        ),
        pytest.param(
            POD.prefers(10, ZONE), [PLAIN, GOOD], {"plain": 300, "good": 300}, id="unheard wish"
        ),
        pytest.param(
            POD, [PLAIN, TAINTED, WORSE], {"plain": 300, "tainted": 150, "worse": 0}, id="taints"
        ),
        pytest.param(
            POD.toleration("a", operator="Exists", effect="PreferNoSchedule"),
            [PLAIN, TAINTED, WORSE],
            {"plain": 300, "tainted": 300, "worse": 0},
            id="tolerated taints do not count",
        ),
        pytest.param(
            POD.toleration("a", operator="Exists", effect="NoSchedule"),
            [PLAIN, TAINTED],
            {"plain": 300, "tainted": 0},
            id="tolerations of other effects do not count",
        ),
        pytest.param(
            POD.prefers(1, SSD),
            [GOOD, TAINTED],
            {"good": 500, "tainted": 0},
            id="wish and taint together",
        ),
    ],
)
def test_totals(
    pod: builders.PodBuilder, nodes: list[builders.NodeBuilder], want: dict[str, int]
) -> None:
    assert preferences.totals(pod.read(), [node.read() for node in nodes]) == want


def test_added_wishes_count_like_the_pods_own() -> None:
    wish = nodeselector.Preference(weight=5, term=nodeselector.read_term(SSD))
    options = check.Options(added_affinity=nodeselector.Affinity(preferred=(wish,)))
    nodes = [PLAIN.read(), GOOD.read()]
    assert preferences.totals(POD.read(), nodes, options) == {"plain": 300, "good": 500}


@given(st.lists(st.tuples(st.integers(1, 100), st.sampled_from([SSD, ZONE])), max_size=4))
def test_scores_stay_in_bounds_and_the_best_node_gets_all(
    wishes: list[tuple[int, dict[str, object]]],
) -> None:
    pod = POD
    for weight, term in wishes:
        pod = pod.prefers(weight, term)
    nodes = [node.read() for node in (PLAIN, GOOD, BEST)]
    scores = preferences.affinity_scores(pod.read(), nodes)
    assert all(0 <= score <= 100 for score in scores.values())
    assert scores["plain"] <= scores["good"] <= scores["best"]
    assert scores["best"] == (100 if wishes else 0)
