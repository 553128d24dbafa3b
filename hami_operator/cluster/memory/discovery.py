"""What the server says about itself: groups, kinds, version, and an OpenAPI that is just enough.

kubectl looks into the OpenAPI document of a group only to learn whether the server validates
fields itself; it says yes, so that kubectl sends objects as they are.
"""

from __future__ import annotations

from typing import Any

from hami_operator.cluster.memory import resources

Document = dict[str, Any]


def document(path: str, *, version: str) -> Document | None:
    """The document at a path of discovery; None if there is none.

    Args:
        path: without the query.
        version: the release of Kubernetes that is emulated.
    """
    first, *rest = path.strip("/").split("/")
    if first == "version" and not rest:
        return _version(version)
    if first == "openapi":
        return _openapi(rest)
    if first == "api":
        return _core(rest)
    return _named(rest) if first == "apis" else None


def _core(parts: list[str]) -> Document | None:
    if not parts:
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
    return _kinds("", parts[0]) if len(parts) == 1 else None


def _named(parts: list[str]) -> Document | None:
    if not parts:
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": _groups()}
    if len(parts) == 1:
        return next((found for found in _groups() if found["name"] == parts[0]), None)
    return _kinds(parts[0], parts[1]) if len(parts) == 2 else None


def _version(version: str) -> Document:
    major, minor = version.split(".")[:2]
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{version}",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "memory",
    }


def _groups() -> list[Document]:
    """One entry per named group; the version that comes first is the preferred one."""
    named: dict[str, dict[str, Document]] = {}
    for row in resources.ALL:
        if row.group:
            versions = named.setdefault(row.group, {})
            versions[row.version] = _group_version(row.group, row.version)
    return [
        {
            "kind": "APIGroup",
            "apiVersion": "v1",
            "name": group,
            "versions": list(versions.values()),
            "preferredVersion": next(iter(versions.values())),
        }
        for group, versions in named.items()
    ]


def _group_version(group: str, version: str) -> Document:
    return {"groupVersion": f"{group}/{version}", "version": version}


def _kinds(group: str, version: str) -> Document | None:
    rows = [row for row in resources.ALL if (row.group, row.version) == (group, version)]
    if not rows:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": rows[0].api_version,
        "resources": [entry for row in rows for entry in _entries(row)],
    }


def _entries(row: resources.Resource) -> list[Document]:
    main: Document = {
        "name": row.plural,
        "singularName": row.kind.lower(),
        "namespaced": row.namespaced,
        "kind": row.kind,
        "verbs": list(resources.VERBS),
        "shortNames": list(row.short_names),
        "categories": list(row.categories),
    }
    entries = [main]
    if row.status:
        entries.append(_sub_entry(row, "status", row.kind, ["get", "patch", "update"]))
    entries += [_sub_entry(row, name, name.title(), ["create"]) for name in row.subresources]
    return entries


def _sub_entry(row: resources.Resource, name: str, kind: str, verbs: list[str]) -> Document:
    return {
        "name": f"{row.plural}/{name}",
        "singularName": "",
        "namespaced": row.namespaced,
        "kind": kind,
        "verbs": verbs,
    }


def _openapi(parts: list[str]) -> Document | None:
    place = "/".join(parts[1:])
    if parts == ["v2"]:
        info = {"title": "Kubernetes", "version": "memory"}
        return {"swagger": "2.0", "info": info, "paths": {}, "definitions": {}}
    if parts == ["v3"]:
        return {"paths": {place: _link(place) for place in _places()}}
    return _openapi_of(place) if parts[:1] == ["v3"] and place in _places() else None


def _places() -> dict[str, str]:
    """Path of each group and version to its apiVersion."""
    return {
        f"{'apis' if row.group else 'api'}/{row.api_version}": row.api_version
        for row in resources.ALL
    }


def _link(place: str) -> Document:
    return {"serverRelativeURL": f"/openapi/v3/{place}?hash=memory"}


def _openapi_of(place: str) -> Document:
    rows = [row for row in resources.ALL if row.api_version == _places()[place]]
    paths = {_item_path(place, row): {"patch": _patch_operation(row)} for row in rows}
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "memory"},
        "paths": paths,
    }


def _item_path(place: str, row: resources.Resource) -> str:
    middle = "/namespaces/{namespace}" if row.namespaced else ""
    return f"/{place}{middle}/{row.plural}/{{name}}"


def _patch_operation(row: resources.Resource) -> Document:
    return {
        "parameters": [
            {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}},
        ],
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": {
            "group": row.group,
            "version": row.version,
            "kind": row.kind,
        },
    }
