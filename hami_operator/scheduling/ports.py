"""Ports of the node that a pod takes for itself, and which of them clash."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from hami_operator.scheduling import fields

EVERYWHERE: Final = "0.0.0.0"  # noqa: S104 - the address that stands for all, nothing is bound


class Port(NamedTuple):
    """One port on the node: protocol, number, and the address that it is taken on."""

    protocol: str
    number: int
    address: str = EVERYWHERE

    def clashes(self, other: Port) -> bool:
        """Whether both cannot be had on one node; ``::`` is an address like any other."""
        return self[:2] == other[:2] and (
            self.address == other.address or EVERYWHERE in {self.address, other.address}
        )


def read(spec: Mapping[str, Any], found: fields.Fields) -> tuple[Port, ...]:
    """Host ports of the containers that run for good: apps and sidecars."""
    taken: dict[Port, None] = {}
    for key in ("containers", "initContainers"):
        for place, item in found.items(spec, key, "spec."):
            lasting = key == "containers" or item.get("restartPolicy") == "Always"
            if lasting and "ports" in item:
                taken |= dict.fromkeys(_of(item, place, found))
    return tuple(taken)


def clash(wanted: Iterable[Port], taken: Iterable[Port]) -> bool:
    """Whether one of the wanted ports is taken."""
    listed = tuple(taken)
    return bool(listed) and any(one.clashes(other) for one in wanted for other in listed)


def _of(item: Mapping[str, Any], path: str, found: fields.Fields) -> Iterable[Port]:
    for place, port in found.items(item, "ports", f"{path}."):
        number = found.integer(port, "hostPort", f"{place}.")
        if number > 0:
            protocol = found.text(port, "protocol", f"{place}.") or "TCP"
            address = found.text(port, "hostIP", f"{place}.") or EVERYWHERE
            yield Port(protocol, number, address)
