"""NodeVolumeLimits: how many volumes of one CSI driver can be attached to a node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from hami_operator.scheduling import objects, rejection, storage, surroundings, volumes
from hami_operator.scheduling import pod as pods
from hami_operator.scheduling.filters import check

NAME: Final = "NodeVolumeLimits"
_REJECTION: Final = rejection.Rejection(
    plugin=NAME, texts=("node(s) exceed max volume count",), resolvable=True
)

Attached = tuple[str, str]
"""A CSI driver, and what it calls the volume."""


def plan(
    pod: pods.Pod, options: check.Options, around: surroundings.Surroundings
) -> check.Planned:
    """Rejects nodes where the pod's volumes would be too many for their driver."""
    del options
    if not pod.volumes.claims and not pod.volumes.attached:
        return None
    kept = around.objects

    def judge(view: check.View) -> rejection.Rejection | None:
        node = view.node.name
        csi = kept.csi_nodes.get(node)
        if csi is None or not csi.limits:
            return None
        wanted = set(_of_pod(pod, csi, kept))
        held = {one for other in around.pods.holding(node) for one in _of_pod(other, csi, kept)}
        more = Counter(driver for driver, _ in wanted - held)
        # What is attached without a pod counts although the pod may be about to use it again.
        counts = Counter(driver for driver, _ in held | set(_on_node(node, kept)))
        over = (
            counts[driver] + number > csi.limits[driver]
            for driver, number in more.items()
            if driver in csi.limits
        )
        return _REJECTION if any(over) else None

    return judge


def _of_pod(pod: pods.Pod, csi: storage.CsiNode, kept: objects.Objects) -> Iterator[Attached]:
    for claimed in pod.volumes.claims:
        claim = kept.claims.get(claimed.name, pod.namespace)
        found = _of_claim(claim, csi, kept) if claim is not None else None
        if found is not None:
            yield found
    for one in pod.volumes.attached:
        if one.plugin in csi.migrated:
            yield one.driver, one.handle


def _of_claim(
    claim: storage.Claim, csi: storage.CsiNode, kept: objects.Objects
) -> Attached | None:
    """None where no driver of the node attaches it."""
    volume = kept.volumes.get(claim.volume) if claim.volume else None
    if volume is None:
        return _of_class(claim, csi, kept)
    served = volume.driver and (not volume.plugin or volume.plugin in csi.migrated)
    return (volume.driver, volume.handle) if served and volume.handle else None


def _of_class(
    claim: storage.Claim, csi: storage.CsiNode, kept: objects.Objects
) -> Attached | None:
    """A claim without a volume counts with the driver that will make it."""
    found = kept.classes.get(claim.class_name) if claim.class_name else None
    if found is None or not found.provisioner:
        return None
    driver = volumes.DRIVERS.get(found.provisioner)
    if driver is not None and found.provisioner not in csi.migrated:
        return None
    return driver or found.provisioner, f"\0{claim.namespace}/{claim.name}"


def _on_node(node: str, kept: objects.Objects) -> Iterator[Attached]:
    for attachment in kept.attachments:
        if attachment.node == node and attachment.driver:
            volume = kept.volumes.get(attachment.volume)
            if volume is not None and volume.driver and not volume.plugin:
                yield attachment.driver, volume.handle
