"""Who may do what: RBAC as the shipped manifests grant it, and a record of what was used."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Final

from hami_operator.cluster.memory import refusals, routes

Manifest = Mapping[str, Any]
PUBLIC: Final = ("/api", "/apis", "/version", "/healthz", "/livez", "/readyz", "/openapi")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Access:
    """What a request wants: the attributes that rules are matched against.

    ``resource`` is ``plural`` or ``plural/subresource``; ``namespace`` is empty for requests at
    the cluster scope.
    """

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    @classmethod
    def of(cls, target: routes.Target, verb: str) -> Access:
        """The attributes of a request to a target."""
        resource = target.resource.plural
        if target.subresource:
            resource = f"{resource}/{target.subresource}"
        return cls(
            verb=verb,
            group=target.resource.group,
            resource=resource,
            namespace=target.namespace,
            name=target.name,
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Grant:
    """A rule of a role; an empty namespace means the whole cluster."""

    namespace: str
    rule: Manifest

    def allows(self, access: Access) -> bool:
        """Whether the rule covers the request."""
        names = self.rule.get("resourceNames") or ()
        return (
            self.namespace in ("", access.namespace)
            and _covers(self.rule.get("verbs"), access.verb)
            and _covers(self.rule.get("apiGroups"), access.group)
            and _covers(self.rule.get("resources"), access.resource)
            and (not names or access.name in names)
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Subject:
    """Somebody with a token."""

    user: str
    grants: tuple[Grant, ...] = ()


ADMIN: Final = Subject(
    "system:admin",
    (Grant("", {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}),),
)


class Authorizer:
    """Knows tokens, answers 401 and 403, and remembers who used what.

    Args:
        subjects: token to who has it; empty: everybody is an administrator.
    """

    def __init__(self, subjects: Mapping[str, Subject] | None = None) -> None:
        self._subjects = dict(subjects or {})
        self.used: dict[str, set[Access]] = {}

    def subject(self, authorization: str) -> Subject:
        """Who sends this Authorization header.

        Raises:
            refusals.Refused: 401, nobody known.
        """
        if not self._subjects:
            return ADMIN
        subject = self._subjects.get(authorization.removeprefix("Bearer "))
        if subject is None:
            raise refusals.unauthorized()
        return subject

    def check(self, subject: Subject, access: Access) -> None:
        """Refuse what no rule grants, and remember the rest.

        Raises:
            refusals.Refused: 403, with the text of the API server.
        """
        if not any(grant.allows(access) for grant in subject.grants):
            where = f'in the namespace "{access.namespace}"' if access.namespace else ""
            why = (
                f'User "{subject.user}" cannot {access.verb} resource "{access.resource}" in API '
                f'group "{access.group}" {where or "at the cluster scope"}'
            )
            plural = access.resource.partition("/")[0]
            resource = f"{plural}.{access.group}" if access.group else plural
            raise refusals.forbidden(resource, access.name, why)
        self.used.setdefault(subject.user, set()).add(access)


def _covers(granted: Iterable[str] | None, wanted: str) -> bool:
    listed = tuple(granted or ())
    return "*" in listed or wanted in listed


def service_account(manifests: Iterable[Manifest], namespace: str, name: str) -> Subject:
    """A ServiceAccount with what the roles and bindings among the manifests grant it."""
    listed = list(manifests)
    roles = {
        (doc["kind"], doc["metadata"].get("namespace", ""), doc["metadata"]["name"]): doc
        for doc in listed
        if doc.get("kind") in ("Role", "ClusterRole")
    }
    grants = [
        Grant(scope, rule)
        for doc in listed
        if doc.get("kind") in ("RoleBinding", "ClusterRoleBinding")
        and _binds(doc, namespace, name)
        for scope in [doc["metadata"].get("namespace", "")]
        for rule in _rules(doc["roleRef"], scope, roles)
    ]
    return Subject(f"system:serviceaccount:{namespace}:{name}", tuple(grants))


def _binds(binding: Manifest, namespace: str, name: str) -> bool:
    return any(
        subject.get("kind") == "ServiceAccount"
        and (subject.get("namespace"), subject.get("name")) == (namespace, name)
        for subject in binding.get("subjects") or ()
    )


def _rules(
    reference: Manifest, scope: str, roles: Mapping[tuple[str, str, str], Manifest]
) -> Iterable[Manifest]:
    namespace = scope if reference["kind"] == "Role" else ""
    role = roles.get((reference["kind"], namespace, reference["name"])) or {}
    return role.get("rules") or ()
