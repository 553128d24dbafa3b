"""Where the API server is and who we are to it, as kubernetes_asyncio reads it."""

from __future__ import annotations

import dataclasses
import ssl
from typing import Any, Final

import structlog
import yaml
from kubernetes_asyncio import client as kube_client
from kubernetes_asyncio import config as kube_config

from hami_operator import clock, errors

REREAD_S: Final = 60.0
"""A token is read again after so long: kubelet and login plugins replace it in place."""

_UNUSABLE: Final = (
    kube_config.ConfigException,
    yaml.YAMLError,
    OSError,
    ValueError,
    TypeError,
    AttributeError,
    AssertionError,
    KeyError,
)
"""What the loader raises for a file that is missing, unreadable or of another shape."""

_log = structlog.get_logger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Connection:
    """All that another client needs to reach the same server as the same user.

    Attributes:
        server: URL without a slash at its end.
        authorization: value of the header; empty where certificates or nothing identify us.
        ca_path: file with the authorities to trust; empty means those of the system.
        certificate_path: file of the client certificate; empty for none.
        key_path: file of its key.
        verify: whether the server's certificate is checked.
        server_name: name to expect in that certificate, where it is not the host; or empty.
        proxy: URL of the proxy; empty for none.
    """

    server: str
    authorization: str = ""
    ca_path: str = ""
    certificate_path: str = ""
    key_path: str = ""
    verify: bool = True
    server_name: str = ""
    proxy: str = ""

    def ssl_context(self) -> ssl.SSLContext | None:
        """What TLS needs; None for plain HTTP."""
        if not self.server.startswith("https"):
            return None
        context = ssl.create_default_context(cafile=self.ca_path or None)
        if self.certificate_path:
            context.load_cert_chain(self.certificate_path, self.key_path or None)
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


class Credentials:
    """Keeps a `Connection` whose token is never older than `REREAD_S`."""

    def __init__(
        self, *, kubeconfig: str | None, context: str | None, server: str | None, time: clock.Clock
    ) -> None:
        self._kubeconfig = kubeconfig
        self._context = context
        self._server = server
        self._time = time
        self._read_at_s = float("-inf")
        self._connection: Connection | None = None

    async def connection(self, *, fresh: bool = False) -> Connection:
        """The connection; ``fresh`` reads it again now, since the server refused the token.

        Raises:
            errors.SettingsError: there is no usable configuration.
        """
        if self._connection is None:
            self._connection = await self._read()
        elif fresh or self._time.monotonic() - self._read_at_s >= REREAD_S:
            # Noted before the read, so that one request reads and the others go on meanwhile.
            self._read_at_s = self._time.monotonic()
            self._connection = await self._read_again(self._connection)
        return self._connection

    async def _read_again(self, known: Connection) -> Connection:
        try:
            return await self._read()
        except errors.SettingsError as error:
            _log.warning("credentials cannot be read again, the old ones stay", error=str(error))
            return known

    async def _read(self) -> Connection:
        self._read_at_s = self._time.monotonic()
        if self._server:
            return Connection(server=self._server.rstrip("/"))
        found = kube_client.Configuration()
        try:
            await self._load(found)
        except _UNUSABLE as error:
            raise errors.SettingsError("kubeconfig", str(error)) from error
        return _connection(found)

    async def _load(self, found: Any) -> None:
        """Inside a pod its ServiceAccount, unless a kubeconfig was named; else the usual file."""
        if not self._kubeconfig and not self._context:
            try:
                kube_config.load_incluster_config(  # type: ignore[no-untyped-call] # has no types
                    client_configuration=found
                )
            except kube_config.ConfigException:
                pass
            else:
                return
        await kube_config.load_kube_config(
            config_file=self._kubeconfig,
            context=self._context,
            client_configuration=found,
            persist_config=False,
        )


def _connection(found: Any) -> Connection:
    return Connection(
        server=found.host.rstrip("/"),
        authorization=(found.api_key.get("BearerToken") or "").strip(),
        ca_path=found.ssl_ca_cert or "",
        certificate_path=found.cert_file or "",
        key_path=found.key_file or "",
        verify=bool(found.verify_ssl),
        server_name=found.tls_server_name or "",
        proxy=found.proxy or "",
    )
