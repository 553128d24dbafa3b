"""PodTopologySpread: pods that are alike, evenly over zones, nodes or whatever a label names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from hami_operator.scheduling import node as nodes
from hami_operator.scheduling import pod as pods
from hami_operator.scheduling import rejection, spread, surroundings, tallies, tolerations
from hami_operator.scheduling.filters import affinity, check

NAME: Final = "PodTopologySpread"
_NO_LABEL: Final = rejection.final(
    NAME, "node(s) didn't match pod topology spread constraints (missing required label)"
)
_UNEVEN: Final = rejection.Rejection(
    plugin=NAME,
    texts=("node(s) didn't match pod topology spread constraints",),
    resolvable=True,
)

Limits = tuple[str, Mapping[str, int], int]
"""Topology key, pods per domain, and how many a domain may hold at most for one more to come."""


def plan(
    pod: pods.Pod, options: check.Options, around: surroundings.Surroundings
) -> check.Planned:
    """Rejects nodes that would hold more than the emptiest domain allows."""
    constraints = tuple(one for one in pod.spread if one.required)
    if not constraints:
        return None
    counts = count(pod, constraints, around, options)
    limits = tuple(_limit(pod, one, known) for one, known in zip(constraints, counts, strict=True))

    def judge(view: check.View) -> rejection.Rejection | None:
        labels = view.node.labels
        for key, known, most in limits:
            domain = labels.get(key)
            if domain is None:
                return _NO_LABEL
            if known.get(domain, 0) > most:
                return _UNEVEN
        return None

    return judge


def count(
    pod: pods.Pod,
    constraints: Sequence[spread.Constraint],
    around: surroundings.Surroundings,
    options: check.Options,
) -> list[dict[str, int]]:
    """Per constraint, how many pods that count each domain holds; a node needs all the labels."""
    keys = tuple(one.topology_key for one in constraints)
    known = [around.pods.counts(question(pod, one)) for one in constraints]
    found: list[dict[str, int]] = [{} for _ in constraints]
    picky = any(one.honors_taints or one.honors_affinity for one in constraints) and (
        affinity.constrains(pod) or any(one.honors_taints for one in constraints)
    )
    for holder in around.nodes:
        node = holder.node
        labels = node.labels
        if not all(key in labels for key in keys):
            continue
        for number, key in enumerate(keys):
            if picky and not is_domain(pod, constraints[number], node, options):
                continue
            domains, domain = found[number], labels[key]
            domains[domain] = domains.get(domain, 0) + known[number].get(node.name, 0)
    return found


def is_domain(
    pod: pods.Pod, constraint: spread.Constraint, node: nodes.Node, options: check.Options
) -> bool:
    """Whether a node counts, by what the constraint says of affinity and taints."""
    if constraint.honors_affinity and not affinity.matches(pod, node):
        return False
    if not constraint.honors_taints or not node.repelling:
        return True
    comparison = options.comparison_operators
    left = tolerations.untolerated(node.repelling, pod.tolerations, comparison=comparison)
    return left is None


def question(pod: pods.Pod, constraint: spread.Constraint) -> tallies.Question:
    """Which pods on nodes count: those of the namespace that stay."""
    scope = tallies.Scope(frozenset({pod.namespace}), constraint.counted)
    return tallies.Question(scopes=(scope,), staying=True)


def counted_in(pod: pods.Pod, other: pods.Pod) -> tuple[bool, ...]:
    """Per required constraint of a pod, whether another one counts in it."""
    near = other.namespace == pod.namespace
    return tuple(near and one.selector.matches(other.labels) for one in pod.spread if one.required)


def is_complete(pod: pods.Pod, labels: Mapping[str, str]) -> bool:
    """Whether a node with these labels is in a domain of every required constraint."""
    return all(one.topology_key in labels for one in pod.spread if one.required)


def keys(constraints: Iterable[spread.Constraint]) -> frozenset[str]:
    """The labels that make domains, of the required constraints."""
    return frozenset(one.topology_key for one in constraints if one.required)


def _limit(pod: pods.Pod, constraint: spread.Constraint, known: Mapping[str, int]) -> Limits:
    emptiest = min(known.values(), default=0)
    if len(known) < constraint.min_domains:
        emptiest = 0
    itself = 1 if constraint.selector.matches(pod.labels) else 0
    return constraint.topology_key, known, constraint.max_skew + emptiest - itself
