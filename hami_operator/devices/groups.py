"""Choosing among collected cards those that lie together."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable

from hami_operator.devices import fit
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


def choose(walk: fit.Walk, key: Key) -> fit.Fit | fit.NoFit:
    """One card: the first. Several: those of the largest groups, of equal ones the first."""
    obvious = fit.obvious(walk)
    if obvious is not None:
        return obvious
    if walk.request.count == 1:
        return fit.Fit(picks=tuple(walk.picks[:1]))
    ordered = sorted(of(walk.picks, key), key=len, reverse=True)
    picks = (pick for group in ordered for pick in group)
    return fit.Fit(picks=tuple(itertools.islice(picks, walk.request.count)))


def together(picks: Picks, key: Key) -> float:
    """Share of the picks that lie in their largest group; 0 without picks or with a lost one."""
    if not picks or any(key(pick) is None for pick in picks):
        return 0.0
    return max(map(len, of(picks, key))) / len(picks)
