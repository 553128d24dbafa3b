"""The HTTP face of a store: one request in, one answer out."""

from __future__ import annotations

import asyncio
import collections
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

import orjson
from aiohttp import web

from hami_operator.cluster.memory import (
    authorize,
    calls,
    decoding,
    discovery,
    faults,
    pages,
    refusals,
    replies,
    routes,
    selectors,
    store,
    watch,
    webhooks,
)

BODY_LIMIT_BYTES: Final = 3 * 1024 * 1024
DEFAULT_LOG_LIMIT: Final = 200_000
_HEALTH: Final = ("/healthz", "/livez", "/readyz")
_JSON: Final = "application/json"


class Reply(NamedTuple):
    """An answer."""

    body: bytes
    status: int = 200
    content_type: str = _JSON
    retry_after_s: int | None = None


class Face:
    """Answers requests from a store; runs in the loop of its server.

    Args:
        objects: the store.
        authorizer: knows the tokens.
        hooks: the admission webhooks.
        log_limit: how many requests the log keeps.
    """

    def __init__(
        self,
        objects: store.Store,
        *,
        authorizer: authorize.Authorizer,
        hooks: webhooks.Webhooks,
        log_limit: int = DEFAULT_LOG_LIMIT,
    ) -> None:
        self.store = objects
        self.authorizer = authorizer
        self.hooks = hooks
        self.faults = faults.Faults()
        self.watches = watch.Watches(objects)
        self.log: collections.deque[calls.Call] = collections.deque(maxlen=log_limit)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request, or fail it as was ordered."""
        call = _head(request)
        self.log.append(call)
        try:
            call.body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            return _response(call, _refusal(refusals.too_large(BODY_LIMIT_BYTES)))
        fault = self.faults.take(call.fault_method, call.path)
        if fault is not None and fault.latency_s:
            await asyncio.sleep(fault.latency_s)
        if fault is not None and fault.fails:
            return await self._fail(call, fault, request)
        try:
            if call.watches and (ready := self._watch(call)):
                call.status = 200
                return await self.watches.serve(ready, request)
        except refusals.Refused as refused:
            return _response(call, _refusal(refused))
        return _response(call, await self._answer(call))

    async def _fail(
        self, call: calls.Call, fault: faults.Fault, request: web.BaseRequest
    ) -> web.StreamResponse:
        if fault.after_write:
            await self._answer(call)
        if fault.reset:
            call.status = 0
            if request.transport is not None:
                request.transport.abort()
            return web.Response()
        reason = {429: "TooManyRequests", 409: "Conflict", 403: "Forbidden"}
        refused = refusals.Refused(
            fault.status,
            reason.get(fault.status, "InternalError"),
            fault.message,
            retry_after_s=fault.retry_after_s,
        )
        return _response(call, _refusal(refused))

    async def _answer(self, call: calls.Call) -> Reply:
        try:
            subject = self._subject(call)
            target = routes.parse(call.path)
            if target is None:
                return self._untargeted(call)
            return await self._targeted(call, target, subject)
        except refusals.Refused as refused:
            return _refusal(refused)

    def _subject(self, call: calls.Call) -> authorize.Subject:
        if call.path.startswith(authorize.PUBLIC) and routes.parse(call.path) is None:
            return authorize.ADMIN
        subject = self.authorizer.subject(call.authorization)
        call.user = subject.user
        return subject

    def _untargeted(self, call: calls.Call) -> Reply:
        """Discovery and health."""
        if call.path.startswith(_HEALTH):
            return Reply(b"ok", content_type="text/plain")
        document = discovery.document(call.path, version=self.store.kubernetes_version)
        if document is not None:
            return Reply(orjson.dumps(document))
        parts = call.path.split("/")
        served = "/".join(parts[: 3 if parts[1] == "api" else 4])
        if discovery.document(served, version="") is None or len(parts) < 4:
            return Reply(b"404 page not found\n", 404, "text/plain")
        raise refusals.no_such_path()

    async def _targeted(
        self, call: calls.Call, target: routes.Target, subject: authorize.Subject
    ) -> Reply:
        self._authorize(call, target, subject)
        serve = _METHODS.get((call.method, bool(target.name), target.subresource))
        if serve is None:
            raise refusals.method_not_allowed()
        return await serve(self, call, target)

    def _authorize(
        self, call: calls.Call, target: routes.Target, subject: authorize.Subject
    ) -> None:
        verb = routes.verb(call.method, named=bool(target.name), watch=call.watches)
        self.authorizer.check(subject, authorize.Access.of(target, verb))

    def _watch(self, call: calls.Call) -> watch.Watch | None:
        """The watch that the request opens; None if its path is no collection."""
        subject = self._subject(call)
        target = routes.parse(call.path)
        if target is None or target.name:
            return None
        self._authorize(call, target, subject)
        form = replies.form_of(call.accept)
        return self.watches.start(call, target.resource, _selector(call, target), form)

    def _writable(self, call: calls.Call) -> store.Store:
        """The store, or for a dry run one that forgets what is written."""
        return self.store.rehearsal() if call.parameters.get("dryRun") else self.store

    async def _get(self, call: calls.Call, target: routes.Target) -> Reply:
        form = replies.form_of(call.accept)
        record = self.store.get(target.resource, target.key)
        return Reply(replies.one(record, target.resource, form, self.store.now()))

    async def _list(self, call: calls.Call, target: routes.Target) -> Reply:
        form = replies.form_of(call.accept)
        asked = call.number("resourceVersion")
        if asked > self.store.version:
            raise refusals.too_large_version(asked, self.store.version)
        page = self.store.list(
            target.resource,
            namespace=target.namespace,
            selector=_selector(call, target, with_namespace=False),
            limit=call.number("limit"),
            token=call.parameters.get("continue", ""),
        )
        return Reply(replies.many(page, target.resource, form, self.store.now()))

    async def _create(self, call: calls.Call, target: routes.Target) -> Reply:
        _check_json(call)
        if target.resource.namespaced and not target.namespace:
            raise refusals.method_not_allowed()
        body = await self.hooks.admit(target, call.body, call.user)
        record = self._writable(call).create(target.resource, body, namespace=target.namespace)
        return self._one(call, target, record, 201)

    async def _replace(self, call: calls.Call, target: routes.Target) -> Reply:
        _check_json(call)
        known = self.store.find(target.resource, target.key)
        record = self._writable(call).replace(
            target.resource, call.body, key=target.key, subresource=target.subresource
        )
        return self._one(call, target, record, 200 if known else 201)

    async def _patch(self, call: calls.Call, target: routes.Target) -> Reply:
        record = self._writable(call).patch(
            target.resource,
            target.key,
            call.body,
            content_type=call.content_type,
            subresource=target.subresource,
        )
        return self._one(call, target, record, 200)

    async def _delete(self, call: calls.Call, target: routes.Target) -> Reply:
        options = _delete_options(call)
        preconditions = options.get("preconditions") or {}
        record = self._writable(call).delete(
            target.resource,
            target.key,
            uid=preconditions.get("uid", ""),
            version=preconditions.get("resourceVersion", ""),
            grace_s=options.get("gracePeriodSeconds"),
        )
        if target.resource.returns_deleted or self.store.find(target.resource, target.key):
            return self._one(call, target, record, 200)
        details = {"name": target.name, "group": target.resource.group,
                   "kind": target.resource.plural, "uid": record.uid}  # fmt: skip
        return Reply(replies.success({key: value for key, value in details.items() if value}))

    async def _delete_all(self, call: calls.Call, target: routes.Target) -> Reply:
        deleted = self._writable(call).delete_all(
            target.resource,
            namespace=target.namespace,
            selector=_selector(call, target, with_namespace=False),
            grace_s=_delete_options(call).get("gracePeriodSeconds"),
        )
        page = pages.Page(deleted, self.store.version)
        form = replies.form_of(call.accept)
        return Reply(replies.many(page, target.resource, form, self.store.now()))

    async def _bind(self, call: calls.Call, target: routes.Target) -> Reply:
        _check_json(call)
        self._writable(call).bind(target.key, call.body)
        return Reply(replies.success(code=201), 201)

    async def _evict(self, call: calls.Call, target: routes.Target) -> Reply:
        _check_json(call)
        self._writable(call).evict(target.key, call.body)
        return Reply(replies.success(code=201), 201)

    def _one(self, call: calls.Call, target: routes.Target, record: Any, status: int) -> Reply:
        form = replies.form_of(call.accept)
        return Reply(replies.one(record, target.resource, form, self.store.now()), status)


_Serve = Callable[[Face, calls.Call, routes.Target], Awaitable[Reply]]
_METHODS: Final[Mapping[tuple[str, bool, str], _Serve]] = {
    ("GET", False, ""): Face._list,
    ("GET", True, ""): Face._get,
    ("GET", True, "status"): Face._get,
    ("POST", False, ""): Face._create,
    ("PUT", True, ""): Face._replace,
    ("PUT", True, "status"): Face._replace,
    ("PATCH", True, ""): Face._patch,
    ("PATCH", True, "status"): Face._patch,
    ("DELETE", True, ""): Face._delete,
    ("DELETE", False, ""): Face._delete_all,
    ("POST", True, "binding"): Face._bind,
    ("POST", True, "eviction"): Face._evict,
}


def _head(request: web.BaseRequest) -> calls.Call:
    path, _, query = request.raw_path.partition("?")
    headers = request.headers
    return calls.Call(
        method=request.method,
        path=path,
        query=query,
        accept=headers.get("Accept", ""),
        content_type=headers.get("Content-Type", "").partition(";")[0].strip(),
        user_agent=headers.get("User-Agent", ""),
        authorization=headers.get("Authorization", ""),
    )


def _response(call: calls.Call, reply: Reply) -> web.Response:
    call.status = reply.status
    headers = {"Content-Type": reply.content_type}
    if reply.retry_after_s is not None:
        headers["Retry-After"] = str(reply.retry_after_s)
    return web.Response(body=reply.body, status=reply.status, headers=headers)


def _refusal(refused: refusals.Refused) -> Reply:
    body = orjson.dumps(refused.body())
    return Reply(body, refused.code, retry_after_s=refused.retry_after_s)


def _check_json(call: calls.Call) -> None:
    if call.content_type not in (_JSON, ""):
        raise refusals.unsupported_media_type()


def _selector(
    call: calls.Call, target: routes.Target, *, with_namespace: bool = True
) -> selectors.Selector:
    parameters = call.parameters
    return selectors.parse(
        target.resource,
        namespace=target.namespace if with_namespace else "",
        labels=parameters.get("labelSelector", ""),
        fields=parameters.get("fieldSelector", ""),
    )


def _delete_options(call: calls.Call) -> dict[str, Any]:
    options = decoding.message(call.body or b"{}", "DeleteOptions")
    if "gracePeriodSeconds" in call.parameters:
        options["gracePeriodSeconds"] = call.number("gracePeriodSeconds")
    return options
