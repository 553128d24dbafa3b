"""Sends requests: headers, time-outs, the fence, metrics, and errors by type."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any, Final, Literal
from urllib import parse

import aiohttp
import yarl

import hami_operator
from hami_operator import clock, errors
from hami_operator.cluster import ports
from hami_operator.cluster.kubernetes import connection, statuses, stream

REQUEST_S: Final = 10.0
CONNECT_S: Final = 5.0
SILENCE_S: Final = 75.0
"""A watch that is silent for longer is dead: the server sends a bookmark every minute."""
FENCE_MARGIN_S: Final = 1.0
"""A leader's write has ended so long before another process may lead."""
CONNECTIONS: Final = 100

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
METADATA_ONLY: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

_USER_AGENT: Final = f"hami-operator/{hami_operator.__version__}"
_METHODS: Final = {"create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}
_NO_ANSWER: Final = (aiohttp.ClientError, TimeoutError, OSError)
_NEVER_SENT: Final = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """One request.

    Attributes:
        verb: as RBAC has it: get, list, watch, create, update, patch, delete.
        resource: for metrics, e.g. ``pods/binding``.
        path: below the server's URL, already quoted.
        query: what follows the question mark.
        body: JSON bytes; None for none.
        content_type: of the body.
        accept: which form of the answer is wanted.
        timeout_s: for the whole request.
        fence: guards the write; None for reads and for the Lease itself.
    """

    verb: Literal["get", "list", "watch", "create", "update", "patch", "delete"]
    resource: str
    path: str
    query: Mapping[str, str] = dataclasses.field(default_factory=dict)
    body: bytes | None = None
    content_type: str = JSON
    accept: str = JSON
    timeout_s: float = REQUEST_S
    fence: ports.Fence | None = None

    @property
    def is_write(self) -> bool:
        """Whether it may change something."""
        return self.verb in _METHODS

    @property
    def words(self) -> str:
        """For messages."""
        return f"{self.verb} {self.path}"


class Transport:
    """Two pools of connections to one API server: for requests, and for watches."""

    def __init__(
        self,
        credentials: connection.Credentials,
        target: connection.Connection,
        *,
        recorder: ports.Recorder,
        time: clock.Clock,
    ) -> None:
        self._credentials = credentials
        self._server = target.server
        self._proxy = target.proxy or None
        self._server_name = target.server_name or None
        self._recorder = recorder
        self._time = time
        tls = target.ssl_context()
        self._requests = _session(CONNECTIONS, tls)
        self._watches = _session(0, tls)

    async def close(self) -> None:
        """Close all connections."""
        await self._requests.close()
        await self._watches.close()

    async def connection(self) -> connection.Connection:
        """Where and as whom we are connected, with a token of now."""
        return await self._credentials.connection()

    async def send(self, request: Request) -> bytes:
        """Send a request and read its answer to the end.

        Raises:
            errors.Fenced: leadership ends before an answer could come; nothing was sent.
            errors.ApiError: see `statuses.error`; `errors.Unclear` for a write without answer,
                `errors.Retryable` for a read without one and for what was never sent.
        """
        try:
            return await self._send(request, fresh=False)
        except errors.Unauthorized:  # the token was replaced; a refused request did nothing
            return await self._send(request, fresh=True)

    async def _send(self, request: Request, *, fresh: bool) -> bytes:
        timeout = aiohttp.ClientTimeout(total=_budget_s(request), connect=CONNECT_S)
        async with self._open(self._requests, request, timeout, fresh=fresh) as response:
            return await response.read()

    async def lines(self, request: Request) -> AsyncGenerator[bytes, None]:
        """The lines of a watch, until the server ends it.

        Raises:
            errors.ApiError: `errors.Retryable` where the connection is lost or silent.
        """
        timeout = aiohttp.ClientTimeout(
            total=None, connect=CONNECT_S, sock_connect=CONNECT_S, sock_read=SILENCE_S
        )
        splitter = stream.Lines()
        try:
            async with self._open(self._watches, request, timeout, fresh=False) as response:
                async for chunk in response.content.iter_any():
                    for line in splitter.feed(chunk):
                        yield line
        except errors.Unauthorized:
            await self._credentials.connection(fresh=True)
            raise
        except stream.LineTooLong as error:
            raise errors.Gone(f"{request.words}: {error}") from error

    @contextlib.asynccontextmanager
    async def _open(
        self,
        session: aiohttp.ClientSession,
        request: Request,
        timeout: aiohttp.ClientTimeout,
        *,
        fresh: bool,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        target = await self._credentials.connection(fresh=fresh)
        began_s = self._time.monotonic()
        code = "none"
        try:
            async with session.request(
                _METHODS.get(request.verb, "GET"),
                _url(self._server, request),
                data=request.body,
                headers=_headers(request, target.authorization),
                timeout=timeout,
                allow_redirects=False,
                proxy=self._proxy,
                server_hostname=self._server_name,
            ) as response:
                code = str(response.status)
                if response.status >= 300:
                    raise await _refusal(request, response)
                yield response
        except _NO_ANSWER as error:
            raise _no_answer(request, error) from error
        finally:
            self._record(request, code, self._time.monotonic() - began_s)

    def _record(self, request: Request, code: str, duration_s: float) -> None:
        labels = {"verb": request.verb, "resource": request.resource, "code": code}
        self._recorder.count("hami_api_requests_total", **labels)
        if request.verb != "watch":  # how long a watch lives says nothing about the server
            self._recorder.observe("hami_api_request_duration_seconds", duration_s, **labels)


def _session(limit: int, tls: Any) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=limit, ssl=tls if tls is not None else True),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"User-Agent": _USER_AGENT},
        trust_env=False,
        auto_decompress=True,
    )


def _budget_s(request: Request) -> float:
    """Seconds for the request; under a fence they end before another process may lead."""
    if request.fence is None:
        return request.timeout_s
    request.fence.check()
    budget_s = min(request.timeout_s, request.fence.remaining_s() - FENCE_MARGIN_S)
    if budget_s <= 0:
        raise errors.Fenced(f"{request.words}: leadership ends before an answer could come")
    return budget_s


def _url(server: str, request: Request) -> yarl.URL:
    query = f"?{parse.urlencode(request.query)}" if request.query else ""
    return yarl.URL(f"{server}{request.path}{query}", encoded=True)


def _headers(request: Request, authorization: str) -> dict[str, str]:
    headers = {"Accept": request.accept}
    if request.body is not None:
        headers["Content-Type"] = request.content_type
    if authorization:
        headers["Authorization"] = authorization
    return headers


async def _refusal(request: Request, response: aiohttp.ClientResponse) -> errors.ApiError:
    return statuses.error(
        response.status,
        await response.read(),
        retry_after=response.headers.get("Retry-After"),
        is_write=request.is_write,
        what=request.words,
    )


def _no_answer(request: Request, error: BaseException) -> errors.ApiError:
    text = f"{request.words}: {str(error) or type(error).__name__}"
    unclear = request.is_write and not isinstance(error, _NEVER_SENT)
    return (errors.Unclear if unclear else errors.Retryable)(text)
