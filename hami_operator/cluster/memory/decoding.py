"""From the body of a request to an object: what the typed decoder of the API server does.

It refuses what has the wrong type, drops nulls, and brings quantities into their stored form.
It does not know every field of every kind: what it does not know it keeps as it came.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from hami_operator.cluster.memory import events, quantities, refusals, resources, shapes

Object = dict[str, Any]

_MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)", re.ASCII)
_MICRO_LAYOUT: Final = "2006-01-02T15:04:05.000000Z07:00"
_MICRO_FIELDS: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "leases.coordination.k8s.io": (("spec", "renewTime"), ("spec", "acquireTime")),
    "events": (("eventTime",), ("series", "lastObservedTime")),
}
_CONTAINER_LISTS: Final = ("initContainers", "containers", "ephemeralContainers")


class Undecodable(ValueError):
    """The object has a field of the wrong type; the text is the server's."""


def parse(body: bytes | Mapping[str, Any]) -> Any:
    """The body as JSON that nobody else holds.

    Raises:
        Undecodable: it is no JSON.
    """
    try:
        return orjson.loads(body if isinstance(body, bytes) else orjson.dumps(body))
    except orjson.JSONDecodeError as error:
        raise Undecodable(f"couldn't get version/kind; json parse error: {error}") from error


def read(body: bytes | Mapping[str, Any], resource: resources.Resource) -> Object:
    """The object of a POST or PUT, in the shape in which it is stored, without its kind.

    Raises:
        refusals.Refused: 400, it is no JSON, no object, of another kind, or of wrong types.
    """
    try:
        obj = parse(body)
        if not isinstance(obj, dict):
            raise Undecodable("couldn't get version/kind; json parse error: not an object")
    except Undecodable as error:
        text = f"the object provided is unrecognized (must be of type {resource.kind}): {error}"
        raise refusals.bad_request(text) from error
    _check_kind(obj, resource)
    try:
        return normal(_pruned(obj), {}, resource)
    except Undecodable as error:
        raise refusals.undecodable(resource.kind, resource.api_version, str(error)) from error


def message(body: bytes | Mapping[str, Any], kind: str) -> Object:
    """A body that is no stored object: one of `shapes.MESSAGES`.

    Raises:
        refusals.Refused: 400, it is no JSON, no object, or of wrong types.
    """
    try:
        sent = parse(body)
        _check_shape(sent, shapes.MESSAGES[kind], kind)
        if not isinstance(sent, dict):
            raise Undecodable("it is no object")
        for name in ("labels", "annotations"):
            if (sent.get("metadata") or {}).get(name):
                sent["metadata"][name] = texts(sent["metadata"][name], name)
    except Undecodable as error:
        raise refusals.undecodable(kind, "v1", str(error)) from error
    return sent


def _check_kind(obj: Object, resource: resources.Resource) -> None:
    kind = obj.pop("kind", None) or resource.kind
    api_version = obj.pop("apiVersion", None) or resource.api_version
    if api_version != resource.api_version:
        text = (
            f"the API version in the data ({api_version}) does not match the expected API "
            f"version ({resource.api_version})"
        )
        raise refusals.bad_request(text)
    if kind != resource.kind:
        why = f"converting ({api_version}.{kind}) to ({resource.kind}): unknown conversion"
        text = f'{kind} in version "{api_version}" cannot be handled as a {resource.kind}: {why}'
        raise refusals.bad_request(text)


def _pruned(obj: Object) -> Object:
    metadata = obj.get("metadata")
    if isinstance(metadata, dict):
        for name in ("labels", "annotations"):
            if isinstance(metadata.get(name), dict):
                metadata[name] = texts(metadata[name], name)
    pruned: Object = _without_nulls(obj)
    return pruned


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value if item is not None]
    return value


def texts(values: Any, name: str) -> dict[str, str]:
    """A map of texts; a null in it is the empty text.

    Raises:
        Undecodable: it is no map, or holds something else.
    """
    if not isinstance(values, dict):
        raise _mistyped(values, name, "map[string]string")
    for value in values.values():
        if value is not None and not isinstance(value, str):
            raise _mistyped(value, name, "string")
    return {key: value or "" for key, value in values.items()}


def _mistyped(value: Any, name: str, wanted: str) -> Undecodable:
    return Undecodable(shapes.mistyped(value, f"ObjectMeta.metadata.{name}", wanted))


def normal(new: Object, old: Mapping[str, Any], resource: resources.Resource) -> Object:
    """The object with types checked and quantities in their stored form.

    Only what differs from ``old`` is looked at: a patch shares the rest with it.

    Raises:
        Undecodable: a field has the wrong type.
    """
    if new.get("metadata") is None:
        new["metadata"] = {}
    _check_shape(new["metadata"], shapes.METADATA, "ObjectMeta.metadata")
    _check_maps(new["metadata"], old.get("metadata") or {})
    if resource is resources.NEW_EVENTS:
        new = events.to_core(new)
    changed = {name: value for name, value in new.items() if value is not old.get(name)}
    shape = shapes.OBJECTS.get(resource.bucket, shapes.ANY_OBJECT)
    _check_shape(changed, shape, resource.kind)
    for half in ("spec", "status"):
        normalise = _NORMALISERS.get((resource.bucket, half))
        if normalise and changed.get(half) is not None:
            new[half] = _quantities_read(normalise, new[half])
    for path in _MICRO_FIELDS.get(resource.bucket, ()):
        _check_micro_time(new, path)
    return new


def _check_shape(value: Any, shape: shapes.Shape, field: str) -> None:
    if why := shapes.fault(value, shape, field):
        raise Undecodable(why)


def _check_maps(new: Object, old: Mapping[str, Any]) -> None:
    for name in ("labels", "annotations"):
        if name in new and new[name] is not old.get(name):
            if new[name] is None:
                del new[name]
            else:
                new[name] = texts(new[name], name)


def _check_micro_time(obj: Mapping[str, Any], path: tuple[str, ...]) -> None:
    value: Any = obj
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    if value is not None and not (isinstance(value, str) and _MICRO_TIME.fullmatch(value)):
        raise Undecodable(f'parsing time {refusals.quoted(value)} as "{_MICRO_LAYOUT}"')


def _quantities_read(normalise: Callable[[Object], Object], half: Object) -> Object:
    try:
        return normalise(half)
    except quantities.BadQuantity as error:
        raise Undecodable(str(error)) from error


def _with_lists(half: Object, *names: str) -> Object:
    lists = {name: quantities.canonical_list(half[name]) for name in names if name in half}
    return {**half, **lists}


def _pod_spec(spec: Object) -> Object:
    spec = _with_lists(spec, "overhead")
    if isinstance(spec.get("resources"), dict):
        spec["resources"] = _with_lists(spec["resources"], "limits", "requests")
    for name in _CONTAINER_LISTS:
        if name in spec:
            spec[name] = _containers(spec[name], name)
    return spec


def _node_status(status: Object) -> Object:
    status = _with_lists(status, "capacity", "allocatable")
    if "capacity" in status:
        status.setdefault("allocatable", status["capacity"])
    return status


def _containers(containers: Any, name: str) -> list[Object]:
    return [_container(one) for one in containers]


def _container(container: Object) -> Object:
    wanted = container.get("resources")
    if not isinstance(wanted, dict):
        return container
    return {**container, "resources": _with_lists(wanted, "limits", "requests")}


_NORMALISERS: Final[Mapping[tuple[str, str], Callable[[Object], Object]]] = {
    ("pods", "spec"): _pod_spec,
    ("nodes", "status"): _node_status,
    ("resourcequotas", "spec"): lambda spec: _with_lists(spec, "hard"),
    ("resourcequotas", "status"): lambda status: _with_lists(status, "hard", "used"),
}
