"""What a claim, a volume or another object may mean to a parked pod, filter by filter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from hami_operator.scheduling import filters, gang, objects
from hami_operator.scheduling import pod as pods
from hami_operator.scheduling.filters import (
    backed,
    dynamic,
    interpod,
    resources,
    volumebinding,
    volumelimits,
    volumerestrictions,
    volumezone,
)

Kind = objects.Kind
OfObject = Callable[[pods.Pod, objects.Change], bool]
"""(waiting pod, change of an object) → it may help."""


def never(pod: pods.Pod, change: objects.Change) -> bool:
    """No object helps."""
    del pod, change
    return False


def listed(pod: pods.Pod, change: objects.Change) -> bool:
    """All objects of a kind are known now."""
    del pod
    return change.old is None and change.new is None


def concerns(pod: pods.Pod, change: objects.Change) -> bool:
    """The object is there, and the pod depends on it or may come to depend on it."""
    new = change.new
    if new is None:
        # An attachment that is gone makes room; of all other kinds nothing can be had any more.
        return listed(pod, change) or change.kind is Kind.ATTACHMENT
    if change.kind is Kind.CLAIM:
        return new.namespace == pod.namespace and new.name in pod.volumes.claim_names
    if change.kind is Kind.RESOURCE_CLAIM:
        wanted = (one.claim for one in pod.resource_claims)
        return new.namespace == pod.namespace and new.name in wanted
    if change.kind in {Kind.POD_GROUP, Kind.NATIVE_GROUP}:
        native = change.kind is Kind.NATIVE_GROUP
        return gang.Key(new.namespace, new.name, native) == gang.key_of(pod)
    if change.kind is Kind.VOLUME and new.claim is not None:
        namespace, name, _ = new.claim
        return namespace == pod.namespace and name in pod.volumes.claim_names
    return True


def maps(pod: pods.Pod, change: objects.Change) -> bool:
    """A DeviceClass says of a resource that the pod asks for what it stands for."""
    return change.kind is Kind.DEVICE_CLASS and backed.helps(pod, change.new or change.old)


def affected(kind: Kind) -> frozenset[str]:
    """The filters that look at objects of a kind."""
    return frozenset({filters.UNLISTED, *_FILTERS[kind]})


_FILTERS: Final[Mapping[Kind, tuple[str, ...]]] = {
    Kind.POD_GROUP: (gang.PLUGIN,),
    Kind.NATIVE_GROUP: (gang.PLUGIN,),
    Kind.CLAIM: (
        volumerestrictions.NAME,
        volumelimits.NAME,
        volumebinding.NAME,
        volumezone.NAME,
    ),
    Kind.VOLUME: (volumelimits.NAME, volumebinding.NAME, volumezone.NAME),
    Kind.CLASS: (volumelimits.NAME, volumebinding.NAME, volumezone.NAME),
    Kind.CSI_NODE: (volumelimits.NAME,),
    Kind.CSI_DRIVER: (volumebinding.NAME,),
    Kind.CAPACITY: (volumebinding.NAME,),
    Kind.ATTACHMENT: (volumelimits.NAME,),
    Kind.NAMESPACE: (interpod.NAME,),
    Kind.RESOURCE_CLAIM: (dynamic.NAME,),
    Kind.DEVICE_CLASS: (dynamic.NAME, resources.NAME),
}
