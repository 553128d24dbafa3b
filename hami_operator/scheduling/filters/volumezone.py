"""VolumeZone: old volumes that carry the zone they are in as a label."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from hami_operator.scheduling import pod as pods
from hami_operator.scheduling import rejection, storage, surroundings, volumes
from hami_operator.scheduling.filters import check, lookup

NAME: Final = "VolumeZone"
_REJECTION: Final = rejection.final(NAME, "node(s) had no available volume zone")
_TODAY: Final[Mapping[str, str]] = {
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""What a label is called today; a node may carry that instead of the old one."""
_DIVIDER: Final = "__"

Wanted = tuple[str, frozenset[str]]


def plan(
    pod: pods.Pod, options: check.Options, around: surroundings.Surroundings
) -> check.Planned:
    """Rejects nodes outside the zones and regions of the pod's volumes."""
    del options
    wanted: list[Wanted] = []
    for claimed in pod.volumes.claims:
        found = () if claimed.ephemeral else _of_claim(pod, claimed, around)
        if isinstance(found, str):
            return rejection.final(NAME, found)
        wanted += found
    if not wanted:
        return None

    def judge(view: check.View) -> rejection.Rejection | None:
        labels = view.node.labels
        if not _TODAY.keys() & labels.keys():
            return None
        return None if all(_is_met(one, labels) for one in wanted) else _REJECTION

    return judge


def _of_claim(
    pod: pods.Pod, claimed: volumes.Claimed, around: surroundings.Surroundings
) -> tuple[Wanted, ...] | str:
    """What the volume of a claim wants of nodes, or why no node can be right yet."""
    claim = around.objects.claims.get(claimed.name, pod.namespace)
    if claim is None:
        return lookup.no_claim(claimed.name)
    if not claim.volume:
        return _why_unbound(claim, around) or ()
    volume = around.objects.volumes.get(claim.volume)
    if volume is None:
        return lookup.no_volume(claim.volume)
    return tuple(_zones(volume))


def _why_unbound(claim: storage.Claim, around: surroundings.Surroundings) -> str:
    """Empty where the volume is chosen together with the node."""
    if not claim.class_name:
        return "PersistentVolumeClaim had no pv name and storageClass name"
    found = around.objects.classes.get(claim.class_name)
    if found is None:
        return lookup.no_class(claim.class_name)
    if not found.binding_mode:
        return lookup.no_mode(found.name)
    return "" if found.binding_mode == storage.WAITS else "PersistentVolume had no name"


def _zones(volume: storage.Volume) -> Iterator[Wanted]:
    """A value may be a set; one with an empty part is no set, and is passed over."""
    for key in _TODAY.keys() & volume.labels.keys():
        values = [part.strip() for part in volume.labels[key].split(_DIVIDER)]
        if all(values):
            yield key, frozenset(values)


def _is_met(wanted: Wanted, labels: Mapping[str, str]) -> bool:
    key, values = wanted
    return labels.get(key, labels.get(_TODAY[key])) in values
