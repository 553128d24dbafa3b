"""``pods/binding``: the one write that sets ``spec.nodeName``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hami_operator.cluster.memory import refusals

LABELS_SINCE_MINOR: Final = 35
"""From Kubernetes 1.35 a Binding carries labels, the node's topology, and ends a nomination."""
_TOPOLOGY: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


def check(name: str, namespace: str, binding: Mapping[str, Any]) -> None:
    """Refuse a Binding that does not fit its own path.

    Raises:
        refusals.Refused: 400 or 500 (sic), with the texts of the API server.
    """
    metadata = binding.get("metadata") or {}
    if metadata.get("namespace", namespace) != namespace:
        raise refusals.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if metadata.get("name") != name:
        raise refusals.bad_request("name in URL does not match name in Binding object")
    target = binding.get("target") or {}
    if target.get("kind", "Node") not in ("Node", ""):
        kind = refusals.quoted(target["kind"])
        text = f'target.kind: Unsupported value: {kind}: supported values: "Node", "<empty>"'
        raise refusals.Refused(500, "", text)
    if not target.get("name"):
        raise refusals.Refused(500, "", "target.name: Required value")


def assign(
    pod: Mapping[str, Any],
    binding: Mapping[str, Any],
    *,
    node: Mapping[str, Any] | None,
    now: str,
    minor: int,
) -> dict[str, Any]:
    """The pod as bound.

    Annotations and labels of the Binding are merged in **without any validation**, as the API
    server does: what is invalid makes each later update of the pod fail. The node need not exist.

    Args:
        pod: the stored pod.
        binding: what was sent; its UID and resourceVersion are preconditions.
        node: the node, if it exists: its topology labels are copied.
        now: the time, for the condition.
        minor: the minor version of the emulated API server.

    Raises:
        refusals.Refused: 409, with the texts of the API server.
    """
    meta, sent = pod["metadata"], binding["metadata"]
    _check_preconditions(meta, sent)
    name = meta["name"]
    if why := _obstacle(pod):
        raise refusals.conflict("pods/binding", name, f"pod {name} {why}")
    metadata = {
        **meta,
        "annotations": {**(meta.get("annotations") or {}), **(sent.get("annotations") or {})},
    }
    status = _scheduled(pod.get("status") or {}, now)
    if minor >= LABELS_SINCE_MINOR:
        labels = (sent.get("labels") or {}) | _topology(node)
        if labels:
            metadata["labels"] = {**(meta.get("labels") or {}), **labels}
        status.pop("nominatedNodeName", None)
    spec = {**pod["spec"], "nodeName": binding["target"]["name"]}
    return {**pod, "metadata": metadata, "spec": spec, "status": status}


def _check_preconditions(meta: Mapping[str, Any], sent: Mapping[str, Any]) -> None:
    for name, label in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        if sent.get(name) and sent[name] != meta[name]:
            key = f"/registry/pods/{meta['namespace']}/{meta['name']}"
            raise refusals.conflict(
                "pods", meta["name"], precondition_text(key, label, sent[name], meta[name])
            )


def precondition_text(key: str, label: str, asked: str, found: str) -> str:
    """How the API server words a precondition that does not hold."""
    return (
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: {label} in precondition: {asked}, "
        f"{label} in object meta: {found}"
    )


def _obstacle(pod: Mapping[str, Any]) -> str:
    spec = pod["spec"]
    if pod["metadata"].get("deletionTimestamp"):
        return "is being deleted, cannot be assigned to a host"
    if spec.get("nodeName"):
        return f"is already assigned to node {refusals.quoted(spec['nodeName'])}"
    return "has non-empty .spec.schedulingGates" if spec.get("schedulingGates") else ""


def _topology(node: Mapping[str, Any] | None) -> dict[str, str]:
    labels = (node or {}).get("metadata", {}).get("labels") or {}
    return {key: labels[key] for key in _TOPOLOGY if key in labels}


def _scheduled(status: Mapping[str, Any], now: str) -> dict[str, Any]:
    condition = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": now,
    }
    conditions = list(status.get("conditions") or ())
    for index, old in enumerate(conditions):
        if old.get("type") == "PodScheduled":
            conditions[index] = condition
            break
    else:
        conditions.append(condition)
    return {**status, "conditions": conditions}
