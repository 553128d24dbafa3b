"""A simulated device plugin: its state, and what its node shows because of it. Pure.

The state is a value; the switches of `fleet` replace it and publish what it shows then.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from typing import Final

from hami_operator.devices import vendor
from hami_operator.protocol import handshake, register
from hami_operator.simulator import catalogue, models

_WIDTHS: Final = {models.Shown.SEVEN: 7, models.Shown.NINE: 9}
_REGISTERS: Final = frozenset({*_WIDTHS, models.Shown.JSON})
_MUST_ANSWER: Final = frozenset(
    {handshake.Kind.REQUESTING, handshake.Kind.UNREADABLE, handshake.Kind.TOMBSTONE}
)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Plugin:
    """One plugin on one node.

    Attributes:
        row: the vendor's row: keys, resources, units.
        model: what its cards are.
        cards: the cards in the machine, with their health.
        lost: ids of cards that the driver no longer shows.
        alive: false after a crash: it neither registers nor answers nor allocates.
        missed: kubelet has noticed the crash and offers none of its devices.
        failing: how many of the next allocations fail.
        delay_s: how long an allocation takes.
        allocatable: amount that kubelet offers instead of the healthy slots; None for those.
    """

    row: vendor.Vendor
    model: models.Model
    cards: tuple[register.Card, ...]
    lost: frozenset[str] = frozenset()
    alive: bool = True
    missed: bool = False
    failing: int = 0
    delay_s: float = 0.0
    allocatable: int | None = None

    @property
    def present(self) -> tuple[register.Card, ...]:
        """The cards that the driver shows."""
        return tuple(card for card in self.cards if card.id not in self.lost)

    @property
    def registers(self) -> bool:
        """Whether it writes a register; others have a list of their own, or capacity alone."""
        return self.model.shown in _REGISTERS

    @property
    def handshake_key(self) -> str:
        """Where it answers; empty for plugins that never do."""
        as_json = self.model.shown is models.Shown.JSON
        if not self.registers or (as_json and self.row.silent):
            return ""
        keys = self.row.node
        return (self.model.legacy and keys.legacy_handshake) or keys.handshake

    def with_health(self, card: str, *, healthy: bool) -> Plugin:
        """The same with one card well or unwell."""
        cards = (
            dataclasses.replace(one, healthy=healthy) if one.id == card else one
            for one in self.cards
        )
        return dataclasses.replace(self, cards=tuple(cards))


def install(
    row: vendor.Vendor, equipment: catalogue.Equipment, node: str, *, delay_s: float = 0.0
) -> Plugin:
    """A healthy plugin on ``node``."""
    cards = equipment.model.cards(node, equipment.number)
    return Plugin(row=row, model=equipment.model, cards=cards, delay_s=delay_s)


def registration(plugin: Plugin, wall: datetime.datetime) -> Mapping[str, str]:
    """What it writes on its Node each time it registers: its cards, and a sign of life."""
    written = dict(zip(plugin.row.node.extra, plugin.model.notes(plugin.present), strict=False))
    if plugin.registers:
        written[plugin.row.node.register] = _register(plugin)
    if plugin.model.listed:
        written[plugin.row.node.listed] = plugin.model.listed(plugin.present)
    if plugin.handshake_key:
        utc = wall.astimezone(datetime.UTC)
        written[plugin.handshake_key] = f"Reported_{utc:%Y.%m.%d %H:%M:%S}"
    return written


def _register(plugin: Plugin) -> str:
    if plugin.model.shown is models.Shown.JSON:
        return register.encode(plugin.present, register.Form.JSON)
    width = _WIDTHS[plugin.model.shown]
    return register.encode(plugin.present, register.Form.TEXT, width=width)


def is_asked(plugin: Plugin, node_annotations: Mapping[str, str]) -> bool:
    """Whether its Node carries a question that it has not answered."""
    key = plugin.handshake_key
    return bool(key) and handshake.classify(node_annotations.get(key)) in _MUST_ANSWER


def capacity(plugin: Plugin) -> Mapping[str, int]:
    """``status.capacity`` of its resources."""
    return _amounts(plugin, plugin.present)


def allocatable(plugin: Plugin) -> Mapping[str, int]:
    """``status.allocatable`` of its resources: what kubelet would still start pods on."""
    if plugin.missed:
        return dict.fromkeys(capacity(plugin), 0)
    offered = _amounts(plugin, tuple(card for card in plugin.present if card.healthy))
    if plugin.allocatable is None:
        return offered
    return dict.fromkeys(offered, plugin.allocatable)


def _amounts(plugin: Plugin, cards: tuple[register.Card, ...]) -> dict[str, int]:
    offers = plugin.model.offers or {"count": plugin.model.count}
    return {
        getattr(plugin.row.resources, name): amount * len(cards) for name, amount in offers.items()
    }
