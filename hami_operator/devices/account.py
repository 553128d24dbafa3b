"""What is taken of cards, where the plain sums of slots, memory and cores do not say it all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from hami_operator.devices import usage, vendor
from hami_operator.protocol import decision, register

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


def charge(
    row: vendor.Vendor,
    standing: usage.CardUsage,
    pick: decision.Pick,
    annotations: Mapping[str, str] = _NOTHING,
) -> usage.CardUsage:
    """The card after ``pick``: a slot, its memory and its cores more, or as the row says.

    Args:
        row: the backend.
        standing: the card as it stands.
        pick: a pick of this card.
        annotations: of the pod that gets it.
    """
    if row.hooks.charge:
        return row.hooks.charge(standing, pick, annotations)
    return usage.CardUsage(standing.card, standing.usage.add(pick))


def settle(
    row: vendor.Vendor, cards: tuple[usage.CardUsage, ...], holders: Iterable[usage.Holder]
) -> tuple[usage.CardUsage, ...]:
    """The cards of a node as new pods find them.

    Args:
        row: the backend.
        cards: with the plain sums of what is taken.
        holders: the pods that hold some of them, or some that are not registered.
    """
    return row.hooks.settle(cards, tuple(holders)) if row.hooks.settle else cards


def note(row: vendor.Vendor, annotations: Mapping[str, str], slots: decision.Slots) -> Any:
    """What a row notes about a pod when it is counted, for `settle`."""
    return row.hooks.note(annotations, slots) if row.hooks.note else None


def metered(
    row: vendor.Vendor, pick: decision.Pick, card: register.Card | None = None
) -> decision.Pick:
    """The pick in the units of quota limits (MiB, and what users call cores).

    Args:
        row: the backend.
        pick: made by the fit, or read from a decision.
        card: the registered card; needed only for a pick that was read.
    """
    return row.hooks.metered(pick, card) if row.hooks.metered else pick
