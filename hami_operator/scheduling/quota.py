"""Namespace arithmetic: what ResourceQuota objects allow, and whether one more card fits.

Kubernetes enforces ``limits.<resource>`` for extended resources nowhere, so we are the only one
who does. Only memory and cores of configured device types are looked at; scopes are not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from hami_operator import errors
from hami_operator.devices import account, usage, vendor
from hami_operator.devices import registry as registries
from hami_operator.protocol import quantity, register
from hami_operator.scheduling import effective, fields, ledger, nodes

_PREFIX: Final = "limits."


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """A limit that cannot be used, and is therefore no limit: for an event on the object."""

    namespace: str
    name: str
    field: str
    problem: str

    def __str__(self) -> str:
        return f"ResourceQuota {self.namespace}/{self.name}: {self.field}: {self.problem}"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Account:
    """What a namespace may hold of one device type, and what it holds, in units of decisions.

    Attributes:
        memory_mib: the most that its pods may hold together; None is no limit, 0 blocks.
        cores: likewise.
        used: what they hold now, reservations included.
    """

    memory_mib: int | None = None
    cores: int | None = None
    used: usage.Usage = usage.UNUSED

    def fits(self, memory_mib: int, cores: int) -> bool:
        """Whether so much more has room; to use up the limit exactly is allowed."""
        return self.has_memory(memory_mib) and self.has_cores(cores)

    def has_memory(self, memory_mib: int) -> bool:
        """Whether so much more memory has room."""
        return self.memory_mib is None or self.used.memory_mib + memory_mib <= self.memory_mib

    def has_cores(self, cores: int) -> bool:
        """Whether so many more cores have room."""
        return self.cores is None or self.used.cores + cores <= self.cores


Accounts = Callable[[vendor.Vendor], Account | None]
"""Row → the account of the pod's namespace; None where nothing is limited."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What one ResourceQuota object says about devices.

    Attributes:
        hard: resource to limit, in the user's units.
        findings: what of it cannot be used.
    """

    namespace: str
    name: str
    uid: str
    hard: Mapping[str, int]
    findings: tuple[Finding, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """What an event did to one object; both None where nothing was and nothing is.

    Attributes:
        namespace: of the object.
        loosened: some limit of the namespace is higher than before, or is no more.
    """

    namespace: str
    before: Limits | None = None
    after: Limits | None = None
    loosened: bool = False

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What of the object cannot be used."""
        return self.after.findings if self.after is not None else ()

    @property
    def news(self) -> Limits | None:
        """The object, where its findings are other than before and there are some."""
        old = self.before.findings if self.before is not None else ()
        return self.after if self.findings and self.findings != old else None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """One resource of one namespace: used of the limit, in units of decisions.

    Attributes:
        name: the resource, without ``limits.``.
        limit: None where nothing limits it.
    """

    namespace: str
    name: str
    used: int
    limit: int | None


class Quotas:
    """The ResourceQuota objects of all namespaces; an update swaps old for new in one step.

    Args:
        registry: the device types whose memory and cores count.
    """

    def __init__(self, registry: registries.Registry) -> None:
        names = (name for row in registry for name in (row.quota_memory, row.quota_cores))
        self._registry = registry
        self._names = frozenset(name for name in names if name)
        self._objects: dict[str, dict[str, Limits]] = {}
        self._lowest: dict[str, Mapping[str, int]] = {}

    def seen(self, raw: Mapping[str, Any]) -> Change:
        """Take up an object as the API shows it; what cannot be used is a finding."""
        limits = self._limits(raw)
        known = self._objects.setdefault(limits.namespace, {})
        before = known.get(limits.name)
        known[limits.name] = limits
        return self._changed(limits.namespace, before, limits)

    def gone(self, namespace: str, name: str, uid: str = "") -> Change:
        """Forget an object; harmless if unknown, or if another one bears its name by now."""
        known = self._objects.get(namespace, {})
        before = known.get(name)
        if before is None or (uid and before.uid != uid):
            return Change(namespace=namespace, before=before, after=before)
        del known[name]
        if not known:
            del self._objects[namespace]
        return self._changed(namespace, before, None)

    def __iter__(self) -> Iterator[Limits]:
        """All objects, by namespace."""
        return (one for each in tuple(self._objects.values()) for one in tuple(each.values()))

    def limits(self, namespace: str) -> Mapping[str, int]:
        """Resource to limit in the user's units: the lowest that any object of it names."""
        return self._lowest.get(namespace, fields.EMPTY)

    def account(
        self, namespace: str, row: vendor.Vendor, used: usage.Usage = usage.UNUSED
    ) -> Account | None:
        """The account of one device type; None where the namespace does not limit it."""
        limits = self.limits(namespace)
        memory, cores = limits.get(row.quota_memory), limits.get(row.quota_cores)
        if memory is None and cores is None:
            return None
        memory_mib = None if memory is None else memory * row.mib_per_unit
        return Account(memory_mib=memory_mib, cores=cores, used=used)

    def accounts(
        self, namespace: str, held: ledger.Ledger, cards: nodes.Nodes | None = None
    ) -> Accounts | None:
        """All accounts of a namespace for one cycle; None where it limits nothing.

        Args:
            namespace: of the pod that is to be placed.
            held: what the namespace holds now.
            cards: which cards there are, for rows that hold in other units than limits have.
        """
        if not self.limits(namespace):
            return None
        taken = held.namespace_usage(namespace)

        def account_of(row: vendor.Vendor) -> Account | None:
            return self.account(namespace, row, _used(namespace, row, taken, held, cards))

        return account_of

    def standings(
        self, held: ledger.Ledger, cards: nodes.Nodes | None = None
    ) -> Iterator[Standing]:
        """Everything that is limited or used, of all namespaces; arguments as of `accounts`."""
        for namespace in dict.fromkeys((*self._lowest, *held.namespaces())):
            taken = held.namespace_usage(namespace)
            for row in self._registry:
                used = _used(namespace, row, taken, held, cards)
                account = self.account(namespace, row, used) or Account()
                for name, amount, limit in (
                    (row.quota_memory, used.memory_mib, account.memory_mib),
                    (row.quota_cores, used.cores, account.cores),
                ):
                    if name and (amount or limit is not None):
                        yield Standing(namespace=namespace, name=name, used=amount, limit=limit)

    def _limits(self, raw: Mapping[str, Any]) -> Limits:
        found = fields.Fields()
        meta = found.mapping(raw, "metadata", "")
        namespace = found.text(meta, "namespace", "metadata.") or "default"
        name = found.text(meta, "name", "metadata.")
        uid = found.text(meta, "uid", "metadata.")
        hard = found.mapping(found.mapping(raw, "spec", ""), "hard", "spec.")
        limits = dict(self._read(hard, found))
        findings = tuple(
            Finding(namespace=namespace, name=name, field=odd.field, problem=odd.problem)
            for odd in found.findings
        )
        return Limits(namespace=namespace, name=name, uid=uid, hard=limits, findings=findings)

    def _changed(self, namespace: str, before: Limits | None, after: Limits | None) -> Change:
        """Sum the namespace up anew, after one of its objects was swapped."""
        old, lowest = self.limits(namespace), dict[str, int]()
        for one in self._objects.get(namespace, {}).values():
            for name, amount in one.hard.items():
                lowest[name] = min(amount, lowest.get(name, amount))
        self._lowest.pop(namespace, None)
        if lowest:
            self._lowest[namespace] = MappingProxyType(lowest)
        loosened = any(name not in lowest or lowest[name] > most for name, most in old.items())
        return Change(namespace=namespace, before=before, after=after, loosened=loosened)

    def _read(self, hard: Mapping[str, Any], found: fields.Fields) -> Iterator[tuple[str, int]]:
        for key, value in hard.items():
            name = str(key).removeprefix(_PREFIX)
            if key == name or name not in self._names:
                continue
            amount = _whole(value)
            if amount is None:
                problem = f"{str(value)[:64]!r} is not a whole number from 0 up: not a limit"
                found.note(f"spec.hard[{key}]", problem)
            else:
                yield name, amount


def _used(
    namespace: str,
    row: vendor.Vendor,
    taken: Mapping[str, usage.Usage],
    held: ledger.Ledger,
    cards: nodes.Nodes | None,
) -> usage.Usage:
    """What a namespace holds of a row, in the units of its limits."""
    used = taken.get(row.keyword, usage.UNUSED)
    if row.hooks.metered is None or used == usage.UNUSED:
        return used
    return _metered(namespace, row, held, cards)


def _metered(
    namespace: str, row: vendor.Vendor, held: ledger.Ledger, cards: nodes.Nodes | None
) -> usage.Usage:
    """What a namespace holds of a row whose limits are in other units than its decisions."""
    taken: list[usage.Usage] = []
    for entry in held:
        if entry.namespace != namespace or row.keyword not in entry.slots:
            continue
        known = _cards(cards, entry.node, row.keyword)
        slots = tuple(
            tuple(account.metered(row, pick, known.get(pick.id)) for pick in slot)
            for slot in entry.slots[row.keyword]
        )
        taken += effective.effective(slots, entry.kinds, released=entry.released).values()
    return usage.Usage(
        sum(one.used for one in taken),
        sum(one.memory_mib for one in taken),
        sum(one.cores for one in taken),
    )


def _cards(known: nodes.Nodes | None, node: str, word: str) -> Mapping[str, register.Card]:
    return {card.id: card for card in known.cards_of(node, word)} if known is not None else {}


def _whole(value: Any) -> int | None:
    try:
        read = quantity.parse(value)
    except errors.DecodeError:
        return None
    return int(read) if read >= 0 and quantity.is_whole(read) else None
