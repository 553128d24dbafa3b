"""What the rest of the program may ask of a cluster, in Protocols of one to three methods.

All calls are bounded by a time-out of the implementation and raise subclasses of
`errors.ApiError`; a write guarded by a `Fence` may raise `errors.Fenced` instead of being sent.
Objects are the dictionaries of the API, never typed models.
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final, Protocol

Raw = dict[str, Any]
"""One object as the API server gave it."""

Body = Mapping[str, Any]
"""What a request carries."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Resource:
    """One kind of object.

    Attributes:
        group: API group, empty for the core.
        version: e.g. ``v1``.
        plural: name in the path.
        namespaced: whether its objects live in namespaces.
        optional: a server may not know the kind, and is then taken to have no such objects.
    """

    group: str
    version: str
    plural: str
    namespaced: bool
    optional: bool = False

    def path(self, *, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Path of the collection, or of one object or its subresource."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        inside = f"/namespaces/{namespace}" if namespace else ""
        tail = "".join(f"/{part}" for part in (name, subresource) if part)
        return f"{root}{inside}/{self.plural}{tail}"


PODS: Final = Resource(group="", version="v1", plural="pods", namespaced=True)
NODES: Final = Resource(group="", version="v1", plural="nodes", namespaced=False)
EVENTS: Final = Resource(group="events.k8s.io", version="v1", plural="events", namespaced=True)
LEASES: Final = Resource(
    group="coordination.k8s.io", version="v1", plural="leases", namespaced=True
)
QUOTAS: Final = Resource(group="", version="v1", plural="resourcequotas", namespaced=True)
BUDGETS: Final = Resource(
    group="policy", version="v1", plural="poddisruptionbudgets", namespaced=True
)


def _storage(plural: str, *, namespaced: bool = False) -> Resource:
    return Resource(group="storage.k8s.io", version="v1", plural=plural, namespaced=namespaced)


NAMESPACES: Final = Resource(group="", version="v1", plural="namespaces", namespaced=False)
CLAIMS: Final = Resource(group="", version="v1", plural="persistentvolumeclaims", namespaced=True)
VOLUMES: Final = Resource(group="", version="v1", plural="persistentvolumes", namespaced=False)
STORAGE_CLASSES: Final = _storage("storageclasses")
CSI_NODES: Final = _storage("csinodes")
CSI_DRIVERS: Final = _storage("csidrivers")
CSI_CAPACITIES: Final = _storage("csistoragecapacities", namespaced=True)
ATTACHMENTS: Final = _storage("volumeattachments")
RESOURCE_CLAIMS: Final = Resource(
    group="resource.k8s.io", version="v1", plural="resourceclaims", namespaced=True
)
DEVICE_CLASSES: Final = Resource(
    group="resource.k8s.io",
    version="v1",
    plural="deviceclasses",
    namespaced=False,
    optional=True,
)


POD_GROUPS: Final = Resource(
    group="scheduling.x-k8s.io",
    version="v1alpha1",
    plural="podgroups",
    namespaced=True,
    optional=True,
)


NATIVE_GROUPS: Final = Resource(
    group="scheduling.k8s.io",
    version="v1alpha2",
    plural="podgroups",
    namespaced=True,
    optional=True,
)
"""Kubernetes' own, of 1.36; served where the administrator has switched it on."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Selector:
    """Which objects of a kind are meant; empty texts mean all."""

    fields: str = ""
    labels: str = ""


EVERYTHING: Final = Selector()
LIVE_PODS: Final = Selector(fields="status.phase!=Succeeded,status.phase!=Failed")
"""Pods that may use devices, of all schedulers."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """One page of a list.

    Attributes:
        items: the objects.
        version: resourceVersion of the whole list.
        token: asks for the next page; empty on the last one.
    """

    items: list[Raw]
    version: str
    token: str = ""


class PodReader(Protocol):
    """Reads one pod."""

    async def get_pod(self, namespace: str, name: str) -> Raw:
        """The pod as it is now."""
        ...


class PodWriter(Protocol):
    """The three writes that a decision needs."""

    async def patch_pod(self, namespace: str, name: str, body: Body) -> Raw:
        """Merge-patch a pod; ``metadata.uid`` and ``resourceVersion`` are preconditions."""
        ...

    async def bind(self, namespace: str, name: str, binding: Body) -> None:
        """Create the Binding of a pod."""
        ...

    async def patch_pod_status(self, namespace: str, name: str, body: Body) -> Raw:
        """Strategic-merge-patch the status: conditions are merged by their type."""
        ...


class PodDeleter(Protocol):
    """Ends pods."""

    async def delete_pod(self, namespace: str, name: str, *, uid: str) -> None:
        """Delete a pod with its own grace; `errors.Conflict` where the UID is another one."""
        ...


class NodeReader(Protocol):
    """Reads one Node."""

    async def get_node(self, name: str) -> Raw:
        """The Node as it is now."""
        ...


class NodeWriter(Protocol):
    """Writes annotations of Nodes."""

    async def patch_node(self, name: str, body: Body) -> Raw:
        """Merge-patch a Node; null removes a key, ``resourceVersion`` is a precondition."""
        ...


class ObjectReader(Protocol):
    """Reads one object of any kind."""

    async def get_object(self, resource: Resource, namespace: str, name: str) -> Raw:
        """The object as it is now; the namespace is empty where the kind has none."""
        ...


class ObjectWriter(Protocol):
    """Changes one object of any kind."""

    async def patch_object(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        body: Body,
        *,
        subresource: str = "",
    ) -> Raw:
        """Merge-patch it; ``metadata.uid`` and ``resourceVersion`` are preconditions."""
        ...


class EventWriter(Protocol):
    """Writes Events of ``events.k8s.io/v1``."""

    async def create_event(self, namespace: str, body: Body) -> Raw:
        """Create an Event."""
        ...

    async def patch_event(self, namespace: str, name: str, body: Body) -> Raw:
        """Merge-patch an Event, that is, its series."""
        ...


class LeaseStore(Protocol):
    """Leases, with a time-out per call since an election counts in seconds."""

    async def get_lease(self, namespace: str, name: str, *, timeout_s: float) -> Raw:
        """The Lease as it is now."""
        ...

    async def create_lease(self, namespace: str, body: Body, *, timeout_s: float) -> Raw:
        """Create it; `errors.Conflict` where somebody else was first."""
        ...

    async def replace_lease(
        self, namespace: str, name: str, body: Body, *, timeout_s: float
    ) -> Raw:
        """Replace it; `errors.Conflict` where its version is no longer the one in ``body``."""
        ...


class Lister(Protocol):
    """Lists objects page by page."""

    async def list_page(
        self,
        resource: Resource,
        *,
        selector: Selector = EVERYTHING,
        limit: int = 500,
        token: str = "",
        metadata_only: bool = False,
    ) -> Page:
        """One page, read consistently; `errors.Gone` where the token has expired."""
        ...


class Watcher(Protocol):
    """Watches objects."""

    def watch(
        self, resource: Resource, *, version: str, selector: Selector = EVERYTHING, timeout_s: int
    ) -> AsyncGenerator[tuple[str, Raw], None]:
        """Events after a version: ``ADDED``, ``MODIFIED``, ``DELETED`` and ``BOOKMARK``.

        Ends when the server closes the stream, after about ``timeout_s`` seconds; raises
        `errors.Gone` where the version is too old, and other errors for a lost connection.
        """
        ...


class ListWatcher(Lister, Watcher, Protocol):
    """Both, as a reflector needs them."""


class VersionReader(Protocol):
    """Asks the API server for its version."""

    async def version(self) -> tuple[int, int]:
        """Major and minor number, e.g. ``(1, 35)``."""
        ...


class Fence(Protocol):
    """Ends the writes of a leader before another one may lead."""

    def check(self) -> None:
        """Raise `errors.Fenced` unless writing is still allowed."""
        ...

    def remaining_s(self) -> float:
        """Seconds until another process may lead; infinite without an election."""
        ...


class Recorder(Protocol):
    """Takes metrics; names and labels are those of the metrics page."""

    def count(self, name: str, amount: float = 1.0, /, **labels: str) -> None:
        """Add to a counter."""
        ...

    def observe(self, name: str, value: float, /, **labels: str) -> None:
        """Put a value into a histogram."""
        ...

    def gauge(self, name: str, value: float, /, **labels: str) -> None:
        """Set a gauge."""
        ...


class NoRecorder:
    """Drops everything, for commands and tests that have no metrics."""

    def count(self, name: str, amount: float = 1.0, /, **labels: str) -> None:
        """See `Recorder.count`."""

    def observe(self, name: str, value: float, /, **labels: str) -> None:
        """See `Recorder.observe`."""

    def gauge(self, name: str, value: float, /, **labels: str) -> None:
        """See `Recorder.gauge`."""
