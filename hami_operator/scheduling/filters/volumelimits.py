"""NodeVolumeLimits: how many volumes of one CSI driver can be attached to a node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
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
    wanted = frozenset(_of_pod(pod, kept))
    if not wanted:
        return None
    attached = _attached(kept)

    def judge(view: check.View) -> rejection.Rejection | None:
        node = view.node.name
        csi = kept.csi_nodes.get(node)
        if csi is None or not csi.limits:
            return None
        held = {one for other in around.pods.holding(node) for one in _of_pod(other, kept)}
        more = Counter(driver for driver, _ in wanted - held)
        # What is attached without a pod counts although the pod may be about to use it again.
        counts = Counter(driver for driver, _ in held | attached.get(node, set()))
        over = (
            counts[driver] + number > csi.limits[driver]
            for driver, number in more.items()
            if driver in csi.limits
        )
        return _REJECTION if any(over) else None

    return judge


def _of_pod(pod: pods.Pod, kept: objects.Objects) -> Iterator[Attached]:
    for claimed in pod.volumes.claims:
        claim = kept.claims.get(claimed.name, pod.namespace)
        found = _of_claim(claim, kept) if claim is not None else None
        if found is not None:
            yield found
    for one in pod.volumes.attached:
        yield one.driver, one.handle


def _of_claim(claim: storage.Claim, kept: objects.Objects) -> Attached | None:
    """None where no driver attaches it; without a volume it counts with who will make one."""
    volume = kept.volumes.get(claim.volume) if claim.volume else None
    if volume is not None:
        return (volume.driver, volume.handle) if volume.driver and volume.handle else None
    found = kept.classes.get(claim.class_name) if claim.class_name else None
    if found is None or not found.provisioner:
        return None
    driver = volumes.DRIVERS.get(found.provisioner, found.provisioner)
    return driver, f"\0{claim.namespace}/{claim.name}"


def _attached(kept: objects.Objects) -> Mapping[str, set[Attached]]:
    """What is attached to each node, whoever uses it."""
    found: dict[str, set[Attached]] = {}
    for one in kept.attachments:
        volume = kept.volumes.get(one.volume) if one.driver else None
        if volume is not None and volume.native:
            found.setdefault(one.node, set()).add((one.driver, volume.handle))
    return found
