"""The HTTP session that kopf works with: our credentials, and an answer that it would not survive.

kopf lists anew where a watch tells it of code 410 *inside* its stream. The same as an answer of
its own, to a watch or to the next page of a list that took too long, would end the process.
"""

from __future__ import annotations

import asyncio
import datetime
from http import HTTPStatus
from typing import Final

import aiohttp
import kopf
import structlog
from aiohttp import base_protocol

from hami_operator.cluster import kubernetes

GONE: Final = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}\n'
"""How a watch says that its version is too old."""

_log = structlog.get_logger(__name__)


def build(
    connection: kubernetes.Connection, *, expiration: datetime.datetime
) -> kopf.AiohttpSession:
    """Our connection in kopf's terms; it knows no name of the server other than its host."""
    tls = connection.ssl_context()
    headers = {"Authorization": connection.authorization} if connection.authorization else {}
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=tls if tls is not None else True),
        headers=headers,
        proxy=connection.proxy or None,
        trust_env=False,
        middlewares=(list_anew,),
    )
    return kopf.AiohttpSession(
        server=connection.server, aiohttp_session=session, expiration=expiration
    )


async def list_anew(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Let kopf list anew where the server says that a version or a page is gone.

    Raises:
        aiohttp.ClientPayloadError: a list cannot be continued; kopf begins it again.
    """
    response = await handler(request)
    if response.status != HTTPStatus.GONE:
        return response
    _log.info("listed anew, since the version is gone", path=request.url.path)
    if "watch" not in request.url.query:
        response.release()
        raise aiohttp.ClientPayloadError(f"{request.url.path}: 410: the page is gone")
    await response.read()
    return _told_in_stream(response)


def _told_in_stream(response: aiohttp.ClientResponse) -> aiohttp.ClientResponse:
    """The answer as the first and last event of a watch."""
    loop = asyncio.get_running_loop()
    content = aiohttp.StreamReader(base_protocol.BaseProtocol(loop), limit=2**16, loop=loop)
    content.feed_data(GONE)
    content.feed_eof()
    response.status, response.content = int(HTTPStatus.OK), content
    return response
