"""Pods on nodes as others see them: whatever happened, equal to a look at all of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_operator.scheduling import fields, labels, neighbours, tallies
from hami_operator.scheduling import pod as pods
from tests import builders

WEB = labels.read({"matchLabels": {"app": "web"}})
ANY = labels.read({})


def volume(name: str) -> dict[str, Any]:
    return {"name": name, "persistentVolumeClaim": {"claimName": name}}


def port(number: int) -> list[dict[str, int]]:
    return [{"containerPort": number, "hostPort": number}]


POOL = [
    builders.pod("web-1").label("app", "web").container(requests={"cpu": "1"}),
    builders.pod("web-2").label("app", "web").terminating(),
    builders.pod("web-3", "team").label("app", "web").repels({"matchLabels": {"app": "web"}}, "z"),
    builders.pod("db").label("app", "db").container(ports=port(80)),
    builders.pod("store").append("spec.volumes", volume("data")).repels({}, "host"),
    builders.pod("store-2", "team").append("spec.volumes", volume("data"), volume("logs")),
]
QUESTIONS = [
    tallies.Question(scopes=(tallies.Scope(frozenset({"default"}), WEB),)),
    tallies.Question(scopes=(tallies.Scope(frozenset({"default"}), WEB),), staying=True),
    tallies.Question(scopes=(tallies.Scope(None, WEB),)),
    tallies.Question(
        scopes=(tallies.Scope(frozenset({"team"}), ANY), tallies.Scope(None, WEB)),
    ),
    tallies.Question(scopes=(tallies.Scope(frozenset({"default", "team"}), ANY),)),
    tallies.Question(scopes=(tallies.Scope(frozenset({"default"}), labels.NOTHING),)),
    tallies.Question(scopes=()),
]
ASKING = builders.pod("new").label("app", "web").read()
Facts = tuple[Any, ...]


def facts(others: neighbours.Around) -> Facts:
    """All that can be asked, in a form that compares."""
    return (
        [dict(others.counts(question)) for question in QUESTIONS],
        _sums(others.repelling(ASKING, {})),
        _sums(others.wishing(ASKING, {})),
        {node: sorted(pod.uid for pod in others.holding(node) if _holds(pod)) for node in NODES},
        {node: _positive(others.load(node)) for node in NODES},
        [others.uses("default", "data"), others.uses("team", "data"), others.uses("team", "x")],
    )


NODES = ("n1", "n2")


def _holds(pod: pods.Pod) -> bool:
    return bool(pod.ports or pod.volumes.claims)


def _sums(said: neighbours.Said) -> Mapping[tuple[str, str], int]:
    total: dict[tuple[str, str], int] = {}
    for key, weights in said:
        for node, weight in weights.items():
            total[key, node] = total.get((key, node), 0) + weight
    return {place: weight for place, weight in total.items() if weight}


def made(placed: Iterable[neighbours.Placed]) -> neighbours.Neighbours:
    found = neighbours.Neighbours(lambda name: {"host": name})
    for pod, node in placed:
        found.add(pod, node)
    return found


STEPS = st.lists(
    st.tuples(st.sampled_from(POOL), st.sampled_from(["n1", "n2", ""]), st.booleans()),
    max_size=14,
)


@given(STEPS)
def test_after_any_coming_and_going_the_answers_are_those_of_who_is_there(
    steps: list[tuple[builders.PodBuilder, str, bool]],
) -> None:
    found = made(())
    there: dict[str, neighbours.Placed] = {}
    for builder, node, relabelled in steps:
        facts(found)  # asked before, so that kept answers have to follow
        pod = (builder.label("app", "web") if relabelled else builder).read()
        if node:
            found.add(pod, node)
            there[pod.uid] = (pod, node)
        else:
            assert (found.remove(pod.uid) is None) is (pod.uid not in there)
            there.pop(pod.uid, None)
    afresh = made(there.values())
    assert facts(found) == facts(afresh)
    assert len(found) == len(there)
    for node in NODES:
        assert _positive(found.load(node)) == _positive(afresh.load(node))


@given(
    st.lists(st.tuples(st.sampled_from(POOL), st.sampled_from(NODES)), max_size=8),
    st.sets(st.sampled_from([pod.read().uid for pod in POOL]), max_size=4),
    st.lists(st.tuples(st.sampled_from(POOL), st.sampled_from(NODES)), max_size=2),
)
def test_a_supposition_answers_as_if_it_had_come_true(
    placed: list[tuple[builders.PodBuilder, str]],
    gone: set[str],
    there: list[tuple[builders.PodBuilder, str]],
) -> None:
    truth = made((pod.read(), node) for pod, node in placed)
    before = facts(truth)
    guests = {pod.uid + "-guest": (pod, node) for pod, node in _read(there)}
    renamed = [(_named(pod, uid), node) for uid, (pod, node) in guests.items()]
    supposed = neighbours.Supposed(truth, gone, renamed)
    for uid in gone:
        truth.remove(uid)
    for pod, node in renamed:
        truth.add(pod, node)
    want = facts(truth)
    for pod, _ in renamed:
        truth.remove(pod.uid)
    for pod, node in _read(placed):
        if pod.uid in gone:
            truth.add(pod, node)  # the last place is the one that counts, as it was before
    assert facts(supposed) == want
    assert facts(truth) == before


def _read(placed: list[tuple[builders.PodBuilder, str]]) -> list[neighbours.Placed]:
    return [(pod.read(), node) for pod, node in placed]


def _named(pod: pods.Pod, uid: str) -> pods.Pod:
    return dataclasses.replace(pod, uid=uid)


def _positive(load: Mapping[str, int]) -> Mapping[str, int]:
    return {name: amount for name, amount in load.items() if amount}


def test_an_answer_that_is_asked_for_no_more_is_forgotten() -> None:
    kept = tallies.Tallies(limit=2)
    pod = POOL[0].read()
    kept.add(pod, "n1")
    first, second, third = QUESTIONS[:3]
    assert [dict(kept.counts(one)) for one in (first, second, third)] == [{"n1": 1}] * 3
    kept.drop(pod, "n1")
    assert [dict(kept.counts(one)) for one in (first, second, third)] == [{}] * 3


@pytest.mark.parametrize("question", QUESTIONS)
def test_nobody_counts_where_nobody_is(question: tallies.Question) -> None:
    assert made(()).counts(question) == fields.EMPTY


def test_a_status_that_changes_nothing_changes_nothing() -> None:
    found = made([(POOL[0].read(), "n1")])
    known = found.get("uid-web-1")
    found.add(POOL[0].phase("Running").read(), "n1")
    assert found.get("uid-web-1") is known
    assert "uid-web-1" in found
    assert found.node_labels("n1") == {"host": "n1"}
    assert not found.reads_namespaces()
