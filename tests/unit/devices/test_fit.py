"""The walk over the cards: each check, their order, NUMA binding, hooks, and what never breaks."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_operator import errors
from hami_operator.devices import fit, request, usage, vendor
from hami_operator.protocol import decision, keys, register
from tests.unit.devices.rows import ROW, annotated, candidate, hooked, row, taken, wanted

Reason = errors.Reason
PLAIN = annotated()


def picks(answer: fit.Fit | fit.NoFit) -> list[tuple[str, int, int]]:
    assert isinstance(answer, fit.Fit), answer
    return [(pick.id, pick.memory_mib, pick.cores) for pick in answer.picks]


def text(answer: fit.Fit | fit.NoFit) -> str:
    assert isinstance(answer, fit.NoFit), answer
    return answer.text()


@pytest.mark.parametrize(
    ("card", "request_", "context", "want"),
    [
        pytest.param(
            candidate(healthy=False), wanted(), PLAIN, Reason.CARD_NOT_HEALTHY, id="F1 health"
        ),
        pytest.param(
            candidate("c0"),
            wanted(),
            annotated(node_annotations={keys.DEVICE_CORDON: "c9, c0 ,"}),
            Reason.CARD_CORDONED,
            id="F2 cordon",
        ),
        pytest.param(
            candidate(model="X1"),
            wanted(),
            annotated(pod_annotations={"acme.io/use-type": "x2,x3"}),
            Reason.CARD_TYPE_MISMATCH,
            id="F3 a model that is not asked for",
        ),
        pytest.param(
            candidate(model="X1"),
            wanted(),
            annotated(pod_annotations={"acme.io/skip-type": "x1"}),
            Reason.CARD_TYPE_MISMATCH,
            id="F3 a model that is not wanted",
        ),
        pytest.param(
            candidate("c0"),
            wanted(),
            annotated(pod_annotations={"acme.io/use-id": "c1"}),
            Reason.CARD_UUID_MISMATCH,
            id="F5 a card that is not asked for",
        ),
        pytest.param(
            candidate(count=2, used=taken(2)),
            wanted(),
            PLAIN,
            Reason.CARD_SLOTS_EXHAUSTED,
            id="F6",
        ),
        pytest.param(
            candidate(used=taken(1)),
            wanted(),
            annotated(policy=("binpack", "mutex")),
            Reason.EXCLUSIVE_CONFLICT,
            id="F7 mutex",
        ),
        pytest.param(
            candidate(),
            wanted(),
            annotated(quota_fits=lambda *_: False),
            Reason.QUOTA_NOT_FIT,
            id="F9 quota",
        ),
        pytest.param(
            candidate(used=taken(1, 9001)),
            wanted(),
            PLAIN,
            Reason.CARD_INSUFFICIENT_MEMORY,
            id="F10",
        ),
        pytest.param(
            candidate(used=taken(1, 0, 71)),
            wanted(cores=30),
            PLAIN,
            Reason.CARD_INSUFFICIENT_CORES,
            id="F11",
        ),
        pytest.param(
            candidate(used=taken(1)),
            wanted(cores=100),
            PLAIN,
            Reason.EXCLUSIVE_CONFLICT,
            id="F12 a whole card is unused",
        ),
        pytest.param(
            candidate(used=taken(1, 0, 100)),
            wanted(),
            PLAIN,
            Reason.CARD_COMPUTE_EXHAUSTED,
            id="F13",
        ),
    ],
)
def test_each_check_refuses_with_its_reason(
    card: usage.CardUsage, request_: request.Request, context: fit.Context, want: Reason
) -> None:
    answer = fit.fit(ROW, request_, [card], context)

    assert answer == fit.NoFit(counts=((want, 1),), candidates=1)
    assert text(answer) == f"1/1 {want.word}"


@pytest.mark.parametrize(
    ("card", "request_", "context"),
    [
        pytest.param(candidate(count=2, used=taken(1)), wanted(), PLAIN, id="the last slot"),
        pytest.param(candidate(used=taken(1, 9000)), wanted(), PLAIN, id="the last memory"),
        pytest.param(
            candidate(used=taken(1, 0, 70)), wanted(cores=30), PLAIN, id="the last cores"
        ),
        pytest.param(candidate(), wanted(cores=100), PLAIN, id="an unused whole card"),
        pytest.param(
            candidate(cores=0, used=taken(1)), wanted(), PLAIN, id="a card that has no cores"
        ),
        pytest.param(
            candidate(cores=200, used=taken(1)),
            wanted(cores=100),
            PLAIN,
            id="half of a card with twice the cores",
        ),
        pytest.param(
            candidate(), wanted(), annotated(policy=("mutex",)), id="mutex on an unused card"
        ),
        pytest.param(
            candidate(), wanted(), annotated(quota_fits=lambda *_: True), id="quota has room"
        ),
        pytest.param(
            candidate(model="Big X100"),
            wanted(),
            annotated(pod_annotations={"acme.io/use-type": ", x10"}),
            id="a part of the model will do",
        ),
        pytest.param(
            candidate("c0"),
            wanted(),
            annotated(
                pod_annotations={"acme.io/use-id": "c1, c0", "acme.io/use-id-too": "c0", "x": "y"}
            ),
            id="an id that both keys ask for",
        ),
        pytest.param(
            candidate(),
            wanted(),
            annotated(pod_annotations={"acme.io/use-id": " ", "acme.io/use-type": ""}),
            id="blank demands are none",
        ),
    ],
)
def test_a_card_at_the_edge_fits(
    card: usage.CardUsage, request_: request.Request, context: fit.Context
) -> None:
    want = [("c0", request_.memory_mib, request_.cores)]
    assert picks(fit.fit(ROW, request_, [card], context)) == want


def test_the_first_check_that_fails_counts_and_the_walk_goes_on() -> None:
    cards = [
        candidate("sick", healthy=False, count=0),
        candidate("full", count=0, used=taken(0, 10_000)),
        candidate("fits"),
        candidate("small", memory_mib=10),
    ]
    answer = fit.fit(ROW, wanted(2), cards, PLAIN)
    assert text(answer) == (
        "1/4 AllocatedCardsInsufficientRequest, 1/4 CardInsufficientMemory, "
        "1/4 CardNotHealth, 1/4 CardTimeSlicingExhausted"
    )


def test_reasons_are_sorted_as_text() -> None:
    cards = [candidate(str(number), memory_mib=10) for number in range(10)]
    cards += [candidate("sick", healthy=False), candidate("sick too", healthy=False)]
    assert text(fit.fit(ROW, wanted(), cards, PLAIN)) == (
        "10/12 CardInsufficientMemory, 2/12 CardNotHealth"
    )


@pytest.mark.parametrize("cards", [[], [candidate("a")]])
def test_fewer_candidates_than_devices_is_one_reason_without_numbers(
    cards: list[usage.CardUsage],
) -> None:
    answer = fit.fit(ROW, wanted(2), cards, PLAIN)
    assert text(answer) == "NodeInsufficientDevice"
    assert isinstance(answer, fit.NoFit)
    assert answer.reasons == (Reason.NODE_INSUFFICIENT_DEVICE,)


def test_the_walk_keeps_the_order_and_ends_with_the_count() -> None:
    cards = [candidate("b", index=1), candidate("a", index=0), candidate("c", index=2)]
    answer = fit.fit(ROW, wanted(2), cards, PLAIN)
    assert answer == fit.Fit(
        picks=(
            decision.Pick(id="b", memory_mib=1000, cores=0, index=1),
            decision.Pick(id="a", memory_mib=1000, cores=0, index=0),
        )
    )


def test_percent_is_taken_of_each_card_and_rounded_down() -> None:
    cards = [candidate("a", memory_mib=16384), candidate("b", memory_mib=24576)]
    answer = fit.fit(ROW, wanted(2, 0, percent=33), cards, PLAIN)
    assert picks(answer) == [("a", 5406, 0), ("b", 8110, 0)]


def test_memory_wins_over_percent() -> None:
    answer = fit.fit(ROW, wanted(1, 500, percent=33), [candidate()], PLAIN)
    assert picks(answer) == [("c0", 500, 0)]


def test_cores_above_a_card_are_a_card_where_the_row_clamps() -> None:
    loose = row(checks=ROW.checks - {vendor.Check.CLAMP})
    assert picks(fit.fit(ROW, wanted(cores=200), [candidate()], PLAIN)) == [("c0", 1000, 100)]
    assert text(fit.fit(loose, wanted(cores=200), [candidate()], PLAIN)) == (
        "1/1 CardInsufficientCore"
    )


@pytest.mark.parametrize(
    ("check", "card"),
    [
        (vendor.Check.HEALTH, candidate(healthy=False)),
        (vendor.Check.SLOTS, candidate(count=0)),
        (vendor.Check.MEMORY, candidate(memory_mib=0)),
        (vendor.Check.EXHAUSTED, candidate(used=taken(1, 0, 100))),
    ],
    ids=lambda value: value.name if isinstance(value, vendor.Check) else "",
)
def test_a_check_that_the_row_does_not_use_refuses_nothing(
    check: vendor.Check, card: usage.CardUsage
) -> None:
    assert picks(fit.fit(row(checks=ROW.checks - {check}), wanted(), [card], PLAIN))
    assert text(fit.fit(ROW, wanted(), [card], PLAIN))


def test_quota_is_asked_with_what_this_container_has_already() -> None:
    asked: list[tuple[list[str], int, int, str]] = []

    def quota_fits(so_far: Any, memory_mib: int, cores: int, card: str) -> bool:
        asked.append(([pick.id for pick in so_far], memory_mib, cores, card))
        return True

    cards = [candidate("a"), candidate("b", memory_mib=20_000)]
    fit.fit(ROW, wanted(2, 0, percent=50, cores=5), cards, annotated(quota_fits=quota_fits))
    assert asked == [([], 5000, 5, "a"), (["a"], 10_000, 5, "b")]


# --- NUMA binding ----------------------------------------------------------------------------

BOUND = annotated(pod_annotations={"acme.io/numa": "true"})


def on(numa: int, id: str, **facts: Any) -> usage.CardUsage:
    return candidate(id, numa=numa, **facts)


def test_cards_of_another_numa_node_give_the_first_ones_back() -> None:
    cards = [on(1, "c"), on(0, "b"), on(0, "a")]
    assert picks(fit.fit(ROW, wanted(2), cards, BOUND)) == [("b", 1000, 0), ("a", 1000, 0)]
    assert picks(fit.fit(ROW, wanted(2), cards, PLAIN)) == [("c", 1000, 0), ("b", 1000, 0)]


def test_cards_given_back_are_counted() -> None:
    cards = [on(1, "d"), on(1, "c"), on(0, "b"), on(-1, "a")]
    assert text(fit.fit(ROW, wanted(3), cards, BOUND)) == (
        "1/4 AllocatedCardsInsufficientRequest, 3/4 NumaNotFit"
    )


def test_a_card_that_an_earlier_check_refuses_does_not_end_a_numa_node() -> None:
    cards = [on(0, "c"), on(1, "b", healthy=False), on(0, "a")]
    assert picks(fit.fit(ROW, wanted(2), cards, BOUND)) == [("c", 1000, 0), ("a", 1000, 0)]


def test_a_card_that_a_later_check_refuses_ends_a_numa_node() -> None:
    cards = [on(0, "c"), on(1, "b", count=0), on(0, "a")]
    assert text(fit.fit(ROW, wanted(2), cards, BOUND)) == (
        "1/3 AllocatedCardsInsufficientRequest, 1/3 CardTimeSlicingExhausted, 1/3 NumaNotFit"
    )


@pytest.mark.parametrize("word", ["false", "yes", "", "TRue", " true"])
def test_other_words_do_not_bind(word: str) -> None:
    cards = [on(1, "b"), on(0, "a")]
    context = annotated(pod_annotations={"acme.io/numa": word})
    assert len(picks(fit.fit(ROW, wanted(2), cards, context))) == 2


# --- hooks -----------------------------------------------------------------------------------


def test_a_rule_comes_after_all_checks() -> None:
    refusing = hooked(rule=lambda walk, card, used: Reason.CARD_CUSTOM_RULE)
    cards = [candidate("a"), candidate("b", count=0)]
    assert text(fit.fit(refusing, wanted(), cards, PLAIN)) == (
        "1/2 CardNotFoundCustomFilterRule, 1/2 CardTimeSlicingExhausted"
    )


def test_a_replaced_check_keeps_its_place() -> None:
    other = hooked(checks={vendor.Check.HEALTH: lambda walk, card, used: Reason.CARD_UNHEALTHY})
    assert text(fit.fit(other, wanted(), [candidate(count=0)], PLAIN)) == "1/1 CardUnhealthy"


def test_a_replaced_check_is_asked_even_without_demands() -> None:
    other = hooked(checks={vendor.Check.TYPE: lambda walk, card, used: Reason.CARD_TYPE_MISMATCH})
    assert text(fit.fit(other, wanted(), [candidate()], PLAIN)) == "1/1 CardTypeMismatch"


def test_a_hook_may_judge_the_node_before_the_walk() -> None:
    mode = fit.NoFit(counts=((Reason.MODE_NOT_FIT, 1),), candidates=2)
    refusing, passing = hooked(before=lambda walk: mode), hooked(before=lambda walk: None)
    assert text(fit.fit(refusing, wanted(), [candidate()], PLAIN)) == "1/2 ModeNotFit"
    assert text(fit.fit(refusing, wanted(2), [candidate()], PLAIN)) == "NodeInsufficientDevice"
    assert picks(fit.fit(passing, wanted(), [candidate()], PLAIN)) == [("c0", 1000, 0)]


def test_a_hook_may_say_what_a_card_gives() -> None:
    units = hooked(amounts=lambda walk, card: (walk.memory_mib, card.cores // 4, {"unit": 1}))
    answer = fit.fit(units, wanted(cores=3), [candidate(cores=80)], PLAIN)
    assert picks(answer) == [("c0", 1000, 20)]
    assert isinstance(answer, fit.Fit)
    assert answer.picks[0].custom == {"unit": 1}


def test_one_card_may_serve_several_devices() -> None:
    def again(card: usage.CardUsage, pick: decision.Pick) -> usage.CardUsage:
        return usage.CardUsage(card.card, card.usage.add(pick))

    several = hooked(again=again, enough=lambda walk: True)
    cards = [candidate("a", memory_mib=2500), candidate("b")]
    assert picks(fit.fit(several, wanted(3), cards, PLAIN)) == [
        ("a", 1000, 0),
        ("a", 1000, 0),
        ("b", 1000, 0),
    ]
    assert text(fit.fit(several, wanted(3), cards[:1], PLAIN)) == (
        "1/1 CardInsufficientMemory, 2/1 AllocatedCardsInsufficientRequest"
    )


def test_all_fitting_cards_may_be_collected_before_some_are_chosen() -> None:
    last = hooked(
        collect=lambda walk: "topology" in walk.context.policy,
        choose=lambda walk: fit.Fit(picks=tuple(walk.picks[-walk.request.count :])),
    )
    cards = [candidate("a"), candidate("b"), candidate("c")]
    collecting = annotated(policy=("topology",))
    assert picks(fit.fit(last, wanted(), cards, collecting)) == [("c", 1000, 0)]
    assert picks(fit.fit(last, wanted(), cards, PLAIN)) == [("a", 1000, 0)]


def test_collecting_without_a_choice_comes_to_nothing() -> None:
    gather = hooked(collect=lambda walk: True)
    assert text(fit.fit(gather, wanted(2), [candidate("a"), candidate("b")], PLAIN)) == (
        "2/2 AllocatedCardsInsufficientRequest"
    )


# --- what never breaks -----------------------------------------------------------------------

SMALL = st.integers(min_value=0, max_value=120)


@st.composite
def candidates(draw: st.DrawFn) -> list[usage.CardUsage]:
    """Cards of all kinds, some of them over-booked by others."""
    made = []
    for number in range(draw(st.integers(min_value=0, max_value=6))):
        card = register.Card(
            id=f"c{number}",
            index=number,
            count=draw(st.integers(min_value=0, max_value=4)),
            memory_mib=draw(SMALL),
            cores=draw(st.sampled_from([0, 16, 100])),
            model=draw(st.sampled_from(["A10", "A100", ""])),
            numa=draw(st.integers(min_value=-1, max_value=1)),
            mode=draw(st.sampled_from(["", "hami-core", "mig"])),
            healthy=draw(st.booleans()),
        )
        used = usage.Usage(draw(st.integers(min_value=0, max_value=4)), draw(SMALL), draw(SMALL))
        made.append(usage.CardUsage(card, used))
    return made


REQUESTS = st.builds(
    request.Request,
    word=st.just("Acme"),
    count=st.integers(min_value=1, max_value=4),
    memory_mib=SMALL,
    percent=st.none() | st.integers(min_value=1, max_value=100),
    cores=SMALL,
)
CONTEXTS = st.builds(
    fit.Context,
    pod_annotations=st.dictionaries(
        st.sampled_from(["acme.io/use-type", "acme.io/skip-id", "acme.io/numa"]),
        st.sampled_from(["a10", "c0, c1", "true", ""]),
    ),
    policy=st.sampled_from([(), ("mutex",), ("binpack", "mutex")]),
)


@given(REQUESTS, candidates(), CONTEXTS)
def test_no_limit_of_any_card_is_ever_broken(
    wish: request.Request, cards: list[usage.CardUsage], context: fit.Context
) -> None:
    answer = fit.fit(ROW, wish, cards, context)

    if isinstance(answer, fit.NoFit):
        assert answer.counts
        return
    by_id = {one.card.id: one for one in cards}
    assert len({pick.id for pick in answer.picks}) == len(answer.picks) == wish.count
    for pick in answer.picks:
        standing = by_id[pick.id]
        after = standing.usage.add(pick)
        assert standing.card.healthy
        assert after.used <= standing.card.count
        assert after.memory_mib <= standing.card.memory_mib
        assert pick.cores == 0 or after.cores <= standing.card.cores


@given(REQUESTS, candidates(), CONTEXTS)
def test_nothing_that_is_put_in_is_changed_and_the_answer_is_always_the_same(
    wish: request.Request, cards: list[usage.CardUsage], context: fit.Context
) -> None:
    before = copy.copy(cards), dict(context.pod_annotations)
    first = fit.fit(ROW, wish, cards, context)
    turned = dataclasses.replace(
        context, pod_annotations=dict(reversed(list(context.pod_annotations.items())))
    )

    assert fit.fit(ROW, wish, tuple(cards), turned) == first
    assert (cards, context.pod_annotations) == before


@given(REQUESTS, candidates())
def test_every_candidate_is_either_picked_or_counted_once(
    wish: request.Request, cards: list[usage.CardUsage]
) -> None:
    answer = fit.fit(ROW, wish, cards, PLAIN)
    if isinstance(answer, fit.NoFit) and wish.count <= len(cards):
        assert sum(number for _, number in answer.counts) == len(cards)
