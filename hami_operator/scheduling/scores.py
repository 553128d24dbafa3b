"""Numbers for ranking: how full a node is, how full a card is, and the order that follows.

All scores are rounded to six decimals before they are compared, so that sums taken in another
order cannot change a choice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from hami_operator.devices import request, usage
from hami_operator.scheduling import policy, snapshot

_DECIMALS: Final = 6


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
    """Load of a card, as it will be with ``wanted`` on it (D15); None leaves the request out.

    A card whose slots, cores or memory are 0 in all scores 0.
    """
    facts, used = entry.card, entry.usage
    if not (facts.count and facts.cores and facts.memory_mib):
        return 0.0
    slots, cores, memory_mib = used.used, used.cores, used.memory_mib
    if wanted is not None:
        slots += 1
        cores += wanted.cores
        memory_mib += booked_mib(wanted, facts.memory_mib)
    load = (
        weights.slot * slots / facts.count
        + weights.core * cores / facts.cores
        + weights.memory * memory_mib / facts.memory_mib
    )
    return rounded(10 * load)


def booked_mib(wanted: request.Request, total_mib: int) -> int:
    """MiB that ``wanted`` takes of a card with ``total_mib``: its memory, else its percent."""
    if wanted.memory_mib:
        return wanted.memory_mib
    return total_mib * (wanted.percent or 0) // 100


def order(
    cards: Sequence[usage.CardUsage],
    criteria: Sequence[policy.Criterion],
    score: Callable[[usage.CardUsage], float],
) -> list[usage.CardUsage]:
    """The cards, first picked first; full ties go to the highest index, then the highest id.

    Args:
        cards: sorted by (index, id), as registers are read; the order breaks ties.
        criteria: what decides, most important first.
        score: the score of one card, asked once per card.
    """
    ranks = [_RANKS[step] for step in criteria]
    ranked = []
    for entry in reversed(cards):
        value = score(entry)
        ranked.append(([rank(entry, value) for rank in ranks], entry))
    ranked.sort(key=_rank)
    return [entry for _, entry in ranked]


def _rank(ranked: tuple[list[float], usage.CardUsage]) -> list[float]:
    return ranked[0]


# Smaller is better.
_RANKS: Final[Mapping[policy.Criterion, Callable[[usage.CardUsage, float], float]]] = {
    policy.Criterion.HIGHEST_SCORE: lambda _, score: -score,
    policy.Criterion.LOWEST_SCORE: lambda _, score: score,
    policy.Criterion.HIGHEST_NUMA: lambda entry, _: -entry.card.numa,
    policy.Criterion.LOWEST_NUMA: lambda entry, _: entry.card.numa,
    policy.Criterion.FEWEST_USED: lambda entry, _: entry.usage.used,
}
