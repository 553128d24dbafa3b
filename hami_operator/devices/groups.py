"""Choosing among collected cards those that lie together."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from hami_operator.protocol import decision

Picks = tuple[decision.Pick, ...]
Key = Callable[[decision.Pick], Hashable]
"""Where a pick lies; None is nowhere, so that no other lies there too."""


def of(picks: Iterable[decision.Pick], key: Key) -> list[Picks]:
    """The picks by where they lie, the group with the first collected pick first."""
    found: dict[Hashable, Picks] = {}
    for number, pick in enumerate(picks):
        place = key(pick)
        group = (number,) if place is None else (None, place)
        found[group] = (*found.get(group, ()), pick)
    return list(found.values())


def largest_first(picks: Iterable[decision.Pick], key: Key) -> Picks:
    """All picks, those of the largest group first; of equal ones the first collected."""
    ordered = sorted(of(picks, key), key=len, reverse=True)
    return tuple(pick for group in ordered for pick in group)


def together(picks: Picks, key: Key) -> float:
    """Share of the picks that lie in their largest group; 0 without picks or with a lost one."""
    if not picks or any(key(pick) is None for pick in picks):
        return 0.0
    return max(map(len, of(picks, key))) / len(picks)
