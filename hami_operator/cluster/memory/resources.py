"""The kinds that are served: one row per kind, and nothing but data."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

VERBS: Final = (
    "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch",
)  # fmt: skip
NO_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Resource:
    """One kind at one group and version.

    Attributes:
        plural: its name in paths.
        status: it has a status subresource; the two halves are then isolated from each other.
        metadata_in_status: a write to the status subresource may change labels and annotations.
        status_on_create: what the creator says about the status is kept.
        generation: ``metadata.generation`` counts changes of the specification.
        create_on_update: a PUT of an unknown name creates the object.
        unconditional_update: a PUT may leave the resourceVersion out.
        returns_deleted: DELETE answers the object instead of a Status.
        path_name: the name may hold all that a path segment can (``system:basic-user``).
        fields: field selectors beyond the two of all kinds: name to path in the stored object.
        storage: the name of the bucket; two rows that share it are views of the same objects.
    """

    plural: str
    kind: str
    group: str = ""
    version: str = "v1"
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    status: bool = False
    subresources: tuple[str, ...] = ()
    metadata_in_status: bool = False
    status_on_create: bool = False
    generation: bool = False
    create_on_update: bool = False
    unconditional_update: bool = True
    returns_deleted: bool = False
    path_name: bool = False
    fields: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=lambda: NO_FIELDS)
    storage: str = ""

    @property
    def name(self) -> str:
        """``plural`` or ``plural.group``, as texts of the API server have it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def full_kind(self) -> str:
        """``Kind`` or ``Kind.group``, as texts of the API server have it (Events: no group)."""
        if self.storage:
            return self.kind
        return f"{self.kind}.{self.group}" if self.group else self.kind

    @property
    def api_version(self) -> str:
        """``version`` or ``group/version``, as in the objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def bucket(self) -> str:
        """Where the objects are kept."""
        return self.storage or self.name


def _paths(*names: str) -> dict[str, tuple[str, ...]]:
    return {name: tuple(name.split(".")) for name in names}


def _event_fields(subject: str) -> dict[str, tuple[str, ...]]:
    parts = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
    return {f"{subject}.{part}": ("involvedObject", part) for part in parts}


_POD_FIELDS = _paths(
    "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
    "spec.hostNetwork", "status.phase", "status.podIP", "status.nominatedNodeName",
)  # fmt: skip
_CORE_EVENT_FIELDS = _event_fields("involvedObject") | {
    "reason": ("reason",),
    "reportingComponent": ("reportingComponent",),
    "source": ("source", "component"),
    "type": ("type",),
}
_NEW_EVENT_FIELDS = _event_fields("regarding") | {
    "reason": ("reason",),
    "reportingController": ("reportingComponent",),
    "type": ("type",),
}

PODS: Final = Resource(
    plural="pods", kind="Pod", short_names=("po",), categories=("all",), status=True,
    subresources=("binding", "eviction"), metadata_in_status=True, generation=True,
    returns_deleted=True, fields=_POD_FIELDS,
)  # fmt: skip
NODES: Final = Resource(
    plural="nodes", kind="Node", namespaced=False, short_names=("no",), status=True,
    metadata_in_status=True, status_on_create=True, fields=_paths("spec.unschedulable"),
)  # fmt: skip
NAMESPACES: Final = Resource(
    plural="namespaces", kind="Namespace", namespaced=False, short_names=("ns",), status=True,
    fields=_paths("status.phase"),
)  # fmt: skip
EVENTS: Final = Resource(
    plural="events", kind="Event", short_names=("ev",), create_on_update=True,
    fields=_CORE_EVENT_FIELDS,
)  # fmt: skip
NEW_EVENTS: Final = Resource(
    plural="events", kind="Event", group="events.k8s.io", short_names=("ev",),
    create_on_update=True, fields=_NEW_EVENT_FIELDS, storage="events",
)  # fmt: skip
LEASES: Final = Resource(
    plural="leases", kind="Lease", group="coordination.k8s.io", create_on_update=True,
    unconditional_update=False,
)  # fmt: skip
PRIORITY_CLASSES: Final = Resource(
    plural="priorityclasses", kind="PriorityClass", group="scheduling.k8s.io",
    namespaced=False, short_names=("pc",),
)  # fmt: skip
RESOURCE_QUOTAS: Final = Resource(
    plural="resourcequotas", kind="ResourceQuota", short_names=("quota",), status=True
)
MUTATING_WEBHOOKS: Final = Resource(
    plural="mutatingwebhookconfigurations", kind="MutatingWebhookConfiguration",
    group="admissionregistration.k8s.io", namespaced=False, generation=True,
    unconditional_update=False,
)  # fmt: skip
VALIDATING_WEBHOOKS: Final = Resource(
    plural="validatingwebhookconfigurations", kind="ValidatingWebhookConfiguration",
    group="admissionregistration.k8s.io", namespaced=False, generation=True,
    unconditional_update=False,
)  # fmt: skip


def _apps(plural: str, kind: str, short_name: str) -> Resource:
    return Resource(
        plural=plural, kind=kind, group="apps", short_names=(short_name,), categories=("all",),
        status=True, generation=True,
    )  # fmt: skip


def _rbac(plural: str, kind: str, *, namespaced: bool) -> Resource:
    return Resource(
        plural=plural, kind=kind, group="rbac.authorization.k8s.io", namespaced=namespaced,
        create_on_update=True, path_name=True,
    )  # fmt: skip


ALL: Final[tuple[Resource, ...]] = (
    PODS,
    NODES,
    NAMESPACES,
    EVENTS,
    NEW_EVENTS,
    LEASES,
    PRIORITY_CLASSES,
    RESOURCE_QUOTAS,
    MUTATING_WEBHOOKS,
    VALIDATING_WEBHOOKS,
    Resource(plural="configmaps", kind="ConfigMap", short_names=("cm",)),
    Resource(plural="secrets", kind="Secret", fields=_paths("type")),
    Resource(
        plural="serviceaccounts", kind="ServiceAccount", short_names=("sa",), returns_deleted=True
    ),
    Resource(
        plural="services", kind="Service", short_names=("svc",), categories=("all",),
        status=True, create_on_update=True, fields=_paths("spec.clusterIP", "spec.type"),
    ),
    Resource(
        plural="limitranges", kind="LimitRange", short_names=("limits",), create_on_update=True
    ),
    Resource(
        plural="persistentvolumeclaims", kind="PersistentVolumeClaim", short_names=("pvc",),
        status=True, returns_deleted=True,
    ),
    Resource(
        plural="persistentvolumes", kind="PersistentVolume", namespaced=False,
        short_names=("pv",), status=True, returns_deleted=True,
    ),
    _apps("deployments", "Deployment", "deploy"),
    _apps("replicasets", "ReplicaSet", "rs"),
    _apps("statefulsets", "StatefulSet", "sts"),
    _apps("daemonsets", "DaemonSet", "ds"),
    Resource(
        plural="jobs", kind="Job", group="batch", categories=("all",), status=True, generation=True
    ),
    _rbac("clusterroles", "ClusterRole", namespaced=False),
    _rbac("clusterrolebindings", "ClusterRoleBinding", namespaced=False),
    _rbac("roles", "Role", namespaced=True),
    _rbac("rolebindings", "RoleBinding", namespaced=True),
    Resource(
        plural="storageclasses", kind="StorageClass", group="storage.k8s.io", namespaced=False,
        short_names=("sc",),
    ),
    Resource(
        plural="csinodes", kind="CSINode", group="storage.k8s.io", namespaced=False,
        unconditional_update=False,
    ),
    Resource(
        plural="csidrivers", kind="CSIDriver", group="storage.k8s.io", namespaced=False,
        unconditional_update=False,
    ),
    Resource(
        plural="csistoragecapacities", kind="CSIStorageCapacity", group="storage.k8s.io"
    ),
    Resource(
        plural="volumeattachments", kind="VolumeAttachment", group="storage.k8s.io",
        namespaced=False, status=True, unconditional_update=False,
    ),
    Resource(
        plural="poddisruptionbudgets", kind="PodDisruptionBudget", group="policy",
        short_names=("pdb",), status=True, generation=True, unconditional_update=False,
    ),
    Resource(
        plural="resourceclaims", kind="ResourceClaim", group="resource.k8s.io", status=True
    ),
    Resource(
        plural="podgroups", kind="PodGroup", group="scheduling.x-k8s.io", version="v1alpha1",
        status=True, generation=True,
    ),
    Resource(
        plural="podgroups", kind="PodGroup", group="scheduling.k8s.io", version="v1alpha2",
        status=True, generation=True,
    ),
    Resource(
        plural="deviceclasses", kind="DeviceClass", group="resource.k8s.io", namespaced=False,
        generation=True,
    ),
)  # fmt: skip

BY_PATH: Final[Mapping[tuple[str, str, str], Resource]] = {
    (row.group, row.version, row.plural): row for row in ALL
}
BY_NAME: Final[Mapping[str, Resource]] = {row.name: row for row in ALL} | {
    row.plural: row for row in reversed(ALL)
}


def find(name: str | Resource) -> Resource:
    """The row called ``plural`` or ``plural.group``.

    Raises:
        KeyError: no such kind is served.
    """
    return name if isinstance(name, Resource) else BY_NAME[name]
