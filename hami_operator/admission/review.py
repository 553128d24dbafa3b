"""An AdmissionReview as it comes over the wire, and its answer."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Mapping
from typing import Any, Final

import orjson

from hami_operator import errors
from hami_operator.admission import edit, mutate, pod, rules, verdict

VERSIONS: Final = frozenset({"admission.k8s.io/v1", "admission.k8s.io/v1beta1"})
"""Versions of the review that are understood; each is answered in its own."""

_JSON: Final = "application/json"
_TEXT: Final = "text/plain"
_CREATE: Final = "CREATE"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """What goes back.

    Attributes:
        status: of HTTP.
        body: the answering review, or a sentence on why there is none.
        content_type: of the body.
        result: ``allowed``, ``patched``, ``denied`` or ``unreadable``, for the metric.
    """

    status: int
    body: bytes
    content_type: str
    result: str


def respond(body: bytes, known: rules.Rules) -> Reply:
    """Answer a review; what cannot be read is answered with 400, and nothing is ever raised.

    Args:
        body: as it came.
        known: what admission goes by.
    """
    try:
        review = _decode(body)
        asked = pod.field(review, "request", dict, pod.EMPTY)
        uid = _uid(asked)
        found = _judge(asked, known)
    except errors.DecodeError as error:
        return unreadable(400, str(error))
    response, result = _response(uid, asked.get("object"), found)
    answer = {
        "apiVersion": review["apiVersion"],
        "kind": "AdmissionReview",
        "response": response,
    }
    return Reply(
        status=200, body=orjson.dumps(answer), content_type=_JSON, result=result
    )  # fmt: skip


def unreadable(status: int, why: str) -> Reply:
    """The answer to what is no review; the API server then does as the failure policy says."""
    text = verdict.shortened(f"not a review of a pod: {why}")
    return Reply(
        status=status,
        body=text.encode(errors="replace"),
        content_type=_TEXT,
        result="unreadable",
    )


def _decode(body: bytes) -> Mapping[str, Any]:
    try:
        review = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise errors.DecodeError("review", "body", f"is not JSON: {error}") from error
    if not isinstance(review, dict) or review.get("kind") != "AdmissionReview":
        raise errors.DecodeError("review", "kind", "is not AdmissionReview")
    version = review.get("apiVersion")
    if not isinstance(version, str) or version not in VERSIONS:
        raise errors.DecodeError(
            "review", "apiVersion", f"is none of {', '.join(sorted(VERSIONS))}"
        )
    return review


def _uid(asked: Mapping[str, Any]) -> str:
    uid = pod.field(asked, "uid", str, "")
    if not uid:
        raise errors.DecodeError("review", "request.uid", "is missing")
    return uid


def _judge(asked: Mapping[str, Any], known: rules.Rules) -> verdict.Verdict:
    """Pods that are created are judged; whatever else somebody registers us for goes through."""
    if pod.field(asked, "operation", str, _CREATE) != _CREATE or asked.get("subResource"):
        return verdict.Allowed(raw={}, message="only pods that are created are looked at")
    kind = pod.field(asked, "kind", dict, pod.EMPTY)
    obj = asked.get("object")
    if not isinstance(obj, dict) or (kind.get("group") or "", kind.get("kind")) != ("", "Pod"):
        raise errors.DecodeError("review", "request.object", "is not a Pod")
    return mutate.admit_pod(obj, _namespace(asked, obj), known)


def _namespace(asked: Mapping[str, Any], obj: Mapping[str, Any]) -> str:
    """The request knows it; a pod that is to be created need not say it."""
    said = pod.field(asked, "namespace", str, "")
    meta = pod.field(obj, "metadata", dict, pod.EMPTY)
    return said or pod.field(meta, "namespace", str, "") or "default"


def _response(uid: str, before: Any, found: verdict.Verdict) -> tuple[dict[str, Any], str]:
    if isinstance(found, verdict.Denied):
        code, reason = found.cause.value
        status = {"code": code, "reason": reason, "message": verdict.shortened(found.message)}
        return {"uid": uid, "allowed": False, "status": status}, "denied"
    response: dict[str, Any] = {"uid": uid, "allowed": True}
    if found.message:
        response["status"] = {"message": found.message}
    if found.warnings:
        response["warnings"] = [verdict.shortened(text) for text in found.warnings]
    operations = edit.patch(before, found.raw) if found.raw else []
    if not operations:
        return response, "allowed"
    response["patchType"] = "JSONPatch"
    response["patch"] = base64.b64encode(orjson.dumps(operations)).decode()
    return response, "patched"
