"""May an event let a parked pod be scheduled after all?

A pod is parked with the filters that rejected it; an event wakes it if one of them says that it
may help. A filter that is not listed here is woken by everything: a needless attempt costs time,
a missed one leaves a pod waiting.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from hami_operator.scheduling import filters, gang, nodehints, objecthints, objects, podhints
from hami_operator.scheduling import node as nodes
from hami_operator.scheduling import pod as pods
from hami_operator.scheduling.filters import (
    affinity,
    check,
    declared,
    dynamic,
    gates,
    interpod,
    nodename,
    nodeports,
    taints,
    topologyspread,
    unschedulable,
    volumebinding,
    volumelimits,
    volumerestrictions,
    volumezone,
)
from hami_operator.scheduling.filters import resources as fit

DEVICES: Final = "Devices"
QUOTA: Final = "DeviceQuota"
BY_ARRIVAL: Final = frozenset({interpod.NAME, topologyspread.NAME})
"""The filters that a pod can help by coming to a node."""


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

    def is_end_of(self, pod: pods.Pod) -> bool:
        """Whether this very pod left: it cannot have what it gave back."""
        return self.new is None and self.old is not None and self.old.uid == pod.uid


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class QuotaChange:
    """The device quota of a namespace, or what is used of it, is other than before."""

    namespace: str


Event = NodeChange | PodChange | QuotaChange | objects.Change

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
    if isinstance(event, objects.Change):
        return hint.object(pod, event)
    if isinstance(event, NodeChange):
        return _node_helps(plugin, hint, pod, event, options)
    if event.new is not None and event.new.uid == pod.uid:
        return hint.own(event.old, event.new, options)
    return hint.pod(pod, event.old, event.new)


def _node_helps(
    plugin: str, hint: _Hint, pod: pods.Pod, event: NodeChange, options: check.Options
) -> bool:
    if plugin == DEVICES and event.devices:
        return True
    if event.new is None:
        # One domain less: what seemed uneven over all of them may be even over the rest.
        old = event.old
        spread = plugin == topologyspread.NAME and old is not None
        return spread and old is not None and topologyspread.is_complete(pod, old.labels)
    return hint.node(pod, event.old, event.new, options)


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
    """What one filter says to a node, another pod, an object, and the pod's own update."""

    node: nodehints.OfNode = nodehints.never
    pod: podhints.OfPod = podhints.never
    object: objecthints.OfObject = objecthints.never
    own: _OfOwn


def _ungated(old: pods.Pod | None, new: pods.Pod, options: check.Options) -> bool:
    del old, options
    return not new.gates


def _tolerates_cordon(old: pods.Pod | None, new: pods.Pod, options: check.Options) -> bool:
    del old
    return unschedulable.tolerates(new, options)


_HINTS: Final[Mapping[str, _Hint]] = {
    gang.PLUGIN: _Hint(object=objecthints.concerns, own=_any_update),
    filters.INVALID: _Hint(own=_any_update),
    filters.UNBUILT: _Hint(own=_any_update),
    filters.UNLISTED: _Hint(object=objecthints.listed, own=_any_update),
    gates.NAME: _Hint(own=_ungated),
    unschedulable.NAME: _Hint(node=nodehints.uncordoned, own=_tolerates_cordon),
    nodename.NAME: _Hint(node=nodehints.named, own=_changed("node_name")),
    taints.NAME: _Hint(node=nodehints.untainted, own=_changed("tolerations")),
    affinity.NAME: _Hint(node=nodehints.matching, own=_changed("node_selector", "affinity")),
    nodeports.NAME: _Hint(node=nodehints.added, pod=podhints.frees_ports, own=_changed("ports")),
    fit.NAME: _Hint(
        node=nodehints.roomier,
        pod=podhints.leaves_room,
        object=objecthints.maps,
        own=_changed("requests"),
    ),
    volumerestrictions.NAME: _Hint(
        node=nodehints.added,
        pod=podhints.frees_disks,
        object=objecthints.concerns,
        own=_changed("volumes"),
    ),
    volumelimits.NAME: _Hint(
        node=nodehints.added,
        pod=podhints.detaches,
        object=objecthints.concerns,
        own=_changed("volumes"),
    ),
    volumebinding.NAME: _Hint(
        node=nodehints.relabelled, object=objecthints.concerns, own=_changed("volumes")
    ),
    volumezone.NAME: _Hint(
        node=nodehints.relabelled, object=objecthints.concerns, own=_changed("volumes")
    ),
    topologyspread.NAME: _Hint(
        node=nodehints.regrouped,
        pod=podhints.regroups,
        own=_changed("labels", "tolerations", "spread"),
    ),
    interpod.NAME: _Hint(
        node=nodehints.relabelled,
        pod=podhints.befriends,
        object=objecthints.concerns,
        own=_changed("labels"),
    ),
    declared.NAME: _Hint(node=nodehints.able, own=_changed("features")),
    dynamic.NAME: _Hint(
        node=nodehints.relabelled,
        object=objecthints.concerns,
        own=_changed("resource_claims"),
    ),
    DEVICES: _Hint(
        node=nodehints.added,
        pod=podhints.frees_devices,
        own=_changed("annotations", "containers"),
    ),
    QUOTA: _Hint(own=_changed("containers")),
}
