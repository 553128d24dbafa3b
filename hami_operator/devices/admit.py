"""What admission does to a container for one backend: values in, changed values out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hami_operator.devices import request, vendor
from hami_operator.protocol import register


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Container:
    """The parts of a container that rows may look at or change.

    Attributes:
        name: its name.
        limits: ``resources.limits``.
        requests: ``resources.requests``.
        env: ``env`` as the API has it.
    """

    name: str
    limits: Mapping[str, str] = dataclasses.field(default_factory=dict)
    requests: Mapping[str, str] = dataclasses.field(default_factory=dict)
    env: tuple[Mapping[str, Any], ...] = ()

    def with_limit(self, resource: str, value: str) -> Container:
        """The container with a limit, and with the same request if it has one at all.

        The API server refuses extended resources whose request and limit differ.
        """
        limits = {**self.limits, resource: value}
        asked = {**self.requests, resource: value} if resource in self.requests else self.requests
        return dataclasses.replace(self, limits=limits, requests=asked)

    def with_amount(self, resource: str, value: str) -> Container:
        """The container with a limit and the same request."""
        return dataclasses.replace(
            self,
            limits={**self.limits, resource: value},
            requests={**self.requests, resource: value},
        )

    def has_env(self, name: str) -> bool:
        """Whether an entry of that name is there."""
        return any(entry.get("name") == name for entry in self.env)

    def with_env(self, name: str, value: str) -> Container:
        """The container with exactly one entry of that name: replaced, else appended."""
        entry = {"name": name, "value": value}
        places = [place for place, old in enumerate(self.env) if old.get("name") == name]
        doubles = frozenset(places[1:])
        kept = [old for place, old in enumerate(self.env) if place not in doubles]
        if not places:
            return dataclasses.replace(self, env=(*kept, entry))
        kept[places[0]] = entry
        return dataclasses.replace(self, env=tuple(kept))


Cards = Callable[[str], Iterable[tuple[register.Card, ...]]]
"""Keyword of a row → its cards, node by node."""


def unknown(word: str) -> Iterable[tuple[register.Card, ...]]:
    """No node is known."""
    return ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Pod:
    """The parts of a pod that rows may look at or change.

    Attributes:
        annotations: its annotations.
        runtime_class: its runtime class; empty for none.
        cards: the cards of a device type by node, as far as nodes are known.
    """

    annotations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    runtime_class: str = ""
    cards: Cards = unknown

    def with_annotation(self, key: str, value: str) -> Pod:
        """The pod with an annotation."""
        return dataclasses.replace(self, annotations={**self.annotations, key: value})

    def with_runtime_class(self, name: str) -> Pod:
        """The pod with a runtime class, unless it has one or ``name`` is empty."""
        return (
            self
            if self.runtime_class or not name
            else dataclasses.replace(self, runtime_class=name)
        )


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Admitted:
    """What the pod becomes.

    Attributes:
        container: the container afterwards.
        pod: the pod afterwards.
        takes: the container has a request for the row.
    """

    container: Container
    pod: Pod
    takes: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Denied:
    """Why the pod cannot be let in."""

    container: str
    problem: request.Invalid

    def text(self) -> str:
        """Container, resource and value, for people."""
        return f"container {self.container}: {self.problem.text()}"


def asked(row: vendor.Vendor, container: Container) -> request.Asked:
    """The container's resources, as the row may read them."""
    return request.Asked(
        limits=container.limits,
        requests=container.requests,
        read_requests=row.read_requests,
    )


def limited(row: vendor.Vendor, container: Container) -> request.Asked:
    """The container's limits alone."""
    return request.Asked(limits=container.limits, requests={})


def denied(container: Container, resource: str, why: str) -> Denied:
    """A refusal of what the container asks of a resource, for what its value is."""
    value = container.limits.get(resource, container.requests.get(resource))
    problem = request.Invalid(resource=resource, value=str(value), why=why)
    return Denied(container=container.name, problem=problem)


def read(row: vendor.Vendor, container: Container) -> request.Request | request.Invalid | None:
    """What the container asks of the row, as it stands."""
    return request.read(row, limits=container.limits, requests=container.requests)


def admit(row: vendor.Vendor, container: Container, pod: Pod) -> Admitted | Denied:
    """Let the row's hook change the container, then check its quantities.

    A pod is admitted by calling this for every init container and then every app container, for
    each row in the order of keywords, each time with the values that the last call returned.
    """
    changed: Admitted | Denied = Admitted(container=container, pod=pod)
    if row.hooks.admit:
        changed = row.hooks.admit(row, container, pod)
    if isinstance(changed, Denied):
        return changed
    wanted = read(row, changed.container)
    if isinstance(wanted, request.Invalid):
        return Denied(container=container.name, problem=wanted)
    return dataclasses.replace(changed, takes=wanted is not None)
