"""Concrete cards on one node for all containers of one pod, or the reason why there are none.

Sidecars and apps are placed one after the other on one working copy of the node's cards; each
init container by itself on a copy that already carries the sidecars, and what its row says it
never gives back. Only tuples of cards that
change are ever copied.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from hami_operator import errors
from hami_operator.devices import account, fit, request, selection, usage, vendor
from hami_operator.devices import registry as registries
from hami_operator.protocol import decision
from hami_operator.scheduling import demand as demands
from hami_operator.scheduling import pod as pods
from hami_operator.scheduling import policy as policies
from hami_operator.scheduling import quota, rejection, room, scores, snapshot

PLUGIN: Final = "Devices"
QUOTA: Final = "DeviceQuota"
"""The filter's name where no card anywhere would help: the namespace has no room for the pod."""

_Cards = dict[str, tuple[usage.CardUsage, ...]]
# Reasons that can pass when other pods end; the others need another node, card or pod.
_PASSING: Final = frozenset(
    {
        errors.Reason.CARD_SLOTS_EXHAUSTED,
        errors.Reason.CARD_INSUFFICIENT_MEMORY,
        errors.Reason.CARD_INSUFFICIENT_CORES,
        errors.Reason.CARD_COMPUTE_EXHAUSTED,
        errors.Reason.EXCLUSIVE_CONFLICT,
        errors.Reason.QUOTA_NOT_FIT,
        errors.Reason.NUMA_NOT_FIT,
    }
)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One request of one container, with all that is the same on every node.

    Attributes:
        row: the device type; None for one that is not configured.
        word: its keyword.
        wanted: the request.
        criteria: how its cards are ordered.
        score: of a card, which some criteria ask for.
        tally: of the namespace's quota; None without one.
    """

    row: vendor.Vendor | None
    word: str
    wanted: request.Request
    criteria: tuple[policies.Criterion, ...]
    score: scores.Score
    tally: room.Tally | None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """A pod's demand, prepared once for all nodes.

    Attributes:
        demand: what is asked.
        sidecars: per container its slot and lines.
        inits: likewise.
        apps: likewise.
        annotations: of the pod.
        policy: order of cards.
        several: more than one container asks, so each must see what the others got.
        tallies: word to what is asked of the namespace's quota; to be cleared before each node.
    """

    demand: demands.Demand
    sidecars: tuple[tuple[int, tuple[Line, ...]], ...]
    inits: tuple[tuple[int, tuple[Line, ...]], ...]
    apps: tuple[tuple[int, tuple[Line, ...]], ...]
    annotations: Mapping[str, str]
    policy: policies.CardPolicy
    several: bool = False
    tallies: Mapping[str, room.Tally] = dataclasses.field(default_factory=dict)


def prepare(
    pod: pods.Pod,
    demand: demands.Demand,
    preferences: policies.Preferences,
    *,
    registry: registries.Registry,
    accounts: quota.Accounts | None = None,
    counts_request: bool = True,
) -> Order:
    """Look up everything that does not depend on the node.

    Args:
        pod: the pod.
        demand: its device requests.
        preferences: its policies.
        registry: the device types.
        accounts: quota of its namespace; None where it has none.
        counts_request: the card score counts the request (D15).
    """
    tallies = dict(_tallies(demand, registry, accounts)) if accounts is not None else {}
    line = functools.partial(
        _line,
        pod=pod,
        registry=registry,
        tallies=tallies,
        preferences=preferences,
        counts_request=counts_request,
    )

    def lines(
        containers: tuple[demands.Container, ...],
    ) -> tuple[tuple[int, tuple[Line, ...]], ...]:
        return tuple(
            (one.slot, tuple(line(word, wanted) for word, wanted in one.requests))
            for one in containers
        )

    return Order(
        demand=demand,
        sidecars=lines(demand.sidecars),
        inits=lines(demand.inits),
        apps=lines(demand.apps),
        annotations=pod.annotations,
        policy=preferences.cards,
        several=len(demand.sidecars) + len(demand.inits) + len(demand.apps) > 1,
        tallies=tallies,
    )


def _tallies(
    demand: demands.Demand, registry: registries.Registry, accounts: quota.Accounts
) -> Iterator[tuple[str, room.Tally]]:
    for word, requests in demand.words.items():
        row = registry.by_word.get(word)
        account = accounts(row) if row is not None else None
        if row is not None and account is not None:
            least = room.least(row, requests, demand.kinds)
            yield word, room.Tally(row=row, account=account, least=least)


def _line(
    word: str,
    wanted: request.Request,
    *,
    pod: pods.Pod,
    registry: registries.Registry,
    tallies: Mapping[str, room.Tally],
    preferences: policies.Preferences,
    counts_request: bool,
) -> Line:
    row = registry.by_word.get(word)
    bound = row is not None and selection.numa_bound(row, pod.annotations)
    return Line(
        row=row,
        word=word,
        wanted=wanted,
        criteria=preferences.cards.criteria(numa_bind=bound),
        score=scores.scorer(preferences.weights, wanted if counts_request else None),
        tally=tallies.get(word),
    )


def allocate(
    order: Order, view: snapshot.NodeView
) -> Mapping[str, decision.Slots] | rejection.Rejection:
    """Choose cards for every container; the first request that finds none gives the reason.

    Returns:
        Word to one slot per container, or why the node is refused.
    """
    work = _Work(order, view)
    shared = _Pass(cards=dict(view.cards))
    for slot, lines in order.sidecars:
        if not work.place(slot, lines, shared):
            return work.refused
    for slot, lines in order.inits:
        alone = _Pass(cards=dict(shared.cards), earlier=dict(shared.earlier))
        if not work.place(slot, lines, alone):
            return work.refused
        shared.keep(alone, lines)
    for slot, lines in order.apps:
        if not work.place(slot, lines, shared):
            return work.refused
    return {word: tuple(slots) for word, slots in work.slots.items()}


@dataclasses.dataclass(kw_only=True, slots=True)
class _Pass:
    """A working copy of a node's cards, and who got which of them so far.

    Attributes:
        cards: word to its cards as they stand.
        earlier: word to the card ids of each container placed before.
    """

    cards: _Cards
    earlier: dict[str, tuple[tuple[str, ...], ...]] = dataclasses.field(default_factory=dict)

    def keep(self, alone: _Pass, lines: tuple[Line, ...]) -> None:
        """Take over what an init container that was placed alone does not give back."""
        for line in lines:
            lasts = line.row.hooks.lasts if line.row is not None else None
            if lasts is not None:
                pairs = zip(self.cards[line.word], alone.cards[line.word], strict=True)
                self.cards[line.word] = tuple(
                    after if lasts(before.card) else before for before, after in pairs
                )


class _Work:
    """Places the containers of one pod on one node."""

    __slots__ = ("_order", "_view", "refused", "slots")

    def __init__(self, order: Order, view: snapshot.NodeView) -> None:
        self._order = order
        self._view = view
        self.refused = _NOT_REFUSED
        size = order.demand.size
        self.slots: dict[str, list[tuple[decision.Pick, ...]]] = {
            word: [()] * size for word in order.demand.words
        }

    def place(self, slot: int, lines: tuple[Line, ...], on: _Pass) -> bool:
        """Give one container its cards of every type; False after noting why not."""
        for line in lines:
            row = line.row
            if row is None:
                self.refused = _UNKNOWN
                return False
            cards = on.cards.get(line.word, ())
            answer = fit.fit(
                row,
                line.wanted,
                scores.order(cards, line.criteria, line.score),
                self._context(slot, line, on),
            )
            if isinstance(answer, fit.NoFit):
                self.refused = self._refusal(answer, line)
                return False
            self.slots[line.word][slot] = answer.picks
            if self._order.several:
                self._take(on, line.word, row, answer.picks)
        return True

    def _take(
        self, on: _Pass, word: str, row: vendor.Vendor, picks: tuple[decision.Pick, ...]
    ) -> None:
        """Charge the picks to the working copy; cards that nobody got stay the same objects."""
        cards = {each.card.id: each for each in on.cards[word]}
        for pick in picks:
            each = cards[pick.id]
            cards[pick.id] = account.charge(row, each, pick, self._order.annotations)
        on.cards[word] = tuple(cards.values())
        ids = tuple(pick.id for pick in picks)
        on.earlier[word] = (*on.earlier.get(word, ()), ids)

    def _context(self, slot: int, line: Line, on: _Pass) -> fit.Context:
        node = self._view.node
        return fit.Context(
            pod_annotations=self._order.annotations,
            node_annotations=node.annotations,
            node_labels=node.labels,
            policy=self._order.policy.words,
            quota_fits=self._room(slot, line),
            earlier=on.earlier.get(line.word, ()),
        )

    def _refusal(self, answer: fit.NoFit, line: Line) -> rejection.Rejection:
        because = self._view.unavailable.get(line.word)
        if line.tally is None or errors.Reason.QUOTA_NOT_FIT not in answer.reasons:
            return _refusal(answer, because)
        plugin = PLUGIN if line.tally.is_hopeful else QUOTA
        return _refusal(answer, because, plugin=plugin, quota_text=line.tally.text())

    def _room(self, slot: int, line: Line) -> Callable[..., bool] | None:
        if line.tally is None or line.row is None:
            return None
        return room.Room(
            account=line.tally,
            row=line.row,
            kinds=self._order.demand.kinds,
            taken=self.slots[line.word],
            slot=slot,
        )


_NOT_REFUSED: Final = rejection.Rejection(plugin=PLUGIN, texts=(), resolvable=False)


def refusal(
    reasons: tuple[errors.Reason, ...], detail: str, *, resolvable: bool
) -> rejection.Rejection:
    """A rejection for devices, with words for people and for machines."""
    texts = sorted({_text(reason) for reason in reasons})
    return rejection.Rejection(
        plugin=PLUGIN,
        texts=tuple(texts),
        resolvable=resolvable,
        reasons=reasons,
        detail=detail,
    )


def _text(reason: errors.Reason) -> str:
    return f"{reason.words} ({reason.word})"


def _refusal(
    answer: fit.NoFit,
    because: errors.Reason | None,
    *,
    plugin: str = PLUGIN,
    quota_text: str = "",
) -> rejection.Rejection:
    """Why the fit found no cards.

    Args:
        answer: of the fit.
        because: why the type has no cards to give at all.
        plugin: the filter's name.
        quota_text: says more about the quota than its reason does.
    """
    return _cached(answer.counts, answer.candidates, because, plugin, quota_text)


@functools.lru_cache(maxsize=4096)  # full nodes of one kind give the same answer over and over
def _cached(
    counts: tuple[tuple[errors.Reason, int], ...],
    candidates: int,
    because: errors.Reason | None,
    plugin: str,
    quota_text: str,
) -> rejection.Rejection:
    answer = fit.NoFit(counts=counts, candidates=candidates)
    passing = because is None and not _PASSING.isdisjoint(answer.reasons)
    reasons = answer.reasons if because is None else (because,)
    found = refusal(reasons, answer.text(), resolvable=passing)
    if not quota_text:
        return found
    others = (one for one in found.texts if one != _text(errors.Reason.QUOTA_NOT_FIT))
    texts = tuple(sorted((quota_text, *others)))
    return dataclasses.replace(found, plugin=plugin, texts=texts)


_UNKNOWN: Final = refusal(
    (errors.Reason.DEVICE_TYPE_UNKNOWN,), "Device type not found", resolvable=False
)
