"""The score of PodTopologySpread: where a pod with ScheduleAnyway constraints is needed most.

Sums are of floats, as kube-scheduler's are: the weight of a constraint is a logarithm.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from hami_operator.scheduling import node as nodes
from hami_operator.scheduling import pod as pods
from hami_operator.scheduling import spread, surroundings
from hami_operator.scheduling.filters import check, topologyspread

BEST: Final = 100
_HOSTNAME: Final = "kubernetes.io/hostname"


def scores(
    pod: pods.Pod,
    feasible: Sequence[nodes.Node],
    around: surroundings.Surroundings,
    options: check.Options = check.DEFAULT,
) -> dict[str, int]:
    """100 for the node whose domains hold least; 0 for nodes that lack one of the labels."""
    soft = tuple(one for one in pod.spread if not one.required)
    complete = [node for node in feasible if _is_complete(node, soft)]
    if not soft or not complete:
        return {node.name: 0 for node in feasible}
    counts = topologyspread.count(pod, soft, around, options)
    weighed = [
        _Weighed(one, known, complete, pod, around)
        for one, known in zip(soft, counts, strict=True)
    ]
    sums = {node.name: round_half_up(sum(one.of(node) for one in weighed)) for node in complete}
    least, most = min(sums.values()), max(sums.values())
    even = {
        name: BEST if most == 0 else BEST * (most + least - own) // most
        for name, own in sums.items()
    }
    return {node.name: even.get(node.name, 0) for node in feasible}


class _Weighed:
    """One constraint over the nodes that take the pod."""

    def __init__(
        self,
        constraint: spread.Constraint,
        counts: Mapping[str, int],
        complete: Sequence[nodes.Node],
        pod: pods.Pod,
        around: surroundings.Surroundings,
    ) -> None:
        self._key = constraint.topology_key
        self._counts = counts
        self._slack = constraint.max_skew - 1
        self._hosts: Mapping[str, int] | None = None
        domains = len({node.labels[self._key] for node in complete})
        if self._key == _HOSTNAME:
            self._hosts = around.pods.counts(topologyspread.question(pod, constraint))
            domains = len(complete)
        self._weight = math.log(domains + 2)

    def of(self, node: nodes.Node) -> float:
        """More for a fuller domain."""
        if self._hosts is not None:
            count = self._hosts.get(node.name, 0)
        else:
            count = self._counts.get(node.labels[self._key], 0)
        return count * self._weight + self._slack


def round_half_up(value: float) -> int:
    """To the nearest integer, halves away from zero; for values that are not negative."""
    whole = math.floor(value)
    return whole + 1 if value - whole >= 0.5 else whole


def _is_complete(node: nodes.Node, soft: Sequence[spread.Constraint]) -> bool:
    return all(one.topology_key in node.labels for one in soft)
