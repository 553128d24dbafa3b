"""Which of the collected cards are linked best: pair scores, and the set with the highest sum."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from hami_operator.devices import ownform
from hami_operator.protocol import decision

MOST_SETS: Final = 200_000
"""Sets that are looked at; beyond that the best so far is taken."""

Scores = Mapping[str, Mapping[str, float]]
"""Card id to other card id to how well they are linked; what is missing is 0."""


@functools.lru_cache(maxsize=1024)  # one text per node, read for every container
def read(text: str | None) -> Scores | None:
    """Pair scores as a plugin publishes them; None where they cannot be read at all."""
    listed = ownform.parse(text)
    if listed is None:
        return MappingProxyType({})
    if not isinstance(listed, list) or not all(isinstance(item, dict) for item in listed):
        return None
    return MappingProxyType(
        {str(item.get("uuid")): _numbers(item.get("score")) for item in listed}
    )


def _numbers(raw: Any) -> Mapping[str, float]:
    if not isinstance(raw, dict):
        return {}
    return {str(id): value for id, value in raw.items() if _is_number(value)}


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def loneliest(picks: Sequence[decision.Pick], scores: Scores) -> decision.Pick:
    """The card that is linked worst to the others; well-linked ones are kept for larger jobs."""
    return min(
        picks, key=lambda one: sum(scores.get(one.id, {}).get(other.id, 0) for other in picks)
    )


def best(picks: Sequence[decision.Pick], number: int, scores: Scores) -> tuple[decision.Pick, ...]:
    """The set of ``number`` cards with the highest sum over its pairs, the first one on ties.

    Sets are tried in the lexicographic order of collection, at most `MOST_SETS` of them.
    """
    table = [[scores.get(one.id, {}).get(other.id, 0) for other in picks] for one in picks]
    if not any(map(any, table)):
        return tuple(picks[:number])
    highest, chosen = -math.inf, tuple(range(number))
    for combination in itertools.islice(_sums(table, number), MOST_SETS):
        if combination[0] > highest:
            highest, chosen = combination
    return tuple(picks[place] for place in chosen)


def exhaustive(cards: int, number: int) -> bool:
    """Whether all sets of that size are looked at."""
    return math.comb(cards, number) <= MOST_SETS


def _sums(table: list[list[float]], number: int) -> Any:
    """Every set in lexicographic order as (sum over its pairs, places)."""
    size = len(table)

    def extend(places: tuple[int, ...], total: float, gains: list[float]) -> Any:
        first = places[-1] + 1 if places else 0
        missing = number - len(places)
        for place in range(first, size - missing + 1):
            so_far = total + gains[place]
            if missing == 1:
                yield so_far, (*places, place)
            else:
                row = table[place]
                grown = [gain + link for gain, link in zip(gains, row, strict=True)]
                yield from extend((*places, place), so_far, grown)

    return extend((), 0.0, [0.0] * size)
