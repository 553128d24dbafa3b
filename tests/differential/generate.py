"""Random clusters with one pod that is to be placed; no devices.

Each scenario has a focus, so that every filter has something to say in many of them, and most
have nodes that take the pod beside nodes that do not.
"""

from __future__ import annotations

from typing import Any, Final

from tests.differential import chance, claims, containers, fleet, placing, relations, storages

Raw = chance.Raw

FAMILIES: Final = {
    "resources": 14,
    "taints": 7,
    "affinity": 10,
    "spread": 20,
    "interpod": 18,
    "ports": 10,
    "binding": 14,
    "limits": 8,
    "disks": 5,
    "alone": 4,
    "zone": 8,
    "unschedulable": 3,
    "resized": 3,
    "dynamic": 5,
    "features": 5,
    "nodename": 2,
    "gates": 1,
}
"""What scenarios are about, with how often."""
POD: Final = "p"
OF_PODS: Final = (
    *["bound"] * 10, *["waiting"] * 16, "alone", "vanished", "lost", "deleting", "immediate",
    "unclassed", "preset", "missing",
)  # fmt: skip


def scenario(seed: int) -> dict[str, Any]:
    """One scenario, as the whole objects of the API."""
    dice = chance.Dice(seed)
    wheel = [name for name, often in FAMILIES.items() for _ in range(often)]
    dice.focus = frozenset(dice.pick(wheel) for _ in range(dice.pick((1, 1, 2, 2, 3))))
    nodes = fleet.nodes(dice)
    stock = storages.Stock(dice, nodes)
    pods = [_running(dice, number, nodes, stock) for number in range(dice.number(0, 16))]
    kinds: dict[str, list[Raw]] = {}
    pod = _pending(dice, nodes, stock, pods, kinds)
    if dice.about("limits", 50, 5):
        stock.attach()
    if dice.chance(4):
        kinds["services"] = [_service(pod)]
    kinds |= {"nodes": nodes, "pods": pods, "namespaces": _namespaces(), **stock.kinds}
    if any("overhead" in one["spec"] for one in (*pods, pod)):
        kinds["runtimeclasses"] = [runtime_class()]
    return {"id": f"seed-{seed}", "kinds": {key: kinds[key] for key in sorted(kinds)}, "pod": pod}


def _namespaces() -> list[Raw]:
    made = []
    for name, labels in chance.NAMESPACES.items():
        one = chance.meta("namespace", name)
        one["labels"] = dict(labels)
        made.append({"apiVersion": "v1", "kind": "Namespace", "metadata": one})
    return made


def _service(pod: Raw) -> Raw:
    """A Service of the pod's, by which kube-scheduler spreads it unless it says how."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": chance.meta("service", "web", chance.OWN),
        "spec": {
            "selector": {"app": pod["metadata"]["labels"]["app"]},
            "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
        },
    }


def runtime_class() -> Raw:
    """What adds the overhead of some pods."""
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": chance.meta("runtimeclass", "heavy"),
        "handler": "heavy",
        "overhead": {"podFixed": dict(containers.OVERHEAD)},
    }


def _pod(name: str, namespace: str, labels: Raw, phase: str) -> Raw:
    made = chance.meta("pod", name, namespace)
    made["labels"] = labels
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": made,
        "spec": {"schedulerName": "default-scheduler", "priority": 0},
        "status": {"phase": phase},
    }


def _running(dice: chance.Dice, number: int, nodes: list[Raw], stock: storages.Stock) -> Raw:
    namespace = dice.pick(("default", "default", "default", "red", "blue"))
    labels = relations.labels(dice)
    phase = dice.pick((*["Running"] * 9, "Pending", "Succeeded", "Failed"))
    made = _pod(f"old-{number}", namespace, labels, phase)
    spec = made["spec"]
    spec["nodeName"] = dice.pick(nodes)["metadata"]["name"]
    containers.put(dice, spec, pending=False)
    spec["tolerations"] = placing.default_tolerations([])
    if dice.about("interpod", 60, 10):
        relations.put_affinity(dice, spec, labels, pending=False)
    volumes = []
    if dice.about("limits", 60, 2) or dice.about("alone", 20, 0):
        volumes.append(_claimed(stock.claim("bound", namespace)))
    if dice.about("limits", 15, 1):
        volumes.append(_claimed(stock.claim("waiting", namespace)))
    if dice.about("disks", 60, 1):
        volumes.append(stock.disk())
    if volumes:
        spec["volumes"] = _named(volumes)
    if dice.about("resized", 60, 1):
        containers.put_resize(dice, made)
    if dice.chance(8):
        made["metadata"]["deletionTimestamp"] = chance.CREATED
        made["metadata"]["deletionGracePeriodSeconds"] = 30
    return made


def _pending(
    dice: chance.Dice,
    nodes: list[Raw],
    stock: storages.Stock,
    running: list[Raw],
    kinds: dict[str, list[Raw]],
) -> Raw:
    labels = relations.labels(dice)
    made = _pod(POD, chance.OWN, labels, "Pending")
    spec = made["spec"]
    names = [node["metadata"]["name"] for node in nodes]
    containers.put(dice, spec, pending=True)
    placing.put(dice, spec, names)
    if dice.about("interpod", 90, 6):
        relations.put_affinity(dice, spec, labels, pending=True)
    if dice.about("spread", 95, 6):
        relations.put_spread(dice, spec, labels)
    if dice.about("features", 85, 0):
        containers.put_features(dice, spec)
    if dice.about("nodename", 70, 0):
        spec["nodeName"] = dice.pick(names)
    if dice.about("gates", 90, 0):
        spec["schedulingGates"] = [{"name": f"example.com/{one}"} for one in "ab"]
    volumes = _volumes(dice, made, stock, running)
    if volumes:
        spec["volumes"] = _named(volumes)
    if dice.about("dynamic", 90, 0):
        claims.put(dice, made, kinds, names)
    return made


def _volumes(dice: chance.Dice, pod: Raw, stock: storages.Stock, running: list[Raw]) -> list[Raw]:
    found = []
    if dice.about("binding", 95, 1):
        found += [_claimed(stock.claim(dice.pick(OF_PODS), chance.OWN)) for _ in range(_few(dice))]
    if dice.about("binding", 8, 0):
        found.append(_ephemeral(dice, pod, stock, number=len(found)))
    if dice.about("zone", 90, 0):
        found.append(_claimed(stock.claim("bound", chance.OWN)))
    if dice.about("limits", 95, 0):
        kinds = ("bound", "bound", "waiting")
        found += [_claimed(stock.claim(dice.pick(kinds), chance.OWN)) for _ in range(_few(dice))]
    if dice.about("alone", 90, 0):
        found.append(_claimed(_of_one_pod(dice, stock, running)))
    if dice.about("disks", 90, 0):
        found += [stock.disk() for _ in range(_few(dice))]
    if dice.about("limits", 30, 0):
        found += _shared(dice, running)
    return found


def _few(dice: chance.Dice) -> int:
    return dice.pick((1, 1, 1, 2))


def _of_one_pod(dice: chance.Dice, stock: storages.Stock, running: list[Raw]) -> str:
    """A claim for one pod only, which another pod may have taken."""
    name = stock.claim("alone", chance.OWN)
    own = [pod for pod in running if pod["metadata"]["namespace"] == chance.OWN]
    if own and dice.chance(50):
        spec = dice.pick(own)["spec"]
        spec["volumes"] = _named([*spec.get("volumes", ()), _claimed(name)])
    return name


def _shared(dice: chance.Dice, running: list[Raw]) -> list[Raw]:
    """A claim that a running pod has, too."""
    known = [
        volume
        for pod in running
        if pod["metadata"]["namespace"] == chance.OWN
        for volume in pod["spec"].get("volumes", ())
        if "persistentVolumeClaim" in volume
    ]
    return [_claimed(dice.pick(known)["persistentVolumeClaim"]["claimName"])] if known else []


def _ephemeral(dice: chance.Dice, pod: Raw, stock: storages.Stock, *, number: int) -> Raw:
    """A volume made for this pod; its claim may not be there yet, or be somebody else's."""
    name = f"{POD}-v{number}"
    if dice.chance(85):
        stock.claim(dice.pick(("bound", "waiting")), chance.OWN, name)
        claim = stock.kinds["persistentvolumeclaims"][-1]
        uid = pod["metadata"]["uid"] if dice.chance(80) else "another"
        claim["metadata"]["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "Pod", "name": POD, "uid": uid, "controller": True}
        ]
    template = {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "fast",
        }
    }
    return {"ephemeral": {"volumeClaimTemplate": template}}


def _claimed(name: str) -> Raw:
    return {"persistentVolumeClaim": {"claimName": name}}


def _named(volumes: list[Raw]) -> list[Raw]:
    """Named by place, so that the name of an ephemeral claim is known beforehand."""
    return [{**volume, "name": f"v{number}"} for number, volume in enumerate(volumes)]
