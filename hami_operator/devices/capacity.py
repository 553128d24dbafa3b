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
    """How capacity becomes cards.

    Attributes:
        infix: card ids are ``<node>-<infix>-<index>``.
        model: model text of every card.
        cores: the resource that counts.
        memory: the resource with the memory of all cards together.
        cores_per_card: units of ``cores`` on a card.
        memory_unit_mib: MiB per unit of ``memory``.
        count: how many containers may share a card.
    """

    infix: str
    model: str
    cores: str
    memory: str
    cores_per_card: int
    memory_unit_mib: int
    count: int = 100


def found(node: vendor.NodeFacts, shape: Shape) -> vendor.Found | None:
    """The cards of a node: one for every started ``cores_per_card``; None where it has none.

    An amount that no node can have gives a finding instead of millions of cards.
    """
    cores = _whole(node, shape.cores)
    if cores <= 0:
        return None
    total_mib = max(_whole(node, shape.memory), 0) * shape.memory_unit_mib
    memory_mib = total_mib * shape.cores_per_card // cores
    number = -(-cores // shape.cores_per_card)
    absurd = shape.cores if number > decision.MAX_DEVICES else shape.memory
    if number > decision.MAX_DEVICES or memory_mib > decision.INT32_MAX:
        finding = register.Finding(entry=0, field=absurd)
        return vendor.Found(key=shape.cores, allocatable=shape.cores, findings=(finding,))
    cards = tuple(_card(node, shape, index, memory_mib) for index in range(number))
    return vendor.Found(key=shape.cores, allocatable=shape.cores, cards=cards)


def _card(node: vendor.NodeFacts, shape: Shape, index: int, memory_mib: int) -> register.Card:
    return register.Card(
        id=f"{node.name}-{shape.infix}-{index}",
        index=index,
        count=shape.count,
        memory_mib=memory_mib,
        cores=shape.cores_per_card,
        model=shape.model,
        custom=SOURCE,
    )


def _whole(node: vendor.NodeFacts, resource: str) -> int:
    """The amount, 0 where it is absent or no whole number."""
    try:
        read = quantity.parse(node.capacity.get(resource, "0"))
    except errors.DecodeError:
        return 0
    return int(read) if read.denominator == 1 else 0
