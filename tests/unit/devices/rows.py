"""Rows, cards and nodes for tests of the device engine, which knows no vendor."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from hami_operator.devices import fit, request, selection, usage, vendor
from hami_operator.protocol import decision, register


@dataclasses.dataclass(frozen=True, kw_only=True)
class Node:
    """A node as the core sees it."""

    name: str = "n1"
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    annotations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    capacity: Mapping[str, str] = dataclasses.field(default_factory=dict)
    allocatable: Mapping[str, str] = dataclasses.field(default_factory=dict)


ROW: Final = vendor.Vendor(
    keyword="Acme",
    resources=vendor.Resources(
        count="acme.io/card",
        memory="acme.io/memory",
        cores="acme.io/cores",
        percent="acme.io/percent",
    ),
    node=vendor.NodeKeys(
        register="acme.io/register",
        handshake="acme.io/handshake",
        legacy_handshake="acme.io/old-handshake",
    ),
    pod=vendor.PodKeys(
        to_allocate="acme.io/to-allocate",
        allocated="acme.io/allocated",
        plugin=("acme.io/plugin",),
    ),
    selection=vendor.Selection(
        use_type="acme.io/use-type",
        skip_type="acme.io/skip-type",
        use_uuid=("acme.io/use-id", "acme.io/use-id-too"),
        skip_uuid=("acme.io/skip-id",),
        numa_bind="acme.io/numa",
    ),
    checks=frozenset(vendor.Check),
)
"""A row with every key and every check, and without hooks."""


def row(**changes: Any) -> vendor.Vendor:
    """The row, changed."""
    return dataclasses.replace(ROW, **changes)


def hooked(**hooks: Any) -> vendor.Vendor:
    """The row with hooks."""
    return row(hooks=vendor.Hooks(**hooks))


def candidate(
    id: str = "c0", *, used: usage.Usage = usage.UNUSED, **facts: Any
) -> usage.CardUsage:
    """An unused card of 10 slots, 10000 MiB and 100 cores, and how much of it is taken."""
    usual: dict[str, Any] = {"index": 0, "count": 10, "memory_mib": 10_000, "cores": 100}
    return usage.CardUsage(register.Card(id=id, **(usual | facts)), used)


def taken(used: int = 1, memory_mib: int = 0, cores: int = 0) -> usage.Usage:
    """A usage."""
    return usage.Usage(used=used, memory_mib=memory_mib, cores=cores)


def wanted(count: int = 1, memory_mib: int = 1000, **facts: Any) -> request.Request:
    """A request for cards of the row."""
    return request.Request(word="Acme", count=count, memory_mib=memory_mib, **facts)


def annotated(**context: Any) -> fit.Context:
    """A context."""
    return fit.Context(**context)


def walk_of(picks: tuple[decision.Pick, ...], count: int) -> fit.Walk:
    """A walk that has collected these picks for ``count`` wanted cards."""
    return fit.Walk(
        row=ROW,
        request=wanted(count),
        context=annotated(),
        candidates=[candidate(str(number)) for number in range(max(count, len(picks)))],
        chosen=selection.ANY,
        cordoned=frozenset(),
        memory_mib=0,
        cores=0,
        custom={},
        picks=list(picks),
        collects=True,
        facts={},
        numa=None,
        refusals={},
    )
