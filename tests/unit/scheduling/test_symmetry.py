"""Pods on nodes that do not want others near."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_operator.scheduling import filters
from hami_operator.scheduling.filters import symmetry
from hami_operator.scheduling.rejection import Rejection
from tests import builders
from tests.unit.scheduling.test_filters import View

LABELS: Mapping[str, Mapping[str, str]] = {
    "n1": {"zone": "z1", "host": "n1"},
    "n2": {"zone": "z1", "host": "n2"},
    "n3": {"zone": "z2", "host": "n3"},
    "n4": {},
}
WEB = {"matchLabels": {"app": "web"}}
PLAIN = builders.pod("web").label("app", "web")


def labels_of(name: str) -> Mapping[str, str]:
    return LABELS.get(name, {})


def owner(name: str, key: str = "zone", selector: Any = WEB) -> builders.PodBuilder:
    return builders.pod(name).repels(selector, key)


@pytest.mark.parametrize(
    ("owners", "want"),
    [
        pytest.param([], set(), id="nobody minds"),
        pytest.param([(owner("a"), "n1")], {("zone", "z1")}, id="a zone is closed"),
        pytest.param(
            [(owner("a"), "n1"), (owner("b"), "n3")],
            {("zone", "z1"), ("zone", "z2")},
            id="equal terms on two nodes",
        ),
        pytest.param([(owner("a", "host"), "n2")], {("host", "n2")}, id="a host is closed"),
        pytest.param([(owner("a"), "n4")], set(), id="a node without the key closes nothing"),
        pytest.param([(owner("a"), "gone")], set(), id="an unknown node closes nothing"),
        pytest.param(
            [(owner("a", selector={"matchLabels": {"app": "db"}}), "n1")], set(), id="others meant"
        ),
        pytest.param([(builders.pod("a"), "n1")], set(), id="no terms"),
        pytest.param(
            [(owner("a", "host").repels({}, "zone"), "n1")],
            {("host", "n1"), ("zone", "z1")},
            id="each term counts",
        ),
    ],
)
def test_places(owners: list[tuple[builders.PodBuilder, str]], want: set[tuple[str, str]]) -> None:
    known = symmetry.Owners()
    for pod, node in owners:
        known.add(pod.read(), node)
    assert known.places(PLAIN.read(), labels_of) == want


def test_removal_undoes_addition_and_may_come_twice() -> None:
    known = symmetry.Owners()
    first, second = owner("a").read(), owner("b").read()
    known.add(first, "n1")
    known.add(second, "n1")
    known.remove(first.uid)
    known.remove(first.uid)
    assert len(known) == 1
    assert known.places(PLAIN.read(), labels_of) == {("zone", "z1")}
    known.remove(second.uid)
    assert (len(known), known.places(PLAIN.read(), labels_of)) == (0, frozenset())


def test_a_pod_seen_again_replaces_what_was_known() -> None:
    known = symmetry.Owners()
    known.add(owner("a").read(), "n1")
    known.add(owner("a").read(), "n3")
    assert known.places(PLAIN.read(), labels_of) == {("zone", "z2")}
    known.add(builders.pod("a").read(), "n3")
    assert len(known) == 0


def test_the_plan_rejects_the_whole_domain() -> None:
    plan = filters.plan(PLAIN.read(), repelled=frozenset({("zone", "z1")}))
    rejected = Rejection(
        plugin="InterPodAffinity",
        texts=("node(s) didn't satisfy existing pods anti-affinity rules",),
        resolvable=True,
    )
    answers = {}
    for name, labels in LABELS.items():
        node = builders.roomy(name).put("metadata.labels", dict(labels)).read()
        answers[name] = plan.run(View(node=node))
    assert answers == {"n1": rejected, "n2": rejected, "n3": None, "n4": None}


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "c"]),
            st.sampled_from(["zone", "host"]),
            st.sampled_from(sorted(LABELS)),
            st.booleans(),
        ),
        max_size=12,
    )
)
def test_the_index_agrees_with_a_plain_list(steps: list[tuple[str, str, str, bool]]) -> None:
    known = symmetry.Owners()
    plain: dict[str, tuple[str, str]] = {}
    for name, key, node, is_added in steps:
        pod = owner(name, key).read()
        if is_added:
            known.add(pod, node)
            plain[name] = (key, node)
        else:
            known.remove(pod.uid)
            plain.pop(name, None)
    want = {(key, LABELS[node][key]) for key, node in plain.values() if key in LABELS[node]}
    assert known.places(PLAIN.read(), labels_of) == want
    assert len(known) == len(plain)
