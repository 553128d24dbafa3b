"""AMD: cores are compute units, asked for in percent."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from hami_operator import errors
from hami_operator.devices import checks, fit, request, usage, vendor
from hami_operator.protocol import decision, keys, register

_MODEL: Final = "type"
_UNITS: Final = "units"


def _card(card: register.Card) -> register.Card | str:
    """The product name goes into decisions, so it must be one that can be written there."""
    return _MODEL if decision.FORBIDDEN.search(card.model) else card


def _request(
    row: vendor.Vendor, found: request.Request, asked: request.Asked
) -> request.Request | request.Invalid:
    if 1 <= found.cores <= 100:
        return found
    name = row.resources.cores
    why = "is not between 1 and 100 percent"
    return request.Invalid(resource=name, value=str(asked.raw(name)), why=why)


def _amounts(walk: fit.Walk, card: register.Card) -> tuple[int, int, Mapping[str, Any]]:
    units = max(1, card.cores * walk.request.cores // 100)
    return walk.memory_mib, units, {_MODEL: card.model, _UNITS: card.cores}


def _cores(walk: fit.Walk, card: register.Card, used: usage.Usage) -> errors.Reason | None:
    missing = None if card.cores else errors.Reason.CARD_INSUFFICIENT_CORES
    return missing or checks.cores(walk, card, used)


def _percent(units: int, total: int) -> int:
    return -(-units * 100 // total) if total else 100


def _quota(walk: fit.Walk, card: register.Card, used: usage.Usage) -> errors.Reason | None:
    return checks.quota_of(walk, card, walk.memory_mib, _percent(walk.cores, card.cores))


def _metered(pick: decision.Pick, card: register.Card | None) -> decision.Pick:
    """Limits are in percent; a card that is not registered any more counts as a whole one."""
    total = pick.custom.get(_UNITS, card.cores if card else 0)
    return dataclasses.replace(pick, cores=_percent(pick.cores, total))


def _word(pick: decision.Pick) -> str:
    return str(pick.custom[_MODEL])


AMD: Final = vendor.Vendor(
    keyword="AMD",
    resources=vendor.Resources(
        count="amd.com/gpu", memory="amd.com/gpumem", cores="amd.com/gpucores"
    ),
    node=vendor.NodeKeys(
        register="hami.io/node-amd-register", handshake="hami.io/node-handshake-amd"
    ),
    pod=vendor.PodKeys(
        to_allocate="hami.io/amd-devices-to-allocate", allocated="hami.io/amd-devices-allocated"
    ),
    selection=vendor.Selection(
        use_type="amd.com/use-gputype",
        skip_type="amd.com/nouse-gputype",
        use_uuid=("amd.com/use-gpu-uuid",),
        skip_uuid=("amd.com/nouse-gpu-uuid",),
    ),
    default_cores=100,
    read_requests=False,
    silent=True,
    lock=keys.NODE_LOCK,
    checks=vendor.WHOLE
    | {vendor.Check.TYPE, vendor.Check.QUOTA, vendor.Check.MEMORY, vendor.Check.CORES},
    file=vendor.Section(path=("amd",)),
    hooks=vendor.Hooks(
        card=_card,
        request=_request,
        amounts=_amounts,
        checks={vendor.Check.QUOTA: _quota, vendor.Check.CORES: _cores},
        metered=_metered,
        word=_word,
    ),
)
