"""Reviews over the wire: versions, refusals, and bodies of every kind of nonsense."""

from __future__ import annotations

import base64
import copy
from typing import Any

import orjson
import pytest
from hypothesis import given as hypothesis
from hypothesis import settings
from hypothesis import strategies as st

from hami_operator.admission import mutate, review, verdict
from tests.unit.admission import given

KNOWN = given.known(quotas={"limits.nvidia.com/gpumem": 5000})
STRICT = given.known(strict=True)
GPU = {"nvidia.com/gpu": "1"}


# ---- answers


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_review_is_answered_in_its_own_version(version: str) -> None:
    raw = orjson.dumps(given.reviewed(given.pod(GPU).raw(), version=version))
    reply = review.respond(raw, KNOWN)
    answer = orjson.loads(reply.body)
    assert (reply.status, reply.content_type, reply.result) == (200, "application/json", "patched")
    patch = [
        {"op": "replace", "path": "/spec/schedulerName", "value": given.OURS},
        {
            "op": "add",
            "path": "/spec/containers/0/resources/limits/nvidia.com~1gpucores",
            "value": "100",
        },
    ]
    assert orjson.loads(base64.b64decode(answer["response"].pop("patch"))) == patch
    assert answer == {
        "apiVersion": f"admission.k8s.io/{version}",
        "kind": "AdmissionReview",
        "response": {"uid": "review-uid", "allowed": True, "patchType": "JSONPatch"},
    }


def test_where_nothing_changes_there_is_no_patch() -> None:
    response = given.respond(given.pod({"cpu": "1"}).raw(), KNOWN)
    assert response == {"uid": "review-uid", "allowed": True}


def test_a_refusal_has_code_reason_and_words() -> None:
    response = given.respond(given.pod(GPU).on("n1").raw(), KNOWN)
    message = response["status"].pop("message")
    assert message.startswith("pod has node assigned: n1; ")
    assert response == {
        "uid": "review-uid",
        "allowed": False,
        "status": {"code": 403, "reason": "Forbidden"},
    }


def test_messages_and_warnings_are_cut_where_nobody_reads_on() -> None:
    wordy = given.pod(GPU).annotate({"hami.io/gpu-scheduler-policy": "x" * 9999})
    (warning,) = given.respond(wordy.raw(), KNOWN)["warnings"]
    refused = given.respond(given.pod({"nvidia.com/gpu": "9" * 9999}).raw(), KNOWN)
    assert len(warning) == len(refused["status"]["message"]) == verdict.LONGEST


def test_the_requests_namespace_counts_where_the_pod_names_none() -> None:
    wanted = given.pod({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 9000}).raw()
    del wanted["metadata"]["namespace"]
    assert not given.respond(wanted, KNOWN)["allowed"]
    assert given.respond(wanted, KNOWN, namespace="other")["allowed"]
    assert not given.respond(wanted, KNOWN, namespace="")["allowed"], "default is the default"
    wanted["metadata"]["namespace"] = "other"
    assert given.respond(wanted, KNOWN, namespace="")["allowed"]


@pytest.mark.parametrize(
    "request_",
    [{"operation": "UPDATE"}, {"operation": "DELETE"}, {"subResource": "ephemeralcontainers"}],
    ids=str,
)
def test_only_pods_that_are_created_are_looked_at(request_: dict[str, Any]) -> None:
    response = given.respond(given.pod(GPU).on("n1").raw(), KNOWN, **request_)
    assert response["allowed"]
    assert "patch" not in response
    assert given.respond(None, KNOWN, operation="DELETE")["allowed"]


# ---- what is no review

GOOD = given.reviewed(given.pod(GPU).raw())


def changed(**request: Any) -> bytes:
    return orjson.dumps({**GOOD, "request": {**GOOD["request"], **request}})


UNREADABLE = {
    "nothing": (b"", "is not JSON"),
    "a word": (b"hello", "is not JSON"),
    "bytes": (b"\xff\xfe", "is not JSON"),
    "half of it": (orjson.dumps(GOOD)[:-20], "is not JSON"),
    "a list 10,000 deep": (b"[" * 10_000 + b"]" * 10_000, "is not JSON"),
    "an object 10,000 deep": (b'{"a":' * 10_000 + b"1" + b"}" * 10_000, "is not JSON"),
    "half of a character": (b'{"kind": "\\ud800"}', "is not JSON"),
    "null": (b"null", "kind: is not AdmissionReview"),
    "a number": (b"7", "kind: is not AdmissionReview"),
    "a number beyond all": (b"1e400", "is not JSON"),
    "another kind": (orjson.dumps({**GOOD, "kind": "Pod"}), "kind: is not AdmissionReview"),
    "another version": (
        orjson.dumps({**GOOD, "apiVersion": "admission.k8s.io/v2"}),
        "apiVersion: is none of admission.k8s.io/v1, admission.k8s.io/v1beta1",
    ),
    "a version that is a list": (orjson.dumps({**GOOD, "apiVersion": []}), "apiVersion"),
    "no request": (orjson.dumps({**GOOD, "request": None}), "request.uid: is missing"),
    "a request that is a list": (orjson.dumps({**GOOD, "request": []}), "request: is not an obj"),
    "no uid": (changed(uid=""), "request.uid: is missing"),
    "a uid that is a number": (changed(uid=7), "uid: is not a text"),
    "no pod": (changed(object=None), "request.object: is not a Pod"),
    "a pod that is a text": (changed(object="pod"), "request.object: is not a Pod"),
    "no kind": (changed(kind=None), "request.object: is not a Pod"),
    "another kind of object": (changed(kind={"group": "apps", "kind": "Deployment"}), "not a Pod"),
    "a Pod of another group": (changed(kind={"group": "x.io", "kind": "Pod"}), "is not a Pod"),
    "a spec that is a text": (changed(object={"spec": "x"}), "pod: spec: is not an object"),
}


@pytest.mark.parametrize(("body", "why"), UNREADABLE.values(), ids=UNREADABLE)
def test_what_cannot_be_read_is_refused_with_400(body: bytes, why: str) -> None:
    reply = review.respond(body, KNOWN)
    assert (reply.status, reply.content_type, reply.result) == (400, "text/plain", "unreadable")
    assert why in reply.body.decode()
    assert review.respond(orjson.dumps(GOOD), KNOWN).status == 200


# ---- any JSON at all

TEXT = st.text(max_size=8)
NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
LEAVES = st.none() | st.booleans() | NUMBERS | TEXT
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=15,
)
NAMES = st.sampled_from([*sorted(given.REGISTRY.resource_names), "cpu", "memory"])
BAD = ["16Gi", "0.5", "-1", "", "9" * 30, "x", "150"]
AMOUNTS = st.sampled_from([*(["1", "2", 1, "2k", "4", "50"] * 8), *BAD])
QUANTITIES = st.dictionaries(NAMES, AMOUNTS, max_size=5)
EXTRA = st.dictionaries(st.sampled_from(["x", "y/z", "~"]), JSON, max_size=2)
NAMED = st.sampled_from(["CUDA_TASK_PRIORITY", "SOL_CONTINER_NAME", "A", "B"])
ENTRY = st.builds(lambda name, extra: {**extra, "name": name}, NAMED, EXTRA)
CONTAINER = st.builds(
    lambda limits, requests, env, privileged, extra, name: {
        **extra,
        "name": name,
        "env": env,
        "resources": {**extra, "limits": limits, "requests": requests},
        "securityContext": {"privileged": privileged},
    },
    QUANTITIES,
    st.none() | QUANTITIES,
    st.none() | st.lists(ENTRY, max_size=4),
    st.sampled_from([*([None, False] * 8), True]),
    EXTRA,
    TEXT,
)
KEYS = st.sampled_from(
    [
        *sorted(given.REGISTRY.owned_pod_keys),
        *("hami.io/gpu-scheduler-policy", "hami.io/device-scoring-weights", "nvidia.com/gpumem"),
        *("nvidia.com/vgpu-mode", "huawei.com/vnpu-mode", "metax-tech.com/sgpu-app-class", "team"),
    ]
)
POD = st.builds(
    lambda annotations, labels, scheduler, node, inits, apps, extra: {
        **extra,
        "metadata": {**extra, "annotations": annotations, "labels": labels},
        "spec": {
            **extra,
            "schedulerName": scheduler,
            "nodeName": node,
            "initContainers": inits,
            "containers": apps,
        },
    },
    st.none() | st.dictionaries(KEYS, TEXT, max_size=3),
    st.none() | st.dictionaries(st.sampled_from(["hami.io/vgpu-node", "app"]), TEXT, max_size=2),
    st.sampled_from([None, "", given.OURS, *(["default-scheduler"] * 4), "foo"]),
    st.sampled_from([*([None, ""] * 8), "n1"]),
    st.none() | st.lists(CONTAINER, max_size=2),
    st.lists(CONTAINER, min_size=1, max_size=3),
    EXTRA,
)


@settings(deadline=None)
@hypothesis(st.binary(max_size=200))
def test_no_bytes_crash_it(body: bytes) -> None:
    assert review.respond(body, KNOWN).status == 400


@settings(deadline=None)
@hypothesis(JSON)
def test_no_json_crashes_it(body: Any) -> None:
    assert review.respond(orjson.dumps(body), KNOWN).status == 400


@settings(deadline=None)
@hypothesis(st.dictionaries(st.sampled_from(sorted(GOOD["request"])), JSON, max_size=3))
def test_no_request_crashes_it(request: dict[str, Any]) -> None:
    assert review.respond(changed(**request), KNOWN).status in (200, 400)


@settings(deadline=None)
@hypothesis(JSON, st.sampled_from(["metadata", "spec", "container", "resources", "object"]))
def test_no_part_of_a_pod_crashes_it(part: Any, where: str) -> None:
    container = part if where == "container" else {"resources": part}
    pod = {
        "metadata": part if where == "metadata" else {},
        "spec": part if where == "spec" else {"containers": [container]},
    }
    body = changed(object=part if where == "object" else pod)
    assert review.respond(body, KNOWN).status in (200, 400)


@pytest.mark.parametrize("strict", [False, True])
@settings(deadline=None)
@hypothesis(pod=POD)
def test_a_pod_is_patched_into_what_mutate_says_and_keeps_what_nobody_knows(
    strict: bool, pod: dict[str, Any]
) -> None:
    known = STRICT if strict else KNOWN
    found = mutate.admit_pod(copy.deepcopy(pod), given.NAMESPACE, known)
    response = given.respond(pod, known)
    assert response["allowed"] is isinstance(found, verdict.Allowed)
    if isinstance(found, verdict.Allowed):
        after = given.applied(pod, response)
        assert after == found.raw
        assert _unknown(pod) == _unknown(after)
        if _is_limited(pod):
            again = mutate.admit_pod(after, given.NAMESPACE, known)
            assert isinstance(again, verdict.Allowed)
            assert again.raw == after, "a second call changes nothing"


def _is_limited(pod: Any) -> bool:
    """Every request has its limit, as the API server demands of such resources."""
    spec = pod["spec"]
    resources = [
        one["resources"] for one in (*(spec["initContainers"] or ()), *spec["containers"])
    ]
    return all((one["requests"] or {}).keys() <= one["limits"].keys() for one in resources)


def _unknown(pod: Any) -> list[Any]:
    """Everything that no rule of ours speaks of, in its place."""
    spec, meta = pod["spec"], pod["metadata"]
    ours = {"schedulerName", "initContainers", "containers", "runtimeClassName"}
    containers = [*(spec["initContainers"] or ()), *spec["containers"]]
    forged = given.REGISTRY.owned_pod_keys
    owned = {*forged, "mthreads.com/request-gpu-num", "metax-tech.com/sgpu-qos-policy"}
    return [
        _without(pod, {"metadata", "spec"}),
        _without(meta, {"annotations", "labels"}),
        _without(meta["annotations"] or {}, owned),
        _without(meta["labels"] or {}, {"hami.io/vgpu-node"}),
        _without(spec, ours),
        [_without(one, {"env", "resources"}) for one in containers],
        [_without(one["resources"], {"limits", "requests"}) for one in containers],
        [[entry for entry in one["env"] or () if entry["name"] == "A"] for one in containers],
    ]


def _without(obj: dict[str, Any], keys: set[str] | frozenset[str]) -> dict[str, Any]:
    return {key: value for key, value in obj.items() if key not in keys}
