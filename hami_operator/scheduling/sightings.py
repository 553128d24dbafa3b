"""The pods as they were last seen, from several sources whose news may come late or twice."""

from __future__ import annotations

import dataclasses
from typing import Final

from hami_operator.scheduling import nodes
from hami_operator.scheduling import pod as pods

REMEMBERED: Final = 10_000


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Sighting:
    """What a look at a pod brought.

    Attributes:
        before: the pod as it was known; None if it was not.
        news: False for what is known already, older, or long gone.
    """

    before: pods.Pod | None
    news: bool


class Sightings:
    """Pods by UID and by name, without those that have ended.

    Args:
        remembered: how many that have ended are remembered, against news that comes late.
    """

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._pods: dict[str, pods.Pod] = {}
        self._names: dict[tuple[str, str], str] = {}
        self._ended: dict[str, None] = {}

    def see(self, pod: pods.Pod) -> Sighting:
        """Take up what a source shows, unless it is no news.

        A pod that has ended never comes back, and one that has a node never loses it.
        """
        before = self._pods.get(pod.uid)
        if pod.uid in self._ended:
            return Sighting(before=None, news=False)
        if before is not None and _is_stale(before, pod):
            return Sighting(before=before, news=False)
        self._pods[pod.uid] = pod
        self._names[pod.key] = pod.uid
        return Sighting(before=before, news=True)

    def end(self, uid: str) -> pods.Pod | None:
        """The pod is deleted or has ended for good; returns what was known of it."""
        self._ended[uid] = None
        if len(self._ended) > self._remembered:
            del self._ended[next(iter(self._ended))]
        pod = self._pods.pop(uid, None)
        if pod is not None and self._names.get(pod.key) == uid:
            del self._names[pod.key]
        return pod

    def get(self, uid: str) -> pods.Pod | None:
        """The pod of that UID."""
        return self._pods.get(uid)

    def named(self, namespace: str, name: str) -> pods.Pod | None:
        """The latest pod of that name."""
        uid = self._names.get((namespace, name))
        return None if uid is None else self._pods.get(uid)

    def all(self) -> tuple[pods.Pod, ...]:
        """Every pod, in the order in which they were first seen."""
        return tuple(self._pods.values())

    def __len__(self) -> int:
        return len(self._pods)


def _is_stale(known: pods.Pod, seen: pods.Pod) -> bool:
    if known.node_name and not seen.node_name:
        return True
    return nodes.is_older(seen.resource_version, known.resource_version) or seen == known
