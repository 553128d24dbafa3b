"""How much of each card a pod takes, given that its containers do not all run at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from hami_operator.devices import usage
from hami_operator.protocol import decision
from hami_operator.scheduling import containers

Cards = Mapping[str, usage.Usage]
"""Card id to what is taken of it."""


def effective(
    slots: decision.Slots,
    kinds: Sequence[containers.Kind],
    *,
    released: bool = False,
    account: usage.Account = usage.Usage.add,
) -> Cards:
    """Card id to what the pod takes of it: ``Σ sidecars + max(max over inits, Σ apps)``.

    Slots, memory and cores each by themselves; what one container has of one card is summed
    first.

    Args:
        slots: picks per container.
        kinds: what each container is. With more or fewer slots than containers the mapping is
            unknown, so fewer count as apps all of them, and so does each surplus one.
        released: every init container has ended well, so only the others still count.
        account: how a pick adds to a card.
    """
    inits: list[Cards] = []
    sidecars: list[Cards] = []
    apps: list[Cards] = []
    known = kinds if len(slots) >= len(kinds) else ()
    for position, picks in enumerate(slots):
        if picks:
            kind = known[position] if position < len(known) else containers.Kind.APP
            listed = apps if kind is _APP else inits if kind is _INIT else sidecars
            listed.append(_charged(picks, account))
    if len(apps) == 1 and not inits and not sidecars:  # as nearly always
        return apps[0]
    running = _together(apps)
    if not released:
        running = _peak([running, *inits])
    return _together([*sidecars, running])


_INIT: Final = containers.Kind.INIT
_APP: Final = containers.Kind.APP


def _charged(picks: Iterable[decision.Pick], account: usage.Account) -> Cards:
    cards: dict[str, usage.Usage] = {}
    for pick in picks:
        cards[pick.id] = account(cards.get(pick.id, usage.UNUSED), pick)
    return cards


def _together(parts: Sequence[Cards]) -> dict[str, usage.Usage]:
    cards: dict[str, usage.Usage] = {}
    for part in parts:
        for card, one in part.items():
            have = cards.get(card, usage.UNUSED)
            cards[card] = usage.Usage(
                have.used + one.used, have.memory_mib + one.memory_mib, have.cores + one.cores
            )
    return cards


def _peak(parts: Sequence[Cards]) -> dict[str, usage.Usage]:
    cards: dict[str, usage.Usage] = {}
    for part in parts:
        for card, one in part.items():
            have = cards.get(card, usage.UNUSED)
            cards[card] = usage.Usage(
                max(have.used, one.used),
                max(have.memory_mib, one.memory_mib),
                max(have.cores, one.cores),
            )
    return cards
