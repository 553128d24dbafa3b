"""Namespace arithmetic: what ResourceQuota objects allow, and whether one more card fits.

Kubernetes enforces ``limits.<resource>`` for extended resources nowhere, so we are the only one
who does. Only memory and cores of configured device types are looked at; scopes are not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from hami_operator import errors
from hami_operator.devices import account, usage, vendor
from hami_operator.devices import registry as registries
from hami_operator.protocol import decision, quantity, register
from hami_operator.scheduling import containers, effective, fields, ledger, nodes

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
        memory_mib += self.used.memory_mib
        cores += self.used.cores
        return (self.memory_mib is None or memory_mib <= self.memory_mib) and (
            self.cores is None or cores <= self.cores
        )


Accounts = Callable[[vendor.Vendor], Account | None]
"""Row → the account of the pod's namespace; None where nothing is limited."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Room:
    """The question that the fit asks for each card: has the namespace room for it as well?

    Attributes:
        account: of the namespace.
        row: the device type.
        kinds: what each container of the pod is.
        taken: what the pod has got so far of the type, per container.
        slot: the container in hand.
    """

    account: Account
    row: vendor.Vendor
    kinds: Sequence[containers.Kind]
    taken: Sequence[Sequence[decision.Pick]]
    slot: int

    def __call__(
        self, picked: Sequence[decision.Pick], memory_mib: int, cores: int, card_id: str
    ) -> bool:
        """Whether a card fits beside all that the pod, with this container, has got so far."""
        extra = decision.Pick(id=card_id, memory_mib=memory_mib, cores=cores)
        slots = [self._metered(picks) for picks in self.taken]
        slots[self.slot] = (*self._metered(picked), extra)
        cards = effective.effective(tuple(slots), self.kinds).values()
        return self.account.fits(
            sum(one.memory_mib for one in cards), sum(one.cores for one in cards)
        )

    def _metered(self, picks: Iterable[decision.Pick]) -> tuple[decision.Pick, ...]:
        return tuple(account.metered(self.row, pick) for pick in picks)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Limits:
    uid: str
    hard: Mapping[str, int]


class Quotas:
    """The ResourceQuota objects of all namespaces; an update swaps old for new in one step.

    Args:
        registry: the device types whose memory and cores count.
    """

    def __init__(self, registry: registries.Registry) -> None:
        names = (name for row in registry for name in (row.quota_memory, row.quota_cores))
        self._names = frozenset(name for name in names if name)
        self._objects: dict[str, dict[str, _Limits]] = {}

    def seen(self, raw: Mapping[str, Any]) -> tuple[Finding, ...]:
        """Take up an object as the API shows it; what cannot be used comes back, never raised."""
        found = fields.Fields()
        meta = found.mapping(raw, "metadata", "")
        namespace = found.text(meta, "namespace", "metadata.") or "default"
        name = found.text(meta, "name", "metadata.")
        uid = found.text(meta, "uid", "metadata.")
        hard = found.mapping(found.mapping(raw, "spec", ""), "hard", "spec.")
        limits = dict(self._read(hard, found))
        self._objects.setdefault(namespace, {})[name] = _Limits(uid=uid, hard=limits)
        return tuple(
            Finding(namespace=namespace, name=name, field=odd.field, problem=odd.problem)
            for odd in found.findings
        )

    def gone(self, namespace: str, name: str, uid: str = "") -> None:
        """Forget an object; harmless if unknown, or if another one bears its name by now."""
        known = self._objects.get(namespace, {})
        if name in known and (not uid or known[name].uid == uid):
            del known[name]
            if not known:
                del self._objects[namespace]

    def limits(self, namespace: str) -> Mapping[str, int]:
        """Resource to limit in the user's units: the lowest that any object of it names."""
        lowest: dict[str, int] = {}
        for one in self._objects.get(namespace, {}).values():
            for name, amount in one.hard.items():
                lowest[name] = min(amount, lowest.get(name, amount))
        return lowest

    def account(
        self, namespace: str, row: vendor.Vendor, used: usage.Usage = usage.UNUSED
    ) -> Account | None:
        """The account of one device type; None where the namespace does not limit it."""
        if namespace not in self._objects:
            return None
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
        used = held.namespace_usage(namespace)

        def account_of(row: vendor.Vendor) -> Account | None:
            taken = used.get(row.keyword, usage.UNUSED)
            if row.hooks.metered and taken != usage.UNUSED:
                taken = _metered(namespace, row, held, cards)
            return self.account(namespace, row, taken)

        return account_of

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
    standing = known.standings(node).get(word) if known is not None else None
    return {card.id: card for card in standing.inventory.cards} if standing else {}


def _whole(value: Any) -> int | None:
    try:
        read = quantity.parse(value)
    except errors.DecodeError:
        return None
    return int(read) if read >= 0 and quantity.is_whole(read) else None
