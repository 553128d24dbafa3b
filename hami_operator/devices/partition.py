"""Cards that are partitioned into instances: which profile, and where on the card."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

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


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Note:
    """What a pod holds of partitioned cards beside the sums.

    Attributes:
        reserved: its instances.
        closed: cards that it holds under ids of old plugins.
    """

    reserved: tuple[miglist.Reservation, ...] = ()
    closed: frozenset[str] = frozenset()


def note(key: str, annotations: Mapping[str, str], slots: decision.Slots) -> Note | None:
    """The instances of a pod: of our own picks, else of its list; None for an ordinary pod.

    A list that cannot be read has none.

    Args:
        key: the annotation with the list.
        annotations: of the pod.
        slots: what it holds.
    """
    if key not in annotations and not any(map(_is_special, _picks(slots))):
        return None
    reserved = reservations(slots)
    if not reserved:
        with contextlib.suppress(errors.DecodeError):
            reserved = miglist.decode(annotations.get(key), key=key)
    closed = frozenset(old[1] for old in map(_OLD_ID.fullmatch, _ids(slots)) if old)
    return Note(reserved=reserved, closed=closed) if reserved or closed else None


def _picks(slots: decision.Slots) -> Iterator[decision.Pick]:
    return (pick for slot in slots for pick in slot)


def _is_special(pick: decision.Pick) -> bool:
    """An instance of ours, or perhaps one under an id of old plugins."""
    return CUSTOM in pick.custom or "[" in pick.id


def _ids(slots: decision.Slots) -> list[str]:
    return [pick.id for pick in _picks(slots)]


def remark(key: str, annotations: Mapping[str, str], slots: decision.Slots) -> str:
    """What keeps cards of a bound pod closed, in words; empty where nothing does."""
    try:
        miglist.decode(annotations.get(key), key=key)
    except errors.DecodeError as error:
        return f"{error}: its partitioned cards take no new pods until it is gone"
    old = sorted({id for id in _ids(slots) if _OLD_ID.fullmatch(id)})
    if not old:
        return ""
    return f"holds {', '.join(old)} in a form that is read no more; those cards take no new pods"


def settle(
    cards: tuple[usage.CardUsage, ...], holders: tuple[usage.Holder, ...]
) -> tuple[usage.CardUsage, ...]:
    """The cards with the places in use; those of which nobody knows what is left are closed.

    Args:
        cards: all cards of a node.
        holders: the pods that hold some, with their `Note`.
    """
    partitioned = {each.card.id for each in cards if each.card.mode == MODE}
    if not partitioned and not any(holder.note for holder in holders):
        return cards
    book = _Book(frozenset(each.card.id for each in cards), frozenset(partitioned))
    for holder in holders:
        book.add(_ids(holder.slots), holder.note or Note())
    return tuple(book.view(each) for each in cards)


class _Book:
    """What is known of the instances on a node."""

    def __init__(self, cards: frozenset[str], partitioned: frozenset[str]) -> None:
        self._cards = cards
        self._partitioned = partitioned
        self._places: dict[str, tuple[register.Placement, ...]] = {}
        self._closed: set[str] = set()

    def add(self, ids: Iterable[str], known: Note) -> None:
        """Take up one pod: every device of a partitioned card needs its reservation."""
        self._closed |= known.closed
        for one in known.reserved:
            self._reserve(one)
        left = collections.Counter(one.card for one in known.reserved)
        left.subtract(id for id in ids if id in self._partitioned)
        self._closed |= {id for id, number in left.items() if number < 0}

    def _reserve(self, one: miglist.Reservation) -> None:
        if one.card in self._partitioned:
            self._places[one.card] = (*self._places.get(one.card, ()), one.place)
        elif one.card in self._cards:
            self._closed.add(one.card)
        else:
            self._closed |= self._partitioned

    def view(self, each: usage.CardUsage) -> usage.CardUsage:
        """A card as new pods find it."""
        card, used = each.card, each.usage
        if card.id in self._closed:
            card = dataclasses.replace(card, healthy=False)
        places = self._places.get(card.id, ())
        return usage.CardUsage(card, dataclasses.replace(used, places=places))
