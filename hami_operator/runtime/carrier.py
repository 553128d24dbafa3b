"""What the writes of a decision carry: the Binding, a PATCH before it, one that undoes it.

A Binding brings annotations and labels onto the pod in the very write that gives it its node,
so decision and node cannot drift apart. It cannot remove a key, hence the PATCH.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from hami_operator.devices import registry as registries
from hami_operator.protocol import keys
from hami_operator.scheduling import pod as pods
from hami_operator.scheduling import written


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Carrier:
    """How decisions travel on this cluster (D9).

    Attributes:
        always_patch: write each decision with a PATCH before its Binding.
        labels_in_binding: the API server merges labels of a Binding, as it does from 1.35 on.
    """

    always_patch: bool = False
    labels_in_binding: bool = True

    @classmethod
    def choose(cls, decision_carrier: str, server: tuple[int, int]) -> Carrier:
        """From the setting and the API server's version."""
        return cls(always_patch=decision_carrier == "patch", labels_in_binding=server >= (1, 35))

    def needs_patch(self, decision: written.Decision) -> bool:
        """Whether a PATCH goes before the Binding."""
        stale = bool(decision.stale_keys or decision.stale_labels)
        return stale or (self.always_patch and bool(decision.annotations))

    def late_labels(self, decision: written.Decision) -> Mapping[str, str]:
        """Labels that neither the Binding nor a PATCH before it has brought onto the pod."""
        if self.labels_in_binding or self.needs_patch(decision):
            return {}
        return decision.labels

    def binding(self, pod: pods.Pod, decision: written.Decision) -> Mapping[str, Any]:
        """The Binding, with the pod's UID and version as preconditions."""
        metadata: dict[str, Any] = {
            "name": pod.name,
            "namespace": pod.namespace,
            **_preconditions(pod),
        }
        if not self.needs_patch(decision):
            if decision.annotations:
                metadata["annotations"] = dict(decision.annotations)
            if decision.labels and self.labels_in_binding:
                metadata["labels"] = dict(decision.labels)
        target = {"apiVersion": "v1", "kind": "Node", "name": decision.node}
        return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}


def patch(pod: pods.Pod, decision: written.Decision) -> Mapping[str, Any]:
    """The whole decision in one merge patch, which also removes what is stale."""
    annotations = {**dict.fromkeys(decision.stale_keys), **decision.annotations}
    labels = {**dict.fromkeys(decision.stale_labels), **decision.labels}
    return {
        "metadata": {**_preconditions(pod), "annotations": annotations, "labels": labels},
    }


def undo(pod: pods.Pod, decision: written.Decision) -> Mapping[str, Any]:
    """Removes what `patch` wrote and the pod still carries; empty where it carries nothing."""
    annotations = [key for key in decision.annotations if key in pod.annotations]
    labels = [key for key in decision.labels if key in pod.labels]
    if not annotations and not labels:
        return {}
    return {
        "metadata": {
            **_preconditions(pod),
            "annotations": dict.fromkeys(annotations),
            "labels": dict.fromkeys(labels),
        },
    }


def label(pod: pods.Pod, labels: Mapping[str, str]) -> Mapping[str, Any]:
    """Labels that follow a Binding; the UID keeps them off a later pod of that name."""
    return {"metadata": {"uid": pod.uid, "labels": dict(labels)}}


def carried_by(pod: pods.Pod, decision: written.Decision) -> bool:
    """Whether the pod bears this very decision, served or not: node and time of it are equal."""
    return all(
        pod.annotations.get(key) == decision.annotations.get(key)
        for key in (keys.VGPU_NODE, keys.VGPU_TIME)
        if key in decision.annotations
    )


def refreshed(
    decision: written.Decision, pod: pods.Pod, registry: registries.Registry
) -> written.Decision:
    """The same decision for a newer version of its pod, which may carry other stale keys."""
    owned = registry.owned_pod_keys
    return dataclasses.replace(
        decision,
        stale_keys=_stale(pod.annotations, owned, decision.annotations),
        stale_labels=_stale(pod.labels, frozenset({keys.VGPU_NODE}), decision.labels),
    )


def _stale(
    present: Mapping[str, str], owned: frozenset[str], kept: Mapping[str, str]
) -> tuple[str, ...]:
    return tuple(sorted(key for key in present if key in owned and key not in kept))


def _preconditions(pod: pods.Pod) -> dict[str, str]:
    if not pod.resource_version:
        return {"uid": pod.uid}
    return {"uid": pod.uid, "resourceVersion": pod.resource_version}
