"""Rules for Pods: defaults, validation, and what an update may change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from hami_operator.cluster.memory import metadata, quantities, refusals

Object = dict[str, Any]

DEFAULT_TOLERATION_S: Final = 300
_SPEC_DEFAULTS: Final[Mapping[str, Any]] = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "securityContext": {},
    "schedulerName": "default-scheduler",
    "enableServiceLinks": True,
}
_NO_EXECUTE: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_STANDARD: Final = ("cpu", "memory", "ephemeral-storage")
_LISTS: Final = ("initContainers", "containers", "ephemeralContainers")
_MUTABLE: Final = (
    "activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "schedulingGates",
)  # fmt: skip
_MUTABLE_WHILE_GATED: Final = ("nodeSelector", "affinity")
_FORBIDDEN: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
    "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be "
    "set to 1 if it was previously negative)"
)
_UNQUALIFIED: Final = (
    "must be a standard resource type or fully qualified",
    "must be a standard resource for containers",
)


def fill(pod: Object, *, now: str, priority: int, policy: str) -> Object:
    """A new pod with the defaults of the API server; changes ``pod``.

    Args:
        pod: the decoded pod; its status is replaced.
        now: the time, for conditions.
        priority: of its PriorityClass.
        policy: preemptionPolicy of its PriorityClass.
    """
    spec = pod.setdefault("spec", {})
    for name, value in _SPEC_DEFAULTS.items():
        spec.setdefault(name, value)
    spec.setdefault("preemptionPolicy", policy)
    spec["priority"] = priority
    for container in _containers(spec):
        _fill_container(container)
    _fill_tolerations(spec)
    pod["status"] = {"phase": "Pending", "qosClass": _quality(spec)}
    if spec.get("schedulingGates"):
        pod["status"]["conditions"] = [_gated_condition(now)]
    return pod


def _containers(spec: Mapping[str, Any]) -> Iterator[Object]:
    for name in _LISTS:
        yield from spec.get(name) or ()


def _fill_container(container: Object) -> None:
    image = container.get("image", "")
    latest = ":" not in image.rpartition("/")[2] or image.endswith(":latest")
    container.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    wanted = container.setdefault("resources", {})
    if wanted.get("limits"):
        wanted["requests"] = {**wanted["limits"], **(wanted.get("requests") or {})}
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")


def _fill_tolerations(spec: Object) -> None:
    tolerations = list(spec.get("tolerations") or ())
    for key in _NO_EXECUTE:
        covered = any(
            entry.get("key") in (key, None, "") and entry.get("effect") in ("NoExecute", None, "")
            for entry in tolerations
        )
        if not covered:
            tolerations.append(
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": DEFAULT_TOLERATION_S,
                }
            )
    spec["tolerations"] = tolerations


def _gated_condition(now: str) -> Object:
    return {
        "type": "PodScheduled",
        "status": "False",
        "lastProbeTime": None,
        "lastTransitionTime": now,
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    }


def _quality(spec: Mapping[str, Any]) -> str:
    """The QoS class, from cpu and memory of all containers."""
    containers = [one for name in _LISTS[:2] for one in spec.get(name) or ()]
    amounts = [
        one["resources"].get(side) or {} for one in containers for side in ("limits", "requests")
    ]
    if not any(name in amount for amount in amounts for name in ("cpu", "memory")):
        return "BestEffort"
    for container in containers:
        limits = container["resources"].get("limits") or {}
        requests = container["resources"].get("requests") or {}
        for name in ("cpu", "memory"):
            if name not in limits or requests.get(name) != limits[name]:
                return "Burstable"
    return "Guaranteed"


def check_create(pod: Mapping[str, Any]) -> list[refusals.Cause]:
    """What is wrong with the specification of a new pod."""
    spec = pod.get("spec") or {}
    if not spec.get("containers"):
        return [refusals.required("spec.containers")]
    return [
        cause
        for name in _LISTS[:2]
        for index, container in enumerate(spec.get(name) or ())
        for cause in _check_container(container, f"spec.{name}[{index}]")
    ]


def _check_container(container: Mapping[str, Any], where: str) -> Iterator[refusals.Cause]:
    for name in ("name", "image"):
        if not container.get(name):
            yield refusals.required(f"{where}.{name}")
    wanted = container.get("resources") or {}
    limits, requests = wanted.get("limits") or {}, wanted.get("requests") or {}
    yield from _check_amounts(limits, f"{where}.resources.limits")
    yield from _check_amounts(requests, f"{where}.resources.requests")
    for name in requests:
        yield from _check_pair(name, requests[name], limits.get(name), f"{where}.resources")


def _check_amounts(amounts: Mapping[str, str], where: str) -> Iterator[refusals.Cause]:
    for name, text in amounts.items():
        field = f"{where}[{name}]"
        if not _is_standard(name) and not _is_extended(name):
            yield from (refusals.wrong(field, name, why) for why in _UNQUALIFIED)
        elif fault := metadata.qualified_name_fault(name):
            yield refusals.wrong(field, name, fault)
        number = quantities.parse(text)
        if number < 0:
            yield refusals.wrong(field, text, "must be greater than or equal to 0")
        elif _is_extended(name) and number.denominator != 1:
            yield refusals.wrong(field, text, "must be an integer")


def _check_pair(
    name: str, request: str, limit: str | None, where: str
) -> Iterator[refusals.Cause]:
    if limit is None:
        if _is_extended(name):
            why = "Limit must be set for non overcommitable resources"
            yield refusals.required(f"{where}.limits", why)
    elif _is_extended(name):
        if quantities.parse(request) != quantities.parse(limit):
            why = f"must be equal to {name} limit of {limit}"
            yield refusals.wrong(f"{where}.requests", request, why)
    elif quantities.parse(request) > quantities.parse(limit):
        why = f"must be less than or equal to {name} limit of {limit}"
        yield refusals.wrong(f"{where}.requests", request, why)


def _is_standard(name: str) -> bool:
    return name in _STANDARD or name.startswith("hugepages-")


def _is_extended(name: str) -> bool:
    return "/" in name and "kubernetes.io/" not in name


def check_update(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[refusals.Cause]:
    """What is wrong with a change of the specification: nearly all of it is immutable."""
    new_spec, old_spec = new.get("spec") or {}, old.get("spec") or {}
    if new_spec is old_spec or new_spec == old_spec:
        return []
    causes = _check_gates(new_spec, old_spec)
    tolerations = new_spec.get("tolerations") or []
    kept = all(entry in tolerations for entry in old_spec.get("tolerations") or [])
    gated = bool(old_spec.get("schedulingGates"))
    if not kept or _fixed(new_spec, gated=gated) != _fixed(old_spec, gated=gated):
        causes.append(refusals.forbidden_field("spec", _FORBIDDEN))
    return causes


def _check_gates(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[refusals.Cause]:
    before = {gate["name"] for gate in old.get("schedulingGates") or ()}
    why = "only deletion is allowed, but found new scheduling gate"
    return [
        refusals.forbidden_field(f"spec.schedulingGates[{index}].name", f"{why} '{gate['name']}'")
        for index, gate in enumerate(new.get("schedulingGates") or ())
        if gate["name"] not in before
    ]


def _fixed(spec: Mapping[str, Any], *, gated: bool) -> Object:
    """The part of a specification that may not change."""
    mutable = (*_MUTABLE, *_MUTABLE_WHILE_GATED) if gated else _MUTABLE
    fixed = {key: value for key, value in spec.items() if key not in mutable}
    for name in _LISTS[:2]:
        if name in fixed:
            fixed[name] = [{**container, "image": ""} for container in fixed[name]]
    return fixed


def settle_status(new: Mapping[str, Any], old: Mapping[str, Any]) -> Object:
    """The status of an update of the status subresource: the QoS class stays."""
    status = dict(new.get("status") or {})
    status.setdefault("qosClass", (old.get("status") or {}).get("qosClass", "BestEffort"))
    return status


def grace_s(pod: Mapping[str, Any], asked_s: int | None) -> int:
    """How long the deletion of the pod takes: nothing if no node has it, or it has ended."""
    spec = pod.get("spec") or {}
    ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    if not spec.get("nodeName") or ended:
        return 0
    grace = spec.get("terminationGracePeriodSeconds", 30) if asked_s is None else asked_s
    return grace if grace >= 0 else 1
