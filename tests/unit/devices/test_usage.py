"""Usage of a card, and the node score that a row may add."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_operator.devices import account, score, usage
from hami_operator.protocol import decision
from tests.unit.devices.rows import ROW, candidate, hooked, row

PICK = decision.Pick(id="c0", memory_mib=1000, cores=30)
AMOUNTS = st.integers(min_value=0, max_value=10**6)
USAGES = st.builds(usage.Usage, AMOUNTS, AMOUNTS, AMOUNTS)
PICKS = st.builds(decision.Pick, id=st.just("c0"), memory_mib=AMOUNTS, cores=AMOUNTS)


def test_a_pick_takes_a_slot_and_its_amounts() -> None:
    assert usage.UNUSED.add(PICK) == usage.Usage(used=1, memory_mib=1000, cores=30)
    assert usage.Usage() == usage.UNUSED


@given(USAGES, PICKS)
def test_removing_undoes_adding(before: usage.Usage, pick: decision.Pick) -> None:
    assert before.add(pick).remove(pick) == before


def test_an_undo_may_come_twice() -> None:
    assert usage.UNUSED.add(PICK).remove(PICK).remove(PICK) == usage.UNUSED


def test_the_row_may_count_otherwise() -> None:
    doubled = hooked(
        charge=lambda card, pick, _: usage.CardUsage(card.card, card.usage.add(pick).add(pick))
    )
    assert account.charge(ROW, candidate(), PICK) == candidate(used=usage.Usage(1, 1000, 30))
    assert account.charge(doubled, candidate(), PICK).usage == usage.Usage(2, 2000, 60)


@pytest.mark.parametrize(
    ("policy", "weight", "want"),
    [("binpack", 1, 5.0), ("spread", 1, -5.0), ("binpack", 10_000, 50_000.0)],
)
def test_a_hook_says_higher_is_better_and_the_policy_turns_it(
    policy: str, weight: int, want: float
) -> None:
    facts = score.Facts(
        node_policy=policy,
        slots=((PICK,),),
        before=(candidate(),),
        pod_annotations={},
        node_annotations={},
    )
    five = row(score_weight=weight, hooks=hooked(score=lambda *_: 5.0).hooks)
    assert score.term(five, facts) == want
    assert score.term(ROW, facts) == 0
