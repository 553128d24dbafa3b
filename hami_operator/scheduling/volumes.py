"""Volumes of a pod, as far as they decide where it may go."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from hami_operator.scheduling import fields


class Plugin(NamedTuple):
    """A kind of volume that Kubernetes once had built in, and the CSI driver that serves it now.

    Attributes:
        name: what provisioners call it.
        driver: the CSI driver.
        identity: reads what tells two such volumes apart.
    """

    name: str
    driver: str
    identity: Callable[[Mapping[str, Any]], str]


def _by(key: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda source: str(source.get(key) or "")


PLUGINS: Final[Mapping[str, Plugin]] = {
    "awsElasticBlockStore": Plugin(
        "kubernetes.io/aws-ebs",
        "ebs.csi.aws.com",
        lambda source: str(source.get("volumeID") or "").rpartition("/")[2],
    ),
    "gcePersistentDisk": Plugin("kubernetes.io/gce-pd", "pd.csi.storage.gke.io", _by("pdName")),
    "azureDisk": Plugin("kubernetes.io/azure-disk", "disk.csi.azure.com", _by("diskURI")),
    "cinder": Plugin("kubernetes.io/cinder", "cinder.csi.openstack.org", _by("volumeID")),
    "portworxVolume": Plugin("kubernetes.io/portworx-volume", "pxd.portworx.com", _by("volumeID")),
}
"""By the field of a volume. Only these are counted where a node can attach so many."""

DRIVERS: Final = {plugin.name: plugin.driver for plugin in PLUGINS.values()}
"""The CSI driver by the name of a plugin."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Claimed:
    """A PersistentVolumeClaim that the pod mounts, in the pod's namespace.

    Attributes:
        name: of the claim.
        ephemeral: made for this pod alone, and to be owned by it.
    """

    name: str
    ephemeral: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Disk:
    """A disk that stands in the pod's specification and may not be used twice on a node.

    Attributes:
        kind: the field of the volume.
        identity: what tells two disks of the kind apart.
        shareable: two pods may use it if both only read it, as this one does.
        monitors: of Ceph; two disks are the same only if they share one.
    """

    kind: str
    identity: tuple[str, ...]
    shareable: bool = False
    monitors: frozenset[str] = frozenset()

    def clashes(self, other: Disk) -> bool:
        """Whether two pods with these disks cannot be on one node."""
        if (self.kind, self.identity) != (other.kind, other.identity):
            return False
        if self.monitors or other.monitors:
            return bool(self.monitors & other.monitors) and not self._shared(other)
        return not self._shared(other)

    def _shared(self, other: Disk) -> bool:
        return self.shareable and other.shareable


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Attached:
    """A volume of a CSI driver that stands in the pod's specification."""

    driver: str
    handle: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Volumes:
    """What of a pod's volumes matters, each in the order of the specification."""

    claims: tuple[Claimed, ...] = ()
    disks: tuple[Disk, ...] = ()
    attached: tuple[Attached, ...] = ()
    images: tuple[str, ...] = ()

    @property
    def claim_names(self) -> frozenset[str]:
        """Names of all claims."""
        return frozenset(claim.name for claim in self.claims)


NONE: Final = Volumes()


def read(spec: Mapping[str, Any], pod_name: str, found: fields.Fields) -> Volumes:
    """The volumes of a pod."""
    volumes = spec.get("volumes")
    if not volumes or _are_plain(volumes):
        return NONE
    listed = tuple(found.items(spec, "volumes", "spec."))
    claims = tuple(_claims(listed, pod_name, found))
    disks = tuple(_disks(listed, found))
    attached = tuple(_attached(listed, found))
    images = tuple(_images(listed, found))
    if not (claims or disks or attached or images):
        return NONE
    return Volumes(claims=claims, disks=disks, attached=attached, images=images)


def _are_plain(volumes: Any) -> bool:
    """Whether none of them matters, as with most pods."""
    return type(volumes) is list and all(
        type(volume) is dict and _MATTERING.isdisjoint(volume) for volume in volumes
    )


_Listed = Iterable[tuple[str, Mapping[str, Any]]]


def _claims(listed: _Listed, pod_name: str, found: fields.Fields) -> Iterator[Claimed]:
    for place, volume in listed:
        if volume.get("persistentVolumeClaim") is not None:
            source = found.mapping(volume, "persistentVolumeClaim", f"{place}.")
            path = f"{place}.persistentVolumeClaim."
            yield Claimed(name=found.text(source, "claimName", path))
        elif volume.get("ephemeral") is not None:
            name = found.text(volume, "name", f"{place}.")
            yield Claimed(name=f"{pod_name}-{name}", ephemeral=True)


def _disks(listed: _Listed, found: fields.Fields) -> Iterator[Disk]:
    for place, volume in listed:
        for kind in _IDENTITIES.keys() & volume.keys():
            if volume[kind] is None:
                continue
            source = found.mapping(volume, kind, f"{place}.")
            monitors = source.get("monitors") or ()
            yield Disk(
                kind=kind,
                identity=tuple(str(source.get(key) or "") for key in _IDENTITIES[kind]),
                shareable=kind != _ALONE and source.get("readOnly") is True,
                monitors=frozenset(map(str, monitors if isinstance(monitors, list) else ())),
            )


def _attached(listed: _Listed, found: fields.Fields) -> Iterator[Attached]:
    for place, volume in listed:
        for kind in PLUGINS.keys() & volume.keys():
            if volume[kind] is not None:
                source = found.mapping(volume, kind, f"{place}.")
                plugin = PLUGINS[kind]
                yield Attached(driver=plugin.driver, handle=plugin.identity(source))


def _images(listed: _Listed, found: fields.Fields) -> Iterator[str]:
    for place, volume in listed:
        if volume.get("image") is not None:
            source = found.mapping(volume, "image", f"{place}.")
            yield found.text(source, "reference", f"{place}.image.")


_ALONE: Final = "awsElasticBlockStore"
_IDENTITIES: Final[Mapping[str, tuple[str, ...]]] = {
    "gcePersistentDisk": ("pdName",),
    _ALONE: ("volumeID",),
    "iscsi": ("iqn",),
    "rbd": ("pool", "image"),
}
"""What makes a disk the same disk, by the field of the volume."""
_MATTERING: Final = frozenset(
    {"persistentVolumeClaim", "ephemeral", "image", *PLUGINS, *_IDENTITIES}
)
"""A volume with none of these fields decides nothing."""
