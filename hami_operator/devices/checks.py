"""The checks of the fit: small functions in one table, switched on per row.

Each answers None where the card passes, or the reason why not.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from hami_operator import errors
from hami_operator.devices import vendor
from hami_operator.protocol import decision

if TYPE_CHECKING:
    from hami_operator.devices import fit, usage
    from hami_operator.protocol import register

Reason = errors.Reason


def health(walk: fit.Walk, card: register.Card, used: usage.Usage) -> Reason | None:
    """F1; rows that say it in another word build on it."""
    return None if card.healthy else Reason.CARD_NOT_HEALTHY


def _cordon(walk: fit.Walk, card: register.Card, used: usage.Usage) -> Reason | None:
    return Reason.CARD_CORDONED if card.id in walk.cordoned else None


def by_type(walk: fit.Walk, card: register.Card, used: usage.Usage) -> Reason | None:
    """F3; rows with a rule of their own for models build on it."""
    return None if walk.chosen.allows_model(card) else Reason.CARD_TYPE_MISMATCH


def _numa(walk: fit.Walk, card: register.Card, used: usage.Usage) -> Reason | None:
    """Refuses nothing: on another NUMA node the picks so far are given back."""
    if card.numa != walk.numa and not walk.collects:
        walk.numa = card.numa
        if walk.picks:
            walk.refuse(Reason.NUMA_NOT_FIT, len(walk.picks))
            walk.picks.clear()
    return None


def by_id(walk: fit.Walk, card: register.Card, used: usage.Usage) -> Reason | None:
    """F5; rows that judge whole sets of cards ask it for each."""
    return None if walk.chosen.allows_id(card) else Reason.CARD_UUID_MISMATCH


def slots(walk: fit.Walk, card: register.Card, used: usage.Usage) -> Reason | None:
    """F6."""
    return None if card.count > used.used else Reason.CARD_SLOTS_EXHAUSTED


def mutex(walk: fit.Walk, card: register.Card, used: usage.Usage) -> Reason | None:
    """F7 under such a policy; rows that share no card at all ask it always."""
    return Reason.EXCLUSIVE_CONFLICT if used.used else None


def quota(walk: fit.Walk, card: register.Card, used: usage.Usage) -> Reason | None:
    """F9; rows whose quota counts in other units build on it."""
    return quota_of(walk, card, walk.memory_mib, walk.cores)


def quota_of(walk: fit.Walk, card: register.Card, memory_mib: int, cores: int) -> Reason | None:
    """F9 for the given amounts of a card, in the units of quota limits."""
    fits = walk.context.quota_fits
    beside = walk.picks[: walk.request.count - 1] if walk.collects else walk.picks
    if fits is None or fits(beside, memory_mib, cores, card.id):
        return None
    return Reason.QUOTA_NOT_FIT


def quota_for_all(
    walk: fit.Walk, card: register.Card, memory_mib: int, cores: int, number: int
) -> Reason | None:
    """F9 for rows that choose ``number`` such cards at once: whether all of them have room."""
    fits = walk.context.quota_fits
    one = decision.Pick(id=card.id, memory_mib=memory_mib, cores=cores)
    if fits is None or fits([one] * (number - 1), memory_mib, cores, card.id):
        return None
    return Reason.QUOTA_NOT_FIT


def _memory(walk: fit.Walk, card: register.Card, used: usage.Usage) -> Reason | None:
    """A share below 1 MiB is refused too: plugins read a decision of 0 MiB as no limit."""
    share = walk.memory_mib or walk.request.percent in {None, 100}
    if share and card.memory_mib - used.memory_mib >= walk.memory_mib:
        return None
    return Reason.CARD_INSUFFICIENT_MEMORY


def cores(walk: fit.Walk, card: register.Card, used: usage.Usage) -> Reason | None:
    """F11; rows with a rule of their own for cores build on it."""
    return None if card.cores - used.cores >= walk.cores else Reason.CARD_INSUFFICIENT_CORES


def exclusive(walk: fit.Walk, card: register.Card, used: usage.Usage) -> Reason | None:
    """F12; rows with a rule of their own for cores build on it."""
    whole = walk.cores == 100 and card.cores == 100
    return Reason.EXCLUSIVE_CONFLICT if whole and used.used else None


def exhausted(walk: fit.Walk, card: register.Card, used: usage.Usage) -> Reason | None:
    """F13; rows with a rule of their own for cores build on it."""
    if walk.cores == 0 and card.cores != 0 and used.cores >= card.cores:
        return Reason.CARD_COMPUTE_EXHAUSTED
    return None


TABLE: Final[Mapping[vendor.Check, vendor.CheckFunction]] = {
    vendor.Check.HEALTH: health,
    vendor.Check.CORDON: _cordon,
    vendor.Check.TYPE: by_type,
    vendor.Check.NUMA: _numa,
    vendor.Check.UUID: by_id,
    vendor.Check.SLOTS: slots,
    vendor.Check.MUTEX: mutex,
    vendor.Check.QUOTA: quota,
    vendor.Check.MEMORY: _memory,
    vendor.Check.CORES: cores,
    vendor.Check.EXCLUSIVE: exclusive,
    vendor.Check.EXHAUSTED: exhausted,
}
"""All but the clamp, which is applied once before the walk."""


@functools.lru_cache(maxsize=4096)  # a few dozen plans serve all nodes and pods
def plan(
    row: vendor.Vendor,
    *,
    cordon: bool,
    by_type: bool,
    by_id: bool,
    numa: bool,
    mutex: bool,
    quota: bool,
) -> tuple[vendor.CheckFunction, ...]:
    """The functions that a card of this row meets, in order.

    Engine checks that cannot refuse anything under the given demands are left out; a row's own
    replacements stay, since only they know what they look at. Without a quota nothing asks.
    """
    idle = {
        check
        for check, active in {
            vendor.Check.CORDON: cordon,
            vendor.Check.TYPE: by_type,
            vendor.Check.NUMA: numa,
            vendor.Check.UUID: by_id,
            vendor.Check.MUTEX: mutex,
            vendor.Check.QUOTA: quota,
        }.items()
        if not active
    }
    own = row.hooks.checks.keys() - (set() if quota else {vendor.Check.QUOTA})
    steps = [
        _step(row, check)
        for check in TABLE
        if check in row.checks and (check not in idle or check in own)
    ]
    return (*steps, row.hooks.rule) if row.hooks.rule else tuple(steps)


def _step(row: vendor.Vendor, check: vendor.Check) -> vendor.CheckFunction:
    return row.hooks.checks.get(check, TABLE[check])
