"""The containers of a pod, with what each asks for."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from hami_operator import errors
from hami_operator.protocol import quantity
from hami_operator.scheduling import fields


class Kind(enum.Enum):
    """When a container runs."""

    INIT = "init"
    SIDECAR = "sidecar"  # an init container with restartPolicy Always: runs beside the apps
    APP = "app"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Container:
    """One container.

    Attributes:
        name: as the pod's specification names it.
        kind: when it runs.
        limits: quantities as the API gave them; plain numbers as text.
        requests: likewise.
        amounts: ``requests`` in billionths; unreadable and negative ones are left out.
        privileged: whether it runs with all rights on its node.
        image: as the specification names it.
    """

    name: str
    kind: Kind
    limits: Mapping[str, str] = dataclasses.field(default_factory=fields.empty)
    requests: Mapping[str, str] = dataclasses.field(default_factory=fields.empty)
    amounts: Mapping[str, int] = dataclasses.field(default_factory=fields.empty)
    privileged: bool = False
    image: str = ""


def read(spec: Mapping[str, Any], found: fields.Fields) -> tuple[Container, ...]:
    """All containers but ephemeral ones: init containers and sidecars first, then apps."""
    return (*_read_list(spec, "initContainers", found), *_read_list(spec, "containers", found))


def amounts(
    parent: Mapping[str, Any], key: str, path: str, found: fields.Fields
) -> Mapping[str, int]:
    """A map of quantities in billionths, without those that are unreadable or negative."""
    raw = found.mapping(parent, key, path) if key in parent else None
    if not raw:
        return fields.EMPTY
    read_so_far = {}
    for name, value in raw.items():
        try:
            amount = quantity.nanos(value)
        except errors.DecodeError:
            found.note(f"{path}{key}[{name}]", f"{str(value)[:64]!r} is not a quantity")
            continue
        if amount >= 0:
            read_so_far[name] = amount
        else:
            found.note(f"{path}{key}[{name}]", f"{value!r} is negative")
    return MappingProxyType(read_so_far)


def _read_list(spec: Mapping[str, Any], key: str, found: fields.Fields) -> Iterator[Container]:
    is_init = key == "initContainers"
    for place, item in found.items(spec, key, "spec."):
        kind = Kind.APP
        if is_init:
            kind = Kind.SIDECAR if item.get("restartPolicy") == "Always" else Kind.INIT
        yield _READ[kind]({key: item.get(key) for key in _FIELDS}, place, found)


_FIELDS: Final = ("name", "image", "resources", "securityContext")


def _container(item: Mapping[str, Any], place: str, found: fields.Fields, kind: Kind) -> Container:
    resources = found.mapping(item, "resources", f"{place}.")
    security = found.mapping(item, "securityContext", f"{place}.")
    inside = f"{place}.resources."
    return Container(
        name=found.text(item, "name", f"{place}."),
        kind=kind,
        limits=_texts(found.mapping(resources, "limits", inside)),
        requests=_texts(found.mapping(resources, "requests", inside)),
        amounts=amounts(resources, "requests", inside, found),
        privileged=found.boolean(security, "privileged", f"{place}.securityContext."),
        image=found.text(item, "image", f"{place}."),
    )


# A cluster repeats a few containers over and over.
_READ: Final = {
    kind: fields.recalled(functools.partial(_container, kind=kind), most=2048) for kind in Kind
}


def _texts(raw: Mapping[str, Any]) -> Mapping[str, str]:
    if not raw:
        return fields.EMPTY
    return MappingProxyType(
        {
            name: value if isinstance(value, str) else str(value)
            for name, value in raw.items()
            if value is not None
        }
    )
