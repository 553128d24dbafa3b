"""Cards that are partitioned into instances: which profile, and where on the card."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from hami_operator import errors
from hami_operator.devices import usage
from hami_operator.protocol import decision, miglist, register

MODE: Final = "mig"
"""Mode of a card that is given instance by instance."""
CUSTOM: Final = "mig"
"""Under this key a pick of ours carries its `Instance`."""

# Such profiles leave room for larger ones only from the end of the card.
_FROM_THE_END: Final = ("1g.", "3g.")
_OLD_ID: Final = re.compile(r"(.+)\[\d+(?:-\d+)?\]", re.ASCII)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Instance:
    """A part of a card: its profile, and where it lies."""

    profile: str
    place: register.Placement


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """What a card gives for a request."""

    profile: register.Profile
    place: register.Placement

    @property
    def instance(self) -> Instance:
        """The part of the card."""
        return Instance(profile=self.profile.name, place=self.place)


def choose(
    card: register.Card, memory_mib: int, places: Iterable[register.Placement]
) -> Choice | None:
    """The smallest profile with the wanted memory that has a free place; None where none has."""
    taken = tuple(places)
    for profile in _by_size(card.mig_profiles):
        if profile.memory_mib >= memory_mib:
            for place in _in_order(profile):
                if not any(_overlap(place, other) for other in taken):
                    return Choice(profile=profile, place=place)
    return None


@functools.lru_cache(maxsize=1024)
def _by_size(profiles: tuple[register.Profile, ...]) -> tuple[register.Profile, ...]:
    return tuple(sorted(profiles, key=lambda one: (one.memory_mib, one.slices)))


def _in_order(profile: register.Profile) -> list[register.Placement]:
    backwards = profile.name.startswith(_FROM_THE_END)
    return sorted(profile.placements, key=lambda place: place.start, reverse=backwards)


def _overlap(one: register.Placement, other: register.Placement) -> bool:
    return one.start < other.start + other.size and other.start < one.start + one.size


def charge(
    standing: usage.CardUsage, pick: decision.Pick, annotations: Mapping[str, str]
) -> usage.CardUsage:
    """The card with one pick more, its place included; a `Hooks.charge`."""
    after = standing.usage.add(pick)
    instance = pick.custom.get(CUSTOM)
    if isinstance(instance, Instance):
        after = dataclasses.replace(after, places=(*after.places, instance.place))
    return usage.CardUsage(standing.card, after)


def again(standing: usage.CardUsage, pick: decision.Pick) -> usage.CardUsage | None:
    """The card once more, if it gave an instance; a `Hooks.again`."""
    return charge(standing, pick, {}) if CUSTOM in pick.custom else None


def reservations(slots: decision.Slots) -> tuple[miglist.Reservation, ...]:
    """The instances among the picks of a decision of ours, in slot order."""
    return tuple(
        miglist.Reservation(
            container=container,
            device=device,
            card=pick.id,
            profile=pick.custom[CUSTOM].profile,
            place=pick.custom[CUSTOM].place,
        )
        for container, picks in enumerate(slots)
        for device, pick in enumerate(picks)
        if CUSTOM in pick.custom
    )


def held(holder: usage.Holder, key: str) -> tuple[miglist.Reservation, ...]:
    """The instances of a pod: of our own picks, else of its list; an unreadable list has none."""
    try:
        return reservations(holder.slots) or miglist.decode(holder.annotations.get(key), key=key)
    except errors.DecodeError:
        return ()


def remark(key: str, annotations: Mapping[str, str], slots: decision.Slots) -> str:
    """What keeps cards of a bound pod closed, in words; empty where nothing does."""
    try:
        miglist.decode(annotations.get(key), key=key)
    except errors.DecodeError as error:
        return f"{error}: its partitioned cards take no new pods until it is gone"
    old = sorted({pick.id for slot in slots for pick in slot if _OLD_ID.fullmatch(pick.id)})
    if not old:
        return ""
    return f"holds {', '.join(old)} in a form that is read no more; those cards take no new pods"


def settle(
    key: str, cards: tuple[usage.CardUsage, ...], holders: Iterable[usage.Holder]
) -> tuple[usage.CardUsage, ...]:
    """The cards with the places in use; those of which nobody knows what is left are closed.

    Args:
        key: the annotation with the list of instances.
        cards: all cards of a node.
        holders: the pods that hold some.
    """
    book = _Book({each.card.id: each.card for each in cards})
    for holder in holders:
        book.add(holder.slots, held(holder, key))
    if not book.closed and not book.places:
        return cards
    return tuple(book.view(each) for each in cards)


class _Book:
    """What is known of the instances on a node."""

    def __init__(self, cards: Mapping[str, register.Card]) -> None:
        self._cards = cards
        self.places: dict[str, tuple[register.Placement, ...]] = {}
        self.closed: set[str] = set()

    def add(self, slots: decision.Slots, listed: tuple[miglist.Reservation, ...]) -> None:
        """Take up one pod: every device of a partitioned card needs its reservation."""
        left: dict[str, int] = {}
        for one in listed:
            self._reserve(one)
            left[one.card] = left.get(one.card, 0) + 1
        for id in (pick.id for slot in slots for pick in slot):
            old = _OLD_ID.fullmatch(id) if id.endswith("]") else None
            if old:
                self.closed.add(old[1])
            elif self._partitioned(id):
                left[id] = left.get(id, 0) - 1
                if left[id] < 0:
                    self.closed.add(id)

    def _reserve(self, one: miglist.Reservation) -> None:
        if one.card not in self._cards:
            self.closed |= {id for id in self._cards if self._partitioned(id)}
        elif self._partitioned(one.card):
            self.places[one.card] = (*self.places.get(one.card, ()), one.place)
        else:
            self.closed.add(one.card)

    def _partitioned(self, id: str) -> bool:
        card: Any = self._cards.get(id)
        return card is not None and card.mode == MODE

    def view(self, each: usage.CardUsage) -> usage.CardUsage:
        """A card as new pods find it."""
        card, used = each.card, each.usage
        if card.id in self.closed:
            card = dataclasses.replace(card, healthy=False)
        return usage.CardUsage(
            card, dataclasses.replace(used, places=self.places.get(card.id, ()))
        )
