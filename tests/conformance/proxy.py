"""A proxy in front of an API server that fails requests on order, on the real one too."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import aiohttp
import yarl
from aiohttp import web

from hami_operator.cluster.memory import faults

_KEPT: Final = ("Content-Type", "Retry-After")
_SENT: Final = ("Accept", "Authorization", "Content-Type", "User-Agent")
_REASONS: Final = {409: "Conflict", 410: "Expired", 429: "TooManyRequests"}

Hook = Callable[[], Any]


class Proxy:
    """Passes requests on; see `memory.faults.Fault` for what may happen to them instead.

    Attributes:
        url: where it listens.
        failed: method and path of every request that was failed.
        delayed: how many requests are being held up now.
    """

    def __init__(self, target: str, *, ssl: ssl.SSLContext | bool) -> None:
        self.url = ""
        self.failed: list[str] = []
        self.delayed = 0
        self._target = target
        self._ssl = ssl
        self._faults = faults.Faults()
        self._hooks: list[tuple[str, re.Pattern[str], Hook]] = []
        self._session: aiohttp.ClientSession | None = None
        self._streams: set[asyncio.Task[Any]] = set()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Proxy]:
        """Serve inside the block."""
        connector = aiohttp.TCPConnector(ssl=self._ssl, limit=0)
        runner = web.ServerRunner(web.Server(self._handle, access_log=None), shutdown_timeout=1)
        async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:
            self._session = session
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self.url = "http://{}:{}".format(*runner.addresses[0][:2])
            try:
                yield self
            finally:
                await runner.cleanup()

    def fail(
        self,
        method: str,
        path: str,
        *,
        status: int,
        times: int = 1,
        retry_after_s: int | None = None,
        after_write: bool = False,
    ) -> None:
        """Answer the next such requests with a failure; ``path`` is a regular expression."""
        self._faults.add(
            faults.Fault(
                method=method,
                path=re.compile(path),
                status=status,
                times=times,
                retry_after_s=retry_after_s,
                after_write=after_write,
            )
        )

    def delay(self, method: str, path: str, *, seconds: float) -> None:
        """Pass such requests on later; ``path`` is a regular expression."""
        self._faults.add(
            faults.Fault(
                method=method,
                path=re.compile(path),
                times=faults.FOR_EVER,
                latency_s=seconds,
            )
        )

    def before(self, method: str, path: str, hook: Hook) -> None:
        """Await ``hook()`` once, right before the next such request is passed on."""
        self._hooks.append((method, re.compile(path), hook))

    def heal(self) -> None:
        """Pass everything on again."""
        self._faults.clear()

    def cut_watches(self) -> None:
        """Break every open watch."""
        for stream in tuple(self._streams):
            stream.cancel()

    @property
    def pending(self) -> int:
        """How many failures have not happened yet."""
        return sum(max(fault.times, 0) for fault in self._faults.waiting)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        watches = request.method == "GET" and "watch=" in request.query_string
        method = "WATCH" if watches else request.method
        for hook in self._taken(method, request.path):
            await hook()
        fault = self._faults.take(method, request.path)
        if fault is not None and fault.latency_s:
            self.delayed += 1
            await asyncio.sleep(fault.latency_s)
            self.delayed -= 1
        if fault is not None and fault.fails and not fault.after_write:
            return self._refuse(fault, method, request.path)
        try:
            answer = await self._pass(request, body, watches=watches)
        except aiohttp.ClientError:
            return web.Response(status=502)
        if fault is not None and fault.fails:
            return self._refuse(fault, method, request.path)
        return answer

    def _taken(self, method: str, path: str) -> list[Hook]:
        """Hooks that are due now; each is due once."""
        due = [one for one in self._hooks if one[0] == method and one[1].fullmatch(path)]
        self._hooks = [one for one in self._hooks if one not in due]
        return [hook for _, _, hook in due]

    def _refuse(self, fault: faults.Fault, method: str, path: str) -> web.Response:
        self.failed.append(f"{method} {path}")
        headers = {"Content-Type": "application/json"}
        if fault.retry_after_s is not None:
            headers["Retry-After"] = str(fault.retry_after_s)
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "message": fault.message,
            "reason": _REASONS.get(fault.status, "InternalError"),
            "code": fault.status,
        }
        if method == "WATCH" and fault.status == 410:  # told inside the stream, as servers do
            return web.json_response({"type": "ERROR", "object": body})
        return web.Response(status=fault.status, text=json.dumps(body), headers=headers)

    async def _pass(
        self, request: web.BaseRequest, body: bytes, *, watches: bool
    ) -> web.StreamResponse:
        assert self._session is not None
        headers = {name: request.headers[name] for name in _SENT if name in request.headers}
        url = f"{self._target}{request.raw_path}"
        async with self._session.request(
            request.method,
            yarl.URL(url, encoded=True),
            data=body or None,
            headers=headers,
        ) as answer:
            kept = {name: answer.headers[name] for name in _KEPT if name in answer.headers}
            if not watches:
                return web.Response(status=answer.status, body=await answer.read(), headers=kept)
            return await self._stream(request, answer, kept)

    async def _stream(
        self, request: web.BaseRequest, answer: aiohttp.ClientResponse, headers: dict[str, str]
    ) -> web.StreamResponse:
        response = web.StreamResponse(status=answer.status, headers=headers)
        await response.prepare(request)
        task = asyncio.create_task(_copy(answer, response))
        self._streams.add(task)
        try:
            await asyncio.wait({task})
        finally:
            self._streams.discard(task)
            task.cancel()
        if task.cancelled() and request.transport is not None:
            request.transport.abort()
        return response


async def _copy(answer: aiohttp.ClientResponse, response: web.StreamResponse) -> None:
    with contextlib.suppress(ConnectionError, aiohttp.ClientError):
        async for chunk in answer.content.iter_any():
            await response.write(chunk)
        await response.write_eof()
