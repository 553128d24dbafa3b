"""How much a pod would like a node: what it says itself, and taints that only deter.

Every part is scored from 0 to 100 over the nodes that fit, as kube-scheduler does, and weighed by
its weights. What the user asked for outranks what the cluster prefers (D14).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from hami_operator.scheduling import (
    affinityscore,
    nodeselector,
    spreadscore,
    surroundings,
    tolerations,
)
from hami_operator.scheduling import node as nodes
from hami_operator.scheduling import pod as pods
from hami_operator.scheduling.filters import check

BEST: Final = 100
AFFINITY_WEIGHT: Final = 2
TAINT_WEIGHT: Final = 3
SPREAD_WEIGHT: Final = 2
POD_AFFINITY_WEIGHT: Final = 2

_View = TypeVar("_View", bound=check.View)


def says_something(
    pod: pods.Pod, feasible: Iterable[nodes.Node], options: check.Options = check.DEFAULT
) -> bool:
    """Whether the pod would like one node more than another, or a taint tells it off."""
    return bool(
        _wishes(pod, options) or looks_at_pods(pod) or any(node.deterring for node in feasible)
    )


def looks_at_pods(pod: pods.Pod) -> bool:
    """Whether what the pod prefers depends on where other pods are."""
    return bool(pod.pod_affinity.wishes or any(not one.required for one in pod.spread))


def by_liking(
    pod: pods.Pod,
    views: Iterable[_View],
    options: check.Options = check.DEFAULT,
) -> Iterable[_View]:
    """Nodes with most of what the pod prefers of a node first, else in the order given.

    Only the first of those that take the pod has the most, and the highest score; further down
    different weights may come to the same score.
    """
    wishes = _wishes(pod, options)
    if not wishes:
        return views
    return sorted(views, key=lambda view: -max(_weight(wishes, view.node), 0))


def totals(
    pod: pods.Pod,
    feasible: Sequence[nodes.Node],
    options: check.Options = check.DEFAULT,
    around: surroundings.Surroundings | None = None,
    *,
    heeds_others: bool = False,
) -> dict[str, int]:
    """Per node name the weighed sum of all scores; higher is better.

    Args:
        pod: the pod to be placed.
        feasible: the nodes that take it.
        options: what is set for the filters.
        around: other pods and nodes; none, if it is left out.
        heeds_others: what pods on nodes would like of this one counts even if it says nothing.
    """
    around = around or surroundings.alone()
    found = dict.fromkeys((node.name for node in feasible), TAINT_WEIGHT * BEST)
    if any(node.deterring for node in feasible):
        clean = taint_scores(pod, feasible, options)
        found = {name: TAINT_WEIGHT * score for name, score in clean.items()}
    if _wishes(pod, options):
        _add(found, affinity_scores(pod, feasible, options), AFFINITY_WEIGHT)
    if any(not one.required for one in pod.spread):
        _add(found, spreadscore.scores(pod, feasible, around, options), SPREAD_WEIGHT)
    if pod.pod_affinity.wishes or heeds_others:
        _add(found, affinityscore.scores(pod, feasible, around), POD_AFFINITY_WEIGHT)
    return found


def _add(found: dict[str, int], scores: dict[str, int], weight: int) -> None:
    for name, score in scores.items():
        found[name] += weight * score


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
