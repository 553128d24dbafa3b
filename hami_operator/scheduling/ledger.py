"""The one truth about usage: what every pod holds of every node, by pod UID.

An entry comes in by `Ledger.assume` (our own decision, before any write) or by `Ledger.observe`
(the watch shows a pod on a node), and the totals of its node are kept as it comes, changes and
goes; nothing is ever counted again from the start. Every operation may be repeated and may come
in any order. What is handed out are values: nobody changes the ledger through them.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from hami_operator.devices import account, usage
from hami_operator.devices import registry as registries
from hami_operator.protocol import decision, register
from hami_operator.scheduling import claim as claims
from hami_operator.scheduling import containers, effective, fields
from hami_operator.scheduling import pod as pods
from hami_operator.scheduling import table as tables


class State(enum.Enum):
    """How sure an entry is."""

    RESERVED = "reserved"
    BOUND = "bound"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """What one pod holds.

    Attributes:
        uid: the pod's UID.
        namespace: of the pod.
        name: of the pod.
        node: where the pod is or is to be.
        state: reserved by us, or bound.
        slots: word to picks per container, as they count.
        kinds: what each container is.
        requests: ordinary resources: cpu in thousandths, all else in whole units.
        usage: word to card id to what is taken of the card.
        foreign: the decision is not ours.
        released: the init containers have ended and count no more.
        unreadable: words that the entry keeps closed on its node.
        annotations: of the pod when it was first counted, for rules about neighbours.
    """

    uid: str
    namespace: str
    name: str
    node: str
    state: State
    slots: Mapping[str, decision.Slots] = dataclasses.field(default_factory=fields.empty)
    kinds: tuple[containers.Kind, ...] = ()
    requests: Mapping[str, int] = dataclasses.field(default_factory=fields.empty)
    usage: Mapping[str, Mapping[str, usage.Usage]] = dataclasses.field(
        default_factory=fields.empty
    )
    foreign: bool = False
    released: bool = False
    unreadable: tuple[str, ...] = ()
    annotations: Mapping[str, str] = dataclasses.field(default_factory=fields.empty)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Transition:
    """What an event did to one entry; both None where nothing was and nothing is."""

    before: Entry | None = None
    after: Entry | None = None
    findings: tuple[claims.Finding, ...] = ()

    @property
    def freed(self) -> frozenset[str]:
        """Words of which some card or the whole type became freer on ``before``'s node."""
        old, new = self.before, self.after
        if old is None:
            return frozenset()
        if new is None or new.node != old.node:
            return frozenset({*old.usage, *old.unreadable})
        return frozenset(word for word in old.usage if old.usage[word] != new.usage.get(word))

    @property
    def shrank(self) -> bool:
        """Whether ordinary room became free on ``before``'s node."""
        old, new = self.before, self.after
        if old is None:
            return False
        if new is None or new.node != old.node:
            return True
        return any(amount > new.requests.get(name, 0) for name, amount in old.requests.items())


class Ledger:
    """All entries and the totals per node.

    Args:
        registry: the device types whose decisions count.
    """

    def __init__(self, registry: registries.Registry) -> None:
        self._registry = registry
        self._entries: dict[str, Entry] = {}
        self._tables: dict[str, tables.Table] = {}
        self._namespaces: dict[str, dict[str, tables.Sum]] = {}
        self._changed: dict[str, None] = {}
        self._negative: dict[str, None] = {}
        self._miscounts: tuple[str, ...] = ()

    def assume(self, pod: pods.Pod, node: str, slots: Mapping[str, decision.Slots]) -> Transition:
        """Reserve for ``pod`` what was decided, instead of an older reservation of it.

        A bound pod keeps what it has.
        """
        known = self._entries.get(pod.uid)
        if known is not None and known.state is State.BOUND:
            return Transition(before=known, after=known)
        used = {word: each for word, each in slots.items() if any(each)}
        entry = _entry(pod, node, used, pod.requests, state=State.RESERVED)
        # What an earlier attempt has left on the pod says nothing about this decision.
        owned = self._registry.owned_pod_keys
        kept = {key: text for key, text in pod.annotations.items() if key not in owned}
        return self._replace(pod.uid, dataclasses.replace(entry, annotations=_frozen(kept)))

    def confirm(self, uid: str) -> Transition:
        """The bind was answered with success: the reservation cannot be dropped any more."""
        known = self._entries.get(uid)
        if known is None or known.state is State.BOUND:
            return Transition(before=known, after=known)
        return self._replace(uid, dataclasses.replace(known, state=State.BOUND))

    def forget(self, uid: str) -> Transition:
        """Undo `assume`; harmless if it never came, came twice, or the pod was bound since."""
        known = self._entries.get(uid)
        if known is None or known.state is State.BOUND:
            return Transition(before=known, after=known)
        return self._replace(uid, None)

    def gone(self, uid: str) -> Transition:
        """The pod is deleted or has ended: it holds nothing any more."""
        return self._replace(uid, None)

    def observe(self, pod: pods.Pod, *, ours: bool) -> Transition:
        """Take up a pod as the watch shows it on its node.

        Annotations count once, when the pod is first seen there; our own decision counts
        instead of them, whatever they become later.

        Args:
            pod: with a node.
            ours: a decision on a pod that is not in the ledger may be believed to be ours.
        """
        if pod.terminal:
            return self.gone(pod.uid)
        known = self._entries.get(pod.uid)
        if known is None:
            return self._first(pod, ours=ours)
        if known.node != pod.node_name:
            return self._first(pod, ours=False)
        if known.state is State.RESERVED and not self._is_ours(known, pod):
            return self._first(pod, ours=False)
        return self._replace(pod.uid, self._refreshed(known, pod))

    def drop_reservations(self) -> tuple[Transition, ...]:
        """Forget all that is not bound: a new leader decides afresh."""
        reserved = [uid for uid, one in self._entries.items() if one.state is State.RESERVED]
        return tuple(self.forget(uid) for uid in reserved)

    def get(self, uid: str) -> Entry | None:
        """The entry of a pod."""
        return self._entries.get(uid)

    def entries(self) -> tuple[Entry, ...]:
        """All entries, in the order in which the pods were first counted."""
        return tuple(self._entries.values())

    def on(self, node: str) -> tuple[Entry, ...]:
        """All entries of a node."""
        table = self._tables.get(node)
        return tuple(self._entries[uid] for uid in table.uids) if table is not None else ()

    def put(self, entry: Entry) -> Transition:
        """Count an entry as it stands; for ledgers that ask what would be if."""
        return self._replace(entry.uid, entry)

    def card_usage(self, node: str, word: str) -> Mapping[str, usage.Usage]:
        """Card id to what is taken of it, also of cards that are not registered (any more)."""
        table = self._tables.get(node)
        if table is None:
            return {}
        return {
            card: usage.Usage(one.used, one.memory_mib, one.cores, tuple(one.owners.values()))
            for card, one in table.cards.get(word, {}).items()
        }

    def standing(
        self, node: str, word: str, cards: Iterable[register.Card]
    ) -> tuple[usage.CardUsage, ...]:
        """The registered cards of a node with what is taken of them, as new pods find them."""
        row, taken = self._registry.by_word[word], self.card_usage(node, word)
        found = tuple(usage.CardUsage(card, taken.get(card.id, usage.UNUSED)) for card in cards)
        table = self._tables.get(node)
        holders = table.holders.get(word, {}).values() if table is not None else ()
        return account.settle(row, found, holders)

    def share(
        self, uid: str, word: str, cards: Iterable[register.Card]
    ) -> tuple[usage.CardUsage, ...]:
        """Cards with what one pod takes of them, as if nobody else were there.

        Args:
            uid: of a pod in the ledger.
            word: a device type of which it holds something.
            cards: registered cards of its node.
        """
        entry, row = self._entries[uid], self._registry.by_word[word]
        taken = entry.usage.get(word, {})
        found = tuple(usage.CardUsage(card, taken.get(card.id, usage.UNUSED)) for card in cards)
        holder = self._tables[entry.node].holders.get(word, {}).get(uid)
        return account.settle(row, found, (holder,) if holder is not None else ())

    def held(self, node: str, word: str) -> tuple[str, ...]:
        """Ids of the cards that pods hold, registered or not."""
        table = self._tables.get(node)
        return tuple(table.cards.get(word, ())) if table is not None else ()

    def owners(self, node: str, word: str) -> Mapping[str, tuple[str, ...]]:
        """Card id to the UIDs of the pods on it."""
        table = self._tables.get(node)
        cards = table.cards.get(word, {}) if table is not None else {}
        return {card: tuple(one.owners) for card, one in cards.items()}

    def words(self, node: str) -> tuple[str, ...]:
        """Device types of which pods hold something on the node."""
        table = self._tables.get(node)
        return tuple(table.cards) if table is not None else ()

    def requested(self, node: str) -> tuple[Mapping[str, int], int]:
        """Ordinary resources that the pods on the node hold, and how many pods these are."""
        table = self._tables.get(node)
        return (dict(table.requested), len(table.uids)) if table is not None else ({}, 0)

    def closed(self, node: str) -> Mapping[str, tuple[str, ...]]:
        """Words that an unreadable decision closes, with the ``namespace/name`` that did it."""
        table = self._tables.get(node)
        if table is None:
            return {}
        return {word: tuple(pods.values()) for word, pods in table.closed.items()}

    def namespace_usage(self, namespace: str) -> Mapping[str, usage.Usage]:
        """Word to what the pods of a namespace take together, reservations included."""
        return {
            word: usage.Usage(one.used, one.memory_mib, one.cores)
            for word, one in self._namespaces.get(namespace, {}).items()
        }

    def namespaces(self) -> tuple[str, ...]:
        """Namespaces whose pods hold devices."""
        return tuple(self._namespaces)

    def take_miscounts(self) -> tuple[str, ...]:
        """Totals found below zero since the last call, and added up again; a bug made them."""
        found, self._miscounts = self._miscounts, ()
        return found

    def take_changed(self) -> tuple[str, ...]:
        """Names of nodes whose totals changed since the last call; for the one snapshot."""
        changed = tuple(self._changed)
        self._changed.clear()
        return changed

    def __contains__(self, uid: object) -> bool:
        return uid in self._entries

    def __iter__(self) -> Iterator[Entry]:
        return iter(tuple(self._entries.values()))

    def __len__(self) -> int:
        return len(self._entries)

    def _first(self, pod: pods.Pod, *, ours: bool) -> Transition:
        """Count a bound pod by what its annotations say (D8)."""
        entry, findings = read(pod, self._registry, ours=ours)
        return self._replace(pod.uid, entry, findings)

    def _is_ours(self, known: Entry, pod: pods.Pod) -> bool:
        claim = claims.read(pod, self._registry)
        return not claim.unreadable and claims.same(known.slots, claim.slots)

    def _refreshed(self, known: Entry, pod: pods.Pod) -> Entry:
        released = known.released or pod.inits_done
        entry = dataclasses.replace(known, state=State.BOUND, requests=_frozen(pod.held))
        if released and not known.released:
            taken = _usage(known.slots, known.kinds, released=True)
            entry = dataclasses.replace(entry, released=True, usage=taken)
        return entry

    def _replace(
        self, uid: str, new: Entry | None, findings: tuple[claims.Finding, ...] = ()
    ) -> Transition:
        """The only place that changes entries and totals; both in one step."""
        old = self._entries.get(uid)
        if new is not None:
            self._entries[uid] = new
        else:
            self._entries.pop(uid, None)
        if old is None or new is None or not _counts_alike(old, new):
            if old is not None:
                self._count(old, -1)
            if new is not None:
                self._count(new, 1)
            if self._negative:
                self._recount()
        return Transition(before=old, after=new, findings=findings)

    def _recount(self) -> None:
        """Add all entries up again: a total below zero is a bug, and no usage may hide in it."""
        self._changed |= dict.fromkeys(self._tables)
        self._tables.clear()
        self._namespaces.clear()
        for entry in self._entries.values():
            self._count(entry, 1)
        self._miscounts += tuple(self._negative)
        self._negative.clear()

    def _count(self, entry: Entry, sign: int) -> None:
        table = self._tables.get(entry.node)
        if table is None:
            table = self._tables[entry.node] = tables.Table()
        for card in table.count(entry, sign, self._registry):
            self._negative[f"{card} on {entry.node}"] = None
        for word, cards in entry.usage.items():
            self._count_namespace(entry.namespace, word, cards, sign)
        if not table.uids:
            del self._tables[entry.node]
        self._changed[entry.node] = None

    def _count_namespace(
        self, namespace: str, word: str, cards: Mapping[str, usage.Usage], sign: int
    ) -> None:
        words = self._namespaces.setdefault(namespace, {})
        total = words.get(word)
        if total is None:
            total = words[word] = tables.Sum()
        for one in cards.values():
            if total.add(one, sign):
                self._negative[f"{word} in namespace {namespace}"] = None
        if total.used or total.memory_mib or total.cores:
            return
        del words[word]
        if not words:
            del self._namespaces[namespace]


def read(
    pod: pods.Pod, registry: registries.Registry, *, ours: bool
) -> tuple[Entry, tuple[claims.Finding, ...]]:
    """What a bound pod holds by what its annotations say (D8), and what is odd about them.

    Args:
        pod: with a node.
        registry: the device types whose decisions count.
        ours: its decision may be believed to be ours.
    """
    claim = claims.read(pod, registry)
    entry = _claimed(pod, pod.held, claim, foreign=bool(claim.slots) and not ours)
    told = (claims.foreign(pod, claim.slots),) if entry.foreign else ()
    return entry, (*claim.findings, *told)


def count(pod: pods.Resident, registry: registries.Registry) -> Entry:
    """The same without what is odd; its decision is believed to be ours."""
    return _claimed(pod, pod.held, claims.count(pod, registry), foreign=False)


def _claimed(
    pod: pods.Counted, held: Mapping[str, int], claim: claims.Claim, *, foreign: bool
) -> Entry:
    return _entry(
        *(pod, pod.node_name, claim.slots, held), foreign=foreign, unreadable=claim.unreadable
    )


def _entry(
    pod: pods.Counted,
    node: str,
    slots: Mapping[str, decision.Slots],
    requests: Mapping[str, int],
    *,
    state: State = State.BOUND,
    foreign: bool = False,
    unreadable: tuple[str, ...] = (),
) -> Entry:
    kinds = tuple(container.kind for container in pod.containers)
    return Entry(
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        node=node,
        state=state,
        slots=_frozen(slots),
        kinds=kinds,
        requests=_frozen(requests),
        usage=_usage(slots, kinds, released=pod.inits_done),
        foreign=foreign,
        released=pod.inits_done,
        unreadable=unreadable,
        annotations=_frozen(pod.annotations),
    )


def _usage(
    slots: Mapping[str, decision.Slots], kinds: tuple[containers.Kind, ...], *, released: bool
) -> Mapping[str, Mapping[str, usage.Usage]]:
    return MappingProxyType(
        {word: effective.effective(each, kinds, released=released) for word, each in slots.items()}
    )


def _counts_alike(old: Entry, new: Entry) -> bool:
    return (
        old.node == new.node
        and old.namespace == new.namespace
        and old.usage == new.usage
        and old.requests == new.requests
        and old.unreadable == new.unreadable
        and old.released is new.released
    )


def _frozen(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """A mapping that its reader cannot change; nobody changes that of a pod or a decision."""
    return MappingProxyType(values)
