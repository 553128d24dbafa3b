"""Scores of nodes and cards, and the order of cards."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_operator.devices import request, usage
from hami_operator.protocol import register
from hami_operator.scheduling import policy, scores, snapshot
from hami_operator.scheduling.policy import Criterion

ONES = policy.Weights()


def card(
    used: tuple[int, int],
    cores: tuple[int, int],
    memory: tuple[int, int],
    **facts: int | str,
) -> usage.CardUsage:
    """Used and total of slots, cores and memory."""
    record = register.Card(
        id="c",
        count=used[1],
        cores=cores[1],
        memory_mib=memory[1],
        **facts,  # type: ignore[arg-type]
    )
    return usage.CardUsage(record, usage.Usage(used[0], memory[0], cores[0]))


def wants(
    memory_mib: int = 0, cores: int = 0, *, count: int = 1, percent: int | None = None
) -> request.Request:
    return request.Request(
        word="NVIDIA", count=count, memory_mib=memory_mib, cores=cores, percent=percent
    )


D1 = card((1, 10), (25, 100), (2000, 8000))
EMPTY = card((0, 10), (0, 100), (0, 8000))
D4 = card((1, 10), (75, 100), (6000, 8000))
HALF = card((5, 10), (50, 100), (4000, 8000))
A = card((1, 10), (90, 100), (10, 100))
B = card((7, 10), (10, 100), (20, 100))
FOUR = [
    card((8, 10), (80, 100), (32768, 40960)),
    card((6, 10), (60, 100), (24576, 40960)),
    card((2, 10), (20, 100), (8192, 40960)),
    card((0, 10), (0, 100), (0, 40960)),
]
PAIR = [card((1, 10), (10, 100), (8000, 16000)), card((1, 10), (10, 100), (16000, 32000))]
MEMORY_HEAVY = policy.Weights(slot=1, core=1, memory=3)
CORE_HEAVY = policy.Weights(slot=1, core=3, memory=1)


@pytest.mark.parametrize(
    ("cards", "weights", "wanted", "want_without", "want_with"),
    [
        pytest.param([D1, EMPTY], ONES, wants(1000, 20), [6, 0], [10.25, 4.25], id="N1"),
        pytest.param([EMPTY, D4], ONES, wants(1000, 20), [0, 16], [4.25, 20.25], id="N2"),
        pytest.param([A, B], ONES, wants(percent=40), [11, 10], [16, 15], id="a percent"),
        pytest.param(
            [A, B], MEMORY_HEAVY, wants(percent=40), [13, 14], [26, 27], id="memory counts thrice"
        ),
        pytest.param(
            [A, B], CORE_HEAVY, wants(percent=40), [29, 12], [34, 17], id="cores count thrice"
        ),
        pytest.param(
            [card((2, 10), (1, 4), (2048, 8192))],
            ONES,
            wants(1024, 1, count=4),
            [7],
            [11.75],
            id="the number of cards is not counted",
        ),
        pytest.param(
            [card((0, 10), (0, 10), (0, 10000))],
            ONES,
            wants(cores=2, percent=50),
            [0],
            [8],
            id="an empty card of ten cores",
        ),
        pytest.param(
            FOUR, ONES, wants(4096, 10), [24, 18, 6, 0], [27, 21, 9, 3], id="the four of D15"
        ),
        pytest.param(
            PAIR, ONES, wants(8000, 20), [7, 7], [15, 12.5], id="two sizes, equally full before"
        ),
        pytest.param([HALF], ONES, wants(0, 0, percent=0), [15], [16], id="half of everything"),
    ],
)
def test_golden_numbers_of_cards(
    cards: Sequence[usage.CardUsage],
    weights: policy.Weights,
    wanted: request.Request,
    want_without: list[float],
    want_with: list[float],
) -> None:
    assert [round(scores.card(one, weights, None), 2) for one in cards] == want_without
    assert [round(scores.card(one, weights, wanted), 2) for one in cards] == want_with


@pytest.mark.parametrize(
    ("cards", "want"),
    [
        pytest.param([D1, EMPTY], 3, id="N1"),
        pytest.param([EMPTY, D4], 8, id="N2"),
        pytest.param([HALF], 15, id="one card, half full"),
        pytest.param([HALF, EMPTY], 7.5, id="the same beside an empty one"),
        pytest.param(
            [card((50, 100), (100, 100), (100, 100)), card((75, 150), (200, 200), (200, 200))],
            25,
            id="sums, not means",
        ),
        pytest.param([], 0, id="no card"),
        pytest.param([card((5, 10), (0, 0), (10, 10))], 0, id="no cores at all"),
    ],
)
def test_golden_numbers_of_nodes(cards: list[usage.CardUsage], want: float) -> None:
    assert round(scores.node(snapshot.totals({"NVIDIA": tuple(cards)})), 2) == want


@pytest.mark.parametrize(
    "empty",
    [
        pytest.param(card((0, 0), (0, 100), (0, 100)), id="no slots"),
        pytest.param(card((0, 10), (0, 0), (0, 100)), id="no cores"),
        pytest.param(card((0, 10), (0, 100), (0, 0)), id="no memory"),
    ],
)
def test_a_card_without_one_of_the_three_scores_0(empty: usage.CardUsage) -> None:
    assert scores.card(empty, ONES, wants(1000, 10)) == 0


def test_what_is_booked_of_a_card() -> None:
    assert scores.booked_mib(wants(3000, percent=50), 8000) == 3000
    assert scores.booked_mib(wants(percent=33), 8000) == 2640
    assert scores.booked_mib(wants(percent=33), 100) == 33
    assert scores.booked_mib(wants(), 8000) == 0


def listed(*facts: tuple[str, int, int, int]) -> list[usage.CardUsage]:
    """Cards from (id, index, numa, used), sorted as registers are."""
    cards = [
        usage.CardUsage(register.Card(id=name, index=index, numa=numa), usage.Usage(used))
        for name, index, numa, used in facts
    ]
    return sorted(cards, key=lambda one: (one.card.index, one.card.id))


SCORES = {"a": 5.0, "b": 5.0, "c": 7.0, "d": 1.0}
MIXED = listed(("a", 0, 0, 3), ("b", 1, 1, 2), ("c", 2, 0, 1), ("d", 2, -1, 0))


@pytest.mark.parametrize(
    ("criteria", "want"),
    [
        pytest.param([Criterion.HIGHEST_SCORE, Criterion.HIGHEST_NUMA], "cbad", id="fullest"),
        pytest.param([Criterion.LOWEST_SCORE, Criterion.HIGHEST_NUMA], "dbac", id="emptiest"),
        pytest.param([Criterion.LOWEST_SCORE], "dbac", id="ties go to the highest index"),
        pytest.param([Criterion.HIGHEST_NUMA], "bcad", id="unknown NUMA is below 0"),
        pytest.param([Criterion.LOWEST_NUMA, Criterion.HIGHEST_SCORE], "dcab", id="NUMA first"),
        pytest.param([Criterion.FEWEST_USED], "dcba", id="fewest slots used"),
        pytest.param([], "dcba", id="nothing decides: index, then id, both from the highest"),
    ],
)
def test_cards_are_ordered(criteria: list[Criterion], want: str) -> None:
    ordered = scores.order(MIXED, criteria, lambda one: SCORES[one.card.id])
    assert "".join(one.card.id for one in ordered) == want


def test_each_score_is_asked_once() -> None:
    asked: list[str] = []

    def score(one: usage.CardUsage) -> float:
        asked.append(one.card.id)
        return 0.0

    scores.order(MIXED, [Criterion.LOWEST_SCORE], score)
    assert sorted(asked) == ["a", "b", "c", "d"]


AMOUNTS = st.integers(min_value=0, max_value=2**31 - 1)


@given(st.lists(st.tuples(AMOUNTS, AMOUNTS, AMOUNTS), min_size=1, max_size=6), st.randoms())
def test_the_order_of_summing_changes_no_node_score(
    amounts: list[tuple[int, int, int]], chance: random.Random
) -> None:
    cards = [card((used, 7), (cores, 11), (memory, 13)) for used, cores, memory in amounts]
    mixed = cards[:]
    chance.shuffle(mixed)
    assert scores.node(snapshot.totals({"a": tuple(cards)})) == scores.node(
        snapshot.totals({"b": tuple(mixed[:1]), "a": tuple(mixed[1:])})
    )


@given(st.lists(st.tuples(st.integers(-1, 3), st.integers(0, 3), st.floats(0, 30)), max_size=8))
def test_an_order_is_a_permutation_and_leaves_its_input(
    facts: list[tuple[int, int, float]],
) -> None:
    cards = listed(*((str(at), at, numa, used) for at, (numa, used, _) in enumerate(facts)))
    before = list(cards)
    values = {str(at): score for at, (_, _, score) in enumerate(facts)}
    for criteria in ([Criterion.HIGHEST_SCORE], [Criterion.LOWEST_NUMA, Criterion.LOWEST_SCORE]):
        ordered = scores.order(cards, criteria, lambda one: values[one.card.id])
        assert sorted(ordered, key=lambda one: one.card.index) == before == cards


def test_scores_are_compared_at_six_decimals() -> None:
    assert scores.rounded(1.00000049) == scores.rounded(1.0)
    thirds = dataclasses.replace(EMPTY, usage=usage.Usage(1, 0, 0))
    assert scores.card(thirds, ONES, None) == 1.0
