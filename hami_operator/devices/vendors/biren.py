"""Biren: cards that are given as they are."""

from __future__ import annotations

import dataclasses
from typing import Final

from hami_operator.devices import request, vendor
from hami_operator.protocol import keys, register


def _card(card: register.Card) -> register.Card:
    """Whatever the plugin says about cores."""
    return dataclasses.replace(card, cores=100)


BIREN: Final = vendor.Vendor(
    keyword="Biren",
    resources=vendor.Resources(count="birentech.com/gpu"),
    node=vendor.NodeKeys(
        register="hami.io/node-biren-register", handshake="hami.io/node-handshake-biren"
    ),
    pod=vendor.PodKeys(
        to_allocate="hami.io/Biren-devices-to-allocate",
        allocated="hami.io/Biren-devices-allocated",
    ),
    selection=vendor.Selection(
        use_uuid=("birentech.com/use-gpuuuid",), skip_uuid=("birentech.com/nouse-gpuuuid",)
    ),
    lock=keys.NODE_LOCK,
    checks=vendor.WHOLE,
    file=vendor.Section(path=("biren",)),
    hooks=vendor.Hooks(card=_card, request=request.count_alone),
)
