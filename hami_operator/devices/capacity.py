"""Devices of backends whose nodes only show capacity: a card for every so many units."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from hami_operator import errors
from hami_operator.devices import vendor
from hami_operator.protocol import decision, quantity, register

SOURCE: Final[Mapping[str, Any]] = MappingProxyType({"source": "capacity"})
"""``Card.custom`` of every card made here, this very object."""


def counted(card: register.Card) -> bool:
    """Whether the card was made here, for rows that also know registered ones."""
    return card.custom is SOURCE


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """The cards that capacity stands for.

    Attributes:
        infix: card ids are ``<node>-<infix>-<index>``.
        model: model text of every card.
        units: units of the counted resource on a card.
        count: how many containers may share a card.
        cores: cores of a card.
        memory_mib: memory of a card, where it is always the same.
    """

    infix: str
    model: str
    units: int = 1
    count: int = 1
    cores: int = 100
    memory_mib: int = 0


def found(
    node: vendor.NodeFacts, resource: str, shape: Shape, *, memory: str = "", unit_mib: int = 1
) -> vendor.Found | None:
    """The cards of a node: one for every started ``shape.units``; None where it has none.

    An amount that no node can have gives a finding instead of millions of cards.

    Args:
        node: the node.
        resource: what counts.
        shape: of each card.
        memory: the resource with the memory of all cards together; empty where the shape says it.
        unit_mib: MiB per unit of it.
    """
    units = whole(node, resource)
    if units <= 0:
        return None
    memory_mib = shape.memory_mib
    if memory:
        memory_mib = max(whole(node, memory), 0) * unit_mib * shape.units // units
    number = -(-units // shape.units)
    if number > decision.MAX_DEVICES or memory_mib > decision.INT32_MAX:
        absurd = resource if number > decision.MAX_DEVICES else memory
        finding = register.Finding(entry=0, field=absurd)
        return vendor.Found(key=resource, allocatable=resource, findings=(finding,))
    cards = tuple(_card(node, shape, index, memory_mib) for index in range(number))
    return vendor.Found(key=resource, allocatable=resource, cards=cards)


def _card(node: vendor.NodeFacts, shape: Shape, index: int, memory_mib: int) -> register.Card:
    return register.Card(
        id=f"{node.name}-{shape.infix}-{index}",
        index=index,
        count=shape.count,
        memory_mib=memory_mib,
        cores=shape.cores,
        model=shape.model,
        custom=SOURCE,
    )


def whole(node: vendor.NodeFacts, resource: str) -> int:
    """Capacity in whole units, 0 where it is absent or no whole number."""
    text = node.capacity.get(resource)
    if text is None:
        return 0
    try:
        units, part = divmod(quantity.nanos(text), quantity.BILLION)
    except errors.DecodeError:
        return 0
    return 0 if part else units
