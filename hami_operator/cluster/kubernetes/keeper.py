"""What keeps the webhook's certificate: one Secret, and one webhook configuration.

Only the command that makes certificates uses it; the operator has no permission for any of this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import orjson

from hami_operator.cluster import ports
from hami_operator.cluster.kubernetes import client, transport

SECRETS: Final = ports.Resource(group="", version="v1", plural="secrets", namespaced=True)
CONFIGURATIONS: Final = ports.Resource(
    group="admissionregistration.k8s.io",
    version="v1",
    plural="mutatingwebhookconfigurations",
    namespaced=False,
)
JSON_PATCH: Final = "application/json-patch+json"


class Keeper(client.Client):
    """A `client.Client` that may also read and write these two."""

    async def get_secret(self, namespace: str, name: str) -> ports.Raw:
        """The Secret as it is now."""
        return await self._get(SECRETS, namespace=namespace, name=name)

    async def create_secret(self, namespace: str, body: ports.Body) -> ports.Raw:
        """Create it; `errors.Conflict` where somebody else was first."""
        return await self._send("create", SECRETS.path(namespace=namespace), body)

    async def replace_secret(self, namespace: str, name: str, body: ports.Body) -> ports.Raw:
        """Replace it; `errors.Conflict` where its version is no longer the one in ``body``."""
        return await self._send("update", SECRETS.path(namespace=namespace, name=name), body)

    async def get_configuration(self, name: str) -> ports.Raw:
        """The MutatingWebhookConfiguration as it is now."""
        return await self._get(CONFIGURATIONS, name=name)

    async def patch_configuration(self, name: str, operations: Sequence[Any]) -> ports.Raw:
        """Apply a JSON Patch to it; `errors.Invalid` where one of its tests fails."""
        return await self._send("patch", CONFIGURATIONS.path(name=name), operations)

    async def _send(
        self, verb: Literal["create", "update", "patch"], path: str, body: Any
    ) -> ports.Raw:
        kind = CONFIGURATIONS if verb == "patch" else SECRETS
        request = transport.Request(
            verb=verb,
            resource=kind.plural,
            path=path,
            body=orjson.dumps(body),
            content_type=JSON_PATCH if verb == "patch" else transport.JSON,
        )
        return await self._object(request)
