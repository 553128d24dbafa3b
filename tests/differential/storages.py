"""Volumes, claims and classes of a scenario, and the pods that use them."""

from __future__ import annotations

from typing import Final

from tests.differential import chance, fleet

Raw = chance.Raw

DRIVER: Final = "csi.example.com"
MEASURED: Final = "capacity.example.com"
GCE: Final = "pd.csi.storage.gke.io"
STORAGE: Final = "storage.k8s.io/v1"
BOUND: Final = "pv.kubernetes.io/bind-completed"
SELECTED: Final = "volume.kubernetes.io/selected-node"
SIZES: Final = ("1Gi", "2Gi", "5G", "10Gi")
WAIT: Final = "WaitForFirstConsumer"
CLASSES: Final = {
    "fast": (DRIVER, WAIT),
    "zonal": (DRIVER, WAIT),
    "local": ("kubernetes.io/no-provisioner", WAIT),
    "sized": (MEASURED, WAIT),
    "gce": ("kubernetes.io/gce-pd", WAIT),
    "now": (DRIVER, "Immediate"),
}
WAITING: Final = ("fast", "zonal", "local", "sized", "gce")


class Stock:
    """Makes the objects of storage, each once.

    Attributes:
        kinds: what was made, by the name of the kind.
    """

    def __init__(self, dice: chance.Dice, nodes: list[Raw]) -> None:
        self.kinds: dict[str, list[Raw]] = {}
        self._dice = dice
        self._nodes = nodes
        self._numbers = 0
        self._furnished = False

    def furnish(self) -> None:
        """Classes, drivers, and what the nodes and the storage say of themselves."""
        if self._furnished:
            return
        self._furnished = True
        for name in CLASSES:
            if not self._dice.chance(3):
                self._add("storageclasses", self._class(name))
        for name, tracks in ((DRIVER, False), (MEASURED, True)):
            made = self._object("csidrivers", STORAGE, "CSIDriver", name)
            made["spec"] = {"storageCapacity": tracks, "attachRequired": True}
        self._put_csi_nodes()
        self._put_capacities()
        for _ in range(self._dice.number(2, 9) if "binding" in self._dice.focus else 0):
            self._put_free_volume()

    # ---- claims

    def claim(self, kind: str, namespace: str, name: str = "") -> str:
        """The name of a claim in a certain state; ``missing`` makes none."""
        self.furnish()
        name = name or f"claim-{self._next()}"
        if kind == "missing":
            return name
        made = self._claim(namespace, name)
        _STATES[kind](self, made)
        return name

    def bound(self, claim: Raw) -> None:
        """It has a volume, whose place may be told by affinity or by labels."""
        self._bind(claim, self._volume(claim))

    def vanished(self, claim: Raw) -> None:
        """Its volume is gone."""
        claim["spec"]["volumeName"] = "pv-gone"
        claim["metadata"]["annotations"] = {BOUND: "yes"}
        claim["status"] = {"phase": "Bound"}

    def lost(self, claim: Raw) -> None:
        """Somebody has noticed that its volume is gone."""
        self.vanished(claim)
        claim["status"] = {"phase": "Lost"}

    def deleting(self, claim: Raw) -> None:
        """Whatever it is, it is on its way out."""
        self._dice.pick((self.bound, self.waiting))(claim)
        claim["metadata"]["deletionTimestamp"] = chance.CREATED
        claim["metadata"]["deletionGracePeriodSeconds"] = 0
        claim["metadata"]["finalizers"] = ["kubernetes.io/pvc-protection"]

    def immediate(self, claim: Raw) -> None:
        """Somebody else has to bind it first."""
        claim["spec"]["storageClassName"] = "now"

    def unclassed(self, claim: Raw) -> None:
        """It has no class, and no volume either."""
        claim["spec"]["storageClassName"] = ""

    def preset(self, claim: Raw) -> None:
        """It names its volume and is not bound to it yet."""
        claim["spec"]["storageClassName"] = self._dice.pick(WAITING)
        claim["spec"]["volumeName"] = "pv-wanted"

    def waiting(self, claim: Raw) -> None:
        """It gets its volume with the node."""
        dice, spec = self._dice, claim["spec"]
        spec["storageClassName"] = dice.pick(WAITING)
        if dice.chance(10):
            spec["volumeMode"] = "Block"
        if dice.chance(15):
            spec["selector"] = dice.pick(_SELECTORS)
        if dice.chance(20):
            node = dice.pick(self._nodes)["metadata"]["name"]
            claim["metadata"]["annotations"] = {SELECTED: node}
        if spec["storageClassName"] == "local" and dice.chance(15):
            self._put_free_volume(reserved=claim)
        if dice.chance(5):
            notes = claim["metadata"].setdefault("annotations", {})
            notes["volume.beta.kubernetes.io/storage-class"] = dice.pick(WAITING)
        if dice.chance(5):
            spec["volumeAttributesClassName"] = "gold"

    def alone(self, claim: Raw) -> None:
        """Only one pod may have it."""
        claim["spec"]["accessModes"] = ["ReadWriteOncePod"]
        self.bound(claim)

    # ---- volumes of pods

    def disk(self) -> Raw:
        """The source of a disk that stands in the pod itself."""
        dice = self._dice
        read_only = dice.chance(50)
        monitors = dice.some(("m1", "m2", "m3"), 1, 2)
        pool = dice.pick(("rbd", "rbd", "other"))
        disks: tuple[tuple[str, Raw], ...] = (
            ("gcePersistentDisk", {"pdName": dice.pick(("d1", "d2"))}),
            ("awsElasticBlockStore", {"volumeID": dice.pick(("aws://z1/vol-1", "vol-2"))}),
            ("iscsi", {"targetPortal": "10.0.0.9", "lun": dice.number(0, 1), "iqn": _IQN}),
            ("rbd", {"monitors": monitors, "image": "i", "pool": pool}),
        )
        kind, source = dice.pick(disks)
        return {kind: source | {"readOnly": True} if read_only else source}

    # ---- inside

    def _claim(self, namespace: str, name: str) -> Raw:
        made = self._object(
            "persistentvolumeclaims", "v1", "PersistentVolumeClaim", name, namespace
        )
        made["spec"] = {
            "accessModes": [self._dice.pick(("ReadWriteOnce", "ReadWriteOnce", "ReadWriteMany"))],
            "resources": {"requests": {"storage": self._dice.pick(SIZES)}},
            "storageClassName": "fast",
            "volumeMode": "Filesystem",
        }
        made["status"] = {"phase": "Pending"}
        return made

    def _bind(self, claim: Raw, volume: Raw) -> None:
        claim["spec"]["volumeName"] = volume["metadata"]["name"]
        claim["metadata"]["annotations"] = {BOUND: "yes"}
        claim["status"] = {"phase": "Bound"}
        volume["spec"]["claimRef"] = _reference(claim)
        volume["status"] = {"phase": "Bound"}

    def _volume(self, claim: Raw) -> Raw:
        dice = self._dice
        name = f"pv-{self._next()}"
        made = self._object("persistentvolumes", "v1", "PersistentVolume", name)
        spec = made["spec"] = _spec_of(claim)
        if dice.about("zone", 90, 5):
            made["metadata"]["labels"] = self._zone_labels()
        if "labels" not in made["metadata"] and dice.about("limits", 20, 15):
            spec["gcePersistentDisk"] = {"pdName": name}
        else:
            spec["csi"] = {"driver": DRIVER, "volumeHandle": f"h-{name}"}
        if dice.about("binding", 60, 20):
            spec["nodeAffinity"] = {"required": self._reach()}
        return made

    def _put_free_volume(self, *, reserved: Raw | None = None) -> None:
        dice = self._dice
        made = self._object("persistentvolumes", "v1", "PersistentVolume", f"pv-{self._next()}")
        made["spec"] = {
            "capacity": {"storage": dice.pick(SIZES)},
            "accessModes": dice.some(("ReadWriteOnce", "ReadWriteMany"), 1, 2),
            "storageClassName": dice.pick(("local", "local", "local", "fast")),
            "volumeMode": dice.pick(("Filesystem", "Filesystem", "Filesystem", "Block")),
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": "/mnt/disk"},
            "nodeAffinity": {"required": self._reach()},
        }
        if dice.chance(5):
            name = made["metadata"]["name"]
            made["spec"]["volumeAttributesClassName"] = "gold"
            made["spec"]["csi"] = {"driver": DRIVER, "volumeHandle": f"h-{name}"}
            del made["spec"]["local"]
        made["metadata"]["labels"] = {"kind": dice.pick(("quick", "slow"))}
        made["status"] = {"phase": "Available" if dice.chance(90) else "Released"}
        if reserved is not None:
            made["spec"]["claimRef"] = _reference(reserved)
            if dice.chance(50):
                del made["spec"]["claimRef"]["uid"]
        elif dice.chance(10):
            other = chance.meta("persistentvolumeclaim", "other", "red")
            made["spec"]["claimRef"] = _reference({"metadata": other})

    def _reach(self) -> Raw:
        dice = self._dice
        if dice.chance(50):
            zones = dice.some(fleet.ZONES, 1, 2)
            terms = [[chance.requirement(fleet.ZONE, "In", *zones)]]
        else:
            names = [node["metadata"]["name"] for node in self._nodes]
            terms = [[chance.requirement(fleet.HOST, "In", *dice.some(names, 1, 2))]]
        if dice.chance(15):
            terms.append([chance.requirement(fleet.RACK, dice.pick(("Exists", "DoesNotExist")))])
        if dice.chance(10):
            terms[0].append(chance.requirement(fleet.DISK, "NotIn", "hdd"))
        return {"nodeSelectorTerms": [{"matchExpressions": one} for one in terms]}

    def _zone_labels(self) -> Raw:
        dice = self._dice
        zones = "__".join(sorted(dice.some(fleet.ZONES, 1, 2)))
        made = {dice.pick((fleet.ZONE, fleet.OLD_ZONE)): zones}
        if dice.chance(40):
            made[dice.pick((fleet.REGION, fleet.OLD_REGION))] = dice.pick(("r1", "r2"))
        return made

    def _class(self, name: str) -> Raw:
        provisioner, mode = CLASSES[name]
        made: Raw = {
            "apiVersion": STORAGE,
            "kind": "StorageClass",
            "metadata": chance.meta("storageclass", name),
            "provisioner": provisioner,
            "reclaimPolicy": "Delete",
            "volumeBindingMode": mode,
        }
        if name == "zonal":
            narrow = self._dice.pick(((False,), (True,), (False, True)))
            made["allowedTopologies"] = [self._topology(narrow=one) for one in narrow]
        return made

    def _topology(self, *, narrow: bool) -> Raw:
        dice = self._dice
        found = [{"key": fleet.ZONE, "values": dice.some(fleet.ZONES, 1, 2)}]
        if narrow:
            found.append({"key": fleet.RACK, "values": [dice.pick(("a", "b"))]})
        return {"matchLabelExpressions": found}

    def _put_csi_nodes(self) -> None:
        dice = self._dice
        for node in self._nodes:
            if not dice.about("limits", 90, 30):
                continue
            name = node["metadata"]["name"]
            made = self._object("csinodes", STORAGE, "CSINode", name)
            made["spec"] = {"drivers": [self._driver(one, name) for one in (DRIVER, GCE)]}

    def _driver(self, called: str, node: str) -> Raw:
        made: Raw = {"name": called, "nodeID": node, "topologyKeys": []}
        if self._dice.about("limits", 85, 40):
            made["allocatable"] = {"count": self._dice.pick((1, 1, 2, 3))}
        return made

    def _put_capacities(self) -> None:
        dice = self._dice
        for zone in dice.some(fleet.ZONES, 1, 3):
            made = self._object(
                "csistoragecapacities", STORAGE, "CSIStorageCapacity", f"room-{zone}", "default"
            )
            made["storageClassName"] = "sized"
            made["nodeTopology"] = {"matchLabels": {fleet.ZONE: zone}}
            if dice.chance(90):
                made["capacity"] = dice.pick(("4Gi", "100Gi", "1Gi"))
            if dice.chance(25):
                made["maximumVolumeSize"] = dice.pick(("3Gi", "8Gi"))

    def attach(self) -> None:
        """Volumes that are attached to nodes, whoever uses them."""
        dice = self._dice
        for volume in self.kinds.get("persistentvolumes", ()):
            if not dice.chance(40) or "local" in volume["spec"]:
                continue
            name = f"attached-{self._next()}"
            made = self._object("volumeattachments", STORAGE, "VolumeAttachment", name)
            made["spec"] = {
                "attacher": DRIVER if "csi" in volume["spec"] else GCE,
                "nodeName": dice.pick(self._nodes)["metadata"]["name"],
                "source": {"persistentVolumeName": volume["metadata"]["name"]},
            }

    def _object(self, kinds: str, version: str, kind: str, name: str, namespace: str = "") -> Raw:
        made = {
            "apiVersion": version,
            "kind": kind,
            "metadata": chance.meta(kind, name, namespace),
        }
        self._add(kinds, made)
        return made

    def _add(self, kinds: str, made: Raw) -> None:
        self.kinds.setdefault(kinds, []).append(made)

    def _next(self) -> int:
        self._numbers += 1
        return self._numbers


_IQN: Final = "iqn.2026-01.example:disk"
_SELECTORS: Final[tuple[Raw, ...]] = (
    {"matchLabels": {"kind": "quick"}},
    {"matchExpressions": [chance.requirement("kind", "NotIn", "quick")]},
    {},
)
_STATES: Final = {
    "bound": Stock.bound,
    "vanished": Stock.vanished,
    "lost": Stock.lost,
    "deleting": Stock.deleting,
    "immediate": Stock.immediate,
    "unclassed": Stock.unclassed,
    "preset": Stock.preset,
    "waiting": Stock.waiting,
    "alone": Stock.alone,
}


def _spec_of(claim: Raw) -> Raw:
    wanted = claim["spec"]
    return {
        "capacity": {"storage": "10Gi"},
        "accessModes": wanted["accessModes"],
        "storageClassName": wanted["storageClassName"],
        "volumeMode": wanted["volumeMode"],
        "persistentVolumeReclaimPolicy": "Delete",
    }


def _reference(claim: Raw) -> Raw:
    kept = {key: claim["metadata"][key] for key in ("namespace", "name", "uid")}
    return {"kind": "PersistentVolumeClaim", "apiVersion": "v1", **kept}
