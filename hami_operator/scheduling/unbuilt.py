"""Which rules a pod's specification needs that this scheduler does not know yet.

Such a pod waits with a reason that names them; nothing in a specification is ignored in silence.
A rule that gets built leaves this module.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from hami_operator.scheduling import fields, podaffinity

_CLAIMS: Final = frozenset({"persistentVolumeClaim", "ephemeral"})
_EXCLUSIVE_DISKS: Final = frozenset({"gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd"})
_COUNTED_DISKS: Final = frozenset(
    {"gcePersistentDisk", "awsElasticBlockStore", "azureDisk", "cinder", "vsphereVolume"}
)
_OF_CLAIMS: Final = ("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone")


def filters(spec: Mapping[str, Any], found: fields.Fields) -> tuple[str, ...]:
    """Names of rules, as kube-scheduler calls them, in its order and without repetition."""
    names = set(_needed(spec, found))
    return tuple(name for name in _ORDER if name in names) if names else ()


def preferences(spec: Mapping[str, Any], found: fields.Fields) -> tuple[str, ...]:
    """Wishes that are not weighed yet; they delay no pod, but should be said once."""
    affinity = found.mapping(spec, "affinity", "spec.")
    wishes = []
    for key in ("podAffinity", "podAntiAffinity"):
        terms = found.mapping(affinity, key, "spec.affinity.")
        if terms.get("preferredDuringSchedulingIgnoredDuringExecution"):
            wishes.append(f"preferred {key}")
    if any(
        item.get("whenUnsatisfiable") == "ScheduleAnyway"
        for _, item in found.items(spec, "topologySpreadConstraints", "spec.")
    ):
        wishes.append("topology spread ScheduleAnyway")
    return tuple(wishes)


_ORDER: Final = (
    "NodePorts",
    *_OF_CLAIMS,
    "PodTopologySpread",
    "InterPodAffinity",
    "DynamicResources",
    "NodeDeclaredFeatures",
    "GangScheduling",
)


def _needed(spec: Mapping[str, Any], found: fields.Fields) -> Iterator[str]:
    if _has_host_port(spec, found):
        yield "NodePorts"
    yield from _of_volumes(spec, found)
    if any(
        item.get("whenUnsatisfiable") != "ScheduleAnyway"
        for _, item in found.items(spec, "topologySpreadConstraints", "spec.")
    ):
        yield "PodTopologySpread"
    affinity = found.mapping(spec, "affinity", "spec.")
    for key in ("podAffinity", "podAntiAffinity"):
        if found.mapping(affinity, key, "spec.affinity.").get(podaffinity.REQUIRED):
            yield "InterPodAffinity"
    if spec.get("resourceClaims"):
        yield "DynamicResources"
    if _needs_declared_feature(spec, found):
        yield "NodeDeclaredFeatures"
    if spec.get("schedulingGroup") or spec.get("workloadRef"):
        yield "GangScheduling"


def _lasting(spec: Mapping[str, Any], found: fields.Fields) -> Iterator[Mapping[str, Any]]:
    """Containers that run for good: apps and sidecars."""
    for _, item in found.items(spec, "containers", "spec."):
        yield item
    for _, item in found.items(spec, "initContainers", "spec."):
        if item.get("restartPolicy") == "Always":
            yield item


def _has_host_port(spec: Mapping[str, Any], found: fields.Fields) -> bool:
    return any(
        port.get("hostPort")
        for item in _lasting(spec, found)
        if "ports" in item
        for _, port in found.items(item, "ports", "spec.containers.")
    )


def _of_volumes(spec: Mapping[str, Any], found: fields.Fields) -> Iterator[str]:
    for _, volume in found.items(spec, "volumes", "spec."):
        kinds = volume.keys()
        if kinds & _CLAIMS:
            yield from _OF_CLAIMS
        if kinds & _EXCLUSIVE_DISKS:
            yield "VolumeRestrictions"
        if kinds & _COUNTED_DISKS:
            yield "NodeVolumeLimits"


def _needs_declared_feature(spec: Mapping[str, Any], found: fields.Fields) -> bool:
    """What a node may lack although it runs the pod's other features."""
    if spec.get("hostUsers") is False and spec.get("hostNetwork"):
        return True
    return any(
        rule.get("action") == "RestartAllContainers"
        for key in ("containers", "initContainers")
        for place, item in found.items(spec, key, "spec.")
        if "restartPolicyRules" in item
        for _, rule in found.items(item, "restartPolicyRules", f"{place}.")
    )
