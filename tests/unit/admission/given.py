"""What the tests of admission share: rules, pods as the API server sends them, reviews."""

from __future__ import annotations

import base64
import copy
from collections.abc import Mapping
from typing import Any

import orjson

from hami_operator.admission import mutate, review, rules, verdict
from hami_operator.cluster.memory import patches
from hami_operator.devices import registry as registries
from hami_operator.devices import usage
from hami_operator.scheduling import policy, quota
from tests import builders

OURS = "hami-scheduler"
NAMESPACE = "default"
REGISTRY = registries.default()


def known(
    registry: registries.Registry = REGISTRY,
    *,
    quotas: Mapping[str, Any] | None = None,
    used: Mapping[str, usage.Usage] | None = None,
    **options: Any,
) -> rules.Rules:
    """Rules with policies, and with ResourceQuotas of the namespace where some are given."""
    limits = None if quotas is None else _limits(registry, quotas, used or {})
    return rules.build(
        registry,
        **{
            "scheduler_name": OURS,
            "preferences": lambda annotations: policy.read(
                annotations, node_setting="binpack", card_setting="spread"
            ),
            "limits": limits,
            **options,
        },
    )


def _limits(
    registry: registries.Registry, hard: Mapping[str, Any], used: Mapping[str, usage.Usage]
) -> rules.Limits:
    found = quota.Quotas(registry)
    meta = {"name": "q", "namespace": NAMESPACE, "uid": "q"}
    assert not found.seen({"metadata": meta, "spec": {"hard": dict(hard)}}).findings

    def limits(namespace: str) -> rules.Accounts | None:
        if not found.limits(namespace):
            return None
        return lambda row: found.account(namespace, row, used.get(row.keyword, usage.UNUSED))

    return limits


def pod(limits: Mapping[str, Any] | None = None) -> builders.PodBuilder:
    """A pod as the API server shows it to us: its defaults are there already."""
    made = builders.PodBuilder({"metadata": {"name": "p", "namespace": NAMESPACE}, "spec": {}})
    made = made.scheduler("default-scheduler")
    return made if limits is None else with_container(made, "c", limits)


def with_container(
    made: builders.PodBuilder, name: str, limits: Mapping[str, Any], **more: Any
) -> builders.PodBuilder:
    """One more app container; requests follow limits, as the API server has it."""
    resources = {"limits": dict(limits), "requests": dict(limits)}
    return made.append("spec.containers", {"name": name, "resources": resources, **more})


def with_init(
    made: builders.PodBuilder, name: str, limits: Mapping[str, Any], **more: Any
) -> builders.PodBuilder:
    """One more init container."""
    resources = {"limits": dict(limits), "requests": dict(limits)}
    return made.append("spec.initContainers", {"name": name, "resources": resources, **more})


def admit(
    made: builders.PodBuilder, given: rules.Rules | None = None, namespace: str = NAMESPACE
) -> verdict.Verdict:
    """The verdict; the object that came must be as it was."""
    raw = made.raw()
    before = copy.deepcopy(raw)
    found = mutate.admit_pod(raw, namespace, given or known())
    assert raw == before
    return found


def reviewed(obj: Any, *, version: str = "v1", **request: Any) -> dict[str, Any]:
    """An AdmissionReview of a creation."""
    return {
        "apiVersion": f"admission.k8s.io/{version}",
        "kind": "AdmissionReview",
        "request": {
            "uid": "review-uid",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "operation": "CREATE",
            "namespace": NAMESPACE,
            "object": obj,
            **request,
        },
    }


def respond(obj: Any, given: rules.Rules | None = None, **request: Any) -> dict[str, Any]:
    """The response to a review that can be read."""
    reply = review.respond(orjson.dumps(reviewed(obj, **request)), given or known())
    assert reply.status == 200, reply.body
    answer: dict[str, Any] = orjson.loads(reply.body)["response"]
    return answer


def applied(obj: Any, response: Mapping[str, Any]) -> Any:
    """The object with the patch of a response applied."""
    if "patch" not in response:
        return obj
    assert response["patchType"] == "JSONPatch"
    return patches.apply_operations(obj, orjson.loads(base64.b64decode(response["patch"])))
