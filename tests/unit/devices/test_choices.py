"""Choosing among collected cards: groups, links, and instances of partitioned cards."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_operator.devices import fit, groups, links, partition, usage
from hami_operator.protocol import decision, register
from tests.unit.devices.rows import candidate, walk_of


def picks(*ids: str) -> tuple[decision.Pick, ...]:
    return tuple(decision.Pick(id=id, memory_mib=1, cores=0) for id in ids)


def ids(found: Sequence[decision.Pick]) -> str:
    return " ".join(pick.id for pick in found)


def first_letter(pick: decision.Pick) -> str | None:
    return None if pick.id.startswith("?") else pick.id[0]


# --- groups ----------------------------------------------------------------------------------


def test_groups_stand_in_the_order_of_their_first_member_and_the_lost_alone() -> None:
    found = groups.of(picks("b1", "?1", "a1", "b2", "?2"), first_letter)
    assert [ids(group) for group in found] == ["b1 b2", "?1", "a1", "?2"]


@pytest.mark.parametrize(
    ("collected", "count", "want"),
    [
        pytest.param("a1 b1 b2", 1, "a1", id="one: the first"),
        pytest.param("a1 b1 b2", 2, "b1 b2", id="two: those of the largest group"),
        pytest.param("a1 b1 b2 a2", 2, "a1 a2", id="equal groups: the first"),
        pytest.param("?1 ?2 a1 a2", 3, "a1 a2 ?1", id="the lost fill up"),
        pytest.param("b1 a1", 2, "b1 a1", id="exactly as many: in their order"),
    ],
)
def test_those_that_lie_together_are_chosen(collected: str, count: int, want: str) -> None:
    walk = walk_of(picks(*collected.split()), count)
    answer = groups.choose(walk, first_letter)
    assert isinstance(answer, fit.Fit)
    assert ids(answer.picks) == want


def test_fewer_than_wanted_are_no_choice() -> None:
    answer = groups.choose(walk_of(picks("a1"), 2), first_letter)
    assert isinstance(answer, fit.NoFit)
    assert answer.text() == "1/2 AllocatedCardsInsufficientRequest"


@pytest.mark.parametrize(
    ("given_", "want"),
    [("a1 a2 b1 b2", 0.5), ("a1 a2 a3", 1.0), ("a1 ?1", 0.0), ("", 0.0)],
)
def test_how_much_lies_together(given_: str, want: float) -> None:
    assert groups.together(picks(*given_.split()), first_letter) == want


# --- links -----------------------------------------------------------------------------------


def scores(**rows: dict[str, float]) -> str:
    return json.dumps([{"uuid": id, "score": row} for id, row in rows.items()])


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(None, {}, id="nothing"),
        pytest.param("", {}, id="blank"),
        pytest.param(scores(a={"b": 200}), {"a": {"b": 200}}, id="a pair"),
        pytest.param('[{"uuid":"a","score":{"b":"x","c":1e400}}]', {"a": {}}, id="no numbers"),
        pytest.param('[{"uuid":"a","score":[1]}]', {"a": {}}, id="no object"),
        pytest.param('{"a":1}', None, id="no list"),
        pytest.param("[1]", None, id="no entries"),
        pytest.param("[{", None, id="no JSON"),
    ],
)
def test_pair_scores_are_read_as_far_as_they_go(text: str | None, want: object) -> None:
    found = links.read(text)
    assert (found if found is None else dict(found)) == want


TABLE = st.lists(st.integers(-3, 3), min_size=36, max_size=36)


def table(values: Sequence[int], size: int) -> links.Scores:
    cells = iter(values)
    return {
        str(one): {str(other): next(cells) for other in range(size) if other != one}
        for one in range(size)
    }


@given(TABLE, st.integers(2, 6), st.integers(1, 6))
def test_the_best_set_is_what_trying_all_of_them_gives(
    values: list[int], size: int, number: int
) -> None:
    known, number = table(values, size), min(size, number)
    cards = picks(*map(str, range(size)))

    def total(some: Sequence[decision.Pick]) -> float:
        return sum(known[a.id][b.id] for a, b in itertools.combinations(some, 2))

    every = list(itertools.combinations(cards, number))
    assert links.best(cards, number, known) == max(every, key=total)
    worst = min(cards, key=lambda one: sum(known[one.id].values()))
    assert links.loneliest(cards, known) == worst


def test_no_more_sets_are_tried_than_the_bound_and_the_answer_is_always_the_same() -> None:
    cards = picks(*(f"{number:02}" for number in range(56)))
    known = {"00": {"55": 1.0}, "48": {"49": 100.0}}
    assert math.comb(56, 8) > links.MOST_SETS
    found = links.best(cards, 8, known)
    assert found == links.best(cards, 8, known)
    assert found[-1].id == "55", "the best within the bound"
    assert not links.exhaustive(56, 8)
    assert links.exhaustive(8, 4)


def test_without_links_the_first_set_is_taken() -> None:
    assert ids(links.best(picks("c", "b", "a"), 2, {})) == "c b"


# --- instances -------------------------------------------------------------------------------


def profile(name: str, memory_mib: int, *starts: int, size: int = 1) -> register.Profile:
    places = tuple(register.Placement(start=start, size=size) for start in starts)
    slices = int(name[0])
    return register.Profile(
        name=name, memory_mib=memory_mib, cores=14 * slices, slices=slices, placements=places
    )


A100 = (
    profile("3g.20gb", 20480, 0, 4, size=4),
    profile("1g.5gb", 5120, *range(7)),
    profile("2g.10gb", 10240, 0, 2, 4, size=2),
)
MIG = candidate("GPU-a", count=7, memory_mib=40960, mode="mig", mig_profiles=A100)


@pytest.mark.parametrize(
    ("wanted", "taken", "want"),
    [
        pytest.param(20480, [], ("3g.20gb", 4), id="3g from the end"),
        pytest.param(10000, [], ("2g.10gb", 0), id="2g from the start"),
        pytest.param(0, [], ("1g.5gb", 6), id="1g from the end"),
        pytest.param(5000, [(6, 1)], ("1g.5gb", 5), id="the next place"),
        pytest.param(5000, [(0, 4), (4, 2), (6, 1)], None, id="no place"),
        pytest.param(4000, [(6, 1), (5, 1), (4, 1)], ("1g.5gb", 3), id="beside others"),
        pytest.param(10000, [(0, 2), (2, 2), (5, 1)], None, id="a place that is cut"),
        pytest.param(5121, [(0, 2), (2, 2), (4, 2)], None, id="no larger profile has a place"),
        pytest.param(30000, [], None, id="larger than any profile"),
    ],
)
def test_the_smallest_profile_with_a_free_place(
    wanted: int, taken: list[tuple[int, int]], want: tuple[str, int] | None
) -> None:
    places = [register.Placement(start=start, size=size) for start, size in taken]
    found = partition.choose(MIG.card, wanted, places)
    assert (found and (found.profile.name, found.place.start)) == want


def test_a_larger_profile_serves_where_the_smaller_has_no_place_left() -> None:
    card = candidate(mode="mig", mig_profiles=(profile("1g.5gb", 5120, 6), A100[2])).card
    found = partition.choose(card, 5000, [register.Placement(start=6, size=1)])
    assert found is not None
    assert found.instance == partition.Instance(
        profile="2g.10gb", place=register.Placement(start=0, size=2)
    )


@given(st.lists(st.sampled_from([0, 5120, 10240, 20480]), max_size=9))
def test_places_never_overlap(wanted: list[int]) -> None:
    taken: tuple[register.Placement, ...] = ()
    for memory_mib in wanted:
        found = partition.choose(MIG.card, memory_mib, taken)
        if found is not None:
            assert found.profile.memory_mib >= memory_mib
            taken = (*taken, found.place)
    cells = [cell for one in taken for cell in range(one.start, one.start + one.size)]
    assert len(cells) == len(set(cells))


def test_only_a_card_that_gave_an_instance_is_tried_again() -> None:
    plain = decision.Pick(id="GPU-a", memory_mib=1, cores=0)
    assert partition.again(MIG, plain) is None
    place = register.Placement(start=6, size=1)
    part = partition.Instance(profile="1g.5gb", place=place)
    given_ = decision.Pick(id="GPU-a", memory_mib=1, cores=0, custom={partition.CUSTOM: part})
    again = partition.again(MIG, given_)
    assert again == usage.CardUsage(MIG.card, usage.Usage(1, 1, 0, places=(place,)))
