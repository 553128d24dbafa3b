"""The choice of victims, on nodes that are nothing but numbers."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_operator.scheduling import disruption, preemption, rank
from hami_operator.scheduling import pod as pods
from tests import builders

NOBODY = disruption.Budgets()


@dataclasses.dataclass
class Bench:
    """A node with cards: who holds how much of which, and how much of one card is wanted."""

    node: str
    cards: list[dict[str, int]]
    known: Mapping[str, pods.Pod]
    wanted: int
    size: int = 100
    asked: int = 0
    empties: bool = False

    @property
    def movable(self) -> list[pods.Pod]:
        return sorted(self.known.values(), key=rank.importance)

    @property
    def groups(self) -> list[frozenset[str]]:
        return [frozenset(card) for card in self.cards]

    def share(self, uid: str) -> int:
        return next(card[uid] for card in self.cards if uid in card)

    def fits(self, gone: frozenset[str]) -> bool:
        self.asked += 1
        return any(
            self.size - sum(held for uid, held in card.items() if uid not in gone) >= self.wanted
            for card in self.cards
        )


def bench(*cards: Iterable[tuple[str, int, int]], wanted: int = 50, node: str = "n") -> Bench:
    """Cards of (name, amount, priority)."""
    made = [
        builders.pod(name).priority(priority).label("name", name).read()
        for card in cards
        for name, _, priority in card
    ]
    held = [{f"uid-{name}": amount for name, amount, _ in card} for card in cards]
    return Bench(node=node, cards=held, known={one.uid: one for one in made}, wanted=wanted)


def least(node: Bench, budgets: disruption.Budgets = NOBODY) -> preemption.Victims | None:
    """All that is done for one node."""
    return preemption.choose([node], budgets, enough=1)[0]


def names(victims: preemption.Victims | None) -> list[str] | None:
    return None if victims is None else [one.name for one in victims.pods]


def protecting(name: str, allowed: int = 0) -> disruption.Budgets:
    made = disruption.Budgets()
    made.seen(
        {
            "metadata": {"namespace": "default", "name": name},
            "spec": {"selector": {"matchLabels": {"name": name}}},
            "status": {"disruptionsAllowed": allowed},
        }
    )
    return made


@pytest.mark.parametrize(
    ("node", "want"),
    [
        pytest.param(bench([("a", 90, 0)]), ["a"], id="the only one"),
        pytest.param(bench([("a", 90, 0)], wanted=101), None, id="not even all are enough"),
        pytest.param(bench([("a", 40, 0)]), [], id="nobody where it fits as it is"),
        pytest.param(
            bench([("a", 30, 2), ("b", 30, 1), ("c", 30, 0)]), ["b", "c"], id="the least important"
        ),
        pytest.param(
            bench([("a", 90, 5)], [("b", 45, 1), ("c", 45, 1)]),
            ["c"],
            id="one of two, if that is enough",
        ),
        pytest.param(
            bench([("a", 99, 1)], [("b", 33, 1), ("c", 33, 1), ("d", 33, 1)], wanted=60),
            ["a"],
            id="one that fills its card rather than two of equal priority",
        ),
    ],
)
def test_who_goes_from_a_node(node: Bench, want: list[str] | None) -> None:
    assert names(least(node)) == want


def test_the_protected_go_last_and_are_counted() -> None:
    node = bench([("a", 90, 0)], [("b", 90, 7)])
    assert names(least(node, protecting("a"))) == ["b"]
    only = least(bench([("a", 90, 0)]), protecting("a"))
    assert only is not None
    assert (names(only), only.violations) == (["a"], 1)


@pytest.mark.parametrize(
    ("first", "second", "want"),
    [
        pytest.param([("a", 90, 5)], [("b", 90, 4)], "second", id="the lower priority"),
        pytest.param([("a", 60, 4), ("b", 40, 1)], [("c", 90, 4)], "second", id="the smaller sum"),
        pytest.param(
            [("a", 50, -1), ("b", 50, -1)],
            [("c", 90, -1)],
            "second",
            id="fewer victims, also of negative priority",
        ),
        pytest.param([("a", 90, 4)], [("c", 90, 4)], "first", id="the first of equals"),
        pytest.param([("a", 90, 4)], [("c", 10, 4)], "second", id="nobody at all"),
    ],
)
def test_which_node_is_chosen(
    first: list[tuple[str, int, int]], second: list[tuple[str, int, int]], want: str
) -> None:
    benches = [
        bench(first, node="first", wanted=70),
        dataclasses.replace(bench(second, node="second", wanted=70), empties=True),
        bench([("z", 90, 0)], node="never", wanted=101),
    ]
    best, _ = preemption.choose(benches, NOBODY, enough=100)
    assert best is not None
    assert best.node == want


def test_a_broken_budget_costs_more_than_anything_else() -> None:
    benches = [bench([("a", 90, 0)], node="n1"), bench([("b", 90, 9)], node="n2")]
    best, helpless = preemption.choose(benches, protecting("a"), enough=100)
    assert (names(best), helpless) == (["b"], frozenset())


def test_no_more_nodes_are_tried_than_are_enough() -> None:
    benches = [bench([("a", 90, 9 - number)], node=f"n{number}") for number in range(5)]
    best, _ = preemption.choose(iter(benches), NOBODY, enough=2)
    assert best is not None
    assert best.node == "n1"
    assert [bool(one.asked) for one in benches] == [True, True, False, False, False]


def test_nodes_that_do_not_help_are_named() -> None:
    benches = [bench([("a", 90, 0)], node=f"n{number}", wanted=101) for number in range(2)]
    best, helpless = preemption.choose(benches, NOBODY, enough=2)
    assert best is None
    assert helpless == {"n0", "n1"}
    assert preemption.explain(["n0", "n1", "n2"], helpless) == (
        "preemption: 0/3 nodes are available: 1 Preemption is not helpful for scheduling, "
        "2 No preemption victims found for incoming pod."
    )


def test_few_questions_are_asked_of_a_full_node() -> None:
    card = [[(f"p{card}-{number}", 10, 0) for number in range(10)] for card in range(8)]
    node = bench(*card, wanted=10)
    assert names(least(node)) == ["p7-9"]
    assert node.asked <= 20


_cards = st.lists(
    st.lists(st.tuples(st.integers(1, 100), st.integers(0, 3)), max_size=4), min_size=1, max_size=3
)


def _node(cards: list[list[tuple[int, int]]], wanted: int) -> Bench:
    named = [
        [(f"p{at}-{number}", amount, priority) for number, (amount, priority) in enumerate(card)]
        for at, card in enumerate(cards)
    ]
    return bench(*named, wanted=wanted)


@given(cards=_cards, wanted=st.integers(1, 120))
def test_what_goes_is_enough_and_nobody_goes_in_vain(
    cards: list[list[tuple[int, int]]], wanted: int
) -> None:
    node = _node(cards, wanted)
    victims = least(node)
    if victims is None:
        assert not node.fits(frozenset(node.known))
        return
    assert node.fits(victims.uids)
    assert not any(node.fits(victims.uids - {one}) for one in victims.uids)


@given(cards=_cards, wanted=st.integers(1, 100))
def test_no_set_of_one_card_costs_less_by_priority(
    cards: list[list[tuple[int, int]]], wanted: int
) -> None:
    """The highest priority that goes is as low as can be, and so is the whole cost of one card."""
    node = _node(cards, wanted)
    victims = least(node)
    assert victims is not None
    sets = [
        preemption.Victims(node="n", pods=tuple(node.known[uid] for uid in some), violations=0)
        for number in range(len(node.known) + 1)
        for some in itertools.combinations(node.known, number)
        if node.fits(frozenset(some))
    ]
    assert victims.cost[:2] == min(one.cost for one in sets)[:2]


@given(cards=_cards, wanted=st.integers(1, 100), protected=st.sets(st.integers(0, 3)))
def test_putting_back_many_at_once_comes_to_the_same_as_one_by_one(
    cards: list[list[tuple[int, int]]], wanted: int, protected: set[int]
) -> None:
    node = _node(cards, wanted)
    order = [one for number, one in enumerate(node.movable) if number not in protected]
    gone = frozenset(node.known)
    found, left = preemption._put_back(node, order, gone)
    for one in order:
        if node.fits(gone - {one.uid}):
            gone -= {one.uid}
    assert left == gone
    assert [one.uid for one in found] == [one.uid for one in order if one.uid in gone]


@given(
    st.lists(st.lists(st.tuples(st.integers(1, 90), st.integers(0, 2)), max_size=4), max_size=5),
    st.integers(10, 100),
    st.booleans(),
)
def test_leaving_out_nodes_that_cannot_be_best_comes_to_the_same(
    drawn: list[list[tuple[int, int]]], wanted: int, empties: bool
) -> None:
    def nodes() -> list[Bench]:
        named = [
            [(f"p{at}-{number}", amount, priority) for number, (amount, priority) in each]
            for at, each in enumerate(map(enumerate, drawn))
        ]
        return [
            dataclasses.replace(bench(card, wanted=wanted, node=f"n{at}"), empties=empties)
            for at, card in enumerate(named)
            if sum(amount for _, amount, _ in card) > 100 - wanted
        ]

    costs = [one.cost for node in nodes() if (one := preemption.spare(node, NOBODY)) is not None]
    best, _ = preemption.choose(nodes(), NOBODY, enough=100)
    assert (best.cost if best is not None else None) == min(costs, default=None)


def test_a_node_whose_pods_cannot_cost_less_is_asked_once() -> None:
    benches = [bench([("a", 90, 0), ("b", 5, 0)], node=f"n{number}") for number in range(3)]
    best, _ = preemption.choose(benches, NOBODY, enough=100)
    assert best is not None
    assert (best.node, [one.asked for one in benches[1:]]) == ("n0", [1, 1])


def test_a_node_where_it_is_enough_to_wait_is_found_behind_others() -> None:
    leaving = dataclasses.replace(bench([("b", 5, 0)], node="n1"), empties=True)
    best, _ = preemption.choose([bench([("a", 90, 0)], node="n0"), leaving], NOBODY, enough=100)
    assert best == preemption.Victims(node="n1", pods=(), violations=0)
