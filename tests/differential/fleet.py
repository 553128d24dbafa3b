"""Nodes of a scenario."""

from __future__ import annotations

from typing import Final

from tests.differential import chance

Raw = chance.Raw

HOST: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
OLD_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
OLD_REGION: Final = "failure-domain.beta.kubernetes.io/region"
ARCH: Final = "kubernetes.io/arch"
DISK: Final = "disk"
CPUS: Final = "cpus"
RACK: Final = "rack"

ZONES: Final = ("z1", "z2", "z3")
TAINT_KEYS: Final = ("dedicated", "gpu", "spot", "level", "node.kubernetes.io/not-ready")
TAINT_VALUES: Final = ("", "a", "b", "5", "10", "007")
IMAGES: Final = (
    ("registry.example/app:v1", 700_000_000),
    ("registry.example/side:v2", 90_000_000),
    ("registry.example/big:latest", 1_900_000_000),
)
FEATURES: Final = ("RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport")


def name(position: int) -> str:
    """Name of a node; the order of names is not the order in which they are made."""
    return f"n{(position * 5 + 3) % 11:02d}"


def nodes(dice: chance.Dice) -> list[Raw]:
    """Two to eight nodes."""
    return [_node(dice, name(position)) for position in range(dice.number(2, 8))]


def _node(dice: chance.Dice, called: str) -> Raw:
    made = _meta(called)
    made["labels"] = _labels(dice, called)
    spec: Raw = {}
    if dice.about("unschedulable", 40, 2):
        spec["unschedulable"] = True
    taints = _taints(dice)
    if spec.get("unschedulable") and dice.chance(50):
        taints.append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
    if taints:
        spec["taints"] = taints
    allocatable = _allocatable(dice)
    status: Raw = {
        "capacity": {**allocatable, "cpu": "64", "memory": "256Gi", "pods": "250"},
        "allocatable": allocatable,
        "conditions": _conditions(dice),
    }
    images = dice.some(IMAGES, 0, 3) if dice.chance(50) else []
    if images:
        status["images"] = [_image(*one) for one in images]
    features = dice.some(FEATURES, 0, 2) if dice.about("features", 100, 20) else []
    if features:
        status["declaredFeatures"] = sorted(features)
    return {"apiVersion": "v1", "kind": "Node", "metadata": made, "spec": spec, "status": status}


def _meta(called: str) -> Raw:
    return chance.meta("node", called)


def _image(called: str, size: int) -> Raw:
    return {
        "names": [f"{called.rpartition(':')[0]}@sha256:{size:064d}", called],
        "sizeBytes": size,
    }


def _labels(dice: chance.Dice, called: str) -> Raw:
    labels = {ARCH: dice.pick(("amd64", "amd64", "arm64"))}
    zone = dice.pick(ZONES)
    if dice.chance(95):
        labels[HOST] = called
    if dice.chance(88):
        labels[ZONE] = zone
    if dice.chance(70):
        labels[REGION] = "r1" if zone != "z3" else "r2"
    if dice.about("zone", 35, 5):
        labels[OLD_ZONE] = dice.pick(ZONES)
    if dice.about("zone", 25, 2):
        labels[OLD_REGION] = dice.pick(("r1", "r2"))
    if dice.chance(75):
        labels[DISK] = dice.pick(("ssd", "hdd"))
    if dice.chance(70):
        labels[CPUS] = dice.pick(("4", "8", "16", "007", "3", "many", ""))
    if dice.chance(60):
        labels[RACK] = dice.pick(("a", "b"))
    return labels


def _taints(dice: chance.Dice) -> list[Raw]:
    if not dice.about("taints", 60, 5):
        return []
    effects = ("NoSchedule", "NoSchedule", "NoExecute", "PreferNoSchedule")
    made: dict[tuple[str, str], Raw] = {}
    for _ in range(dice.pick((1, 1, 2, 3))):
        taint = {"key": dice.pick(TAINT_KEYS), "effect": dice.pick(effects)}
        value = dice.pick(TAINT_VALUES)
        if value:
            taint["value"] = value
        if taint["effect"] == "NoExecute":
            taint["timeAdded"] = "2026-03-01T12:00:00Z"
        made.setdefault((taint["key"], taint["effect"]), taint)
    return list(made.values())


def _allocatable(dice: chance.Dice) -> Raw:
    tight = "resources" in dice.focus
    small = ("4", "2", "1500m", "0.5", "1", "3", "6", "0")
    large = ("8", "16", "7910m", "4", "12.5")
    less = ("1Gi", "2Gi", "1536Mi", "0.75Gi", "2e9", "3G", "1073741825", "6Gi")
    more = ("16Gi", "32Gi", "64G", "8589934592", "12e9")
    made = {
        "cpu": dice.pick(small if tight else large),
        "memory": dice.pick(less if tight else more),
        "pods": dice.pick(
            ("110", "110", "110", "30", "3", "2", "0") if tight else ("110", "110", "8")
        ),
    }
    if dice.chance(85 if tight else 92):
        made["ephemeral-storage"] = dice.pick(("10Gi", "1Gi", "500M", "100Gi"))
    if dice.about("resources", 50, 20):
        made["hugepages-2Mi"] = dice.pick(("0", "64Mi", "128Mi"))
    if dice.about("resources", 60, 25):
        made["example.com/fpga"] = dice.pick(("0", "1", "2", "8"))
    if dice.about("resources", 30, 5):
        made["vendor.example/nic"] = dice.pick(("1", "4"))
    return made


def _conditions(dice: chance.Dice) -> list[Raw]:
    """Never read by a scheduler; what they mean arrives as taints."""
    ready = dice.pick(("True", "True", "True", "False", "Unknown"))
    pressure = dice.pick(("False", "False", "True"))
    return [
        {"type": kind, "status": status, "lastHeartbeatTime": "2026-03-01T12:00:00Z"}
        for kind, status in (("Ready", ready), ("MemoryPressure", pressure))
    ]
