"""What is particular to a kind when one of its objects is created or changed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Final

from hami_operator.cluster.memory import events, pods, records, refusals, resources

Object = dict[str, Any]
Lookup = Callable[[resources.Resource, records.Key], records.Record | None]

NOT_READY: Final = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
_STANDARD_POLICY: Final = "PreemptLowerPriority"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """What defaults depend on: the time, and what else is in the store."""

    now: str
    lookup: Lookup
    classes: Callable[[], list[Mapping[str, Any]]]


def fill(obj: Object, resource: resources.Resource, context: Context) -> Object:
    """A new object with the API server's defaults; changes ``obj``.

    Raises:
        refusals.Refused: 403, a pod names a priority that its class does not have.
    """
    fill_kind = _FILL.get(resource.bucket)
    if fill_kind:
        return fill_kind(obj, context)
    if resource.status:
        obj.pop("status", None)
    return obj


def _fill_pod(pod: Object, context: Context) -> Object:
    spec = pod.get("spec") or {}
    name = pod["metadata"].get("name", "")
    found = _priority_class(spec.get("priorityClassName", ""), name, context)
    priority = found.get("value", 0)
    if spec.get("priority", priority) != priority:
        why = (
            f"the integer value of priority ({spec['priority']}) must not be provided in pod "
            f"spec; priority admission controller computed {priority} from the given "
            "PriorityClass name"
        )
        raise refusals.forbidden("pods", name, why)
    if found:
        spec["priorityClassName"] = found["metadata"]["name"]
    policy = found.get("preemptionPolicy", _STANDARD_POLICY)
    return pods.fill(pod, now=context.now, priority=priority, policy=policy)


def _priority_class(name: str, pod_name: str, context: Context) -> Mapping[str, Any]:
    if not name:
        return next((found for found in context.classes() if found.get("globalDefault")), {})
    record = context.lookup(resources.PRIORITY_CLASSES, ("", name))
    if record is None:
        raise refusals.forbidden("pods", pod_name, f"no PriorityClass with name {name} was found")
    return record.obj


def _fill_node(node: Object, context: Context) -> Object:
    """Like every new Node, it is not ready: the NoSchedule taint stays until it is removed."""
    spec = node.setdefault("spec", {})
    taints = spec.get("taints") or []
    if not any(taint.get("key") == NOT_READY["key"] for taint in taints):
        spec["taints"] = [*taints, dict(NOT_READY)]
    return node


def _fill_namespace(namespace: Object, context: Context) -> Object:
    metadata = namespace["metadata"]
    name = metadata.get("name", "")
    metadata["labels"] = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": name}
    namespace["spec"] = {"finalizers": ["kubernetes"]}
    namespace["status"] = {"phase": "Active"}
    return namespace


def _fill_claim(claim: Object, context: Context) -> Object:
    claim["status"] = {"phase": "Pending"}
    return claim


def _fill_priority_class(priority_class: Object, context: Context) -> Object:
    priority_class.setdefault("preemptionPolicy", _STANDARD_POLICY)
    return priority_class


def _fill_event(event: Object, context: Context) -> Object:
    event.setdefault("source", {})
    return event


_FILL: Final[Mapping[str, Callable[[Object, Context], Object]]] = {
    "pods": _fill_pod,
    "nodes": _fill_node,
    "namespaces": _fill_namespace,
    "persistentvolumeclaims": _fill_claim,
    "persistentvolumes": _fill_claim,
    "priorityclasses.scheduling.k8s.io": _fill_priority_class,
    "events": _fill_event,
}


def check_create(obj: Mapping[str, Any], resource: resources.Resource) -> list[refusals.Cause]:
    """What is wrong with a new object, apart from its metadata."""
    if resource.bucket == "events":
        return events.check_create(obj, resource)
    if resource is resources.PODS:
        return pods.check_create(obj)
    return _check_lease(obj) if resource is resources.LEASES else []


def check_update(
    new: Mapping[str, Any], old: Mapping[str, Any], resource: resources.Resource
) -> list[refusals.Cause]:
    """What is wrong with a change, apart from the metadata."""
    if resource.bucket == "events":
        return events.check_update(new, old, resource)
    if resource is resources.PODS:
        return pods.check_update(new, old)
    return _check_lease(new) if resource is resources.LEASES else []


def _check_lease(lease: Mapping[str, Any]) -> list[refusals.Cause]:
    spec = lease.get("spec") or {}
    causes = []
    duration = spec.get("leaseDurationSeconds")
    if duration is not None and duration <= 0:
        causes.append(
            refusals.wrong("spec.leaseDurationSeconds", duration, "must be greater than 0")
        )
    transitions = spec.get("leaseTransitions")
    if transitions is not None and transitions < 0:
        why = "must be greater than or equal to 0"
        causes.append(refusals.wrong("spec.leaseTransitions", transitions, why))
    return causes
