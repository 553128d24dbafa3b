"""The checks of the fit: small functions in one table, switched on per row.

Each answers None where the card passes, or the reason why not.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from hami_operator import errors
from hami_operator.devices import vendor

if TYPE_CHECKING:
    from hami_operator.devices import fit, usage
    from hami_operator.protocol import register

Reason = errors.Reason


def _health(walk: fit.Walk, card: register.Card, used: usage.Usage) -> Reason | None:
    return None if card.healthy else Reason.CARD_NOT_HEALTHY


def _cordon(walk: fit.Walk, card: register.Card, used: usage.Usage) -> Reason | None:
    return Reason.CARD_CORDONED if card.id in walk.cordoned else None


def by_type(walk: fit.Walk, card: register.Card, used: usage.Usage) -> Reason | None:
    """F3; rows with a rule of their own for models build on it."""
    return None if walk.chosen.allows_model(card) else Reason.CARD_TYPE_MISMATCH


def _numa(walk: fit.Walk, card: register.Card, used: usage.Usage) -> Reason | None:
    """Refuses nothing: on another NUMA node the picks so far are given back."""
    if card.numa != walk.numa:
        walk.numa = card.numa
        if walk.picks:
            walk.refuse(Reason.NUMA_NOT_FIT, len(walk.picks))
            walk.picks.clear()
    return None


def _uuid(walk: fit.Walk, card: register.Card, used: usage.Usage) -> Reason | None:
    return None if walk.chosen.allows_id(card) else Reason.CARD_UUID_MISMATCH


def _slots(walk: fit.Walk, card: register.Card, used: usage.Usage) -> Reason | None:
    return None if card.count > used.used else Reason.CARD_SLOTS_EXHAUSTED


def _mutex(walk: fit.Walk, card: register.Card, used: usage.Usage) -> Reason | None:
    return Reason.EXCLUSIVE_CONFLICT if used.used else None


def _quota(walk: fit.Walk, card: register.Card, used: usage.Usage) -> Reason | None:
    fits = walk.context.quota_fits
    if fits is None or fits(walk.picks, walk.memory_mib, walk.cores, card.id):
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


def _exclusive(walk: fit.Walk, card: register.Card, used: usage.Usage) -> Reason | None:
    whole = walk.cores == 100 and card.cores == 100
    return Reason.EXCLUSIVE_CONFLICT if whole and used.used else None


def exhausted(walk: fit.Walk, card: register.Card, used: usage.Usage) -> Reason | None:
    """F13; rows with a rule of their own for cores build on it."""
    if walk.cores == 0 and card.cores != 0 and used.cores >= card.cores:
        return Reason.CARD_COMPUTE_EXHAUSTED
    return None


TABLE: Final[Mapping[vendor.Check, vendor.CheckFunction]] = {
    vendor.Check.HEALTH: _health,
    vendor.Check.CORDON: _cordon,
    vendor.Check.TYPE: by_type,
    vendor.Check.NUMA: _numa,
    vendor.Check.UUID: _uuid,
    vendor.Check.SLOTS: _slots,
    vendor.Check.MUTEX: _mutex,
    vendor.Check.QUOTA: _quota,
    vendor.Check.MEMORY: _memory,
    vendor.Check.CORES: cores,
    vendor.Check.EXCLUSIVE: _exclusive,
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
    replacements always stay, since only they know what they look at.
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
    steps = [
        _step(row, check)
        for check in TABLE
        if check in row.checks and (check not in idle or check in row.hooks.checks)
    ]
    return (*steps, row.hooks.rule) if row.hooks.rule else tuple(steps)


def _step(row: vendor.Vendor, check: vendor.Check) -> vendor.CheckFunction:
    return row.hooks.checks.get(check, TABLE[check])
