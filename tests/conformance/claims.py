"""Claims of volumes and devices, and those who serve them, played by the test."""

from __future__ import annotations

from typing import Any

from tests import builders
from tests.conformance import workload
from tests.conformance.cluster import Cluster, eventually

CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
VOLUMES = "/api/v1/persistentvolumes"
DEVICES = "/apis/resource.k8s.io/v1"
SELECTED = "volume.kubernetes.io/selected-node"
BOUND = "pv.kubernetes.io/bind-completed"
STORAGE = {"storage": "1Gi"}


def path(cluster: Cluster, name: str = "") -> str:
    """Path of a claim of a volume in the test's namespace."""
    return f"/api/v1/namespaces/{cluster.namespace}/persistentvolumeclaims/{name}".rstrip("/")


def devices(cluster: Cluster, name: str = "") -> str:
    """Path of a claim of devices in the test's namespace."""
    return f"{DEVICES}/namespaces/{cluster.namespace}/resourceclaims/{name}".rstrip("/")


async def put(cluster: Cluster, collection: str, name: str, **body: Any) -> None:
    """Create an object of any kind."""
    made = {"metadata": {"name": name}, **body}
    status, answer = await cluster.api.post(collection, made)
    assert status == 201, answer


async def change(cluster: Cluster, what: str, **body: Any) -> None:
    """Change an object of any kind."""
    status, answer = await cluster.api.patch(what, body)
    assert status == 200, answer


async def put_volumes(cluster: Cluster) -> str:
    """A class that waits for its first pod, a volume of it, and a claim for each way to get one.

    Returns:
        The name of the class, of the volume, and what the claims' names begin with.
    """
    name = f"{cluster.prefix}later"
    await put(
        cluster,
        CLASSES,
        name,
        provisioner="example.com/disk",
        volumeBindingMode="WaitForFirstConsumer",
    )
    common = {"storageClassName": name, "accessModes": ["ReadWriteOnce"]}
    here = {"key": "kubernetes.io/hostname", "operator": "Exists"}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}}
    local = {"capacity": STORAGE, "hostPath": {"path": "/x"}, "nodeAffinity": affinity}
    await put(cluster, VOLUMES, name, spec=common | local)
    await change(cluster, f"{VOLUMES}/{name}/status", status={"phase": "Available"})
    for number, amount in enumerate(("1Gi", "9Gi")):
        spec = common | {"resources": {"requests": {"storage": amount}}}
        await put(cluster, path(cluster), f"{name}-{number}", spec=spec)
    return name


async def chosen(cluster: Cluster, name: str) -> str:
    """Wait until the operator has said where the volume of a claim is to be made."""
    found: list[str] = []

    async def look() -> bool:
        _, claim = await cluster.api.get(path(cluster, name))
        found.append((claim["metadata"].get("annotations") or {}).get(SELECTED, ""))
        return bool(found[-1])

    await eventually(look, f"a node for claim {name}")
    return found[-1]


async def make(cluster: Cluster, name: str, volume: str) -> None:
    """Give a claim its volume, as those do who make and bind volumes."""
    await change(
        cluster,
        path(cluster, name),
        metadata={"annotations": {BOUND: "yes"}},
        spec={"volumeName": volume},
    )


async def put_devices(cluster: Cluster) -> str:
    """A claim whose devices are chosen already; its name."""
    name = f"{cluster.prefix}cards"
    await put(cluster, f"{DEVICES}/deviceclasses", name, spec={})
    asked = {"name": "gpu", "exactly": {"deviceClassName": name}}
    await put(cluster, devices(cluster), name, spec={"devices": {"requests": [asked]}})
    await change(cluster, f"{devices(cluster, name)}/status", status={"allocation": {}})
    return name


def storing(name: str, *claims: str) -> builders.PodBuilder:
    """A pod with a little of a card, and volumes."""
    pod = builders.pod(name).container(limits=workload.ask("NVIDIA"))
    for claim in claims:
        source = {"claimName": claim}
        pod = pod.append("spec.volumes", {"name": claim[-20:], "persistentVolumeClaim": source})
    return pod


def sharing(name: str, claim: str) -> builders.PodBuilder:
    """A pod with a little of a card, a claim, and a dislike of namespaces by their labels."""
    pod = builders.pod(name).container(limits=workload.ask("NVIDIA"))
    selector = {"matchLabels": {"team": "noisy"}}
    pod = pod.repels({}, "kubernetes.io/hostname", namespaceSelector=selector)
    return pod.append("spec.resourceClaims", {"name": "r", "resourceClaimName": claim})
