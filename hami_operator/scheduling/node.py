"""A node as the scheduler sees it: read once from the API object, then frozen."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from hami_operator.scheduling import containers, fields, resources, tolerations


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """One node.

    Attributes:
        name: as the API names it.
        uid: identity; the name where an object without UID was read.
        resource_version: the version that was read.
        labels: as they stand.
        annotations: as they stand.
        capacity: quantities as the API gave them.
        allocatable: quantities as the API gave them.
        amounts: ``allocatable``, comparable: cpu in thousandths, all else in whole units.
        unschedulable: cordoned.
        taints: all of them.
        repelling: those that keep pods off.
        deterring: those that only make the node less wanted.
        features: what its kubelet says that it can do.
        images: those that it holds, by each of their names, with their size in bytes.
        findings: what is odd about the object.
    """

    name: str
    uid: str = ""
    resource_version: str = ""
    labels: Mapping[str, str] = dataclasses.field(default_factory=fields.empty)
    annotations: Mapping[str, str] = dataclasses.field(default_factory=fields.empty)
    capacity: Mapping[str, str] = dataclasses.field(default_factory=fields.empty)
    allocatable: Mapping[str, str] = dataclasses.field(default_factory=fields.empty)
    amounts: Mapping[str, int] = dataclasses.field(default_factory=fields.empty)
    unschedulable: bool = False
    taints: tuple[tolerations.Taint, ...] = ()
    repelling: tuple[tolerations.Taint, ...] = ()
    deterring: tuple[tolerations.Taint, ...] = ()
    features: frozenset[str] = frozenset()
    images: Mapping[str, int] = dataclasses.field(default_factory=fields.empty)
    findings: tuple[fields.Finding, ...] = ()


def read(raw: Mapping[str, Any]) -> Node:
    """Read an API object. Never raises: what is odd becomes ``findings``."""
    found = fields.Fields()
    meta = found.mapping(raw, "metadata", "")
    spec = found.mapping(raw, "spec", "")
    status = found.mapping(raw, "status", "")
    name = found.text(meta, "name", "metadata.")
    if not name:
        found.note("metadata.name", "is missing")
    taints = tolerations.read_taints(spec, "spec.", found)
    return Node(
        name=name,
        uid=found.text(meta, "uid", "metadata.") or name,
        resource_version=str(meta.get("resourceVersion") or ""),
        labels=found.texts(meta, "labels", "metadata."),
        annotations=found.texts(meta, "annotations", "metadata."),
        capacity=_quantities(status.get("capacity"), "status.capacity", found),
        allocatable=_quantities(status.get("allocatable"), "status.allocatable", found),
        amounts=_amounts(status.get("allocatable"), "status.allocatable", found),
        unschedulable=found.boolean(spec, "unschedulable", "spec."),
        taints=taints,
        repelling=tuple(one for one in taints if one.effect in tolerations.FILTERING),
        deterring=tuple(one for one in taints if one.effect == tolerations.PREFER_NO_SCHEDULE),
        features=_features(status, found),
        images=_images(status, found),
        findings=found.findings,
    )


def _read_quantities(raw: Any, path: str, found: fields.Fields) -> Mapping[str, str]:
    named = found.mapping({path: raw}, path, "")
    return MappingProxyType(
        {name: str(value) for name, value in named.items() if value is not None}
    )


def _read_amounts(raw: Any, path: str, found: fields.Fields) -> Mapping[str, int]:
    """An unreadable amount is none: the node offers nothing of it."""
    amounts = containers.amounts({path: raw}, path, "", found)
    return MappingProxyType(
        {name: resources.comparable(name, amount) for name, amount in amounts.items()}
    )


_quantities: Final = fields.recalled(_read_quantities, most=1024)
_amounts: Final = fields.recalled(_read_amounts, most=1024)
"""Nodes of one kind offer the same."""


def _features(status: Mapping[str, Any], found: fields.Fields) -> frozenset[str]:
    raw = status.get("declaredFeatures")
    if not raw:
        return frozenset()
    if not isinstance(raw, list | tuple):
        found.note("status.declaredFeatures", "is not a list")
        return frozenset()
    return frozenset(map(str, raw))


def _images(status: Mapping[str, Any], found: fields.Fields) -> Mapping[str, int]:
    listed = status.get("images")
    if not listed:
        return fields.EMPTY
    try:  # as kubelets list them, which is quick
        images = {name: image["sizeBytes"] for image in listed for name in image["names"]}
        if {*map(type, images)} == {str} and {*map(type, images.values())} == {int}:
            return images
    except (KeyError, TypeError):
        pass
    return {
        str(name): found.integer(image, "sizeBytes", f"{place}.")
        for place, image in found.items(status, "images", "status.")
        for name in image.get("names") or ()
    }
