"""Paths of the API: which object or collection a path means, and what a request does to it."""

from __future__ import annotations

import dataclasses
import urllib.parse
from typing import Final

from hami_operator.cluster.memory import resources

_OF_NAMESPACE: Final = ("status", "finalize")
_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """What a path means; an empty name means the collection."""

    resource: resources.Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """The key of the object in the store."""
        return self.namespace, self.name


def parse(path: str) -> Target | None:
    """The target of a path; None if no kind is served there."""
    if "%" in path:
        path = urllib.parse.unquote(path)
    parts = path.strip("/").split("/")
    if len(parts) >= 3 and parts[0] == "api":
        return _target("", parts[1], parts[2:])
    if len(parts) >= 4 and parts[0] == "apis":
        return _target(parts[1], parts[2], parts[3:])
    return None


def _target(group: str, version: str, parts: list[str]) -> Target | None:
    namespace = ""
    own = len(parts) == 3 and parts[2] in _OF_NAMESPACE
    if parts[0] == "namespaces" and len(parts) >= 3 and not own:
        namespace, parts = parts[1], parts[2:]
    resource = resources.BY_PATH.get((group, version, parts[0]))
    if resource is None or len(parts) > 3 or (namespace and not resource.namespaced):
        return None
    name, subresource = (*parts[1:], "", "")[:2]
    if name and resource.namespaced and not namespace:
        return None
    if subresource and not _serves(resource, subresource):
        return None
    return Target(resource, namespace, name, subresource)


def _serves(resource: resources.Resource, subresource: str) -> bool:
    if subresource == "status":
        return resource.status
    return subresource in resource.subresources


def verb(method: str, *, named: bool, watch: bool) -> str:
    """What RBAC calls a request: one of `resources.VERBS`."""
    if method in ("GET", "HEAD"):
        return "get" if named else "watch" if watch else "list"
    if method == "DELETE" and not named:
        return "deletecollection"
    return _VERBS.get(method, method.lower())
