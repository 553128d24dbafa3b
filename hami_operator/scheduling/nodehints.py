"""What a new, changed or vanished node may mean to a parked pod, filter by filter."""

from __future__ import annotations

from collections.abc import Callable

from hami_operator.scheduling import node as nodes
from hami_operator.scheduling import pod as pods
from hami_operator.scheduling import resources, tolerations
from hami_operator.scheduling.filters import affinity, check, topologyspread
from hami_operator.scheduling.filters import resources as fit

OfNode = Callable[[pods.Pod, nodes.Node | None, nodes.Node, check.Options], bool]
"""(waiting pod, node before or None for a new one, node now, options) → it may help."""


def never(pod: pods.Pod, old: nodes.Node | None, new: nodes.Node, options: check.Options) -> bool:
    """No node helps."""
    del pod, old, new, options
    return False


def added(pod: pods.Pod, old: nodes.Node | None, new: nodes.Node, options: check.Options) -> bool:
    """Only a new node helps."""
    del pod, new, options
    return old is None


def relabelled(
    pod: pods.Pod, old: nodes.Node | None, new: nodes.Node, options: check.Options
) -> bool:
    """A new node helps, and new labels."""
    del pod, options
    return old is None or old.labels != new.labels


def uncordoned(
    pod: pods.Pod, old: nodes.Node | None, new: nodes.Node, options: check.Options
) -> bool:
    """It may be used now."""
    del pod, options
    return not new.unschedulable and (old is None or old.unschedulable)


def named(pod: pods.Pod, old: nodes.Node | None, new: nodes.Node, options: check.Options) -> bool:
    """It is the one that the pod names."""
    del options
    return old is None and new.name == pod.node_name


def untainted(
    pod: pods.Pod, old: nodes.Node | None, new: nodes.Node, options: check.Options
) -> bool:
    """All its taints are tolerated now."""

    def stops(node: nodes.Node) -> bool:
        comparison = options.comparison_operators
        found = tolerations.untolerated(node.repelling, pod.tolerations, comparison=comparison)
        return found is not None

    return not stops(new) and (old is None or stops(old))


def matching(
    pod: pods.Pod, old: nodes.Node | None, new: nodes.Node, options: check.Options
) -> bool:
    """Its labels are what the pod wants now."""

    def fits(node: nodes.Node) -> bool:
        required = options.added_affinity.required
        enforced = required is None or required.matches(node.name, node.labels)
        return enforced and affinity.matches(pod, node)

    return fits(new) and (old is None or not fits(old))


def roomier(
    pod: pods.Pod, old: nodes.Node | None, new: nodes.Node, options: check.Options
) -> bool:
    """The empty node would take the pod, and offers more than before of what it wants."""
    wanted = (*fit.compared(pod, options), (resources.PODS, 1))
    if any(amount > new.amounts.get(name, 0) for name, amount in wanted):
        return False
    return old is None or any(
        new.amounts.get(name, 0) > old.amounts.get(name, 0) for name, _ in wanted
    )


def able(pod: pods.Pod, old: nodes.Node | None, new: nodes.Node, options: check.Options) -> bool:
    """It declares other features than before."""
    del pod, options
    return old is None or old.features != new.features


def regrouped(
    pod: pods.Pod, old: nodes.Node | None, new: nodes.Node, options: check.Options
) -> bool:
    """Domains over which the pod is spread are other than before."""
    del options
    is_in = topologyspread.is_complete(pod, new.labels)
    if old is None:
        return is_in
    if is_in is not topologyspread.is_complete(pod, old.labels):
        return True
    moved = any(
        old.labels.get(key) != new.labels.get(key) for key in topologyspread.keys(pod.spread)
    )
    return is_in and (moved or old.taints != new.taints)
