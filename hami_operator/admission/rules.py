"""What admission goes by: the device types, the settings, and two questions to the scheduler."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, Protocol

from hami_operator.devices import admit, usage, vendor
from hami_operator.devices import registry as registries

DEFAULT_SCHEDULER: Final = "default-scheduler"
"""What the API server writes into a pod that names no scheduler, before it asks us."""


class Preferences(Protocol):
    """What a pod's annotations say about the choice of node and cards."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences about words that were not understood."""
        ...

    @property
    def error(self) -> str:
        """Why the pod could never be placed; empty where it can."""
        ...


class Account(Protocol):
    """What a namespace may hold of one device type, and what it holds; None is no limit."""

    @property
    def memory_mib(self) -> int | None:
        """The most memory."""
        ...

    @property
    def cores(self) -> int | None:
        """The most cores."""
        ...

    @property
    def used(self) -> usage.Usage:
        """What its pods hold now, reservations included."""
        ...


Accounts = Callable[[vendor.Vendor], Account | None]
"""Row → the account of one namespace; None where it does not limit the type."""
Limits = Callable[[str], Accounts | None]
"""Namespace → its accounts; None where it limits nothing."""
ReadPreferences = Callable[[Mapping[str, str]], Preferences]
"""Annotations of a pod → its preferences."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """Made with `build`.

    Attributes:
        registry: the device types.
        scheduler_name: written into pods that take devices; empty: never.
        overwrite_default: pods of the cluster's default scheduler may become ours.
        strict: forged keys are refused instead of removed, and so is a limiter switched off.
        excluded: namespaces whose pods are let in as they are.
        unlimited: namespaces whose pods may switch the limiter off, strict or not.
        preferences: reads policies and weights; None looks at none.
        limits: the ResourceQuotas; None where they are not known.
        cards: the cards of a device type by node; without it no node is known.
        resources: the names of each row's resources, in the order of the rows.
    """

    registry: registries.Registry
    scheduler_name: str
    overwrite_default: bool = True
    strict: bool = False
    excluded: frozenset[str] = frozenset()
    unlimited: frozenset[str] = frozenset()
    preferences: ReadPreferences | None = None
    limits: Limits | None = None
    cards: admit.Cards = admit.unknown
    resources: tuple[tuple[vendor.Vendor, frozenset[str]], ...] = ()

    def leaves_to_others(self, scheduler_name: str) -> bool:
        """Whether a pod is somebody else's: its author named another scheduler."""
        if scheduler_name in ("", self.scheduler_name):
            return False
        return scheduler_name != DEFAULT_SCHEDULER or not self.overwrite_default

    def rows(self, asked: Collection[str]) -> Iterable[vendor.Vendor]:
        """The rows that have a say about a container that names these resources.

        A row acts on containers that name one of its resources; only a row that hides devices
        acts on all others as well.
        """
        names = self.registry.resource_names.intersection(asked)
        return (
            row
            for row, own in self.resources
            if row.overwrite_env or (names and not names.isdisjoint(own))
        )


def build(
    registry: registries.Registry,
    *,
    scheduler_name: str,
    overwrite_default: bool = True,
    strict: bool = False,
    excluded: Iterable[str] = (),
    unlimited: Iterable[str] = (),
    preferences: ReadPreferences | None = None,
    limits: Limits | None = None,
    cards: admit.Cards = admit.unknown,
) -> Rules:
    """The rules; arguments as the attributes of `Rules`."""
    return Rules(
        registry=registry,
        scheduler_name=scheduler_name,
        overwrite_default=overwrite_default,
        strict=strict,
        excluded=frozenset(excluded),
        unlimited=frozenset(unlimited),
        preferences=preferences,
        limits=limits,
        cards=cards,
        resources=tuple((row, frozenset(row.resources.names)) for row in registry),
    )
