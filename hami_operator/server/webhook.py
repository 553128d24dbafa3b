"""The admission webhook: one route behind TLS, on all replicas, leading or not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from aiohttp import web

from hami_operator import clock
from hami_operator.admission import review, rules
from hami_operator.cluster import ports
from hami_operator.server import app, tls

PATH: Final = "/webhook"
BODY_S: Final = 60.0
"""Whoever has not sent the whole review by then is not served."""
LOOK_S: Final = 1.0
"""Pause between two looks for a certificate that is not there yet."""


def routes(
    known: rules.Rules, *, metrics: ports.Recorder, body_bytes: int = app.BODY_BYTES
) -> list[web.RouteDef]:
    """``POST /webhook``.

    Args:
        known: what admission goes by.
        metrics: takes the count of reviews.
        body_bytes: the longest review; longer ones get 413.
    """

    async def webhook(request: web.Request) -> web.Response:
        body = await _body(request, body_bytes)
        reply = review.respond(body, known) if isinstance(body, bytes) else body
        metrics.count("hami_webhook_requests_total", result=reply.result)
        return web.Response(
            status=reply.status, body=reply.body, headers={"Content-Type": reply.content_type}
        )

    return [web.post(PATH, webhook)]


async def _body(request: web.Request, limit: int) -> bytes | review.Reply:
    """The whole body, or why it is not read to its end."""
    too_long = review.unreadable(413, f"it is longer than {limit} bytes")
    if (request.content_length or 0) > limit:
        return too_long
    try:
        async with asyncio.timeout(BODY_S):
            body = await request.read()
    except web.HTTPRequestEntityTooLarge:
        return too_long
    except TimeoutError:
        return review.unreadable(408, f"it was not sent within {BODY_S:g} s")
    return body if len(body) <= limit else too_long


class Endpoint:
    """Serves the route as soon as there is a certificate.

    Args:
        bind: ``host:port``.
        certificate: what to serve with.
        served: the routes.
        time: the clock.
    """

    def __init__(
        self,
        bind: str,
        certificate: tls.Certificate,
        served: Iterable[web.RouteDef],
        *,
        time: clock.Clock,
    ) -> None:
        self._certificate = certificate
        self._server = app.Server(bind, served)
        self._time = time
        self._listening = False
        self._stopped = False

    @property
    def ready(self) -> bool:
        """Whether reviews are answered."""
        return self._listening

    @property
    def port(self) -> int:
        """The port, once it is ready."""
        return self._server.port

    async def run(self) -> None:
        """Wait for the certificate, listen, and look after the certificate for ever.

        Raises:
            OSError: the address cannot be had.
        """
        while not self._certificate.refresh():
            await self._time.sleep(LOOK_S)
        if not self._stopped:
            await self._server.start(self._certificate.context())
            self._listening = True
        while True:
            await self._time.sleep(LOOK_S)
            self._certificate.refresh()

    async def stop(self) -> None:
        """Stop listening and close all connections; may be called again, or before the start."""
        self._stopped = True
        self._listening = False
        await self._server.stop()
