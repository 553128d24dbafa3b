"""What another pod on a node may mean to a parked pod, filter by filter."""

from __future__ import annotations

from collections.abc import Callable

from hami_operator.scheduling import pod as pods
from hami_operator.scheduling.filters import nodeports, topologyspread, volumerestrictions

OfPod = Callable[[pods.Pod, pods.Pod | None, pods.Pod | None], bool]
"""(waiting pod, other before, other now) → it may help; None: not on a node then or now."""


def never(pod: pods.Pod, old: pods.Pod | None, new: pods.Pod | None) -> bool:
    """No other pod helps."""
    del pod, old, new
    return False


def leaves_room(pod: pods.Pod, old: pods.Pod | None, new: pods.Pod | None) -> bool:
    """It left its node, or holds less there of what the pod wants."""
    if old is None or not old.node_name:
        return False
    return new is None or any(
        old.held.get(name, 0) > new.held.get(name, 0) for name in pod.requests
    )


def frees_devices(pod: pods.Pod, old: pods.Pod | None, new: pods.Pod | None) -> bool:
    """It left its node, or its init containers have ended and give back their share."""
    del pod
    if old is None or not old.node_name:
        return False
    return new is None or new.inits_done is not old.inits_done


def frees_ports(pod: pods.Pod, old: pods.Pod | None, new: pods.Pod | None) -> bool:
    """It left its node, and with it a port that the pod wants."""
    gone = new is None and old is not None and bool(old.node_name)
    return gone and old is not None and nodeports.frees(pod, old)


def frees_disks(pod: pods.Pod, old: pods.Pod | None, new: pods.Pod | None) -> bool:
    """It left its node, and with it a disk or a claim that the pod wants for itself."""
    return new is None and old is not None and volumerestrictions.frees(pod, old)


def detaches(pod: pods.Pod, old: pods.Pod | None, new: pods.Pod | None) -> bool:
    """It left its node with volumes, so that others can be attached."""
    del pod
    held = old is not None and (old.volumes.claims or old.volumes.attached)
    return new is None and bool(held)


def regroups(pod: pods.Pod, old: pods.Pod | None, new: pods.Pod | None) -> bool:
    """It counts among the pods over which this one is spread, and did not, or the other way."""
    if old is not None and new is not None:
        before = topologyspread.counted_in(pod, old)
        return before != topologyspread.counted_in(pod, new)
    either = old or new
    return either is not None and any(topologyspread.counted_in(pod, either))


def befriends(pod: pods.Pod, old: pods.Pod | None, new: pods.Pod | None) -> bool:
    """The pod wants to be near it, or one of both did not want the other near and it left."""
    if old is None:
        return new is not None and _is_wanted(pod, new)
    if not old.node_name or (new is not None and new.labels == old.labels):
        return False
    if new is not None and _is_wanted(pod, new):
        return True
    own, its = pod.pod_affinity, old.pod_affinity
    return any(term.selects(old.labels, old.namespace, {}) for term in own.repelled) or any(
        term.selects(pod.labels, pod.namespace, {}) for term in its.repelled
    )


def _is_wanted(pod: pods.Pod, other: pods.Pod) -> bool:
    """One pod must be what all terms are about."""
    required = pod.pod_affinity.required
    return bool(required) and all(
        term.selects(other.labels, other.namespace, {}) for term in required
    )
