"""The calls that the program makes, each one a line: which verb, which path, which body."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from typing import Literal, Self
from urllib import parse

import orjson

from hami_operator import clock
from hami_operator.cluster import ports
from hami_operator.cluster.kubernetes import answers, connection, transport


class Client:
    """Implements every Protocol of `ports` over one `transport.Transport`.

    Reads and Lease calls are never fenced; all other writes of a client made by `fenced` are.
    """

    def __init__(self, sender: transport.Transport, *, fence: ports.Fence | None = None) -> None:
        self._transport = sender
        self._fence = fence

    @classmethod
    async def connect(
        cls,
        *,
        kubeconfig: str | None = None,
        context: str | None = None,
        server: str | None = None,
        recorder: ports.Recorder | None = None,
        time: clock.Clock | None = None,
    ) -> Self:
        """Read the configuration and open the pools; nothing is sent yet.

        Args:
            kubeconfig: path of a kubeconfig; without it the ServiceAccount of the pod, else
                the usual file.
            context: which of its contexts.
            server: URL of a server that asks for no credentials, instead of a configuration.
            recorder: takes the metrics.
            time: the clock.

        Raises:
            errors.SettingsError: there is no usable configuration.
        """
        time = time or clock.SystemClock()
        credentials = connection.Credentials(
            kubeconfig=kubeconfig, context=context, server=server, time=time
        )
        target = await credentials.connection()
        sender = transport.Transport(
            credentials, target, recorder=recorder or ports.NoRecorder(), time=time
        )
        return cls(sender)

    def fenced(self, fence: ports.Fence) -> Client:
        """The same connections, with every write but those of Leases behind ``fence``."""
        return Client(self._transport, fence=fence)

    async def close(self) -> None:
        """Close all connections, also those of the clients made by `fenced`."""
        await self._transport.close()

    async def connection(self) -> connection.Connection:
        """Server and credentials, for a client that is not ours."""
        return await self._transport.connection()

    # ---- reads

    async def get_pod(self, namespace: str, name: str) -> ports.Raw:
        """See `ports.PodReader`."""
        return await self._get(ports.PODS, namespace=namespace, name=name)

    async def get_node(self, name: str) -> ports.Raw:
        """See `ports.NodeReader`."""
        return await self._get(ports.NODES, name=name)

    async def get_object(self, resource: ports.Resource, namespace: str, name: str) -> ports.Raw:
        """See `ports.ObjectReader`."""
        return await self._get(resource, namespace=namespace, name=name)

    async def version(self) -> tuple[int, int]:
        """See `ports.VersionReader`."""
        request = transport.Request(verb="get", resource="version", path="/version")
        found = await self._object(request)
        return answers.number(found.get("major")), answers.number(found.get("minor"))

    async def list_page(
        self,
        resource: ports.Resource,
        *,
        selector: ports.Selector = ports.EVERYTHING,
        limit: int = 500,
        token: str = "",
        metadata_only: bool = False,
    ) -> ports.Page:
        """See `ports.Lister`."""
        query = _selection(selector) | {"limit": str(limit)}
        if token:
            query["continue"] = token
        request = transport.Request(
            verb="list",
            resource=resource.plural,
            path=resource.path(),
            query=query,
            accept=transport.METADATA_ONLY if metadata_only else transport.JSON,
        )
        return answers.page(await self._object(request))

    async def watch(
        self,
        resource: ports.Resource,
        *,
        version: str,
        selector: ports.Selector = ports.EVERYTHING,
        timeout_s: int,
    ) -> AsyncGenerator[tuple[str, ports.Raw], None]:
        """See `ports.Watcher`."""
        request = transport.Request(
            verb="watch",
            resource=resource.plural,
            path=resource.path(),
            query=_selection(selector)
            | {
                "watch": "1",
                "allowWatchBookmarks": "true",
                "resourceVersion": version,
                "timeoutSeconds": str(timeout_s),
            },
        )
        # Closed here and now, not when the garbage collector finds the half-read generator.
        async with contextlib.aclosing(self._transport.lines(request)) as lines:
            async for line in lines:
                yield answers.event(line, what=request.words)

    # ---- writes

    async def patch_pod(self, namespace: str, name: str, body: ports.Body) -> ports.Raw:
        """See `ports.PodWriter`."""
        return await self._write("patch", ports.PODS, body, namespace=namespace, name=name)

    async def bind(self, namespace: str, name: str, binding: ports.Body) -> None:
        """See `ports.PodWriter`; the answer is read, not parsed."""
        await self._transport.send(
            self._writing(
                "create",
                ports.PODS,
                binding,
                namespace=namespace,
                name=name,
                subresource="binding",
            )
        )

    async def patch_pod_status(self, namespace: str, name: str, body: ports.Body) -> ports.Raw:
        """See `ports.PodWriter`."""
        return await self._write(
            "patch",
            ports.PODS,
            body,
            namespace=namespace,
            name=name,
            subresource="status",
            content_type=transport.STRATEGIC_PATCH,
        )

    async def delete_pod(self, namespace: str, name: str, *, uid: str) -> None:
        """See `ports.PodDeleter`."""
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}}
        await self._transport.send(
            self._writing("delete", ports.PODS, options, namespace=namespace, name=name)
        )

    async def patch_node(self, name: str, body: ports.Body) -> ports.Raw:
        """See `ports.NodeWriter`."""
        return await self._write("patch", ports.NODES, body, name=name)

    async def patch_object(
        self,
        resource: ports.Resource,
        namespace: str,
        name: str,
        body: ports.Body,
        *,
        subresource: str = "",
    ) -> ports.Raw:
        """See `ports.ObjectWriter`."""
        return await self._write(
            "patch", resource, body, namespace=namespace, name=name, subresource=subresource
        )

    async def create_event(self, namespace: str, body: ports.Body) -> ports.Raw:
        """See `ports.EventWriter`."""
        return await self._write("create", ports.EVENTS, body, namespace=namespace)

    async def patch_event(self, namespace: str, name: str, body: ports.Body) -> ports.Raw:
        """See `ports.EventWriter`."""
        return await self._write("patch", ports.EVENTS, body, namespace=namespace, name=name)

    # ---- leases

    async def get_lease(self, namespace: str, name: str, *, timeout_s: float) -> ports.Raw:
        """See `ports.LeaseStore`."""
        return await self._get(ports.LEASES, namespace=namespace, name=name, timeout_s=timeout_s)

    async def create_lease(
        self, namespace: str, body: ports.Body, *, timeout_s: float
    ) -> ports.Raw:
        """See `ports.LeaseStore`."""
        return await self._object(_lease("create", body, namespace=namespace, timeout_s=timeout_s))

    async def replace_lease(
        self, namespace: str, name: str, body: ports.Body, *, timeout_s: float
    ) -> ports.Raw:
        """See `ports.LeaseStore`."""
        return await self._object(
            _lease("update", body, namespace=namespace, name=name, timeout_s=timeout_s)
        )

    # ---- inside

    async def _get(
        self,
        resource: ports.Resource,
        *,
        name: str,
        namespace: str = "",
        timeout_s: float = transport.REQUEST_S,
    ) -> ports.Raw:
        path = resource.path(namespace=_quoted(namespace), name=_quoted(name))
        request = transport.Request(
            verb="get", resource=resource.plural, path=path, timeout_s=timeout_s
        )
        return await self._object(request)

    async def _write(
        self,
        verb: Literal["create", "patch"],
        resource: ports.Resource,
        body: ports.Body,
        *,
        namespace: str = "",
        name: str = "",
        subresource: str = "",
        content_type: str = "",
    ) -> ports.Raw:
        request = self._writing(
            verb,
            resource,
            body,
            namespace=namespace,
            name=name,
            subresource=subresource,
            content_type=content_type,
        )
        return await self._object(request)

    def _writing(
        self,
        verb: Literal["create", "patch", "delete"],
        resource: ports.Resource,
        body: ports.Body,
        *,
        namespace: str = "",
        name: str = "",
        subresource: str = "",
        content_type: str = "",
    ) -> transport.Request:
        default = transport.MERGE_PATCH if verb == "patch" else transport.JSON
        return transport.Request(
            verb=verb,
            resource="/".join(part for part in (resource.plural, subresource) if part),
            path=resource.path(
                namespace=_quoted(namespace), name=_quoted(name), subresource=subresource
            ),
            body=orjson.dumps(body),
            content_type=content_type or default,
            fence=self._fence,
        )

    async def _object(self, request: transport.Request) -> ports.Raw:
        return answers.one_object(await self._transport.send(request), what=request.words)


def _lease(
    verb: Literal["create", "update"],
    body: ports.Body,
    *,
    namespace: str,
    name: str = "",
    timeout_s: float,
) -> transport.Request:
    return transport.Request(
        verb=verb,
        resource=ports.LEASES.plural,
        path=ports.LEASES.path(namespace=_quoted(namespace), name=_quoted(name)),
        body=orjson.dumps(body),
        timeout_s=timeout_s,
    )


def _quoted(text: str) -> str:
    return parse.quote(text, safe="")


def _selection(selector: ports.Selector) -> dict[str, str]:
    given = {"fieldSelector": selector.fields, "labelSelector": selector.labels}
    return {key: value for key, value in given.items() if value}
