"""What a pod asks of every device type, container by container."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from hami_operator.devices import registry as registries
from hami_operator.devices import request
from hami_operator.scheduling import pod as pods


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Refused:
    """An amount that no device can have (D16): an error of the pod, not "no devices"."""

    container: str
    invalid: request.Invalid

    def __str__(self) -> str:
        return f"container {self.container}: {self.invalid.text()}"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Container:
    """One container that asks for devices.

    Attributes:
        slot: its position in every decision value.
        requests: word and request, in the order of the words.
    """

    slot: int
    requests: tuple[tuple[str, request.Request], ...]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Demand:
    """All device requests of one pod.

    Attributes:
        words: word to one request per container of the pod, init containers first; a word is
            here if any container asks for it.
        invalid: amounts that cannot be served by any device.
        kinds: what each container is, in the same order.
        sidecars: containers that run all the time beside inits and apps.
        inits: containers that run alone, one after the other.
        apps: the pod's own containers.
        privileged: name of the first privileged container, empty without one.
    """

    words: Mapping[str, tuple[request.Request | None, ...]]
    invalid: tuple[Refused, ...] = ()
    kinds: tuple[pods.Kind, ...] = ()
    sidecars: tuple[Container, ...] = ()
    inits: tuple[Container, ...] = ()
    apps: tuple[Container, ...] = ()
    privileged: str = ""

    @property
    def asks(self) -> bool:
        """Whether any container asks for a device."""
        return bool(self.words)

    @property
    def size(self) -> int:
        """Number of slots in every decision value."""
        return len(self.kinds)


def read(pod: pods.Pod, registry: registries.Registry) -> Demand:
    """Read the requests of all containers; never raises, odd amounts come back as ``invalid``."""
    found: dict[str, list[request.Request | None]] = {}
    refused: list[Refused] = []
    for slot, container in enumerate(pod.containers):
        for word in sorted(registry.asked(container.limits, container.requests)):
            row = registry.by_word[word]
            read = request.read(row, limits=container.limits, requests=container.requests)
            if isinstance(read, request.Invalid):
                refused.append(Refused(container=container.name, invalid=read))
            elif read is not None:
                found.setdefault(row.keyword, [None] * len(pod.containers))[slot] = read
    words = {word: tuple(found[word]) for word in sorted(found)}
    kinds = tuple(container.kind for container in pod.containers)
    privileged = next((each.name for each in pod.containers if each.privileged), "")
    return build(words, kinds, invalid=tuple(refused), privileged=privileged)


def build(
    words: Mapping[str, tuple[request.Request | None, ...]],
    kinds: tuple[pods.Kind, ...],
    *,
    invalid: tuple[Refused, ...] = (),
    privileged: str = "",
) -> Demand:
    """A demand from its requests per word; containers without requests are left out."""
    classes: dict[pods.Kind, list[Container]] = {kind: [] for kind in pods.Kind}
    for slot, kind in enumerate(kinds):
        wanted = ((word, requests[slot]) for word, requests in sorted(words.items()))
        requests = tuple((word, item) for word, item in wanted if item is not None)
        if requests:
            classes[kind].append(Container(slot=slot, requests=requests))
    return Demand(
        words=words,
        invalid=invalid,
        kinds=kinds,
        sidecars=tuple(classes[pods.Kind.SIDECAR]),
        inits=tuple(classes[pods.Kind.INIT]),
        apps=tuple(classes[pods.Kind.APP]),
        privileged=privileged,
    )
