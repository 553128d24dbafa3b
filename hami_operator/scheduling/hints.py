"""May an event let a parked pod be scheduled after all?

A pod is parked with the filters that rejected it; an event wakes it if one of them says that it
may help. A filter that is not listed here is woken by everything: a needless attempt costs time,
a missed one leaves a pod waiting.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from hami_operator.scheduling import filters, resources, tolerations
from hami_operator.scheduling import node as nodes
from hami_operator.scheduling import pod as pods
from hami_operator.scheduling.filters import (
    affinity,
    check,
    gates,
    nodename,
    symmetry,
    taints,
    unschedulable,
)
from hami_operator.scheduling.filters import resources as fit

DEVICES: Final = "Devices"
QUOTA: Final = "DeviceQuota"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class NodeChange:
    """A node was added (``old`` None), changed, or went away (``new`` None).

    Attributes:
        devices: whether its cards, their availability or their cordons are other than before.
    """

    old: nodes.Node | None = None
    new: nodes.Node | None = None
    devices: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class PodChange:
    """A pod with a node appeared (``old`` None), changed, or went away (``new`` None).

    The waiting pod's own update is one too. A pod that has ended for good has gone away, and so
    has one whose assumption was forgotten.
    """

    old: pods.Pod | None = None
    new: pods.Pod | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class QuotaChange:
    """The device quota of a namespace, or what is used of it, is other than before."""

    namespace: str


Event = NodeChange | PodChange | QuotaChange

_OfNode = Callable[[pods.Pod, nodes.Node | None, nodes.Node, check.Options], bool]
_OfPod = Callable[[pods.Pod, pods.Pod, pods.Pod | None], bool]
_OfOwn = Callable[[pods.Pod | None, pods.Pod, check.Options], bool]


def may_help(
    plugins: Iterable[str],
    pod: pods.Pod,
    event: Event,
    options: check.Options = check.DEFAULT,
) -> bool:
    """Whether one of the filters that rejected a parked pod may now answer otherwise."""
    return any(_helps(plugin, pod, event, options) for plugin in plugins)


def _helps(plugin: str, pod: pods.Pod, event: Event, options: check.Options) -> bool:
    hint = _HINTS.get(plugin)
    if hint is None:
        return True
    if isinstance(event, QuotaChange):
        return plugin in {DEVICES, QUOTA} and event.namespace == pod.namespace
    if isinstance(event, NodeChange):
        devices = plugin == DEVICES and event.devices
        return devices or (event.new is not None and hint.node(pod, event.old, event.new, options))
    if event.new is not None and event.new.uid == pod.uid:
        return hint.own(event.old, event.new, options)
    return event.old is not None and hint.pod(pod, event.old, event.new)


def _no_node(
    pod: pods.Pod, old: nodes.Node | None, new: nodes.Node, options: check.Options
) -> bool:
    del pod, old, new, options
    return False


def _no_pod(pod: pods.Pod, old: pods.Pod, new: pods.Pod | None) -> bool:
    del pod, old, new
    return False


def _any_update(old: pods.Pod | None, new: pods.Pod, options: check.Options) -> bool:
    del old, new, options
    return True


def _changed(*names: str) -> _OfOwn:
    """The waiting pod's update helps if one of these fields is other than before."""

    def judge(old: pods.Pod | None, new: pods.Pod, options: check.Options) -> bool:
        del options
        return old is None or any(getattr(old, name) != getattr(new, name) for name in names)

    return judge


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Hint:
    """What one filter says to an added or changed node, another pod, and the pod's own update."""

    node: _OfNode = _no_node
    pod: _OfPod = _no_pod
    own: _OfOwn


def _ungated(old: pods.Pod | None, new: pods.Pod, options: check.Options) -> bool:
    del old, options
    return not new.gates


def _uncordoned(
    pod: pods.Pod, old: nodes.Node | None, new: nodes.Node, options: check.Options
) -> bool:
    del pod, options
    return not new.unschedulable and (old is None or old.unschedulable)


def _tolerates_cordon(old: pods.Pod | None, new: pods.Pod, options: check.Options) -> bool:
    del old
    return unschedulable.tolerates(new, options)


def _named(pod: pods.Pod, old: nodes.Node | None, new: nodes.Node, options: check.Options) -> bool:
    del options
    return old is None and new.name == pod.node_name


def _untainted(
    pod: pods.Pod, old: nodes.Node | None, new: nodes.Node, options: check.Options
) -> bool:
    def stops(node: nodes.Node) -> bool:
        comparison = options.comparison_operators
        found = tolerations.untolerated(node.repelling, pod.tolerations, comparison=comparison)
        return found is not None

    return not stops(new) and (old is None or stops(old))


def _matching(
    pod: pods.Pod, old: nodes.Node | None, new: nodes.Node, options: check.Options
) -> bool:
    def fits(node: nodes.Node) -> bool:
        added = options.added_affinity.required
        enforced = added is None or added.matches(node.name, node.labels)
        return enforced and affinity.matches(pod, node)

    return fits(new) and (old is None or not fits(old))


def _roomier(
    pod: pods.Pod, old: nodes.Node | None, new: nodes.Node, options: check.Options
) -> bool:
    """The empty node would take the pod, and offers more than before of what it wants."""
    wanted = (*fit.compared(pod, options), (resources.PODS, 1))
    if any(amount > new.amounts.get(name, 0) for name, amount in wanted):
        return False
    return old is None or any(
        new.amounts.get(name, 0) > old.amounts.get(name, 0) for name, _ in wanted
    )


def _leaves_room(pod: pods.Pod, old: pods.Pod, new: pods.Pod | None) -> bool:
    """Another pod left its node, or holds less there of what this one wants."""
    if not old.node_name:
        return False
    return new is None or any(
        old.held.get(name, 0) > new.held.get(name, 0) for name in pod.requests
    )


def _frees_devices(pod: pods.Pod, old: pods.Pod, new: pods.Pod | None) -> bool:
    """Another pod left its node, or its init containers have ended and give back their share."""
    del pod
    return bool(old.node_name) and (new is None or new.inits_done is not old.inits_done)


def _added(pod: pods.Pod, old: nodes.Node | None, new: nodes.Node, options: check.Options) -> bool:
    del pod, new, options
    return old is None


def _relabelled(
    pod: pods.Pod, old: nodes.Node | None, new: nodes.Node, options: check.Options
) -> bool:
    del pod, options
    return old is None or old.labels != new.labels


def _repeller_left(pod: pods.Pod, old: pods.Pod, new: pods.Pod | None) -> bool:
    """A pod that did not want this one near, or is not wanted by it, left or changed."""
    if not old.node_name or (new is not None and new.labels == old.labels):
        return False
    nowhere: Mapping[str, Mapping[str, str]] = {}
    return any(
        term.selects(pod.labels, pod.namespace, nowhere) for term in old.pod_affinity.repelled
    ) or any(
        term.selects(old.labels, old.namespace, nowhere) for term in pod.pod_affinity.repelled
    )


_HINTS: Final[Mapping[str, _Hint]] = {
    filters.INVALID: _Hint(own=_any_update),
    filters.UNBUILT: _Hint(own=_any_update),
    gates.NAME: _Hint(own=_ungated),
    unschedulable.NAME: _Hint(node=_uncordoned, own=_tolerates_cordon),
    nodename.NAME: _Hint(node=_named, own=_changed("node_name")),
    taints.NAME: _Hint(node=_untainted, own=_changed("tolerations")),
    affinity.NAME: _Hint(node=_matching, own=_changed("node_selector", "affinity")),
    fit.NAME: _Hint(node=_roomier, pod=_leaves_room, own=_changed("requests")),
    symmetry.NAME: _Hint(node=_relabelled, pod=_repeller_left, own=_changed("labels")),
    DEVICES: _Hint(node=_added, pod=_frees_devices, own=_changed("annotations", "containers")),
    QUOTA: _Hint(own=_changed("containers")),
}
