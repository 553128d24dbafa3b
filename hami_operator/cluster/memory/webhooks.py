"""Admission webhooks: called when an object is created, as their configurations say."""

from __future__ import annotations

import base64
import binascii
import functools
import ssl
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Final

import aiohttp
import orjson

from hami_operator.cluster.memory import (
    patches,
    records,
    refusals,
    resources,
    routes,
    selectors,
    store,
)

Object = dict[str, Any]
_DEFAULT_TIMEOUT_S: Final = 10


class Webhooks:
    """Calls the webhooks that the store's configurations name.

    ``matchConditions`` are not evaluated: a webhook that has them is called all the same.

    Args:
        objects: where the configurations and the namespaces are.
        services: base URL of each Service, by (namespace, name), since nothing resolves them.
    """

    def __init__(
        self, objects: store.Store, services: Mapping[tuple[str, str], str] | None = None
    ) -> None:
        self._store = objects
        self._services = dict(services or {})
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close the connections to the webhooks."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def admit(self, target: routes.Target, body: bytes, user: str) -> bytes:
        """The object as the webhooks leave it; the body itself if none is interested.

        Raises:
            refusals.Refused: a webhook denies it, or fails and may not be ignored.
        """
        if not self._configured():
            return body
        obj = self._store.preview(target.resource, body, namespace=target.namespace)
        for kind in (resources.MUTATING_WEBHOOKS, resources.VALIDATING_WEBHOOKS):
            for webhook in self._interested(kind, target, obj):
                obj = await self._ask(webhook, target, obj, user)
        return orjson.dumps(obj)

    def _configured(self) -> bool:
        kinds = (resources.MUTATING_WEBHOOKS, resources.VALIDATING_WEBHOOKS)
        return any(self._store.list(kind).records for kind in kinds)

    def _interested(
        self, kind: resources.Resource, target: routes.Target, obj: Object
    ) -> Iterator[Object]:
        for record in self._store.list(kind).records:
            for webhook in record.obj.get("webhooks") or ():
                covered = any(_covers(rule, target) for rule in webhook.get("rules") or ())
                if covered and self._selected(webhook, target, obj):
                    yield webhook

    def _selected(self, webhook: Object, target: routes.Target, obj: Object) -> bool:
        namespace = self._store.find(resources.NAMESPACES, ("", target.namespace))
        checks = [(webhook.get("objectSelector"), obj)]
        if namespace is not None:
            checks.append((webhook.get("namespaceSelector"), namespace.obj))
        return all(
            requirement.matches(checked["metadata"].get("labels") or {})
            for selector, checked in checks
            for requirement in selectors.from_object(selector)
        )

    async def _ask(self, webhook: Object, target: routes.Target, obj: Object, user: str) -> Object:
        name = webhook.get("name", "")
        try:
            response = await self._post(webhook, _review(target, obj, user))
            patch = _patch(response)
        except (aiohttp.ClientError, OSError, ValueError, KeyError, TypeError) as error:
            if webhook.get("failurePolicy", "Fail") == "Ignore":
                return obj
            why = str(error) or type(error).__name__
            text = f'failed calling webhook "{name}": failed to call webhook: {why}'
            raise refusals.internal(f"Internal error occurred: {text}") from error
        if not response.get("allowed"):
            raise _denied(name, response.get("status") or {})
        changed: Object = patches.apply_operations(obj, patch)
        return changed

    async def _post(self, webhook: Object, review: Object) -> Object:
        config = webhook["clientConfig"]
        if self._session is None:
            self._session = aiohttp.ClientSession()
        limit = aiohttp.ClientTimeout(total=webhook.get("timeoutSeconds", _DEFAULT_TIMEOUT_S))
        async with self._session.post(
            self._url(config),
            data=orjson.dumps(review),
            headers={"Content-Type": "application/json", "Accept": "application/json"},
            timeout=limit,
            ssl=_trust(config),
        ) as answer:
            raw = await answer.read()
            if answer.status != 200:
                raise ValueError(f"the server answered {answer.status}")
        response: Object = orjson.loads(raw)["response"]
        if response["uid"] != review["request"]["uid"]:
            raise ValueError("the answer has another uid than the request")
        return response

    def _url(self, config: Mapping[str, Any]) -> str:
        if "url" in config:
            return str(config["url"])
        service = config["service"]
        base = self._services[service["namespace"], service["name"]]
        return base.rstrip("/") + str(service.get("path", "/"))


def _trust(config: Mapping[str, Any]) -> ssl.SSLContext | bool:
    bundle = config.get("caBundle")
    return _context(bundle) if bundle else True


@functools.lru_cache(maxsize=16)
def _context(bundle: str) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=base64.b64decode(bundle).decode())


def _covers(rule: Mapping[str, Any], target: routes.Target) -> bool:
    resource = target.resource
    scope = "Namespaced" if resource.namespaced else "Cluster"
    wanted = (
        ("operations", "CREATE"),
        ("apiGroups", resource.group),
        ("apiVersions", resource.version),
        ("resources", resource.plural),
    )
    return rule.get("scope", "*") in ("*", scope) and all(
        value in (rule.get(name) or ()) or "*" in (rule.get(name) or ()) for name, value in wanted
    )


def _review(target: routes.Target, obj: Object, user: str) -> Object:
    row = target.resource
    kind = {"group": row.group, "version": row.version, "kind": row.kind}
    resource = {"group": row.group, "version": row.version, "resource": row.plural}
    namespace, name = records.key_of({"metadata": {"name": "", **obj["metadata"]}})
    request = {
        "uid": str(uuid.uuid4()),
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "name": name,
        "namespace": namespace,
        "operation": "CREATE",
        "userInfo": {"username": user},
        "object": obj,
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}


def _patch(response: Mapping[str, Any]) -> list[Any]:
    if not response.get("patch"):
        return []
    if response.get("patchType") != "JSONPatch":
        raise ValueError("the patch is no JSONPatch")
    try:
        operations = orjson.loads(base64.b64decode(response["patch"], validate=True))
    except binascii.Error as error:
        raise ValueError("the patch is not base64") from error
    if not isinstance(operations, list):
        raise TypeError("the patch is no list of operations")
    return operations


def _denied(name: str, status: Mapping[str, Any]) -> refusals.Refused:
    words = status.get("message") or status.get("reason")
    text = f'admission webhook "{name}" denied the request'
    text = f"{text}: {words}" if words else f"{text} without explanation"
    code = status.get("code") or 0
    return refusals.Refused(code if code >= 400 else 400, status.get("reason") or "", text)
