"""Container resources → what the container asks of one backend."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from hami_operator import errors
from hami_operator.devices import vendor
from hami_operator.protocol import decision, quantity

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """Devices that one container wants from one backend.

    Attributes:
        word: the backend.
        count: how many devices.
        memory_mib: MiB per device, 0 = not given.
        percent: percent of each device's memory, None = not given.
        cores: cores per device.
        counted: the number of devices is known, whatever the node.
        detail: what a row's hooks pass on to the fit.
    """

    word: str
    count: int
    memory_mib: int = 0
    percent: int | None = None
    cores: int = 0
    counted: bool = True
    detail: Mapping[str, Any] = dataclasses.field(default_factory=lambda: _NOTHING, hash=False)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Invalid:
    """An amount that no device can have; never the same as asking for nothing."""

    resource: str
    value: str
    why: str

    def text(self) -> str:
        """Resource, value and what is wrong, for people."""
        return f"{self.resource}: {self.value!r} {self.why}"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """The resources of one container, as the row may read them."""

    limits: Mapping[str, Any]
    requests: Mapping[str, Any]
    read_requests: bool = True

    def raw(self, name: str) -> Any:
        """The value of a resource, None where the container does not name it."""
        if not name:
            return None
        found = self.limits.get(name)
        return self.requests.get(name) if found is None and self.read_requests else found

    def amount(self, name: str, *, unit: int = 1, most: int = decision.INT32_MAX) -> int | Invalid:
        """A whole number of units, times ``unit``, from 0 to ``most``; 0 where it is not named."""
        found = self.raw(name)
        if found is None:
            return 0
        try:
            whole, part = divmod(quantity.nanos(found), quantity.BILLION)
        except errors.DecodeError:
            return Invalid(resource=name, value=str(found), why="is not a quantity")
        if part:
            return Invalid(resource=name, value=str(found), why="is not a whole number")
        if not 0 <= whole * unit <= most:
            why = f"is not between 0 and {most // unit}"
            return Invalid(resource=name, value=str(found), why=why)
        return whole * unit


def read(
    row: vendor.Vendor, *, limits: Mapping[str, Any], requests: Mapping[str, Any]
) -> Request | Invalid | None:
    """What one container asks of one backend; None where it asks for none of its devices."""
    asked = Asked(limits=limits, requests=requests, read_requests=row.read_requests)
    return row.hooks.ask(row, asked) if row.hooks.ask else _counted(row, asked)


def _counted(row: vendor.Vendor, asked: Asked) -> Request | Invalid | None:
    names = row.resources
    count = asked.amount(names.count)
    if isinstance(count, Invalid):
        return count
    if count == 0:
        return None
    memory = _memory(row, asked)
    percent = asked.amount(names.percent, most=100)
    cores = asked.amount(names.cores)
    for amount in (memory, percent, cores):
        if isinstance(amount, Invalid):
            return amount
    return _finished(row, asked, count, (memory, percent, cores))


def _memory(row: vendor.Vendor, asked: Asked) -> int | Invalid:
    if row.hooks.memory:
        return row.hooks.memory(row, asked)
    return asked.amount(row.resources.memory, unit=row.mib_per_unit)


def _finished(
    row: vendor.Vendor, asked: Asked, count: int, amounts: tuple[Any, Any, Any]
) -> Request | Invalid:
    """Fill in what the container left open: memory wins over percent, both over the defaults."""
    memory, percent, cores = amounts
    if not memory and not percent:
        memory = row.default_memory_mib
    if asked.raw(row.resources.cores) is None:
        cores = row.default_cores
    found = Request(
        word=row.keyword,
        count=count,
        memory_mib=memory,
        percent=None if memory else percent or 100,
        cores=cores,
    )
    return row.hooks.request(row, found, asked) if row.hooks.request else found


def count_alone(row: vendor.Vendor, found: Request, asked: Asked) -> Request:
    """A `Hooks.request` for rows whose devices are not divided and whose size is not counted."""
    return dataclasses.replace(found, memory_mib=0, percent=None, cores=0)
