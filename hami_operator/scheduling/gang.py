"""Pods that run together or not at all: who belongs to which gang, and how large it has to be.

A gang is named by Kubernetes' own ``spec.schedulingGroup``, by an annotation of ours, or by the
label (or annotation) of a PodGroup of the scheduler plugins. How many of its pods have to run
together is said by our annotation on the pods or by the PodGroup; with Kubernetes' own by its
PodGroup alone, without which no pod of it is placed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hami_operator import errors
from hami_operator.protocol import keys
from hami_operator.scheduling import fields, rejection

if TYPE_CHECKING:
    from hami_operator.scheduling import pod as pods

PLUGIN: Final = "Gang"
"""The filter's name for a pod that waits for others of its gang."""

_MOST: Final = 100_000
_NOT_KEPT: Final = ("resourceClaims", "schedulingConstraints")
"""What Kubernetes' own PodGroups may ask for and this scheduler does not know."""


class Key(NamedTuple):
    """Namespace and name of a gang, and whether the name is that of Kubernetes' own PodGroup."""

    namespace: str
    name: str
    native: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Membership:
    """What a pod says about its gang.

    Attributes:
        name: of the gang; empty for a pod that stands alone.
        size: how many of its pods have to run together; 0 where the pod does not say.
        native: the name comes from ``spec.schedulingGroup``.
    """

    name: str = ""
    size: int = 0
    native: bool = False


ALONE: Final = Membership()


def read(spec: Mapping[str, Any], meta: Mapping[str, Any], found: fields.Fields) -> Membership:
    """Read a pod's specification and metadata."""
    if spec.get("schedulingGroup") is not None:
        return _native(found.mapping(spec, "schedulingGroup", "spec."), found)
    annotations = found.texts(meta, "annotations", "metadata.")
    name = (
        annotations.get(keys.GANG_NAME)
        or found.texts(meta, "labels", "metadata.").get(keys.POD_GROUP)
        or annotations.get(keys.POD_GROUP)
    )
    if not name:
        return ALONE
    text = annotations.get(keys.GANG_MIN_MEMBER)
    size = None if text is None else _whole(text)
    if text is not None and size is None:
        problem = f"{text[:32]!r} is not a whole number from 1 to {_MOST}"
        found.note(f"metadata.annotations[{keys.GANG_MIN_MEMBER}]", problem)
    return Membership(name=name, size=size or 0)


def _native(group: Mapping[str, Any], found: fields.Fields) -> Membership:
    name = found.text(group, "podGroupName", "spec.schedulingGroup.")
    if not name:
        found.note("spec.schedulingGroup.podGroupName", "is missing")
    return Membership(name=name, native=True)


def _whole(text: str) -> int | None:
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(_MOST))):
        return None
    return int(text) if 1 <= int(text) <= _MOST else None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """A PodGroup.

    Attributes:
        namespace: of the gang.
        name: of the gang.
        uid: of the object.
        size: how many pods have to run together; 0 where it does not say.
        not_kept: fields with wishes that this scheduler does not know.
    """

    namespace: str
    name: str
    uid: str
    size: int
    not_kept: tuple[str, ...] = ()


def read_group(raw: Mapping[str, Any]) -> Group:
    """Read a PodGroup of the scheduler plugins. Never raises: what is no number is none."""
    found = fields.Fields()
    size = found.integer(found.mapping(raw, "spec", ""), "minMember", "spec.")
    return _group(raw, found, size=max(0, size))


def read_native(raw: Mapping[str, Any]) -> Group:
    """Read a PodGroup of Kubernetes' own. Never raises.

    Of its two policies ``gang`` counts pods, and with ``basic`` each is placed alone.
    """
    found = fields.Fields()
    spec = found.mapping(raw, "spec", "")
    policy = found.mapping(spec, "schedulingPolicy", "spec.")
    together = found.mapping(policy, "gang", "spec.schedulingPolicy.")
    size = max(1, found.integer(together, "minCount", "spec.schedulingPolicy.gang."))
    return _group(
        raw, found, size=size, not_kept=tuple(name for name in _NOT_KEPT if spec.get(name))
    )


def _group(
    raw: Mapping[str, Any], found: fields.Fields, *, size: int, not_kept: tuple[str, ...] = ()
) -> Group:
    meta = found.mapping(raw, "metadata", "")
    return Group(
        namespace=found.text(meta, "namespace", "metadata."),
        name=found.text(meta, "name", "metadata."),
        uid=found.text(meta, "uid", "metadata."),
        size=size,
        not_kept=not_kept,
    )


class Gangs:
    """All pods that belong to gangs.

    Args:
        group: the PodGroup of a gang; None if there is none.
    """

    def __init__(self, group: Callable[[Key], Group | None]) -> None:
        self._group = group
        self._members: dict[Key, dict[str, pods.Pod]] = {}

    def see(self, pod: pods.Pod) -> None:
        """Take up a pod, or its newest version."""
        if pod.gang.name:
            self._members.setdefault(key_of(pod), {})[pod.uid] = pod

    def end(self, pod: pods.Pod) -> tuple[pods.Pod, ...]:
        """Forget a pod that has ended; who is left of its gang."""
        key = key_of(pod)
        members = self._members.get(key, {})
        members.pop(pod.uid, None)
        if not members:
            self._members.pop(key, None)
        return tuple(members.values())

    def mates(self, key: Key) -> tuple[pods.Pod, ...]:
        """All known pods of a gang."""
        return tuple(self._members.get(key, {}).values())

    def size(self, key: Key) -> int:
        """How many pods of a gang have to run together; 0 where nobody says it.

        The largest number that a pod says counts, and a PodGroup where none does.
        """
        said = max((pod.gang.size for pod in self.mates(key)), default=0)
        if said:
            return said
        group = self._group(key)
        return group.size if group is not None else 0

    def __iter__(self) -> Iterator[Key]:
        """All gangs that have pods."""
        return iter(tuple(self._members))


def key_of(pod: pods.Pod) -> Key:
    """The gang of a pod."""
    return Key(pod.namespace, pod.gang.name, pod.gang.native)


def obstacle(pod: pods.Pod, group: Group | None) -> rejection.Rejection | None:
    """Why a pod of a gang of Kubernetes' own cannot be placed, whoever else is there."""
    if not pod.gang.native:
        return None
    named = f"PodGroup {pod.namespace}/{pod.gang.name} of scheduling.k8s.io"
    if group is None:
        return waits(f"{named} does not exist")
    if group.not_kept:
        asked = ", ".join(group.not_kept)
        text = f"{named} asks for {asked}, which this scheduler does not know"
        return _rejection(text, errors.Reason.FILTER_NOT_BUILT)
    return None


def waits(text: str) -> rejection.Rejection:
    """Why a pod waits for others of its gang."""
    return _rejection(text, errors.Reason.GANG_INCOMPLETE)


def _rejection(text: str, reason: errors.Reason) -> rejection.Rejection:
    return rejection.Rejection(
        plugin=PLUGIN, texts=(f"{text} ({reason.word})",), resolvable=False, reasons=(reason,)
    )
