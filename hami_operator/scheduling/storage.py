"""Volumes, claims and what else storage consists of: records, read once from the API objects.

Amounts are in billionths of a byte, so that any quantity compares exactly.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from hami_operator import errors
from hami_operator.protocol import quantity
from hami_operator.scheduling import fields, labels, nodeselector
from hami_operator.scheduling import volumes as pod_volumes

WAITS: Final = "WaitForFirstConsumer"
ONE_POD: Final = "ReadWriteOncePod"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_BOUND: Final = "pv.kubernetes.io/bind-completed"
_TOO_MUCH: Final = 2**200
"""Stands for a request that cannot be read: no volume holds it."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """A PersistentVolumeClaim.

    Attributes:
        requested: how much; None where nothing is said.
        volume: the volume it has or is meant to have; empty for none.
        selected_node: where its volume is to be made.
        owner: UID of its controller.
    """

    namespace: str
    name: str
    uid: str
    version: str = ""
    class_name: str = ""
    attributes_class: str = ""
    access_modes: frozenset[str] = frozenset()
    mode: str = ""
    requested: int | None = None
    selector: labels.Selector = labels.NOTHING
    volume: str = ""
    bind_completed: bool = False
    selected_node: str = ""
    phase: str = ""
    terminating: bool = False
    owner: str = ""

    @property
    def bound(self) -> bool:
        """Whether it has its volume for good."""
        return bool(self.volume) and self.bind_completed

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Volume:
    """A PersistentVolume.

    Attributes:
        claim: namespace, name and UID of the claim that it is for; None for any.
        affinity: the nodes that reach it; None for all.
        driver: CSI driver that attaches it.
        native: it was made for that driver, and not for the plugin that was built in before.
    """

    name: str
    uid: str
    version: str = ""
    labels: Mapping[str, str] = dataclasses.field(default_factory=fields.empty)
    class_name: str = ""
    attributes_class: str = ""
    access_modes: frozenset[str] = frozenset()
    mode: str = ""
    capacity: int = 0
    claim: tuple[str, str, str] | None = None
    affinity: nodeselector.NodeSelector | None = None
    phase: str = ""
    terminating: bool = False
    driver: str = ""
    handle: str = ""
    native: bool = False

    def is_for(self, claim: Claim) -> bool:
        """Whether it is meant for this claim."""
        if self.claim is None:
            return False
        namespace, name, uid = self.claim
        return (namespace, name) == claim.key and uid in {"", claim.uid}

    def reaches(self, node_labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels can use it."""
        return self.affinity is None or self.affinity.matches("", node_labels)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Class:
    """A StorageClass.

    Attributes:
        binding_mode: empty where the object does not say it.
        topologies: one of them must hold of a node; each is a list of label and values.
    """

    name: str
    uid: str
    provisioner: str = ""
    binding_mode: str = ""
    topologies: tuple[tuple[tuple[str, frozenset[str]], ...], ...] = ()

    @property
    def provisions(self) -> bool:
        """Whether it can make volumes."""
        return self.provisioner not in {"", NO_PROVISIONER}

    def allows(self, node_labels: Mapping[str, str]) -> bool:
        """Whether its volumes can be used from a node; an empty term matches no node."""
        return not self.topologies or any(
            term and all(node_labels.get(key) in values for key, values in term)
            for term in self.topologies
        )


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CsiNode:
    """A CSINode: how many volumes of which driver can be attached."""

    name: str
    uid: str
    limits: Mapping[str, int] = dataclasses.field(default_factory=fields.empty)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CsiDriver:
    """A CSIDriver; ``tracks_capacity`` says that it publishes where how much can be made."""

    name: str
    uid: str
    tracks_capacity: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Capacity:
    """A CSIStorageCapacity: how large a volume of a class can be on some nodes; None: unknown."""

    namespace: str
    name: str
    uid: str
    class_name: str = ""
    largest: int | None = None
    topology: labels.Selector = labels.NOTHING


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Attachment:
    """A VolumeAttachment of a PersistentVolume."""

    name: str
    uid: str
    node: str = ""
    driver: str = ""
    volume: str = ""


def read_claim(raw: Mapping[str, Any]) -> Claim:
    """A PersistentVolumeClaim; what cannot be read of it makes it harder to satisfy."""
    found, meta, spec = _open(raw)
    notes = found.texts(meta, "annotations", "metadata.")
    requests = found.mapping(found.mapping(spec, "resources", "spec."), "requests", "")
    status = found.mapping(raw, "status", "")
    return Claim(
        namespace=found.text(meta, "namespace", "metadata.") or "default",
        name=found.text(meta, "name", "metadata."),
        uid=found.text(meta, "uid", "metadata."),
        version=str(meta.get("resourceVersion") or ""),
        class_name=_class_name(spec, notes, found),
        attributes_class=found.text(spec, "volumeAttributesClassName", "spec."),
        access_modes=_texts(spec.get("accessModes")),
        mode=found.text(spec, "volumeMode", "spec.") or "Filesystem",
        requested=_amount(requests, "storage", _TOO_MUCH),
        selector=_selector(spec.get("selector")),
        volume=found.text(spec, "volumeName", "spec."),
        bind_completed=_BOUND in notes,
        selected_node=notes.get(SELECTED_NODE, ""),
        phase=found.text(status, "phase", "status."),
        terminating=meta.get("deletionTimestamp") is not None,
        owner=controller(meta, found),
    )


def read_volume(raw: Mapping[str, Any]) -> Volume:
    """A PersistentVolume."""
    found, meta, spec = _open(raw)
    required = found.mapping(spec, "nodeAffinity", "spec.").get("required")
    driver, handle, native = _source(spec, found)
    return Volume(
        name=found.text(meta, "name", "metadata."),
        uid=found.text(meta, "uid", "metadata."),
        version=str(meta.get("resourceVersion") or ""),
        labels=found.texts(meta, "labels", "metadata."),
        class_name=_class_name(spec, found.texts(meta, "annotations", "metadata."), found),
        attributes_class=found.text(spec, "volumeAttributesClassName", "spec."),
        access_modes=_texts(spec.get("accessModes")),
        mode=found.text(spec, "volumeMode", "spec.") or "Filesystem",
        capacity=_amount(found.mapping(spec, "capacity", "spec."), "storage", 0) or 0,
        claim=_claim_of(spec, found),
        affinity=nodeselector.read(required, "", found) if isinstance(required, dict) else None,
        phase=found.text(found.mapping(raw, "status", ""), "phase", "status."),
        terminating=meta.get("deletionTimestamp") is not None,
        driver=driver,
        handle=handle,
        native=native,
    )


def read_class(raw: Mapping[str, Any]) -> Class:
    """A StorageClass."""
    found, meta, _ = _open(raw)
    topologies = tuple(
        tuple(
            (found.text(one, "key", ""), _texts(one.get("values")))
            for _, one in found.items(term, "matchLabelExpressions", "")
        )
        for _, term in found.items(raw, "allowedTopologies", "")
    )
    return Class(
        name=found.text(meta, "name", "metadata."),
        uid=found.text(meta, "uid", "metadata."),
        provisioner=found.text(raw, "provisioner", ""),
        binding_mode=found.text(raw, "volumeBindingMode", ""),
        topologies=topologies,
    )


def read_csi_node(raw: Mapping[str, Any]) -> CsiNode:
    """A CSINode; a driver without a count has no limit."""
    found, meta, spec = _open(raw)
    limits = {}
    for place, driver in found.items(spec, "drivers", "spec."):
        count = found.mapping(driver, "allocatable", f"{place}.").get("count")
        if isinstance(count, int):
            limits[found.text(driver, "name", f"{place}.")] = count
    return CsiNode(
        name=found.text(meta, "name", "metadata."),
        uid=found.text(meta, "uid", "metadata."),
        limits=limits,
    )


def read_csi_driver(raw: Mapping[str, Any]) -> CsiDriver:
    """A CSIDriver."""
    found, meta, spec = _open(raw)
    return CsiDriver(
        name=found.text(meta, "name", "metadata."),
        uid=found.text(meta, "uid", "metadata."),
        tracks_capacity=spec.get("storageCapacity") is True,
    )


def read_capacity(raw: Mapping[str, Any]) -> Capacity:
    """A CSIStorageCapacity; the size of one volume counts where it is given."""
    found, meta, _ = _open(raw)
    largest = _amount(raw, "maximumVolumeSize", 0)
    return Capacity(
        namespace=found.text(meta, "namespace", "metadata.") or "default",
        name=found.text(meta, "name", "metadata."),
        uid=found.text(meta, "uid", "metadata."),
        class_name=found.text(raw, "storageClassName", ""),
        largest=_amount(raw, "capacity", 0) if largest is None else largest,
        topology=_selector(raw.get("nodeTopology")),
    )


def read_attachment(raw: Mapping[str, Any]) -> Attachment:
    """A VolumeAttachment."""
    found, meta, spec = _open(raw)
    source = found.mapping(spec, "source", "spec.")
    return Attachment(
        name=found.text(meta, "name", "metadata."),
        uid=found.text(meta, "uid", "metadata."),
        node=found.text(spec, "nodeName", "spec."),
        driver=found.text(spec, "attacher", "spec."),
        volume=found.text(source, "persistentVolumeName", "spec.source."),
    )


def controller(meta: Mapping[str, Any], found: fields.Fields) -> str:
    """UID of the object that owns and controls this one; empty for none."""
    for _, owner in found.items(meta, "ownerReferences", "metadata."):
        if owner.get("controller") is True:
            return str(owner.get("uid") or "")
    return ""


def _open(raw: Mapping[str, Any]) -> tuple[fields.Fields, Mapping[str, Any], Mapping[str, Any]]:
    found = fields.Fields()
    return found, found.mapping(raw, "metadata", ""), found.mapping(raw, "spec", "")


def _class_name(spec: Mapping[str, Any], notes: Mapping[str, str], found: fields.Fields) -> str:
    """The annotation is older than the field, and still wins."""
    return notes.get(_CLASS) or found.text(spec, "storageClassName", "spec.")


def _source(spec: Mapping[str, Any], found: fields.Fields) -> tuple[str, str, bool]:
    csi = found.mapping(spec, "csi", "spec.")
    if csi:
        driver = found.text(csi, "driver", "spec.csi.")
        return driver, found.text(csi, "volumeHandle", "spec.csi."), True
    for field, plugin in pod_volumes.PLUGINS.items():
        source = found.mapping(spec, field, "spec.")
        if source:
            return plugin.driver, plugin.identity(source), False
    return "", "", False


def _claim_of(spec: Mapping[str, Any], found: fields.Fields) -> tuple[str, str, str] | None:
    if spec.get("claimRef") is None:
        return None
    ref = found.mapping(spec, "claimRef", "spec.")
    namespace, name, uid = (found.text(ref, key, "") for key in ("namespace", "name", "uid"))
    return namespace, name, uid


def _texts(raw: object) -> frozenset[str]:
    return frozenset(map(str, raw)) if isinstance(raw, list | tuple) else frozenset()


def _amount(raw: Mapping[str, Any], key: str, unreadable: int) -> int | None:
    value = raw.get(key)
    if value is None:
        return None
    try:
        return quantity.nanos(value)
    except errors.DecodeError:
        return unreadable


def _selector(raw: object) -> labels.Selector:
    """A selector that does not parse selects nothing; it is not taken for one that is absent."""
    try:
        return labels.read(raw)
    except errors.DecodeError:
        return _IMPOSSIBLE


_IMPOSSIBLE: Final = labels.Selector(
    requirements=(
        labels.Requirement(key="a", operator=labels.Operator.EXISTS),
        labels.Requirement(key="a", operator=labels.Operator.DOES_NOT_EXIST),
    )
)
