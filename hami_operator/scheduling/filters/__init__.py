"""The ordinary filters of kube-scheduler: which nodes may take a pod, cards aside.

A pod is planned once and then judged on many nodes::

    plan = filters.plan(pod, options, around)
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
from hami_operator.scheduling import gang, objects, podaffinity, rejection, surroundings, volumes
from hami_operator.scheduling import pod as pods
from hami_operator.scheduling.filters import (
    affinity,
    backed,
    check,
    declared,
    dynamic,
    gates,
    interpod,
    nodename,
    nodeports,
    resources,
    taints,
    topologyspread,
    unschedulable,
    volumebinding,
    volumelimits,
    volumerestrictions,
    volumezone,
)

View = check.View
Options = check.Options
DEFAULT: Final = check.DEFAULT
Planner = Callable[[pods.Pod, Options, surroundings.Surroundings], check.Planned]

INVALID: Final = "PodSpec"
UNBUILT: Final = "FilterNotBuilt"
UNLISTED: Final = "NotListed"

LOCAL: Final[tuple[tuple[str, Planner], ...]] = (
    (unschedulable.NAME, unschedulable.plan),
    (nodename.NAME, nodename.plan),
    (taints.NAME, taints.plan),
    (affinity.NAME, affinity.plan),
    (nodeports.NAME, nodeports.plan),
    (resources.NAME, resources.plan),
)
"""Filters whose answer stays the same while nothing changes on the node itself."""

WIDE: Final[tuple[tuple[str, Planner], ...]] = (
    (volumerestrictions.NAME, volumerestrictions.plan),
    (volumelimits.NAME, volumelimits.plan),
    (volumebinding.NAME, volumebinding.plan),
    (volumezone.NAME, volumezone.plan),
    (topologyspread.NAME, topologyspread.plan),
    (interpod.NAME, interpod.plan),
    (dynamic.NAME, dynamic.plan),
    (declared.NAME, declared.plan),
)
"""Filters whose answer depends on other nodes, on pods there, or on other objects."""

FILTERS: Final = (*LOCAL, *WIDE)
"""Name and planner of each filter, in order; a planner says None where it has nothing to do."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """All filters, prepared for one pod.

    Attributes:
        prefilter: rejects the pod on all nodes at once; then nothing else need be asked.
        names: the only nodes worth asking; None for all.
        checks: what is left of `LOCAL` to ask of each node.
        wide: what is left of `WIDE`.
    """

    prefilter: rejection.Rejection | None
    names: frozenset[str] | None
    checks: tuple[check.Check, ...]
    wide: tuple[check.Check, ...] = ()

    def run(self, view: View) -> rejection.Rejection | None:
        """Judge one node; None lets it through."""
        return self.run_local(view) or self.run_wide(view)

    def run_local(self, view: View) -> rejection.Rejection | None:
        """Judge one node by what it says itself."""
        if self.names is not None and view.node.name not in self.names:
            return affinity.NARROWED
        for judge in self.checks:
            answer = judge(view)
            if answer is not None:
                return answer
        return None

    def run_wide(self, view: View) -> rejection.Rejection | None:
        """Judge one node by what is around it."""
        for judge in self.wide:
            answer = judge(view)
            if answer is not None:
                return answer
        return None


def plan(
    pod: pods.Pod,
    options: Options = DEFAULT,
    around: surroundings.Surroundings | None = None,
) -> Plan:
    """Prepare all filters for a pod.

    Args:
        pod: the pod to be placed.
        options: what is set for the filters.
        around: the rest of the cluster; nothing, if it is left out.
    """
    around = around or surroundings.alone()
    local = (planner(pod, options, around) for _, planner in LOCAL)
    checks = tuple(one for one in local if one is not None)
    if around.pods.reads_namespaces():
        around.objects.lacks(objects.NAMESPACES)  # until they are listed, terms repel any pod
    early = prefilter(pod, around) or backed.prefilter(pod, options, around)
    wide: tuple[check.Check, ...] | rejection.Rejection = ()
    if early is None:
        wide = _wide(pod, options, around)
    if around.promised is not None and not isinstance(wide, rejection.Rejection):
        more = _wide(pod, options, dataclasses.replace(around, pods=around.promised))
        wide = more if isinstance(more, rejection.Rejection) else (*wide, *more)
    if isinstance(wide, rejection.Rejection):
        early, wide = wide, ()
    return Plan(
        prefilter=early,
        names=affinity.names(pod),
        checks=tuple(one for one in checks if not isinstance(one, rejection.Rejection)),
        wide=wide,
    )


def prefilter(pod: pods.Pod, around: surroundings.Surroundings) -> rejection.Rejection | None:
    """What rejects a pod before any node is looked at."""
    return (
        gates.prefilter(pod)
        or _invalid(pod)
        or _unbuilt(pod)
        or _unlisted(pod, around.objects)
        or _ungrouped(pod, around.objects)
        or dynamic.prefilter(pod, around)
        or affinity.prefilter(pod)
    )


def run(pod: pods.Pod, view: View, options: Options = DEFAULT) -> rejection.Rejection | None:
    """Judge one pod on one node; for many nodes, plan once."""
    planned = plan(pod, options)
    return planned.prefilter or planned.run(view)


def needs(pod: pods.Pod) -> frozenset[objects.Kind]:
    """Kinds of objects without which the pod cannot be placed."""
    found: frozenset[objects.Kind] = frozenset()
    if pod.volumes is not volumes.NONE and (pod.volumes.claims or pod.volumes.attached):
        found |= objects.STORAGE
    if pod.pod_affinity is not podaffinity.NONE and pod.pod_affinity.reads_namespaces:
        found |= objects.NAMESPACES
    if pod.resource_claims:
        found |= objects.DYNAMIC
    return found


def _wide(
    pod: pods.Pod, options: Options, around: surroundings.Surroundings
) -> tuple[check.Check, ...] | rejection.Rejection:
    """The filters that look around, as far as they have something to say."""
    planners = WIDE if _looks_around(pod) else _OF_PLAIN_PODS
    checks = []
    for _, planner in planners:
        planned = planner(pod, options, around)
        if isinstance(planned, rejection.Rejection):
            return planned
        if planned is not None:
            checks.append(planned)
    return tuple(checks)


_OF_PLAIN_PODS: Final = tuple(one for one in WIDE if one[0] == interpod.NAME)
"""Others may not want even a pod that asks for nothing."""


def _looks_around(pod: pods.Pod) -> bool:
    return bool(
        pod.volumes is not volumes.NONE
        or pod.spread
        or pod.pod_affinity is not podaffinity.NONE
        or pod.resource_claims
        or pod.features
    )


def _unlisted(pod: pods.Pod, known: objects.Objects) -> rejection.Rejection | None:
    """A pod waits until what it depends on has been listed; it is listed since the pod asks."""
    needed = needs(pod)
    if pod.gang.native:
        needed |= objects.NATIVE_GROUPS
    elif pod.gang.name and not pod.gang.size:
        needed |= objects.GROUPS
    if not needed or not known.lacks(needed):
        return None
    names = ", ".join(sorted(kind.value for kind in needed))
    return rejection.final(UNLISTED, f"waiting for the first list of {names}")


def _ungrouped(pod: pods.Pod, known: objects.Objects) -> rejection.Rejection | None:
    """A pod that names a group of Kubernetes' own waits for it."""
    return gang.obstacle(pod, known.group_of(gang.key_of(pod))) if pod.gang.native else None


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
