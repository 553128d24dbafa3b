"""Pods that run together or not at all: who belongs to which gang, and how large it has to be.

A gang is named by an annotation of ours or by the label (or annotation) of a PodGroup; how many
of its pods have to run together is said by our annotation on the pods, or by the PodGroup.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from hami_operator import errors
from hami_operator.protocol import keys
from hami_operator.scheduling import fields, rejection

if TYPE_CHECKING:
    from hami_operator.scheduling import pod as pods

PLUGIN: Final = "Gang"
"""The filter's name for a pod that waits for others of its gang."""

_MOST: Final = 100_000

Key = tuple[str, str]
"""Namespace and name of a gang."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Membership:
    """What a pod says about its gang.

    Attributes:
        name: of the gang; empty for a pod that stands alone.
        size: how many of its pods have to run together; 0 where the pod does not say.
    """

    name: str = ""
    size: int = 0


ALONE: Final = Membership()


def read(spec: Mapping[str, Any], meta: Mapping[str, Any], found: fields.Fields) -> Membership:
    """Read a pod's specification and metadata."""
    annotations = found.texts(meta, "annotations", "metadata.")
    group = found.mapping(spec, "schedulingGroup", "spec.")
    name = (
        annotations.get(keys.GANG_NAME)
        or found.text(group, "podGroupName", "spec.schedulingGroup.")
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
    """

    namespace: str
    name: str
    uid: str
    size: int


def read_group(raw: Mapping[str, Any]) -> Group:
    """Read an API object. Never raises: what is no number is none."""
    found = fields.Fields()
    meta = found.mapping(raw, "metadata", "")
    size = found.integer(found.mapping(raw, "spec", ""), "minMember", "spec.")
    return Group(
        namespace=found.text(meta, "namespace", "metadata."),
        name=found.text(meta, "name", "metadata."),
        uid=found.text(meta, "uid", "metadata."),
        size=max(0, size),
    )


class Gangs:
    """All pods that belong to gangs.

    Args:
        group: the PodGroup of that name and namespace; None if there is none.
    """

    def __init__(self, group: Callable[[str, str], Group | None]) -> None:
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
        namespace, name = key
        group = self._group(name, namespace)
        return group.size if group is not None else 0

    def __iter__(self) -> Iterator[Key]:
        """All gangs that have pods."""
        return iter(tuple(self._members))


def key_of(pod: pods.Pod) -> Key:
    """The gang of a pod."""
    return pod.namespace, pod.gang.name


def waits(text: str) -> rejection.Rejection:
    """Why a pod waits for others of its gang."""
    reason = errors.Reason.GANG_INCOMPLETE
    return rejection.Rejection(
        plugin=PLUGIN, texts=(f"{text} ({reason.word})",), resolvable=False, reasons=(reason,)
    )
