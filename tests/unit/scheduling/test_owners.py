"""Pods on nodes that say something about others."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_operator.scheduling import owners
from tests import builders

WEB = {"matchLabels": {"app": "web"}}
PLAIN = builders.pod("web").label("app", "web")
WISHES = "preferredDuringSchedulingIgnoredDuringExecution"
Said = dict[tuple[str, str], int]


def wish(
    pod: builders.PodBuilder, weight: int, *, away: bool = False, **term: Any
) -> builders.PodBuilder:
    kind = "podAntiAffinity" if away else "podAffinity"
    written = {"labelSelector": WEB, "topologyKey": "zone", **term}
    return pod.append(
        f"spec.affinity.{kind}.{WISHES}", {"weight": weight, "podAffinityTerm": written}
    )


def said(known: owners.Owners, pod: builders.PodBuilder = PLAIN) -> Said:
    total: Said = {}
    for key, weights in known.about(pod.read(), {"default": {}}):
        for node, weight in weights.items():
            total[key, node] = total.get((key, node), 0) + weight
    return total


def repeller(name: str, key: str = "zone", **more: Any) -> builders.PodBuilder:
    return builders.pod(name).repels(WEB, key, **more)


@pytest.mark.parametrize(
    ("known", "want"),
    [
        pytest.param([], {}, id="nobody minds"),
        pytest.param([(repeller("a"), "n1")], {("zone", "n1"): 1}, id="one does"),
        pytest.param(
            [(repeller("a"), "n1"), (repeller("b"), "n1"), (repeller("c"), "n2")],
            {("zone", "n1"): 2, ("zone", "n2"): 1},
            id="equal terms are counted per node",
        ),
        pytest.param(
            [(repeller("a", namespaces=["other"]), "n1")], {}, id="another namespace is meant"
        ),
        pytest.param(
            [(repeller("a", namespaces=["other", "default"]), "n1")],
            {("zone", "n1"): 1},
            id="among others its own",
        ),
        pytest.param(
            [(repeller("a", namespaceSelector={}), "n1")], {("zone", "n1"): 1}, id="all are meant"
        ),
        pytest.param(
            [(builders.pod("a").repels({"matchLabels": {"app": "db"}}, "zone"), "n1")],
            {},
            id="other pods are meant",
        ),
    ],
)
def test_whom_the_pod_would_disturb(
    known: list[tuple[builders.PodBuilder, str]], want: Said
) -> None:
    found = owners.Owners(owners.repelling)
    for pod, node in known:
        found.add(pod.read(), node)
    assert said(found) == want


def test_wishes_weigh_and_a_required_term_is_a_small_one() -> None:
    found = owners.Owners(owners.wishing)
    required = builders.pod("a").put(
        "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution",
        [{"labelSelector": WEB, "topologyKey": "zone"}],
    )
    found.add(wish(required, 5).read(), "n1")
    found.add(wish(builders.pod("b"), 7, away=True).read(), "n2")
    found.add(builders.pod("c").read(), "n2")
    assert said(found) == {("zone", "n1"): 6, ("zone", "n2"): -7}


def test_only_selectors_of_namespaces_need_their_labels() -> None:
    found = owners.Owners(owners.repelling)
    found.add(repeller("a", namespaceSelector={}).read(), "n")
    assert not found.reads_namespaces
    found.add(repeller("b", namespaceSelector={"matchLabels": {"a": "b"}}).read(), "n")
    assert found.reads_namespaces


POOL = [
    wish(builders.pod("a"), 3),
    wish(builders.pod("b"), 3, away=True),
    wish(builders.pod("c"), 2, topologyKey="host"),
    wish(wish(builders.pod("d"), 3), 3, away=True),
    repeller("e"),
]


@given(st.lists(st.tuples(st.sampled_from(POOL), st.sampled_from(["n1", "n2"])), max_size=14))
def test_whoever_comes_and_goes_the_sums_are_those_of_who_is_there(
    steps: list[tuple[builders.PodBuilder, str]],
) -> None:
    found = owners.Owners(owners.wishing)
    there: dict[str, tuple[builders.PodBuilder, str]] = {}
    for pod, node in steps:
        known = there.pop(pod.read().uid, None)
        if known is None:
            found.add(pod.read(), node)
            there[pod.read().uid] = (pod, node)
        else:
            found.drop(known[0].read(), known[1])
    afresh = owners.Owners(owners.wishing)
    for pod, node in there.values():
        afresh.add(pod.read(), node)
    assert {k: v for k, v in said(found).items() if v} == {
        k: v for k, v in said(afresh).items() if v
    }
    assert len(found) == len(afresh)
