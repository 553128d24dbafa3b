"""From a stored object and what a client proposes to the object that is stored next.

Nothing here knows the store: old object and proposal in, new object or refusal out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from hami_operator.cluster.memory import (
    binding,
    decoding,
    events,
    metadata,
    patches,
    pods,
    records,
    refusals,
    resources,
    rules,
    strategic,
)

Object = dict[str, Any]

MERGE: Final = "application/merge-patch+json"
JSON: Final = "application/json-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
PATCH_TYPES: Final = (JSON, MERGE, STRATEGIC)
_NAMESPACE_DIFFERS: Final = (
    "the namespace of the provided object does not match the namespace sent on the request"
)


def check_identity(meta: Mapping[str, Any], key: records.Key) -> None:
    """Refuse an object whose name or namespace is not that of its path.

    Raises:
        refusals.Refused: 400.
    """
    namespace, name = key
    if meta.get("name", "") != name:
        given = meta.get("name", "")
        text = f"the name of the object ({given}) does not match the name on the URL ({name})"
        raise refusals.bad_request(text)
    if (meta.get("namespace") or namespace) != namespace:
        raise refusals.bad_request(_NAMESPACE_DIFFERS)


def patched(
    record: records.Record, resource: resources.Resource, body: bytes, content_type: str
) -> Object:
    """What a patch proposes, in the shape in which it is stored.

    Raises:
        refusals.Refused: 400 unreadable, 409 other version, 415 unknown patch type, 422 not
            applicable.
    """
    if content_type not in PATCH_TYPES:
        raise refusals.unsupported_media_type()
    patch = _patch_body(body, content_type)
    new_shape = resource is resources.NEW_EVENTS
    shown = events.to_new(record.obj) if new_shape else record.obj
    head = {"kind": resource.kind, "apiVersion": resource.api_version}
    proposal = _apply({**head, **shown}, patch, content_type)
    if not isinstance(proposal, dict):
        raise refusals.patch_failed()
    for name, value in head.items():
        if proposal.pop(name, value) != value:
            raise _bad_patch(f"no such {name}")
    try:
        proposal = decoding.normal(proposal, shown, resource)
    except decoding.Undecodable as error:
        raise _bad_patch(str(error)) from error
    _check_version(proposal["metadata"], record, resource)
    check_identity(proposal["metadata"], record.key)
    return proposal


def _patch_body(body: bytes, content_type: str) -> Any:
    try:
        patch = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise refusals.bad_request(f"error decoding patch: {error}") from error
    wanted = list if content_type == JSON else dict
    if not isinstance(patch, wanted):
        found = "array" if isinstance(patch, list) else "object"
        raise refusals.bad_request(f"error decoding patch: json: cannot unmarshal {found}")
    return patch


def _apply(target: Object, patch: Any, content_type: str) -> Any:
    if content_type == MERGE:
        return patches.merge(target, patch)
    if content_type == STRATEGIC:
        return strategic.merge(target, patch)
    return patches.apply_operations(target, patch)


def _bad_patch(why: str) -> refusals.Refused:
    cause = refusals.Cause("patch", f"Invalid value: {why}")
    return refusals.invalid("", "", [cause])


def replaced(record: records.Record, resource: resources.Resource, proposal: Object) -> Object:
    """What a PUT proposes; its UID and resourceVersion are preconditions.

    Raises:
        refusals.Refused: 409 other UID or version, 422 no version where one is needed.
    """
    meta = proposal["metadata"]
    name = record.key[1]
    if meta.get("uid") and meta["uid"] != record.uid:
        key = "/".join(part for part in ("/registry", resource.plural, *record.key) if part)
        text = binding.precondition_text(key, "UID", meta["uid"], record.uid)
        raise refusals.conflict(resource.name, name, text)
    if not meta.get("resourceVersion") and not resource.unconditional_update:
        why = "Invalid value: 0: must be specified for an update"
        cause = refusals.Cause("metadata.resourceVersion", why)
        raise refusals.invalid(resource.name, name, [cause])
    _check_version(meta, record, resource)
    return proposal


def _check_version(
    meta: Mapping[str, Any], record: records.Record, resource: resources.Resource
) -> None:
    asked = meta.get("resourceVersion")
    if asked and asked != str(record.version):
        raise refusals.conflict(resource.name, record.key[1])


def combined(
    record: records.Record, resource: resources.Resource, proposal: Object, *, status: bool
) -> Object:
    """The proposal with what this path may not change taken from the stored object.

    Args:
        record: what is stored.
        resource: its kind.
        proposal: what the client wants, decoded.
        status: the path is that of the status subresource.
    """
    old = record.obj
    if status:
        new = _status_only(old, proposal, resource)
    else:
        new = {**proposal, "metadata": metadata.settle(proposal["metadata"], old["metadata"])}
        if resource.status:
            new.pop("status", None)
            if "status" in old:
                new["status"] = old["status"]
    if resource.generation and new.get("spec") != old.get("spec"):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
    return new


def _status_only(old: Object, proposal: Object, resource: resources.Resource) -> Object:
    new = dict(old)
    if resource.metadata_in_status:
        new["metadata"] = metadata.settle(proposal["metadata"], old["metadata"])
        new["metadata"].pop("ownerReferences", None)
        if "ownerReferences" in old["metadata"]:
            new["metadata"]["ownerReferences"] = old["metadata"]["ownerReferences"]
    if resource is resources.PODS:
        new["status"] = pods.settle_status(proposal, old)
    elif "status" in proposal:
        new["status"] = proposal["status"]
    else:
        new.pop("status", None)
    return new


def check(record: records.Record, resource: resources.Resource, new: Object) -> None:
    """Refuse an update that is not valid.

    The whole metadata is validated, not only what changed: a pod that a Binding made invalid
    refuses every later update until it is gone.

    Raises:
        refusals.Refused: 422.
    """
    meta, old_meta = new["metadata"], record.obj["metadata"]
    causes = metadata.check_update(meta, old_meta)
    if not record.valid or metadata.needs_check(meta, old_meta):
        causes += metadata.check(meta)
    causes += rules.check_update(new, record.obj, resource)
    if causes:
        raise refusals.invalid(resource.full_kind, meta["name"], causes)
