"""VolumeRestrictions: disks and claims that only one pod may use, on a node or at all."""

from __future__ import annotations

from typing import Final

from hami_operator.scheduling import pod as pods
from hami_operator.scheduling import rejection, storage, surroundings, volumes
from hami_operator.scheduling.filters import check, lookup

NAME: Final = "VolumeRestrictions"
_DISK: Final = rejection.Rejection(
    plugin=NAME, texts=("node(s) had no available disk",), resolvable=True
)
_CLAIM: Final = rejection.Rejection(
    plugin=NAME,
    texts=(
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
        "already in-use by another pod",
    ),
    resolvable=True,
)


def plan(
    pod: pods.Pod, options: check.Options, around: surroundings.Surroundings
) -> check.Planned:
    """Rejects all nodes while a pod elsewhere has the claim; nodes where a disk is in use."""
    del options
    if pod.volumes is volumes.NONE:
        return None
    taken = False
    for wanted in pod.volumes.claims:
        if wanted.ephemeral:
            continue
        claim = around.objects.claims.get(wanted.name, pod.namespace)
        if claim is None:
            return rejection.final(NAME, lookup.no_claim(wanted.name))
        if storage.ONE_POD in claim.access_modes:
            taken = taken or around.pods.uses(pod.namespace, claim.name) > 0
    if not taken and not pod.volumes.disks:
        return None

    def judge(view: check.View) -> rejection.Rejection | None:
        others = around.pods.holding(view.node.name)
        if any(_share_a_disk(pod, other) for other in others):
            return _DISK
        return _CLAIM if taken else None

    return judge


def frees(pod: pods.Pod, other: pods.Pod) -> bool:
    """Whether the end of another pod frees a disk or a claim that this one wants."""
    if _share_a_disk(pod, other):
        return True
    same = pod.namespace == other.namespace
    return same and bool(pod.volumes.claim_names & other.volumes.claim_names)


def _share_a_disk(pod: pods.Pod, other: pods.Pod) -> bool:
    return any(one.clashes(two) for one in pod.volumes.disks for two in other.volumes.disks)
