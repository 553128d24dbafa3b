"""Containers of pods: what they request, in every spelling, and the ports that they take."""

from __future__ import annotations

from typing import Final

from tests.differential import chance

Raw = chance.Raw

CPU: Final = ("100m", "250m", "0.5", "1", "1500m", ".2", "2", "1e-1", "0", "2500u", "300000u")
MEMORY: Final = ("64Mi", "256Mi", "1Gi", "100M", "1e8", "0.05Gi", "1500m", "128974848", "512Ki")
DISK: Final = ("100Mi", "1G", "2Gi", "20Gi")
ADDRESSES: Final = ("", "", "0.0.0.0", "127.0.0.1", "10.0.0.7", "::", "::1")
PORTS: Final = (80, 443, 8080)
OVERHEAD: Final = {"cpu": "250m", "memory": "120Mi"}
PROTOCOLS: Final = ("TCP", "TCP", "UDP", "SCTP")
RESTART_ALL: Final = {
    "action": "RestartAllContainers",
    "exitCodes": {"operator": "In", "values": [42]},
}


def put(dice: chance.Dice, spec: Raw, *, pending: bool) -> None:
    """Give a pod its containers."""
    spec["containers"] = [_container(dice, f"c{n}", pending) for n in range(dice.pick((1, 1, 2)))]
    inits = dice.pick((1, 2, 3)) if dice.about("resources", 40, 12) else 0
    if inits:
        spec["initContainers"] = [_init(dice, f"i{n}", pending) for n in range(inits)]
    _drop_repeated_ports([*spec.get("initContainers", ()), *spec["containers"]])
    if dice.about("resources", 20, 5):
        _put_pod_level(dice, spec)
    if dice.about("resources", 20, 4):
        spec["runtimeClassName"] = "heavy"
        spec["overhead"] = dict(OVERHEAD)


def put_features(dice: chance.Dice, spec: Raw) -> None:
    """Let a pod need what only some kubelets can do."""
    first = dice.pick(("containers", "initContainers", "containers"))
    if first not in spec:
        first = "containers"
    container = spec[first][0]
    container["restartPolicyRules"] = [RESTART_ALL]
    container.setdefault("restartPolicy", "Never")


def put_resize(dice: chance.Dice, pod: Raw) -> None:
    """Let kubelet report other amounts than a running pod's specification has."""
    spec, status = pod["spec"], pod["status"]
    for field, listed in _STATUSES.items():
        for container in spec.get(listed, ()):
            requests = container.get("resources", {}).get("requests", {})
            if not requests.keys() & {"cpu", "memory"} or dice.chance(30):
                continue
            one: Raw = {"name": container["name"], "image": container["image"], **_STATUS}
            one["allocatedResources"] = _resized(dice, requests)
            one["resources"] = {"requests": _resized(dice, requests)}
            status.setdefault(field, []).append(one)
    if dice.chance(30):
        status["conditions"] = [
            {
                "type": "PodResizePending",
                "status": "True",
                "reason": dice.pick(("Infeasible", "Deferred")),
            }
        ]


_STATUSES: Final = {
    "containerStatuses": "containers",
    "initContainerStatuses": "initContainers",
}
_STATUS: Final = {"ready": True, "restartCount": 0, "imageID": ""}


def _resized(dice: chance.Dice, requests: Raw) -> Raw:
    made = dict(requests)
    if "cpu" in made:
        made["cpu"] = dice.pick(("100m", "500m", "1", "2"))
    if "memory" in made:
        made["memory"] = dice.pick(("64Mi", "512Mi", "1Gi"))
    return made


def _container(dice: chance.Dice, called: str, pending: bool) -> Raw:
    made: Raw = {"name": called, "image": dice.pick(IMAGES)}
    requests = _requests(dice, pending)
    if requests:
        made["resources"] = {"requests": requests}
        whole = {key: value for key, value in requests.items() if key.startswith(_LIMITED)}
        if whole:
            made["resources"]["limits"] = whole
    if dice.about("ports", 75 if pending else 55, 4):
        made["ports"] = _ports(dice)
    return made


IMAGES: Final = (
    "registry.example/app:v1",
    "registry.example/side:v2",
    "registry.example/big",
    "registry.example/none:v1",
)
_LIMITED: Final = ("hugepages-", "example.com/", "vendor.example/")


def _init(dice: chance.Dice, called: str, pending: bool) -> Raw:
    made = _container(dice, called, pending)
    if dice.chance(40):
        made["restartPolicy"] = "Always"
    return made


def _requests(dice: chance.Dice, pending: bool) -> Raw:
    focus = "resources" in dice.focus
    if dice.chance(15):
        return {}
    made: Raw = {}
    if dice.chance(85):
        made["cpu"] = dice.pick(CPU if focus else CPU[:4])
    if dice.chance(80):
        made["memory"] = dice.pick(MEMORY)
    if dice.chance(25 if focus else 8):
        made["ephemeral-storage"] = dice.pick(DISK)
    if dice.chance(12 if focus else 2):
        made["hugepages-2Mi"] = dice.pick(("2Mi", "64Mi", "32Mi"))
        made.setdefault("cpu", "100m")
    if dice.chance((25 if pending else 12) if focus else 2):
        made["example.com/fpga"] = dice.pick(("1", "2", "1", "0"))
    if dice.chance(8 if focus else 0.5):
        made["vendor.example/nic"] = "1"
    return made


def _put_pod_level(dice: chance.Dice, spec: Raw) -> None:
    """Requests of the pod as a whole; the API server takes none below the containers' sum."""
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        container["resources"] = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    spec["resources"] = {"requests": {"cpu": dice.pick(("600m", "1", "2", "2500m"))}}
    if dice.chance(60):
        spec["resources"]["requests"]["memory"] = dice.pick(("512Mi", "1Gi", "2Gi"))


def _ports(dice: chance.Dice) -> list[Raw]:
    made = []
    for _ in range(dice.pick((1, 1, 2))):
        number, protocol = dice.pick(PORTS), dice.pick(PROTOCOLS)
        port: Raw = {"containerPort": number, "protocol": protocol}
        address = dice.pick(ADDRESSES)
        if dice.chance(90):
            port["hostPort"] = number
            if address:
                port["hostIP"] = address
        made.append(port)
    return made


def _drop_repeated_ports(listed: list[Raw]) -> None:
    """The API server takes each port of the node once per pod."""
    seen = set()
    for container in listed:
        kept = []
        for port in container.pop("ports", ()):
            key = (port["containerPort"], port["protocol"], port.get("hostIP", ""))
            if key not in seen:
                kept.append(port)
            seen.add(key)
        if kept:
            container["ports"] = kept
