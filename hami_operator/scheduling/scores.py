"""Numbers for ranking: how full a node is, how full a card is, and the order that follows.

All scores are rounded to six decimals before they are compared, so that sums taken in another
order cannot change a choice.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from hami_operator.devices import request, usage
from hami_operator.scheduling import policy, snapshot

_DECIMALS: Final = 6

Score = Callable[[usage.CardUsage], float]
"""The score of one card."""


def node(totals: snapshot.Totals) -> float:
    """Load of a node over all its cards, 0 (empty) to 30 (full), before the pod in hand.

    A node where one of the totals is 0 scores 0.
    """
    if not (totals.count and totals.total_cores and totals.total_memory_mib):
        return 0.0
    return rounded(
        10
        * (
            totals.used / totals.count
            + totals.cores / totals.total_cores
            + totals.memory_mib / totals.total_memory_mib
        )
    )


def rounded(score: float) -> float:
    """A score as it is compared."""
    return round(score, _DECIMALS)


def card(
    entry: usage.CardUsage,
    weights: policy.Weights,
    wanted: request.Request | None,
) -> float:
    """Load of a card; see `scorer`."""
    return scorer(weights, wanted)(entry)


def scorer(weights: policy.Weights, wanted: request.Request | None) -> Score:
    """What tells the load of a card as it will be with ``wanted`` on it (D15); None leaves it out.

    A card whose slots, cores or memory are 0 in all scores 0.
    """
    slot, core, memory = weights.slot, weights.core, weights.memory
    slots, cores, known_mib = (0, 0, 0) if wanted is None else (1, wanted.cores, wanted.memory_mib)

    def score(entry: usage.CardUsage) -> float:
        facts, used = entry.card, entry.usage
        total_mib = facts.memory_mib
        if not (facts.count and facts.cores and total_mib):
            return 0.0
        booked = known_mib or (booked_mib(wanted, total_mib) if wanted is not None else 0)
        load = (
            slot * (used.used + slots) / facts.count
            + core * (used.cores + cores) / facts.cores
            + memory * (used.memory_mib + booked) / total_mib
        )
        return round(10 * load, _DECIMALS)

    return score


def booked_mib(wanted: request.Request, total_mib: int) -> int:
    """MiB that ``wanted`` takes of a card with ``total_mib``: its memory, else its percent."""
    if wanted.memory_mib:
        return wanted.memory_mib
    return total_mib * (wanted.percent or 0) // 100


def order(
    cards: Sequence[usage.CardUsage],
    criteria: Sequence[policy.Criterion],
    score: Score,
) -> list[usage.CardUsage]:
    """The cards, first picked first; full ties go to the highest index, then the highest id.

    Args:
        cards: sorted by (index, id), as registers are read; the order breaks ties.
        criteria: what decides, most important first.
        score: the score of one card, asked once per card.
    """
    ranked = [(score(each), each.card.numa, each.usage.used, each) for each in reversed(cards)]
    for step in reversed(criteria):  # each sort leaves equal ones in the order of those before
        key, from_the_highest = _STEPS[step]
        ranked.sort(key=key, reverse=from_the_highest)
    return [one[3] for one in ranked]


_SCORE, _NUMA, _USED = map(operator.itemgetter, range(3))
# By what, and whether the highest comes first.
_STEPS: Final[Mapping[policy.Criterion, tuple[operator.itemgetter[int], bool]]] = {
    policy.Criterion.HIGHEST_SCORE: (_SCORE, True),
    policy.Criterion.LOWEST_SCORE: (_SCORE, False),
    policy.Criterion.HIGHEST_NUMA: (_NUMA, True),
    policy.Criterion.LOWEST_NUMA: (_NUMA, False),
    policy.Criterion.FEWEST_USED: (_USED, False),
}
