"""Claims of dynamic resource allocation."""

from __future__ import annotations

from typing import Final

from tests.differential import chance, fleet

Raw = chance.Raw

API: Final = "resource.k8s.io/v1"
CLASS: Final = "gpu.example.com"
KINDS: Final = (
    *["allocated"] * 5, *["pinned"] * 9, *["free"] * 2, *["made"] * 2, "unclassed", "missing",
    "deleting", "foreign", "awaited", "unneeded", "unneeded",
)  # fmt: skip


def put(dice: chance.Dice, pod: Raw, kinds: dict[str, list[Raw]], names: list[str]) -> None:
    """Let a pending pod claim devices; what it claims is added to the objects."""
    kinds["deviceclasses"] = [_object("DeviceClass", CLASS, spec={})]
    if dice.chance(60):
        kinds["resourceslices"] = [_slice(name) for name in dice.some(names, 1, 2)]
    made = kinds.setdefault("resourceclaims", [])
    entries = pod["spec"]["resourceClaims"] = []
    for number in range(dice.pick((1, 1, 2))):
        entry, kind = f"e{number}", dice.pick(KINDS)
        if kind in _GENERATED:
            entries.append({"name": entry, "resourceClaimTemplateName": "template"})
            _put_status(pod, entry, kind)
        else:
            entries.append({"name": entry, "resourceClaimName": f"devices-{number}"})
        if kind not in _ABSENT:
            name = f"p-{entry}-made" if kind in _GENERATED else f"devices-{number}"
            made.append(_claim(dice, name, kind, pod))


_GENERATED: Final = {"made", "foreign", "awaited", "unneeded"}
_ABSENT: Final = {"missing", "awaited", "unneeded"}


def _put_status(pod: Raw, entry: str, kind: str) -> None:
    if kind == "awaited":
        return
    status: Raw = {"name": entry}
    if kind != "unneeded":
        status["resourceClaimName"] = f"p-{entry}-made"
    pod["status"].setdefault("resourceClaimStatuses", []).append(status)


def _claim(dice: chance.Dice, name: str, kind: str, pod: Raw) -> Raw:
    device_class = "no.example.com" if kind == "unclassed" else CLASS
    exactly = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": 1}
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    made = _object("ResourceClaim", name, chance.OWN, spec=spec)
    made["status"] = {}
    if kind not in {"free", "unclassed"}:
        made["status"]["allocation"] = _allocation(dice, pinned=kind == "pinned")
        made["status"]["reservedFor"] = [{"resource": "pods", "name": "user", "uid": "uid-user"}]
    if kind == "deleting":
        made["metadata"]["deletionTimestamp"] = chance.CREATED
        made["metadata"]["deletionGracePeriodSeconds"] = 0
        made["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
    if kind in _GENERATED:
        uid = pod["metadata"]["uid"] if kind == "made" else "another"
        made["metadata"]["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": True}
        ]
    return made


def _allocation(dice: chance.Dice, *, pinned: bool) -> Raw:
    result = {"request": "r", "driver": CLASS, "pool": "pool", "device": "d0"}
    made: Raw = {"devices": {"results": [result]}, "allocationTimestamp": chance.CREATED}
    if pinned:
        zones = dice.some(fleet.ZONES, 1, 2)
        term = {"matchExpressions": [chance.requirement(fleet.ZONE, "In", *zones)]}
        made["nodeSelector"] = {"nodeSelectorTerms": [term]}
    return made


def _slice(node: str) -> Raw:
    """One device on a node, which kube-scheduler may choose for a claim."""
    spec = {
        "driver": CLASS,
        "nodeName": node,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "d1"}],
    }
    return _object("ResourceSlice", f"slice-{node}", spec=spec)


def _object(kind: str, name: str, namespace: str = "", *, spec: Raw) -> Raw:
    return {
        "apiVersion": API,
        "kind": kind,
        "metadata": chance.meta(kind, name, namespace),
        "spec": spec,
    }
