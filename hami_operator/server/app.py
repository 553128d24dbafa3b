"""The HTTP server: one listener, routes given by whoever has some."""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from typing import Final

import structlog
from aiohttp import web

STOP_S: Final = 1.0
"""Requests in flight have so long when the server stops; idle connections close at once."""
KEEPALIVE_S: Final = 75.0
BODY_BYTES: Final = 1024 * 1024

_log = structlog.get_logger(__name__)


class Server:
    """Serves routes.

    Args:
        bind: ``host:port``, port 0 for any free one.
        routes: what is served.
        also: a second address of the same; empty for none.
    """

    def __init__(self, bind: str, routes: Iterable[web.RouteDef], *, also: str = "") -> None:
        self._binds = [one for one in (bind, also) if one]
        self._ports: list[int] = []
        application = web.Application(client_max_size=BODY_BYTES)
        application.add_routes(list(routes))
        self._runner = web.AppRunner(
            application,
            access_log=None,
            handle_signals=False,
            keepalive_timeout=KEEPALIVE_S,
            shutdown_timeout=STOP_S,
        )

    async def start(self, tls: ssl.SSLContext | None = None) -> None:
        """Listen.

        Args:
            tls: serves HTTPS; without it plain HTTP.

        Raises:
            OSError: the address cannot be had.
        """
        await self._runner.setup()
        for bind in self._binds:
            host, _, port = bind.rpartition(":")
            site = web.TCPSite(self._runner, host.strip("[]"), int(port), ssl_context=tls)
            await site.start()
            self._ports.append(site.port)
            _log.info("serving", host=host, port=site.port)

    @property
    def ports(self) -> tuple[int, ...]:
        """The ports, once started: of the first address, and of the second if there is one."""
        return tuple(self._ports)

    @property
    def port(self) -> int:
        """The first of them."""
        return self._ports[0]

    async def stop(self) -> None:
        """Stop listening and close all connections; may be called again, or before the start.

        An idle keep-alive connection is a task of the loop, for which kopf would wait.
        """
        await self._runner.cleanup()
