"""What is known of every node: its record, its cards, and which device types may be used.

Driven by node events; only time itself (`Nodes.expire`) and questions (`Nodes.due`) need a tick.
One device type never affects another, and one node never another.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from hami_operator import errors
from hami_operator.devices import inventory
from hami_operator.devices import registry as registries
from hami_operator.protocol import handshake, instant, keys, register
from hami_operator.scheduling import effects, liveness
from hami_operator.scheduling import node as records

_SHOWN_FINDINGS: Final = 20
_UNREGISTERED: Final = errors.Reason.NODE_UNREGISTERED


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """How a device type stands on a node.

    Attributes:
        inventory: what the node says about it.
        because: why it takes no new pods; None where it does.
    """

    inventory: inventory.Inventory
    because: errors.Reason | None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """What an event did to a node.

    Attributes:
        before: the record until now; None for a new node.
        after: the record from now on; None for one that is gone.
        words: device types whose cards, availability or rules differ now.
        effects: what is to be told.
    """

    name: str
    before: records.Node | None
    after: records.Node | None
    words: frozenset[str] = frozenset()
    effects: tuple[effects.Effect, ...] = ()


@dataclasses.dataclass(kw_only=True, slots=True)
class _Entry:
    node: records.Node
    quiet: Mapping[str, str]
    standings: dict[str, Standing]
    version: int
    told: dict[str, errors.Reason | None] = dataclasses.field(default_factory=dict)
    findings: dict[str, tuple[register.Finding, ...]] = dataclasses.field(default_factory=dict)


class Nodes:
    """All nodes by name.

    Args:
        registry: the device types to look for.
        device_timeout_s: silence after which a type is unavailable (D1).
        selector: labels without which the devices of a node are left alone.
    """

    def __init__(
        self,
        registry: registries.Registry,
        device_timeout_s: float,
        selector: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._registry = registry
        self._selector = selector.items()
        self._timeout_s = device_timeout_s
        self._entries: dict[str, _Entry] = {}
        self._liveness = liveness.Liveness()
        self._version = 0
        self._changed: dict[str, None] = {}
        self._noise = _noise(registry)
        self._passing = frozenset({keys.NODE_LOCK, *(row.lock for row in registry)})
        self._signs = frozenset(
            key for row in registry for key in (row.node.handshake, row.node.legacy_handshake)
        )

    def seen(
        self,
        node: records.Node,
        now: instant.Instant,
        *,
        at_start: bool = False,
        inventories: Mapping[str, inventory.Inventory] | None = None,
    ) -> Change:
        """Take up a node as the API shows it; an older version than the known one is ignored.

        Args:
            node: the record.
            now: time of the look.
            at_start: what the node carries may be older than our first look at it.
            inventories: what the node has of every row, where that is known already.
        """
        entry = self._entries.get(node.name)
        before = entry.node if entry is not None else None
        if before is not None and is_older(node.resource_version, before.resource_version):
            return Change(name=node.name, before=before, after=before)
        if entry is not None and _same_facts(entry.node, node):
            entry.node = node
            return Change(name=node.name, before=before, after=node)
        old = entry.standings if entry is not None else {}
        if not self._selector <= node.labels.items():
            inventories = {}
        elif inventories is None:
            inventories = self._inventories(entry, node)
        new = self._stand(node, inventories, old, now, at_start=at_start)
        quiet = {key: text for key, text in node.annotations.items() if key not in self._noise}
        if entry is None:
            entry = _Entry(node=node, quiet=quiet, standings=new, version=self._bump(node.name))
            self._entries[node.name] = entry
            words = frozenset(new)
        else:
            words = self._differences(entry, node, quiet, new)
            entry.node, entry.quiet, entry.standings = node, quiet, new
        told = (*self._tell(entry), *self._tell_findings(entry))
        return Change(name=node.name, before=before, after=node, words=words, effects=told)

    def gone(self, name: str) -> Change:
        """Forget a node: its cards, availability and ages; harmless where it is not known."""
        entry = self._entries.pop(name, None)
        self._liveness.forget(name)
        if entry is None:
            return Change(name=name, before=None, after=None)
        self._bump(name)
        return Change(name=name, before=entry.node, after=None, words=frozenset(entry.standings))

    def expire(self, now: instant.Instant) -> tuple[Change, ...]:
        """Make types unavailable whose plugin has been silent for too long by now."""
        changes = []
        for name, entry in self._entries.items():
            silent = [
                word
                for word, standing in entry.standings.items()
                if standing.because is None
                and standing.inventory.asks
                and self._liveness.expired(name, word, self._timeout_s, now)
            ]
            for word in silent:
                entry.standings[word] = dataclasses.replace(
                    entry.standings[word], because=errors.Reason.TYPE_EXPIRED
                )
            if silent:
                changes.append(self._expired(entry, frozenset(silent)))
        return tuple(changes)

    def due(self, now: instant.Instant) -> Mapping[str, Mapping[str, str]]:
        """Node name to the handshake annotations that this tick writes on it, all in one go."""
        asked = {name: self.due_on(name, now) for name in self._entries}
        return {name: values for name, values in asked.items() if values}

    def due_on(self, name: str, now: instant.Instant) -> Mapping[str, str]:
        """The handshake annotations to write on one node; none for an unknown node.

        A readable question is never asked again: its age is the time since the last answer.
        """
        entry = self._entries.get(name)
        if entry is None:
            return {}
        return {
            standing.inventory.handshake_key: handshake.encode(now.wall)
            for word, standing in entry.standings.items()
            if standing.inventory.asks
            and standing.inventory.handshake_key is not None
            and self._liveness.must_ask(name, word)
        }

    def restart(self, now: instant.Instant) -> tuple[Change, ...]:
        """Start the ages anew from the values found, as a new leader does."""
        self._liveness.restart(now)
        return self.expire(now)

    def report(self) -> tuple[effects.Effect, ...]:
        """Everything that is amiss now, told again: for a leader that has just begun."""
        told: list[effects.Effect] = []
        for entry in self._entries.values():
            entry.told.clear()
            entry.findings.clear()
            told += self._tell(entry)
            told += self._tell_findings(entry)
        return tuple(told)

    def take_changed(self) -> tuple[str, ...]:
        """Names of nodes that changed since the last call; for the one snapshot."""
        changed = tuple(self._changed)
        self._changed.clear()
        return changed

    def get(self, name: str) -> records.Node | None:
        """The newest record of a node."""
        entry = self._entries.get(name)
        return entry.node if entry is not None else None

    def standings(self, name: str) -> Mapping[str, Standing]:
        """Word to standing, for the types that the node has."""
        entry = self._entries.get(name)
        return dict(entry.standings) if entry is not None else {}

    def cards_of(self, name: str, word: str) -> tuple[register.Card, ...]:
        """The registered cards of a node, usable or not; none of a type that it has not."""
        entry = self._entries.get(name)
        standing = entry.standings.get(word) if entry is not None else None
        return standing.inventory.cards if standing is not None else ()

    def cards(self, word: str) -> Iterator[tuple[register.Card, ...]]:
        """The cards of a device type on each node that has it, in use or not."""
        for entry in self._entries.values():
            standing = entry.standings.get(word)
            if standing is not None:
                yield standing.inventory.cards

    def version(self, name: str) -> int:
        """A number that grows with every change that placement could notice; 0 if unknown."""
        entry = self._entries.get(name)
        return entry.version if entry is not None else 0

    def age_s(self, name: str, word: str, now: instant.Instant) -> float | None:
        """Seconds for which the handshake value has stood; None where it is not consulted."""
        return self._liveness.age_s(name, word, now)

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._entries))

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def _inventories(
        self, entry: _Entry | None, node: records.Node
    ) -> Mapping[str, inventory.Inventory]:
        """What the node has of every row; locks and signs of life come often and change none."""
        if entry is None or not self._same_devices(entry.node, node):
            return inventory.read_all(node, self._registry)
        return {word: standing.inventory for word, standing in entry.standings.items()}

    def _same_devices(self, old: records.Node, new: records.Node) -> bool:
        if (old.allocatable, old.capacity, old.labels) != (
            new.allocatable,
            new.capacity,
            new.labels,
        ):
            return False
        before, after = old.annotations, new.annotations
        changed = (
            key for key in before.keys() | after.keys() if before.get(key) != after.get(key)
        )
        return all(
            # Of a sign of life, that there is one matters; its value is judged apart.
            key in self._passing or (key in self._signs and key in before and key in after)
            for key in changed
        )

    def _stand(
        self,
        node: records.Node,
        inventories: Mapping[str, inventory.Inventory],
        old: Mapping[str, Standing],
        now: instant.Instant,
        *,
        at_start: bool,
    ) -> dict[str, Standing]:
        for word in old.keys() - inventories.keys():
            self._liveness.forget(node.name, word)
        standings = {}
        for word, read in inventories.items():
            known = old.get(word)
            # Equal values become one, so comparing stays cheap.
            same = known is not None and known.inventory == read
            found = known.inventory if known is not None and same else read
            because = self._judge(node, word, found, now, at_start=at_start)
            standings[word] = Standing(inventory=found, because=because)
        return standings

    def _judge(
        self,
        node: records.Node,
        word: str,
        found: inventory.Inventory,
        now: instant.Instant,
        *,
        at_start: bool,
    ) -> errors.Reason | None:
        if found.asks and found.handshake_key is not None:
            value = node.annotations.get(found.handshake_key)
            self._liveness.see(node.name, word, value, now, at_start=at_start)
        else:
            self._liveness.forget(node.name, word)
        if found.state is inventory.State.UNAVAILABLE:
            return found.unavailable_because
        if self._liveness.expired(node.name, word, self._timeout_s, now):
            return errors.Reason.TYPE_EXPIRED
        return None

    def _differences(
        self,
        entry: _Entry,
        node: records.Node,
        quiet: Mapping[str, str],
        new: Mapping[str, Standing],
    ) -> frozenset[str]:
        old = entry.standings
        words = {word for word in old.keys() | new.keys() if _differ(old.get(word), new.get(word))}
        if entry.quiet != quiet or entry.node.labels != node.labels:
            words |= new.keys()  # cordon, selection and a row's own rules read these
        if words or not _same_for_filters(entry.node, node):
            entry.version = self._bump(node.name)
        return frozenset(words)

    def _expired(self, entry: _Entry, words: frozenset[str]) -> Change:
        entry.version = self._bump(entry.node.name)
        return Change(
            name=entry.node.name,
            before=entry.node,
            after=entry.node,
            words=words,
            effects=self._tell(entry),
        )

    def _tell(self, entry: _Entry) -> tuple[effects.Effect, ...]:
        """One event for each type that was lost or came back since we last told."""
        told: list[effects.Effect] = []
        for word in sorted(entry.told.keys() | entry.standings.keys()):
            standing = entry.standings.get(word)
            because = standing.because if standing is not None else _UNREGISTERED
            before = entry.told.get(word)
            entry.told[word] = because
            if because is before:
                continue
            if because is None:
                told.append(_available(entry.node.name, word))
            else:
                told.append(_unavailable(entry.node.name, word, because))
        return tuple(told)

    def _tell_findings(self, entry: _Entry) -> tuple[effects.Effect, ...]:
        """One event per register value with malformed entries, when the list changes."""
        told: list[effects.Effect] = []
        for word, standing in entry.standings.items():
            found = standing.inventory.findings
            if found and entry.findings.get(word) != found:
                told.append(_malformed(entry.node.name, standing.inventory))
        entry.findings = {
            word: standing.inventory.findings
            for word, standing in entry.standings.items()
            if standing.inventory.findings
        }
        return tuple(told)

    def _bump(self, name: str) -> int:
        self._version += 1
        self._changed[name] = None
        return self._version


def is_older(version: str, than: str) -> bool:
    """Whether one resourceVersion is older than another; never, where they are no numbers."""
    if version.isdecimal() and than.isdecimal():
        return int(version) < int(than)
    return False


def _noise(registry: registries.Registry) -> frozenset[str]:
    """Node annotations that no rule of placement reads, other than through the inventory."""
    noise = {keys.NODE_LOCK}
    for row in registry:
        noise |= {row.node.register, row.node.handshake, row.node.legacy_handshake, row.lock}
        noise.add(row.node.listed)
    return frozenset(noise)


def _differ(old: Standing | None, new: Standing | None) -> bool:
    if old is None or new is None:
        return old is not new
    return old.because is not new.because or old.inventory.cards != new.inventory.cards


def _same_facts(old: records.Node, new: records.Node) -> bool:
    """A heartbeat: nothing changed that anybody here reads."""
    return old.annotations == new.annotations and _same_for_filters(old, new)


def _same_for_filters(old: records.Node, new: records.Node) -> bool:
    return (
        old.uid == new.uid
        and old.unschedulable == new.unschedulable
        and old.taints == new.taints
        and old.allocatable == new.allocatable
        and old.capacity == new.capacity
        and old.labels == new.labels
        and old.features == new.features
        and old.images == new.images
    )


def _unavailable(node: str, word: str, because: errors.Reason) -> effects.NodeEvent:
    why = f"{because.words} ({because.word})"
    if because is _UNREGISTERED:
        why = "its register is empty or gone"
    return effects.NodeEvent(
        node=node,
        type=effects.EventType.WARNING,
        reason="DeviceTypeUnavailable",
        message=f"{word} takes no new pods here: {why}; running pods stay counted",
    )


def _available(node: str, word: str) -> effects.NodeEvent:
    return effects.NodeEvent(
        node=node,
        type=effects.EventType.NORMAL,
        reason="DeviceTypeAvailable",
        message=f"{word} takes new pods again",
    )


def _malformed(node: str, found: inventory.Inventory) -> effects.NodeEvent:
    shown = [f"entry {bad.entry}: {bad.field}" for bad in found.findings[:_SHOWN_FINDINGS]]
    more = len(found.findings) - len(shown)
    text = ", ".join(shown) + (f", and {more} more" if more else "")
    return effects.NodeEvent(
        node=node,
        type=effects.EventType.WARNING,
        reason="MalformedDeviceRegister",
        message=f"{found.key}: cannot be read, so skipped: {text}",
    )
