"""Which cards of one node serve one container's request, or why none do.

The walk takes the candidates in order of preference. Each card meets the checks of its row in
their fixed order; the first that fails counts one for its reason.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from hami_operator import errors
from hami_operator.devices import account, checks, request, selection, usage, vendor
from hami_operator.protocol import decision, keys, register

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})

NOTE: Final = "note"
"""Under this key a pick may carry a sentence for people about how it was chosen."""

QuotaFits = Callable[[Sequence[decision.Pick], int, int, str], bool]
"""(picks of this container so far, MiB, cores, card id) → whether the namespace has room."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """What surrounds a request.

    Attributes:
        pod_annotations: of the pod.
        node_annotations: of the node.
        node_labels: of the node.
        policy: words of the card policy; ``mutex`` acts here, the order is the caller's.
        quota_fits: the namespace's quota, None where it has none.
        earlier: ids given to each container placed before this one in the same pass.
    """

    pod_annotations: Mapping[str, str] = dataclasses.field(default_factory=lambda: _NOTHING)
    node_annotations: Mapping[str, str] = dataclasses.field(default_factory=lambda: _NOTHING)
    node_labels: Mapping[str, str] = dataclasses.field(default_factory=lambda: _NOTHING)
    policy: tuple[str, ...] = ()
    quota_fits: QuotaFits | None = None
    earlier: tuple[tuple[str, ...], ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Fit:
    """The cards, in the order picked."""

    picks: tuple[decision.Pick, ...]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class NoFit:
    """Why not: how many of the candidates each reason refused."""

    counts: tuple[tuple[errors.Reason, int], ...]
    candidates: int

    @property
    def reasons(self) -> tuple[errors.Reason, ...]:
        """The reasons alone."""
        return tuple(reason for reason, _ in self.counts)

    def text(self) -> str:
        """``1/4 AllocatedCardsInsufficientRequest, 3/4 CardInsufficientMemory``."""
        if self.reasons == (errors.Reason.NODE_INSUFFICIENT_DEVICE,):
            return errors.Reason.NODE_INSUFFICIENT_DEVICE.word
        parts = (f"{number}/{self.candidates} {reason.word}" for reason, number in self.counts)
        return ", ".join(sorted(parts))


@dataclasses.dataclass(slots=True)
class Walk:
    """State of one walk; hooks and checks read it, the engine writes it.

    A row's rule comes last and may still say what the card gives: memory, cores and, always,
    custom.

    Attributes:
        row: the backend.
        request: what one container wants.
        context: what surrounds it.
        candidates: the cards, most preferred first.
        chosen: demands of the pod's annotations.
        cordoned: ids that take no new pods.
        memory_mib: MiB that the card at hand would give.
        cores: cores that the card at hand would give.
        custom: extra facts that its pick would carry.
        picks: cards picked so far, in order.
        collects: all fitting cards are picked, to choose among them afterwards.
        facts: what the row's hook has prepared for the walk.
        numa: NUMA node of the picks under NUMA binding, None before the first.
        refusals: how many cards each reason refused.
    """

    row: vendor.Vendor
    request: request.Request
    context: Context
    candidates: Sequence[usage.CardUsage]
    chosen: selection.Chosen
    cordoned: frozenset[str]
    memory_mib: int
    cores: int
    custom: Mapping[str, Any]
    picks: list[decision.Pick]
    collects: bool
    facts: Mapping[str, Any]
    numa: int | None
    refusals: dict[errors.Reason, int]

    def refuse(self, reason: errors.Reason, number: int = 1) -> None:
        """Count a reason."""
        self.refusals[reason] = self.refusals.get(reason, 0) + number

    def no_fit(self) -> NoFit:
        """The answer when the walk has come to nothing."""
        counts = sorted(self.refusals.items(), key=lambda item: item[0].word)
        return NoFit(counts=tuple(counts), candidates=len(self.candidates))


def fit(
    row: vendor.Vendor,
    wanted: request.Request,
    candidates: Sequence[usage.CardUsage],
    context: Context,
) -> Fit | NoFit:
    """Choose the cards of one node for one container's request to one backend.

    Args:
        row: the backend.
        wanted: what the container asks of it.
        candidates: cards of the backend on the node, the most preferred first; none where the
            type is absent or unavailable.
        context: what surrounds the request.
    """
    walk = _start(row, wanted, candidates, context)
    hooks = row.hooks
    if wanted.count > len(candidates) and not (hooks.enough and hooks.enough(walk)):
        return insufficient(walk)
    if hooks.prepare:
        walk.facts = hooks.prepare(walk)
    answer = hooks.before(walk) if hooks.before else None
    if answer is not None:
        return answer
    walk.collects = hooks.collect is not None and hooks.collect(walk)
    if _go(walk, None if walk.collects else wanted.count):
        return Fit(picks=tuple(walk.picks))
    if walk.collects and hooks.choose:
        return _in_quota(walk, hooks.choose(walk))
    return too_few(walk)


def insufficient(walk: Walk) -> NoFit:
    """The answer where more devices are wanted than the node has of the type at all."""
    return NoFit(counts=_INSUFFICIENT, candidates=len(walk.candidates))


_INSUFFICIENT: Final = ((errors.Reason.NODE_INSUFFICIENT_DEVICE, 1),)


def _in_quota(walk: Walk, answer: Fit | NoFit) -> Fit | NoFit:
    """The answer, unless the chosen cards together are more than the namespace may have.

    While cards are collected each is judged by itself, beside as many others as are wanted.
    """
    fits = walk.context.quota_fits
    if fits is None or isinstance(answer, NoFit):
        return answer
    *others, last = (account.metered(walk.row, pick) for pick in answer.picks)
    if fits(others, last.memory_mib, last.cores, last.id):
        return answer
    walk.refuse(errors.Reason.QUOTA_NOT_FIT, len(answer.picks))
    return walk.no_fit()


def obvious(walk: Walk) -> Fit | NoFit | None:
    """The answer where as many cards as wanted were collected, or fewer; None for more."""
    if len(walk.picks) < walk.request.count:
        return too_few(walk)
    return Fit(picks=tuple(walk.picks)) if len(walk.picks) == walk.request.count else None


def too_few(walk: Walk) -> NoFit:
    """The answer when the walk has picked fewer cards than wanted."""
    if walk.picks:
        walk.refuse(errors.Reason.TOO_FEW_CARDS_FIT, len(walk.picks))
    return walk.no_fit()


def _start(
    row: vendor.Vendor,
    wanted: request.Request,
    candidates: Sequence[usage.CardUsage],
    context: Context,
) -> Walk:
    return Walk(
        row=row,
        request=wanted,
        context=context,
        candidates=candidates,
        chosen=selection.read(row.selection, context.pod_annotations),
        cordoned=selection.cordoned(context.node_annotations.get(keys.DEVICE_CORDON)),
        memory_mib=wanted.memory_mib,
        cores=clamped_cores(row, wanted),
        custom=_NOTHING,
        picks=[],
        collects=False,
        facts=_NOTHING,
        numa=None,
        refusals={},
    )


def clamped_cores(row: vendor.Vendor, wanted: request.Request) -> int:
    """Cores per device, at most a whole card where the row clamps (F8)."""
    return min(wanted.cores, 100) if vendor.Check.CLAMP in row.checks else wanted.cores


def _go(walk: Walk, count: int | None) -> bool:
    """Walk the candidates; True as soon as ``count`` cards are picked, None never has enough."""
    steps = _checks(walk)
    again = walk.row.hooks.again
    picks = walk.picks
    for candidate in walk.candidates:
        standing: usage.CardUsage | None = candidate
        while standing is not None:
            pick = _try(walk, standing, steps)
            if pick is None:
                break
            picks.append(pick)
            if len(picks) == count:
                return True
            standing = again(standing, pick) if again else None
    return False


def _try(
    walk: Walk, candidate: usage.CardUsage, steps: tuple[vendor.CheckFunction, ...]
) -> decision.Pick | None:
    """The pick of this card, or None after counting why not."""
    card, used = candidate.card, candidate.usage
    _size(walk, card)
    for check in steps:
        reason = check(walk, card, used)
        if reason is not None:
            walk.refuse(reason)
            return None
    return decision.Pick(
        id=card.id,
        memory_mib=walk.memory_mib,
        cores=walk.cores,
        index=card.index,
        custom=walk.custom,
    )


def _size(walk: Walk, card: register.Card) -> None:
    """Set what this card would give, before it is checked."""
    wanted, hooks = walk.request, walk.row.hooks
    walk.memory_mib = wanted.memory_mib or card.memory_mib * (wanted.percent or 0) // 100
    if hooks.amounts is not None:
        walk.memory_mib, walk.cores, walk.custom = hooks.amounts(walk, card)
    elif walk.custom:
        walk.cores, walk.custom = clamped_cores(walk.row, wanted), _NOTHING


def _checks(walk: Walk) -> tuple[vendor.CheckFunction, ...]:
    """The checks of the row that can refuse anything at all under these demands."""
    row, context = walk.row, walk.context
    return checks.plan(
        row,
        cordon=bool(walk.cordoned),
        by_type=walk.chosen.by_type,
        by_id=walk.chosen.by_id,
        numa=selection.numa_bound(row, context.pod_annotations),
        mutex="mutex" in context.policy,
        quota=context.quota_fits is not None,
    )
