"""What a node has of one backend, and whether it may be given away."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable
from typing import Final

from hami_operator import errors
from hami_operator.devices import vendor
from hami_operator.protocol import quantity, register

NodeFacts = vendor.NodeFacts


class State(enum.Enum):
    """State of one device type on one node."""

    ABSENT = "absent"
    UNAVAILABLE = "unavailable"
    AVAILABLE = "available"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Inventory:
    """One device type on one node, judged by everything but the age of its handshake.

    Attributes:
        state: whether its devices may be given away.
        cards: its devices by (index, id); also there while the type is unavailable.
        findings: entries that could not be read.
        key: the annotation or resource that the devices come from.
        allocatable: what kubelet offers, None where it says nothing.
        asks: the type takes part in the handshake: it is asked, and it can expire.
        handshake_key: the node annotation for that; None where the type takes no part.
        unavailable_because: why, where the state is unavailable.
    """

    state: State
    cards: tuple[register.Card, ...] = ()
    findings: tuple[register.Finding, ...] = ()
    key: str = ""
    allocatable: int | None = None
    asks: bool = False
    handshake_key: str | None = None
    unavailable_because: errors.Reason | None = None


ABSENT: Final = Inventory(state=State.ABSENT)
"""Nothing of the type is there, and nothing says so."""


def read(node: NodeFacts, row: vendor.Vendor) -> Inventory:
    """What ``node`` has of ``row``: from its register, else from whatever the row's hook reads."""
    if row.node.register and row.node.register in node.annotations:
        return _registered(node, row)
    found = row.hooks.devices(row, node) if row.hooks.devices else None
    if found is None:
        return ABSENT
    allocatable = _amount(node, found.allocatable)
    because = _because(found.cards, found.findings, allocatable)
    return _inventory(found, because, allocatable, handshake_key=None)


def read_all(node: NodeFacts, rows: Iterable[vendor.Vendor]) -> dict[str, Inventory]:
    """What ``node`` has of all rows by their keywords, in their order; absent ones left out."""
    every = (
        (row.keyword, read(node, row))
        for row in rows
        if row.node.register in node.annotations or row.hooks.devices is not None
    )
    return {word: found for word, found in every if found.state is not State.ABSENT}


def _registered(node: NodeFacts, row: vendor.Vendor) -> Inventory:
    value = register.decode(node.annotations[row.node.register], row.hooks.card)
    found = vendor.Found(
        key=row.node.register,
        allocatable=row.resources.count,
        cards=value.cards,
        findings=value.findings,
    )
    allocatable = _amount(node, found.allocatable)
    because = _because(value.cards, value.findings, allocatable)
    if row.hooks.notes:
        found = dataclasses.replace(found, findings=value.findings + row.hooks.notes(node))
    silent = row.silent and value.form is register.Form.JSON
    speaks = value.form is not register.Form.EMPTY and not (silent and allocatable is not None)
    key = _handshake_key(node, row) if speaks else None
    return _inventory(found, because, allocatable, handshake_key=key)


def _inventory(
    found: vendor.Found,
    because: errors.Reason | None,
    allocatable: int | None,
    *,
    handshake_key: str | None,
) -> Inventory:
    available = State.AVAILABLE if found.cards else State.ABSENT
    return Inventory(
        state=State.UNAVAILABLE if because else available,
        cards=found.cards,
        findings=found.findings,
        key=found.key,
        allocatable=allocatable,
        asks=handshake_key is not None,
        handshake_key=handshake_key,
        unavailable_because=because,
    )


def _because(
    cards: tuple[register.Card, ...],
    findings: tuple[register.Finding, ...],
    allocatable: int | None,
) -> errors.Reason | None:
    """Why devices that are there, or ought to be, may not be given away."""
    if not cards:
        return errors.Reason.REGISTER_UNREADABLE if findings else None
    # kubelet would refuse every pod that is sent there.
    return errors.Reason.TYPE_NOT_ALLOCATABLE if allocatable == 0 else None


def _handshake_key(node: NodeFacts, row: vendor.Vendor) -> str | None:
    legacy = row.node.legacy_handshake
    if legacy and legacy in node.annotations:
        return legacy
    return row.node.handshake or None


def _amount(node: NodeFacts, resource: str) -> int | None:
    """Allocatable amount in whole units; what cannot be read says nothing."""
    text = node.allocatable.get(resource)
    if text is None:
        return None
    try:
        return quantity.truncated(text)
    except errors.DecodeError:
        return None
