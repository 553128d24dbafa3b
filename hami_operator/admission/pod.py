"""A pod as admission sees it: what rows and rules look at, read from the raw object.

The API server sends objects that it has decoded itself, so a field of the wrong type means that
something else is speaking: such a pod is refused as unreadable, never half understood.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar

from hami_operator import errors
from hami_operator.devices import admit

Raw = Mapping[str, Any]
Value = TypeVar("Value")

EMPTY: Final[Raw] = MappingProxyType({})
_WORDS: Final = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}


class Kind(enum.Enum):
    """When a container runs."""

    INIT = "init"
    SIDECAR = "sidecar"  # an init container with restartPolicy Always: runs beside the apps
    APP = "app"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Container:
    """One container and where it stands.

    Attributes:
        kind: when it runs.
        values: what rows may look at and change.
        privileged: whether it runs with all rights on its node.
    """

    kind: Kind
    values: admit.Container
    privileged: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Pod:
    """One pod that is to be created.

    Attributes:
        raw: the object as it came.
        annotations: as they stand.
        labels: as they stand.
        scheduler_name: who is to place it; empty where nobody is named.
        node_name: where its author has put it; mostly empty.
        runtime_class: empty where it names none.
        inits: init containers and sidecars, in their order.
        apps: the pod's own containers.
    """

    raw: Raw
    annotations: Mapping[str, str]
    labels: Mapping[str, str]
    scheduler_name: str
    node_name: str
    runtime_class: str
    inits: tuple[Container, ...]
    apps: tuple[Container, ...]

    @property
    def containers(self) -> tuple[Container, ...]:
        """All of them, init containers first."""
        return (*self.inits, *self.apps)


def read(raw: Raw) -> Pod:
    """Read the object.

    Raises:
        errors.DecodeError: a field that matters here has the wrong type; the message names it.
    """
    meta = field(raw, "metadata", dict, EMPTY)
    spec = field(raw, "spec", dict, EMPTY)
    return Pod(
        raw=raw,
        annotations=_texts(meta, "annotations", "metadata."),
        labels=_texts(meta, "labels", "metadata."),
        scheduler_name=field(spec, "schedulerName", str, "", at="spec."),
        node_name=field(spec, "nodeName", str, "", at="spec."),
        runtime_class=field(spec, "runtimeClassName", str, "", at="spec."),
        inits=tuple(_containers(spec, "initContainers")),
        apps=tuple(_containers(spec, "containers")),
    )


def field(parent: Raw, key: str, kind: type[Any], absent: Value, *, at: str = "") -> Value:
    """A field of one type; ``absent`` where it is missing or null.

    Raises:
        errors.DecodeError: it has another type.
    """
    value = parent.get(key)
    if value is None:
        return absent
    if not isinstance(value, kind):
        raise errors.DecodeError("pod", f"{at}{key}", f"is not {_WORDS[kind]}")
    found: Value = value
    return found


def _texts(parent: Raw, key: str, at: str) -> Mapping[str, str]:
    found = field(parent, key, dict, EMPTY, at=at)
    for name, value in found.items():
        if not isinstance(value, str):
            raise errors.DecodeError("pod", f"{at}{key}[{name[:64]}]", "is not a text")
    return found


def _containers(spec: Raw, key: str) -> Iterator[Container]:
    for place, item in _objects(spec, key, "spec."):
        kind = Kind.APP
        if key == "initContainers":
            policy = field(item, "restartPolicy", str, "", at=f"{place}.")
            kind = Kind.SIDECAR if policy == "Always" else Kind.INIT
        yield _container(item, kind, f"{place}.")


def _objects(parent: Raw, key: str, at: str) -> Iterator[tuple[str, Raw]]:
    listed: list[Any] = field(parent, key, list, [], at=at)
    for number, item in enumerate(listed):
        place = f"{at}{key}[{number}]"
        if not isinstance(item, dict):
            raise errors.DecodeError("pod", place, "is not an object")
        yield place, item


def _container(item: Raw, kind: Kind, at: str) -> Container:
    resources = field(item, "resources", dict, EMPTY, at=at)
    security = field(item, "securityContext", dict, EMPTY, at=at)
    env = tuple(entry for _, entry in _objects(item, "env", at))
    return Container(
        kind=kind,
        values=admit.Container(
            name=field(item, "name", str, "", at=at),
            limits=_amounts(resources, "limits", f"{at}resources."),
            requests=_amounts(resources, "requests", f"{at}resources."),
            env=env,
        ),
        privileged=field(security, "privileged", bool, False, at=f"{at}securityContext."),
    )


def _amounts(parent: Raw, key: str, at: str) -> Mapping[str, str]:
    """Quantities as text; JSON may have them as numbers, and null is as good as absent."""
    found = field(parent, key, dict, EMPTY, at=at)
    return {
        name: value if isinstance(value, str) else _number(value, f"{at}{key}[{name[:64]}]")
        for name, value in found.items()
        if value is not None
    }


def _number(value: Any, at: str) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise errors.DecodeError("pod", at, "is neither text nor a number")
    return str(value)
