"""Vastai: cards, or their dies, of which several of one card are given together."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Final

from hami_operator import errors
from hami_operator.devices import checks, fit, groups, request, score, usage, vendor
from hami_operator.protocol import decision, keys, register

_STRATEGY: Final = "DeviceStrategy"
_CARD: Final = "AIC"


def _full(card: register.Card) -> register.Card:
    """Cores are not counted; a register may say anything about them."""
    return dataclasses.replace(card, cores=100)


def _aic(custom: Mapping[str, Any]) -> str | None:
    """The physical card of a die, None where it is not known."""
    found = custom.get(_CARD)
    return found if isinstance(found, str) and found else None


def _dies(cards: Iterable[usage.CardUsage]) -> bool:
    return any(each.card.custom.get(_STRATEGY) == "die" for each in cards)


def _prepare(walk: fit.Walk) -> Mapping[str, Any]:
    """Whether dies are given, and the physical cards that are in use."""
    busy = {_aic(each.card.custom) for each in walk.candidates if each.usage.used}
    return {"dies": _dies(walk.candidates), "busy": busy - {None}}


def _mutex(walk: fit.Walk, card: register.Card, used: usage.Usage) -> errors.Reason | None:
    """Whoever wants a die alone wants its physical card alone."""
    if "mutex" not in walk.context.policy:
        return None
    if walk.facts["dies"] and _aic(card.custom) in walk.facts["busy"]:
        return errors.Reason.EXCLUSIVE_CONFLICT
    return checks.mutex(walk, card, used)


def _amounts(walk: fit.Walk, card: register.Card) -> tuple[int, int, Mapping[str, Any]]:
    return 0, 0, card.custom


def _collect(walk: fit.Walk) -> bool:
    return bool(walk.facts["dies"])


def _place(pick: decision.Pick) -> str | None:
    return _aic(pick.custom)


def _choose(walk: fit.Walk) -> fit.Fit | fit.NoFit:
    return groups.choose(walk, _place)


def _score(row: vendor.Vendor, facts: score.Facts) -> float:
    """How much of each container lies on one physical card."""
    picks = [pick for slot in facts.slots for pick in slot]
    if not _dies(facts.before) or None in map(_place, picks):
        return 0.0
    return sum(groups.together(slot, _place) for slot in facts.slots)


VASTAI: Final = vendor.Vendor(
    keyword="Vastai",
    resources=vendor.Resources(count="vastaitech.com/va"),
    node=vendor.NodeKeys(
        register="hami.io/node-va-register", handshake="hami.io/node-handshake-va"
    ),
    pod=vendor.PodKeys(
        to_allocate="hami.io/Vastai-devices-to-allocate",
        allocated="hami.io/Vastai-devices-allocated",
    ),
    selection=vendor.Selection(
        use_uuid=("vastaitech.com/use-gpuuuid",), skip_uuid=("vastaitech.com/nouse-gpuuuid",)
    ),
    lock=keys.NODE_LOCK,
    checks=vendor.WHOLE,
    file=vendor.Section(path=("vastai",)),
    hooks=vendor.Hooks(
        card=_full,
        request=request.count_alone,
        prepare=_prepare,
        checks={vendor.Check.MUTEX: _mutex},
        amounts=_amounts,
        collect=_collect,
        choose=_choose,
        score=_score,
    ),
)
