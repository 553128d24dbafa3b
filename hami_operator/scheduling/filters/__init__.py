"""The ordinary filters of kube-scheduler: which nodes may take a pod, cards aside.

A pod is planned once and then judged on many nodes::

    plan = filters.plan(pod, options)
    if plan.prefilter is None:
        for view in snapshot:
            rejection = plan.run(view)

The order is kube-scheduler's, and the first filter that rejects a node is the one that is
reported: users know their events.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Final

from hami_operator import errors
from hami_operator.scheduling import pod as pods
from hami_operator.scheduling import rejection
from hami_operator.scheduling.filters import (
    affinity,
    check,
    gates,
    nodename,
    resources,
    symmetry,
    taints,
    unschedulable,
)

View = check.View
Options = check.Options
DEFAULT: Final = check.DEFAULT

INVALID: Final = "PodSpec"
UNBUILT: Final = "FilterNotBuilt"

FILTERS: Final[tuple[tuple[str, Callable[[pods.Pod, Options], check.Check | None]], ...]] = (
    (unschedulable.NAME, unschedulable.plan),
    (nodename.NAME, nodename.plan),
    (taints.NAME, taints.plan),
    (affinity.NAME, affinity.plan),
    (resources.NAME, resources.plan),
)
"""Name and planner of each filter, in order; a planner says None where it has nothing to do."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """All filters, prepared for one pod.

    Attributes:
        prefilter: rejects the pod on all nodes at once; then nothing else need be asked.
        names: the only nodes worth asking; None for all.
        checks: what is left to ask of each node.
    """

    prefilter: rejection.Rejection | None
    names: frozenset[str] | None
    checks: tuple[check.Check, ...]

    def run(self, view: View) -> rejection.Rejection | None:
        """Judge one node; None lets it through."""
        if self.names is not None and view.node.name not in self.names:
            return affinity.NARROWED
        for judge in self.checks:
            answer = judge(view)
            if answer is not None:
                return answer
        return None


def plan(
    pod: pods.Pod,
    options: Options = DEFAULT,
    *,
    repelled: frozenset[symmetry.Place] = frozenset(),
) -> Plan:
    """Prepare all filters for a pod.

    Args:
        pod: the pod to be placed.
        options: what is set for the filters.
        repelled: where pods on nodes do not want it, as ``symmetry.Owners`` tells.
    """
    planned = (planner(pod, options) for _, planner in FILTERS)
    checks = (*planned, symmetry.plan(repelled))
    return Plan(
        prefilter=prefilter(pod),
        names=affinity.names(pod),
        checks=tuple(one for one in checks if one is not None),
    )


def prefilter(pod: pods.Pod) -> rejection.Rejection | None:
    """What rejects a pod before any node is looked at."""
    return (
        gates.prefilter(pod) or _invalid(pod) or _unbuilt(pod) or affinity.prefilter(pod) or None
    )


def run(pod: pods.Pod, view: View, options: Options = DEFAULT) -> rejection.Rejection | None:
    """Judge one pod on one node; for many nodes, plan once."""
    planned = plan(pod, options)
    return planned.prefilter or planned.run(view)


def _invalid(pod: pods.Pod) -> rejection.Rejection | None:
    if not pod.findings:
        return None
    return rejection.Rejection(
        plugin=INVALID,
        texts=tuple(str(finding) for finding in pod.findings),
        resolvable=False,
        reasons=(errors.Reason.INVALID_POD,),
    )


def _unbuilt(pod: pods.Pod) -> rejection.Rejection | None:
    if not pod.unbuilt:
        return None
    text = f"pod needs rules that this scheduler does not know yet: {', '.join(pod.unbuilt)}"
    return rejection.Rejection(
        plugin=UNBUILT,
        texts=(text,),
        resolvable=False,
        reasons=(errors.Reason.FILTER_NOT_BUILT,),
    )
