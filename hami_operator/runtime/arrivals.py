"""Pods that we have bound and that the watch does not show on their node yet.

Until it does, nothing else tells that a plugin is about to be asked for them: node and pods are
watched apart, so a lock may be seen to go before its pod is seen to come.
"""

from __future__ import annotations

import dataclasses

from hami_operator.protocol import nodelock
from hami_operator.runtime import lockbook


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Arrival:
    """One pod on its way.

    Attributes:
        claim: the pod.
        is_mixed: several of its types share one lock.
        until_s: from then on its Binding counts as lost, on the monotonic clock.
    """

    claim: nodelock.Claim
    is_mixed: bool
    until_s: float

    def __str__(self) -> str:
        return f"{self.claim.namespace}/{self.claim.name}"


class Arrivals:
    """All such pods, by node."""

    def __init__(self, watched: lockbook.Watched) -> None:
        self._watched = watched
        self._nodes: dict[str, list[Arrival]] = {}

    def add(self, node: str, arrival: Arrival) -> None:
        """A Binding to this node may have landed."""
        self._nodes.setdefault(node, []).append(arrival)

    def on(self, node: str, now_s: float) -> tuple[Arrival, ...]:
        """Those of one node that are still on their way; the others are forgotten."""
        coming = [one for one in self._nodes.pop(node, ()) if self._is_coming(one, now_s)]
        if coming:
            self._nodes[node] = coming
        return tuple(coming)

    def _is_coming(self, arrival: Arrival, now_s: float) -> bool:
        pod = self._watched.pod(arrival.claim.uid)
        return pod is not None and not pod.node_name and now_s < arrival.until_s
