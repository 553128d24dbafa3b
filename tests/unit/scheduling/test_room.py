"""Whether one more card fits into a namespace's quota, and how far such answers reach."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_operator.devices import registry, request, usage
from hami_operator.protocol import decision
from hami_operator.scheduling import effective, quota, room
from hami_operator.scheduling.pod import Kind

REGISTRY = registry.default()
NVIDIA = REGISTRY.by_word["NVIDIA"]


def pick(card: str, memory_mib: int, cores: int = 1) -> decision.Pick:
    return decision.Pick(id=card, memory_mib=memory_mib, cores=cores)


KINDS = (Kind.INIT, Kind.SIDECAR, Kind.APP, Kind.APP)


@pytest.mark.parametrize(
    ("taken", "slot", "picked", "card", "want"),
    [
        pytest.param([[], [], [], []], 2, [], ("a", 100), True, id="the first card"),
        pytest.param([[], [], [], []], 2, [], ("a", 101), False, id="too large by itself"),
        pytest.param(
            [[], [], [pick("a", 60)], []], 3, [], ("b", 41), False, id="apps add up over cards"
        ),
        pytest.param(
            [[("a", 60)], [], [], []], 2, [], ("a", 100), True, id="init and app share a card"
        ),
        pytest.param(
            [[("a", 60)], [], [], []], 2, [], ("b", 41), False, id="but not on two cards"
        ),
        pytest.param(
            [[("a", 60)], [("a", 30)], [], []], 2, [], ("a", 70), True, id="a sidecar adds up"
        ),
        pytest.param(
            [[("a", 60)], [("a", 30)], [], []], 2, [], ("a", 71), False, id="a sidecar too much"
        ),
        pytest.param(
            [[], [], [("b", 99)], []],
            2,
            [("a", 60)],
            ("b", 40),
            True,
            id="what the container in hand had in an earlier try is not counted",
        ),
        pytest.param(
            [[], [], [], []], 2, [("a", 60)], ("b", 41), False, id="cards of one container"
        ),
    ],
)
def test_room_counts_what_the_pod_has_so_far(
    taken: Any, slot: int, picked: Any, card: tuple[str, int], want: bool
) -> None:
    def picks(each: Any) -> tuple[decision.Pick, ...]:
        return tuple(one if isinstance(one, decision.Pick) else pick(*one) for one in each)

    asks = room.Room(
        account=quota.Account(memory_mib=100),
        row=NVIDIA,
        kinds=KINDS,
        taken=[picks(each) for each in taken],
        slot=slot,
    )
    assert asks(picks(picked), card[1], 1, card[0]) is want


SLOTS = st.lists(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 50)), max_size=2),
    min_size=4,
    max_size=4,
)


@given(SLOTS, st.integers(0, 3), st.sampled_from("abc"), st.integers(0, 50))
def test_room_asks_what_the_ledger_would_count(
    raw: list[list[tuple[str, int]]], slot: int, card: str, memory_mib: int
) -> None:
    taken = [tuple(pick(*one) for one in each) for each in raw]
    after = [*taken]
    after[slot] = (*taken[slot], pick(card, memory_mib))
    would = sum(one.memory_mib for one in effective.effective(tuple(after), KINDS).values())
    for limit in (would - 1, would):
        asks = room.Room(
            account=quota.Account(memory_mib=limit),
            row=NVIDIA,
            kinds=KINDS,
            taken=taken,
            slot=slot,
        )
        assert asks(taken[slot], memory_mib, 1, card) is (limit == would)


# ---- what is noted of the answers

NONE = quota.Account()
MEMORY = "limits.nvidia.com/gpumem has no room"
CORES = "limits.nvidia.com/gpucores has no room"
FULL = quota.Account(memory_mib=100, cores=10, used=usage.Usage(1, 80, 8))


def tally(
    account: quota.Account, *asks: tuple[int, int], least: usage.Usage = usage.UNUSED
) -> room.Tally:
    """After so many questions."""
    made = room.Tally(row=NVIDIA, account=account, least=least)
    for ask in asks:
        assert made.fits(*ask) is account.fits(*ask)
    return made


@pytest.mark.parametrize(
    ("asks", "least", "want"),
    [
        pytest.param([(21, 1)], (0, 0), [f"{MEMORY}: 80 used of 100 MiB, 21 asked"], id="memory"),
        pytest.param([(20, 3)], (0, 0), [f"{CORES}: 8 used of 10, 3 asked"], id="cores"),
        pytest.param(
            [(50, 5)],
            (0, 0),
            [f"{MEMORY}: 80 used of 100 MiB, 50 asked", f"{CORES}: 8 used of 10, 5 asked"],
            id="both at once",
        ),
        pytest.param(
            [(90, 1), (40, 1), (60, 1), (10, 1)],
            (0, 0),
            [f"{MEMORY}: 80 used of 100 MiB, 40 asked"],
            id="the least that had no room",
        ),
        pytest.param(
            [(30, 1)], (60, 6), [f"{MEMORY}: 80 used of 100 MiB, 60 asked"], id="all of the pod"
        ),
        pytest.param([(20, 3)], (9, 6), [f"{CORES}: 8 used of 10, 6 asked"], id="all its cores"),
    ],
)
def test_the_text_names_limit_used_and_asked(
    asks: Sequence[tuple[int, int]], least: tuple[int, int], want: Sequence[str]
) -> None:
    made = tally(FULL, *asks, least=usage.Usage(0, *least))
    assert made.text() == f"the namespace's quota {'; '.join(want)} (ResourceQuotaNotFit)"


def test_memory_is_named_in_mib_whatever_the_unit_of_its_resource() -> None:
    row = REGISTRY.by_word["MLU"]
    made = room.Tally(row=row, account=quota.Account(memory_mib=10 * row.mib_per_unit))
    made.fits(4096, 0)
    assert "cambricon.com/mlu.smlu.vmemory has no room: 0 used of 2560 MiB, 4096" in made.text()


def after(used: int, *, memory_mib: int | None = 100, cores: int | None = 10) -> quota.Account:
    return quota.Account(memory_mib=memory_mib, cores=cores, used=usage.Usage(1, used, 8))


@pytest.mark.parametrize(
    ("asks", "other", "want"),
    [
        pytest.param([(10, 1)], after(90), True, id="as much as had room still has"),
        pytest.param([(10, 1)], after(91), False, id="it has no room any more"),
        pytest.param([(10, 1), (5, 2)], after(90), True, id="of several, each has"),
        pytest.param([(10, 1), (15, 1)], after(90), False, id="of several, the largest has not"),
        pytest.param([(10, 2)], after(80, cores=9), False, id="cores have no room any more"),
        pytest.param([(10, 2)], after(0, memory_mib=None), True, id="a limit is gone"),
        pytest.param([(10, 2)], NONE, True, id="nothing is limited any more"),
        pytest.param([(30, 1)], after(80), True, id="refused, and nothing has changed"),
        pytest.param([(30, 1)], after(79), False, id="refused, and one MiB came free"),
        pytest.param([(30, 1)], after(81), False, id="refused, and the text would differ"),
        pytest.param([(30, 1), (5, 1)], after(60), False, id="one card refused, one taken"),
    ],
)
def test_how_far_answers_reach(
    asks: Sequence[tuple[int, int]], other: quota.Account, want: bool
) -> None:
    reach = tally(FULL, *asks).reach
    assert reach is not None
    assert reach.includes(other) is want


def test_who_did_not_ask_may_be_asked_under_any_quota() -> None:
    assert tally(FULL).reach is None
    made = tally(FULL, (30, 3), (1, 1))
    made.clear()
    assert made.reach is None
    assert made == tally(FULL)


AMOUNT = st.integers(0, 12)
ACCOUNT = st.builds(
    lambda memory_mib, cores, used: quota.Account(
        memory_mib=memory_mib, cores=cores, used=usage.Usage(1, *used)
    ),
    st.none() | AMOUNT,
    st.none() | AMOUNT,
    st.tuples(AMOUNT, AMOUNT),
)


@given(ACCOUNT, ACCOUNT, st.lists(st.tuples(AMOUNT, AMOUNT), min_size=1))
def test_whoever_is_reached_answers_the_same(
    account: quota.Account, other: quota.Account, asks: list[tuple[int, int]]
) -> None:
    reach = tally(account, *asks).reach
    assert reach is not None
    if reach.includes(other):
        assert [account.fits(*ask) for ask in asks] == [other.fits(*ask) for ask in asks]
    assert reach.includes(account)


# ---- what a pod asks for wherever it goes


def asked(count: int, memory_mib: int = 0, cores: int = 0) -> request.Request:
    percent = None if memory_mib else 100
    return request.Request(
        word="NVIDIA", count=count, memory_mib=memory_mib, percent=percent, cores=cores
    )


@pytest.mark.parametrize(
    ("requests", "want"),
    [
        pytest.param([None, None, asked(1, 10, 1), None], (10, 1), id="one card"),
        pytest.param([None, None, asked(3, 10, 2), None], (30, 6), id="cards of a container"),
        pytest.param([None, None, asked(1, 10), asked(1, 20)], (30, 0), id="apps add up"),
        pytest.param([asked(1, 50), None, asked(1, 10), asked(1, 20)], (50, 0), id="or an init"),
        pytest.param([asked(1, 50), asked(1, 7), None, None], (57, 0), id="beside a sidecar"),
        pytest.param([None, None, asked(2), asked(1, 5, 3)], (5, 3), id="a share is not known"),
        pytest.param([None, None, asked(2, 1, 300), None], (2, 200), id="at most a whole card"),
    ],
)
def test_the_least_that_a_pod_holds(
    requests: list[request.Request | None], want: tuple[int, int]
) -> None:
    found = room.least(NVIDIA, requests, KINDS)
    assert (found.memory_mib, found.cores) == want


@pytest.mark.parametrize("word", ["AMD", "AWSNeuron", "Ascend910B3"])
def test_where_only_the_cards_can_say_it_nothing_is_the_least(word: str) -> None:
    row = REGISTRY.by_word[word]
    assert room.least(row, [asked(1, 10, 5)], KINDS[2:3]) == usage.UNUSED


@pytest.mark.parametrize(
    ("least", "want"),
    [
        pytest.param((20, 2), True, id="what is left is enough"),
        pytest.param((21, 2), False, id="memory is not"),
        pytest.param((20, 3), False, id="cores are not"),
        pytest.param((0, 0), True, id="only the cards can say it"),
    ],
)
def test_whether_any_card_would_help(least: tuple[int, int], want: bool) -> None:
    assert tally(FULL, least=usage.Usage(0, *least)).is_hopeful is want
