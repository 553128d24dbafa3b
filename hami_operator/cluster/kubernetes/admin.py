"""What only simulated nodes, the demo and tests may do: create and delete any object.

The operator itself uses `client.Client` and has no permission for any of this.
"""

from __future__ import annotations

import contextlib

import orjson

from hami_operator import errors
from hami_operator.cluster import ports
from hami_operator.cluster.kubernetes import client, transport


class Admin(client.Client):
    """A `client.Client` that may also create, delete and act as kubelet."""

    async def create(
        self, resource: ports.Resource, body: ports.Body, *, namespace: str = ""
    ) -> ports.Raw:
        """Create an object; `errors.Conflict` where the name is taken."""
        return await self._write("create", resource, body, namespace=namespace)

    async def delete(
        self,
        resource: ports.Resource,
        name: str,
        *,
        namespace: str = "",
        uid: str = "",
        grace_s: int | None = None,
    ) -> None:
        """Delete an object; one that is already gone is no error.

        Args:
            resource: its kind.
            name: its name.
            namespace: where it is.
            uid: precondition; `errors.Conflict` where the name belongs to another object by now.
            grace_s: how long a pod may take to end; 0 is what kubelet sends when it has ended.
        """
        body: dict[str, object] = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if uid:
            body["preconditions"] = {"uid": uid}
        if grace_s is not None:
            body["gracePeriodSeconds"] = grace_s
        request = transport.Request(
            verb="delete",
            resource=resource.plural,
            path=resource.path(namespace=namespace, name=name),
            body=orjson.dumps(body),
        )
        with contextlib.suppress(errors.NotFound):
            await self._transport.send(request)

    async def patch_node_status(self, name: str, body: ports.Body) -> ports.Raw:
        """Strategic-merge-patch a Node's status, as kubelet does."""
        return await self._write(
            "patch",
            ports.NODES,
            body,
            name=name,
            subresource="status",
            content_type=transport.STRATEGIC_PATCH,
        )
