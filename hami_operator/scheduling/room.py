"""Whether one more card fits into a namespace's quota, and how far such answers reach."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Final

from hami_operator import errors
from hami_operator.devices import account, fit, request, usage, vendor
from hami_operator.protocol import decision
from hami_operator.scheduling import containers, effective, quota

_REASON: Final = errors.Reason.QUOTA_NOT_FIT


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Reach:
    """Under which accounts a node would answer the same.

    Attributes:
        account: the one that was asked.
        memory_mib: the most memory that had room.
        cores: the most cores that had room.
        denied: something had no room.
    """

    account: quota.Account
    memory_mib: int
    cores: int
    denied: bool

    def includes(self, other: quota.Account) -> bool:
        """Whether ``other`` is one of them; a refusal names amounts, so only the same is."""
        if self.denied:
            return other == self.account
        return other.fits(self.memory_mib, self.cores)


@dataclasses.dataclass(kw_only=True, slots=True)
class Tally:
    """Asks an account, and notes what was asked of it while one node was judged.

    One serves a whole cycle, and is cleared before each node.

    Attributes:
        row: the device type.
        account: of the namespace.
        least: what the pod asks for wherever it goes.
    """

    row: vendor.Vendor
    account: quota.Account
    least: usage.Usage = usage.UNUSED
    _asked: bool = False
    _memory_mib: int = 0
    _cores: int = 0
    _no_memory: int | None = None
    _no_cores: int | None = None

    def clear(self) -> None:
        """Begin with the next node."""
        self._asked = False
        self._memory_mib = self._cores = 0
        self._no_memory = self._no_cores = None

    def fits(self, memory_mib: int, cores: int) -> bool:
        """Whether so much has room, as `quota.Account.fits` says."""
        self._asked = True
        short = not self.account.has_memory(memory_mib)
        if short:
            self._no_memory = _lower(self._no_memory, memory_mib)
        if not self.account.has_cores(cores):
            self._no_cores = _lower(self._no_cores, cores)
            short = True
        if not short:
            self._memory_mib = max(self._memory_mib, memory_mib)
            self._cores = max(self._cores, cores)
        return not short

    @property
    def is_hopeful(self) -> bool:
        """Whether the pod might have room, with the right cards."""
        return self.account.fits(self.least.memory_mib, self.least.cores)

    @property
    def reach(self) -> Reach | None:
        """How far the answers reach that this node got; None if it did not ask."""
        if not self._asked:
            return None
        return Reach(
            account=self.account,
            memory_mib=self._memory_mib,
            cores=self._cores,
            denied=self._no_memory is not None or self._no_cores is not None,
        )

    def text(self) -> str:
        """Which limits had no room for the pod, and how much was asked of them at least."""
        row, used, least = self.row, self.account.used, self.least
        short = []
        if self._no_memory is not None:
            asked = max(self._no_memory, least.memory_mib)
            limit = f"{self.account.memory_mib} MiB"
            short.append(_short(row.quota_memory, used.memory_mib, limit, asked))
        if self._no_cores is not None:
            asked = max(self._no_cores, least.cores)
            short.append(_short(row.quota_cores, used.cores, str(self.account.cores), asked))
        return f"the namespace's quota {'; '.join(short)} ({_REASON.word})"


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

    account: quota.Account | Tally
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


def least(
    row: vendor.Vendor,
    requests: Sequence[request.Request | None],
    kinds: Sequence[containers.Kind],
) -> usage.Usage:
    """What a pod will hold of a type at least; nothing where only the cards can say it.

    Args:
        row: the device type.
        requests: of each container.
        kinds: what each container is.
    """
    if row.hooks.amounts is not None or row.hooks.metered is not None:
        return usage.UNUSED
    slots = tuple((_whole(row, one),) if one is not None else () for one in requests)
    return effective.effective(slots, kinds).get("", usage.UNUSED)


def _whole(row: vendor.Vendor, one: request.Request) -> decision.Pick:
    """All cards of one container as if they were a single one."""
    cores = fit.clamped_cores(row, one) * one.count
    return decision.Pick(id="", memory_mib=one.memory_mib * one.count, cores=cores)


def _lower(known: int | None, amount: int) -> int:
    return amount if known is None else min(known, amount)


def _short(name: str, used: int, limit: str, asked: int) -> str:
    return f"limits.{name} has no room: {used} used of {limit}, {asked} asked"
