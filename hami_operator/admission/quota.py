"""Whether a namespace could hold a pod at all, long before there is a card for it.

Nothing is reserved here: the fit asks again, with the cards and with whatever came in between.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

from hami_operator.admission import advice, pod, rules
from hami_operator.devices import request, vendor

Taken = tuple[pod.Kind, request.Request]
"""What one container takes of one device type."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Amounts:
    """Memory and cores over all devices."""

    memory_mib: int = 0
    cores: int = 0


def total(taken: Iterable[Taken]) -> Amounts:
    """The most that a pod holds at once: ``Σ sidecars + max(max over inits, Σ apps)``.

    Memory and cores each by themselves; a percentage names no memory before there is a card.
    """
    by_kind: dict[pod.Kind, list[request.Request]] = {kind: [] for kind in pod.Kind}
    for kind, wanted in taken:
        by_kind[kind].append(wanted)
    return Amounts(
        memory_mib=_peak({kind: [one.memory_mib * one.count for one in each]
                          for kind, each in by_kind.items()}),
        cores=_peak({kind: [one.cores * one.count for one in each]
                     for kind, each in by_kind.items()}),
    )  # fmt: skip


def _peak(amounts: Mapping[pod.Kind, list[int]]) -> int:
    running = max(sum(amounts[pod.Kind.APP]), *amounts[pod.Kind.INIT], 0)
    return sum(amounts[pod.Kind.SIDECAR]) + running


def problem(
    taken: Mapping[vendor.Vendor, list[Taken]], accounts: rules.Accounts, namespace: str
) -> str:
    """Why the namespace cannot hold the pod, the first limit that it breaks; empty if it can."""
    for row, each in taken.items():
        account = accounts(row)
        broken = None if account is None else next(_broken(row, total(each), account), None)
        if broken is not None:
            text = f"exceeding resource quota: namespace {namespace}: {broken}"
            several = any(wanted.count > 1 for _, wanted in each)
            return f"{text}; {advice.on_slices(row)}" if several else text
    return ""


def _broken(row: vendor.Vendor, asked: Amounts, account: rules.Account) -> Iterator[str]:
    """The limits that do not hold, unless nothing is asked of what they count."""
    used = account.used
    if asked == Amounts():
        return
    if _exceeds(asked.memory_mib, used.memory_mib, account.memory_mib):
        amounts = (asked.memory_mib, used.memory_mib, account.memory_mib)
        yield _sentence(row.quota_memory, amounts, " MiB")
    if _exceeds(asked.cores, used.cores, account.cores):
        yield _sentence(row.quota_cores, (asked.cores, used.cores, account.cores), "")


def _exceeds(asked: int, used: int, limit: int | None) -> bool:
    return limit is not None and used + asked > limit


def _sentence(name: str, amounts: tuple[int, int, int | None], unit: str) -> str:
    asked, used, limit = amounts
    return f"limits.{name}: asked {asked}{unit}, used {used}{unit}, limit {limit}{unit}"
