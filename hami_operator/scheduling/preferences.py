"""How much a pod would like a node: preferred node affinity, and taints that only deter.

Both are scored from 0 to 100 over the nodes that fit, as kube-scheduler does, and weighed by its
weights. What the user asked for outranks what the cluster prefers (D14).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hami_operator.scheduling import node as nodes
from hami_operator.scheduling import nodeselector, tolerations
from hami_operator.scheduling import pod as pods
from hami_operator.scheduling.filters import check

BEST: Final = 100
AFFINITY_WEIGHT: Final = 2
TAINT_WEIGHT: Final = 3


def totals(
    pod: pods.Pod, feasible: Iterable[nodes.Node], options: check.Options = check.DEFAULT
) -> dict[str, int]:
    """Per node name the weighed sum of both scores; higher is better."""
    listed = tuple(feasible)
    if not _wishes(pod, options) and not any(node.deterring for node in listed):
        return {node.name: TAINT_WEIGHT * BEST for node in listed}
    liked = affinity_scores(pod, listed, options)
    clean = taint_scores(pod, listed, options)
    return {name: AFFINITY_WEIGHT * liked[name] + TAINT_WEIGHT * clean[name] for name in liked}


def affinity_scores(
    pod: pods.Pod, feasible: Iterable[nodes.Node], options: check.Options = check.DEFAULT
) -> dict[str, int]:
    """100 for the node whose matching preferences weigh most, the others in proportion."""
    wishes = _wishes(pod, options)
    weights = {node.name: _weight(wishes, node) for node in feasible}
    most = max(weights.values(), default=0)
    if most <= 0:
        return dict.fromkeys(weights, 0)
    return {name: BEST * weight // most for name, weight in weights.items()}


def taint_scores(
    pod: pods.Pod, feasible: Iterable[nodes.Node], options: check.Options = check.DEFAULT
) -> dict[str, int]:
    """100 for nodes without untolerated PreferNoSchedule taints, 0 for the most tainted."""
    own = [one for one in pod.tolerations if one.effect in {"", tolerations.PREFER_NO_SCHEDULE}]
    comparison = options.comparison_operators
    counts = {node.name: _deterring(node, own, comparison=comparison) for node in feasible}
    most = max(counts.values(), default=0)
    if not most:
        return dict.fromkeys(counts, BEST)
    return {name: BEST - BEST * count // most for name, count in counts.items()}


def _wishes(pod: pods.Pod, options: check.Options) -> tuple[nodeselector.Preference, ...]:
    return (*options.added_affinity.preferred, *pod.affinity.preferred)


def _weight(wishes: Iterable[nodeselector.Preference], node: nodes.Node) -> int:
    return sum(wish.weight for wish in wishes if wish.term.matches(node.name, node.labels))


def _deterring(
    node: nodes.Node, own: Iterable[tolerations.Toleration], *, comparison: bool
) -> int:
    return sum(
        not any(one.covers(taint, comparison=comparison) for one in own)
        for taint in node.deterring
    )
