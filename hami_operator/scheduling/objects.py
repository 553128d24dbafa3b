"""The objects beside pods and nodes that placement depends on; each kind is one shelf.

Most clusters need few of them for our pods, so a kind is watched only once a pod needs it: who
asks for a kind that is not complete yet, makes it wanted (`Objects.lacks`).
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from hami_operator.scheduling import fields, gang, resourceclaims, storage


class Kind(enum.Enum):
    """Kinds, by their name in paths of the API; where two have the same, with their group."""

    CLAIM = "persistentvolumeclaims"
    VOLUME = "persistentvolumes"
    CLASS = "storageclasses"
    CSI_NODE = "csinodes"
    CSI_DRIVER = "csidrivers"
    CAPACITY = "csistoragecapacities"
    ATTACHMENT = "volumeattachments"
    NAMESPACE = "namespaces"
    RESOURCE_CLAIM = "resourceclaims"
    DEVICE_CLASS = "deviceclasses"
    POD_GROUP = "podgroups"
    NATIVE_GROUP = "podgroups.scheduling.k8s.io"


STORAGE: Final = frozenset(
    {
        Kind.CLAIM,
        Kind.VOLUME,
        Kind.CLASS,
        Kind.CSI_NODE,
        Kind.CSI_DRIVER,
        Kind.CAPACITY,
        Kind.ATTACHMENT,
    }
)
"""What must be known to place a pod with a PersistentVolumeClaim."""
NAMESPACES: Final = frozenset({Kind.NAMESPACE})
"""What must be known where namespaces are selected by label."""
DYNAMIC: Final = frozenset({Kind.RESOURCE_CLAIM, Kind.DEVICE_CLASS})
"""What must be known to place a pod with a ResourceClaim."""


GROUPS: Final = frozenset({Kind.POD_GROUP})
"""What must be known to place a pod of a gang that does not say how large that is."""
NATIVE_GROUPS: Final = frozenset({Kind.NATIVE_GROUP})
"""What must be known to place a pod with ``spec.schedulingGroup``."""


class Record(Protocol):
    """An object that was read."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def uid(self) -> str:
        """Its identity."""


Item = TypeVar("Item", bound=Record)
Read = TypeVar("Read", bound=Record)


class Change(NamedTuple):
    """An object was added (``old`` None), changed, or is gone (``new`` None).

    Without either, all objects of the kind are known now.
    """

    kind: Kind
    old: Any = None
    new: Any = None


class Shelf(Generic[Item]):
    """All objects of one kind, by namespace (empty for none) and name.

    Args:
        read: makes a record of an object of the API.
    """

    def __init__(self, read: Callable[[Mapping[str, Any]], Item]) -> None:
        self._read = read
        self._items: dict[tuple[str, str], Item] = {}

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items.values())

    def get(self, name: str, namespace: str = "") -> Item | None:
        """One object; None if there is none."""
        return self._items.get((namespace, name))

    def seen(self, raw: Mapping[str, Any]) -> tuple[Item | None, Item]:
        """Take up an object; what was known before, and what is known now."""
        new = self._read(raw)
        key = (str(getattr(new, "namespace", "")), new.name)
        old = self._items.get(key)
        self._items[key] = new
        return old, new

    def gone(self, namespace: str, name: str, uid: str) -> Item | None:
        """Forget an object unless another one has its name now; what was known of it."""
        known = self._items.get((namespace, name))
        if known is None or known.uid != uid:
            return None
        return self._items.pop((namespace, name))


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Namespace:
    """A Namespace with its labels."""

    name: str
    uid: str
    labels: Mapping[str, str]


class Objects:
    """Every shelf.

    Attributes:
        namespaces: labels of every known namespace, by name.
    """

    def __init__(self) -> None:
        self.claims = Shelf(storage.read_claim)
        self.volumes = Shelf(storage.read_volume)
        self.classes = Shelf(storage.read_class)
        self.csi_nodes = Shelf(storage.read_csi_node)
        self.csi_drivers = Shelf(storage.read_csi_driver)
        self.capacities = Shelf(storage.read_capacity)
        self.attachments = Shelf(storage.read_attachment)
        self.resource_claims = Shelf(resourceclaims.read_claim)
        self.device_classes = Shelf(resourceclaims.read_class)
        self.groups = Shelf(gang.read_group)
        self.native_groups = Shelf(gang.read_native)
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self._namespaces = Shelf(_read_namespace)
        self._complete: set[Kind] = set()
        self._wanted: set[Kind] = set()
        self._told: set[Kind] = set()
        self._shelves: Mapping[Kind, Shelf[Any]] = {
            Kind.CLAIM: self.claims,
            Kind.VOLUME: self.volumes,
            Kind.CLASS: self.classes,
            Kind.CSI_NODE: self.csi_nodes,
            Kind.CSI_DRIVER: self.csi_drivers,
            Kind.CAPACITY: self.capacities,
            Kind.ATTACHMENT: self.attachments,
            Kind.NAMESPACE: self._namespaces,
            Kind.RESOURCE_CLAIM: self.resource_claims,
            Kind.DEVICE_CLASS: self.device_classes,
            Kind.POD_GROUP: self.groups,
            Kind.NATIVE_GROUP: self.native_groups,
        }

    def group_of(self, key: gang.Key) -> gang.Group | None:
        """The PodGroup of a gang; None if there is none."""
        shelf = self.native_groups if key.native else self.groups
        return shelf.get(key.name, key.namespace)

    def take_wanted(self) -> frozenset[Kind]:
        """Kinds that were asked for since this was last called, each once."""
        fresh = frozenset(self._wanted - self._told)
        self._told |= fresh
        return fresh

    def lacks(self, kinds: Iterable[Kind]) -> bool:
        """Whether one of the kinds has not been listed in full; from now on all are wanted."""
        missing = set(kinds) - self._complete
        self._wanted |= missing
        return bool(missing)

    def complete(self, kind: Kind) -> Change:
        """All objects of a kind have been seen."""
        self._complete.add(kind)
        return Change(kind)

    def seen(self, kind: Kind, raw: Mapping[str, Any]) -> Change:
        """An object as the API shows it."""
        old, new = self._shelves[kind].seen(raw)
        if isinstance(new, Namespace):
            self.namespaces[new.name] = new.labels
        return Change(kind, old, new)

    def gone(self, kind: Kind, namespace: str, name: str, uid: str) -> Change | None:
        """An object is deleted; None if nothing changed by that."""
        old = self._shelves[kind].gone(namespace, name, uid)
        if old is None:
            return None
        if isinstance(old, Namespace):
            self.namespaces.pop(old.name, None)
        return Change(kind, old, None)


def _read_namespace(raw: Mapping[str, Any]) -> Namespace:
    found = fields.Fields()
    meta = found.mapping(raw, "metadata", "")
    return Namespace(
        name=found.text(meta, "name", "metadata."),
        uid=found.text(meta, "uid", "metadata."),
        labels=found.texts(meta, "labels", "metadata."),
    )
