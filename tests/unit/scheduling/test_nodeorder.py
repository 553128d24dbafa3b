"""Asking nodes in order until one takes the pod chooses what asking all of them chooses."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings, strategies

from hami_operator import settings as config
from hami_operator.devices import registry, usage, vendor
from hami_operator.scheduling import cycle, demand, nodeorder, outcomes, quota, snapshot
from tests import builders, moments

NAMES = ("n0", "n1", "n2", "n3", "n4", "n5")
POLICY = "hami.io/node-scheduler-policy"
REGISTRY = registry.default()


def view(
    name: str,
    *taken: tuple[int, int],
    taint: str = "",
    zone: str = "a",
    cordoned: bool = False,
) -> snapshot.NodeView:
    """A node with one card per pair of slots and GiB that are taken of it."""
    made = builders.roomy(name).label("zone", zone)
    if taint:
        made = made.taint("t", effect=taint)
    record = (made.cordoned() if cordoned else made).read()
    cards = builders.cards(len(taken), word=name)
    pairs = zip(cards, taken, strict=True)
    used = (usage.CardUsage(card, usage.Usage(one, gib << 10)) for card, (one, gib) in pairs)
    listed = {"NVIDIA": tuple(used)} if taken else {}
    return snapshot.NodeView(node=record, cards=listed, base=snapshot.totals(listed))


def decide(
    pod: builders.PodBuilder,
    views: tuple[snapshot.NodeView, ...],
    order: nodeorder.Order | None = None,
    *,
    memo: outcomes.Memo | None = None,
    rows: registry.Registry = REGISTRY,
    accounts: quota.Accounts | None = None,
) -> cycle.Placed | cycle.Unplaced:
    read = pod.read()
    return cycle.run(
        read,
        demand.read(read, rows),
        views,
        rules=cycle.Rules.of(rows, config.Settings()),
        now=moments.at(0),
        accounts=accounts,
        memo=memo,
        order=order,
    )


def pod(count: int = 1, mem: int = 1000) -> builders.PodBuilder:
    limits = {"nvidia.com/gpu": count, "nvidia.com/gpumem": mem}
    return builders.pod("p").container(limits=limits)


@strategies.composite
def node_views(draw: strategies.DrawFn, name: str) -> snapshot.NodeView:
    card = strategies.tuples(strategies.sampled_from([0, 1, 1, 5, 10]), strategies.just(0))
    taken = draw(strategies.lists(card | strategies.just((2, 30)), max_size=3))
    taint = draw(strategies.sampled_from(["", "", "", "NoSchedule", "PreferNoSchedule"]))
    zone = draw(strategies.sampled_from("ab"))
    return view(name, *taken, taint=taint, zone=zone, cordoned=draw(strategies.booleans()))


@strategies.composite
def clusters(draw: strategies.DrawFn) -> tuple[snapshot.NodeView, ...]:
    names = draw(strategies.sets(strategies.sampled_from(NAMES)))
    return tuple(draw(node_views(name)) for name in sorted(names))


@strategies.composite
def wanting(draw: strategies.DrawFn) -> builders.PodBuilder:
    made = pod(draw(strategies.integers(1, 3)), draw(strategies.sampled_from([1000, 20000])))
    made = made.annotate({POLICY: draw(strategies.sampled_from(["binpack", "spread"]))})
    if draw(strategies.booleans()):
        made = made.toleration("t", operator="Exists")
    if draw(strategies.booleans()):
        made = made.prefers(1, builders.expression("zone", "In", "b"))
        weight = draw(strategies.sampled_from([1, 2, 100]))
        made = made.prefers(weight, builders.pin(draw(strategies.sampled_from(NAMES))))
    return made


ACCOUNTS = strategies.sampled_from([None, quota.Account(memory_mib=20000, used=usage.UNUSED)])


@settings(deadline=None, max_examples=60)
@given(strategies.lists(strategies.tuples(clusters(), wanting(), ACCOUNTS), min_size=1))
def test_the_choice_is_that_of_asking_all_nodes(looks: list[Any]) -> None:
    """The order and the remembered answers outlive each look; part of the nodes stays."""
    order, memo = nodeorder.Order(), outcomes.Memo()
    known: dict[str, snapshot.NodeView] = {}
    for cluster, wanted, account in looks:
        for each in cluster[::2]:
            known.pop(each.name, None)
        views = tuple(known.setdefault(each.name, each) for each in cluster)
        accounts = (lambda _, one=account: one) if account is not None else None
        quick = decide(wanted, views, order, memo=memo, accounts=accounts)
        full = decide(wanted, views, accounts=accounts)
        if isinstance(full, cycle.Unplaced):
            assert quick == full
            assert list(quick.rejections) == list(full.rejections)
        else:
            assert isinstance(quick, cycle.Placed)
            asked = dataclasses.replace(full, scores=quick.scores, rejections=quick.rejections)
            assert quick == asked
            assert quick.scores.items() <= full.scores.items()
            assert quick.rejections.items() <= full.rejections.items()


ANYWAY = {
    "maxSkew": 1,
    "topologyKey": "zone",
    "whenUnsatisfiable": "ScheduleAnyway",
    "labelSelector": {},
}
THREE = (view("a", (1, 0)), view("b", (5, 0)), view("c", (10, 0)))


@pytest.mark.parametrize(
    ("built", "views", "want"),
    [
        pytest.param(pod(), THREE, {"b"}, id="binpack: the full one is asked in vain"),
        pytest.param(pod().annotate({POLICY: "spread"}), THREE, {"a"}, id="spread"),
        pytest.param(
            pod().prefers(1, builders.pin("a")),
            THREE,
            {"a"},
            id="what the pod prefers comes first",
        ),
        pytest.param(
            pod().put("spec.topologySpreadConstraints", [ANYWAY]),
            THREE,
            {"a", "b"},
            id="the pod would like to be away from others: all are asked",
        ),
        pytest.param(
            pod(),
            (*THREE, view("d", (9, 0), taint="PreferNoSchedule")),
            {"a", "b", "d"},
            id="a node would rather not: all are asked",
        ),
    ],
)
def test_no_more_nodes_are_asked_than_the_choice_needs(
    built: builders.PodBuilder, views: tuple[snapshot.NodeView, ...], want: set[str]
) -> None:
    outcome = decide(built, views, nodeorder.Order())
    assert isinstance(outcome, cycle.Placed)
    assert outcome.scores.keys() == want


def test_a_row_with_a_score_of_its_own_is_asked_on_all_nodes() -> None:
    hooks = vendor.Hooks(score=lambda row, facts: 100.0 if facts.before[0].usage.used == 1 else 0)
    row = dataclasses.replace(REGISTRY.by_word["NVIDIA"], hooks=hooks)
    outcome = decide(pod(), THREE, nodeorder.Order(), rows=registry.build([row]))
    assert isinstance(outcome, cycle.Placed)
    assert outcome.node == "a"
    assert outcome.scores.keys() == {"a", "b"}


def test_a_type_that_nobody_configured_is_refused_by_all_nodes() -> None:
    rows = registry.build([REGISTRY.by_word["MLU"]])
    read = pod().read()
    outcome = cycle.run(
        read,
        demand.read(read, REGISTRY),
        THREE,
        rules=cycle.Rules.of(rows, config.Settings()),
        now=moments.at(0),
        order=nodeorder.Order(),
    )
    assert list(outcome.rejections) == ["a", "b", "c"]


@given(strategies.lists(clusters(), min_size=1))
def test_the_order_is_that_of_the_nodes_shown_last(looks: list[Any]) -> None:
    order = nodeorder.Order()
    for views in looks:
        order.show(views)
        fresh = nodeorder.Order()
        fresh.show(views)
        for policy in ("binpack", "spread"):
            assert list(order.by(policy)) == list(fresh.by(policy))
        assert {each.name for each in order.by("spread")} == {each.name for each in views}
        assert order.deters == fresh.deters == any(each.node.deterring for each in views)
