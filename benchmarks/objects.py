"""API objects for all benchmarks: nodes as plugins register them, and pods of many shapes."""

from __future__ import annotations

import datetime
import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

from hami_operator.devices import registry as registries
from hami_operator.protocol import bindphase, decision, keys
from hami_operator.simulator import catalogue, plugin

SCHEDULER: Final = "hami-scheduler"
NAMESPACE: Final = "bench"
STARTED: Final = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)
CREATED: Final = "2026-03-01T12:00:00Z"
ZONE: Final = "topology.kubernetes.io/zone"

ROWS: Final = registries.default().by_word

Raw = dict[str, Any]


def node(host: catalogue.Host, *, version: int = 1) -> Raw:
    """A Node of the size that kubelets make them, with the registers of its plugins."""
    annotations: dict[str, str] = {"node.alpha.kubernetes.io/ttl": "0"}
    offered = {"cpu": host.cpu, "memory": host.memory, "pods": host.pods}
    for equipment in host.equipment:
        one = plugin.install(ROWS[equipment.model.word], equipment, host.name)
        annotations |= plugin.registration(one, STARTED)
        offered |= {name: str(amount) for name, amount in plugin.allocatable(one).items()}
    labels = {"kubernetes.io/hostname": host.name, "kubernetes.io/os": "linux", **host.labels}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": host.name,
            "uid": f"uid-{host.name}",
            "resourceVersion": str(version),
            "labels": labels,
            "annotations": annotations,
        },
        "spec": {},
        "status": {"capacity": offered, "allocatable": offered, "images": _images()},
    }


def _images() -> list[Raw]:
    """The list that makes real Nodes large."""
    digest = "0123456789abcdef" * 4
    return [
        {"names": [f"example.com/team/image-{at}@sha256:{digest}"], "sizeBytes": 123456789 + at}
        for at in range(50)
    ]


def hosts(nodes: int, cards: int, families: Sequence[str] = ("nvidia",)) -> list[catalogue.Host]:
    """Nodes to simulate, in three zones."""
    made = catalogue.hosts(nodes, tuple(families), cards=cards, prefix="node-")
    return [
        catalogue.Host(name=host.name, equipment=host.equipment, labels={ZONE: f"zone-{at % 3}"})
        for at, host in enumerate(made)
    ]


def pod(name: str, *limits: Mapping[str, Any], spec: Mapping[str, Any] | None = None) -> Raw:
    """A pod as a user writes it, one container for each of ``limits``."""
    containers = [container(f"c{at}", each) for at, each in enumerate(limits)]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": "bench"}},
        "spec": {
            "schedulerName": SCHEDULER,
            "terminationGracePeriodSeconds": 0,
            "containers": containers,
            **(spec or {}),
        },
    }


def container(name: str, limits: Mapping[str, Any]) -> Raw:
    """A container with its share of ordinary resources beside the limits."""
    requests = {"cpu": "100m", "memory": "64Mi"}
    extended = {key: str(amount) for key, amount in limits.items()}
    return {
        "name": name,
        "image": "example.com/app:1",
        "resources": {"limits": extended, "requests": {**requests, **extended}},
    }


def stored(made: Raw, *, version: int = 1) -> Raw:
    """The same as the API server gives it back."""
    meta = {
        **made["metadata"],
        "uid": f"uid-{made['metadata']['name']}",
        "resourceVersion": str(version),
        "creationTimestamp": CREATED,
        "managedFields": _managed(made),
    }
    spec = {**_DEFAULTS, **made["spec"]}
    status = {"phase": "Pending", "qosClass": "Burstable"}
    return {**made, "metadata": meta, "spec": spec, "status": status}


_DEFAULTS: Final = {
    "dnsPolicy": "ClusterFirst",
    "restartPolicy": "Always",
    "enableServiceLinks": True,
    "preemptionPolicy": "PreemptLowerPriority",
    "priority": 0,
    "securityContext": {},
    "serviceAccount": "default",
    "serviceAccountName": "default",
    "tolerations": [
        {
            "key": f"node.kubernetes.io/{state}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 300,
        }
        for state in ("not-ready", "unreachable")
    ],
    "volumes": [
        {
            "name": "kube-api-access",
            "projected": {
                "defaultMode": 420,
                "sources": [
                    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt"}]}},
                ],
            },
        }
    ],
}
"""What admission adds to every pod."""


def _managed(made: Raw) -> list[Raw]:
    """Who wrote which field; nobody here reads it, and yet it makes up half of real objects."""
    owned: Raw = {
        f"f:{key}": {} for key in (*_DEFAULTS, "image", "imagePullPolicy", "name", "limits")
    }
    each = {f'k:{{"name":"{one["name"]}"}}': owned for one in made["spec"]["containers"]}
    fields = {"f:metadata": {"f:labels": {".": {}, "f:app": {}}}, "f:spec": {"f:containers": each}}
    entry = {"apiVersion": "v1", "fieldsType": "FieldsV1", "operation": "Update", "time": CREATED}
    return [{**entry, "manager": name, "fieldsV1": fields} for name in ("client", "kubelet")]


def gpu(count: int = 1, memory_mib: int = 4000, cores: int = 10) -> dict[str, int]:
    """Limits of a container that shares NVIDIA cards."""
    return {
        "nvidia.com/gpu": count,
        "nvidia.com/gpumem": memory_mib,
        "nvidia.com/gpucores": cores,
    }


def whole(count: int) -> dict[str, int]:
    """Limits of a container that takes NVIDIA cards for itself."""
    return {
        "nvidia.com/gpu": count,
        "nvidia.com/gpumem-percentage": 100,
        "nvidia.com/gpucores": 100,
    }


def served(made: Raw, node_name: str, picks: Sequence[decision.Pick], *, version: int = 1) -> Raw:
    """A pod with one NVIDIA container that runs on a node with these cards."""
    row = ROWS["NVIDIA"]
    found = stored(made, version=version)
    found["metadata"]["annotations"] = {
        row.pod.allocated: decision.encode((tuple(picks),), row.keyword),
        row.pod.to_allocate: ";",
        keys.VGPU_NODE: node_name,
        keys.VGPU_TIME: "1772366400",
        keys.BIND_PHASE: bindphase.Phase.SUCCESS.value,
        keys.BIND_TIME: "1772366400",
    }
    found["spec"] = {**found["spec"], "nodeName": node_name}
    found["status"] = {"phase": "Running"}
    return found


def residents(hosts: Sequence[catalogue.Host], number: int, generator: random.Random) -> list[Raw]:
    """Running pods, dealt out over all cards of all nodes."""
    slots = [
        (host.name, card)
        for host in hosts
        for equipment in host.equipment
        for card in equipment.model.cards(host.name, equipment.number)
    ]
    made = []
    for at in range(number):
        name, card = slots[at % len(slots)]
        memory_mib, cores = generator.choice((1000, 2000, 4000)), generator.choice((0, 10, 20))
        pick = decision.Pick(id=card.id, memory_mib=memory_mib, cores=cores)
        limits = gpu(1, memory_mib, cores)
        made.append(served(pod(f"resident-{at:05}", limits), name, (pick,)))
    return made
