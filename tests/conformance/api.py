"""A thin client of the Kubernetes API for tests: it hides nothing and knows no kind."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import Any, Self

import aiohttp

MERGE_PATCH = "application/merge-patch+json"
REQUEST_TIMEOUT_S = 30.0

Answer = tuple[int, Any]


class Api:
    """One HTTP session with one API server; every call returns (status, decoded body)."""

    def __init__(
        self,
        base_url: str,
        *,
        headers: Mapping[str, str] | None = None,
        ssl: ssl.SSLContext | bool = True,
    ) -> None:
        self.base_url = base_url
        self._headers = dict(headers or {})
        self._ssl = ssl
        self._opened: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._opened = aiohttp.ClientSession(
            self.base_url,
            headers=self._headers,
            connector=aiohttp.TCPConnector(ssl=self._ssl),
            timeout=aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S),
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._opened is not None:
            await self._opened.close()
            self._opened = None

    async def get(self, path: str, *, accept: str | None = None, **query: str) -> Answer:
        return await self._call("GET", path, query=query, accept=accept)

    async def post(self, path: str, body: Any, **query: str) -> Answer:
        return await self._call("POST", path, query=query, body=body)

    async def put(self, path: str, body: Any, **query: str) -> Answer:
        return await self._call("PUT", path, query=query, body=body)

    async def patch(
        self, path: str, body: Any, *, content_type: str = MERGE_PATCH, **query: str
    ) -> Answer:
        return await self._call("PATCH", path, query=query, body=body, content_type=content_type)

    async def delete(self, path: str, body: Any = None, **query: str) -> Answer:
        return await self._call("DELETE", path, query=query, body=body)

    async def watch(
        self, path: str, *, count: int, timeout_s: float = 15.0, **query: str
    ) -> tuple[int, list[Any]]:
        """Return the first `count` events of a watch, oldest first.

        A refused watch returns its status and body; a stream that the server ends returns early.

        Raises:
            TimeoutError: fewer came in time; the message shows those that did.
        """
        events: list[Any] = []
        parameters = {"watch": "true", **query}
        try:
            async with asyncio.timeout(timeout_s):
                async with self._session.get(path, params=parameters) as answer:
                    if answer.status != 200:
                        return answer.status, [await answer.json(content_type=None)]
                    async for line in _lines(answer.content):
                        events.append(json.loads(line))
                        if len(events) == count:
                            break
        except TimeoutError:
            raise TimeoutError(f"{len(events)} of {count} events in time: {events}") from None
        return 200, events

    @property
    def _session(self) -> aiohttp.ClientSession:
        if self._opened is None:
            raise RuntimeError("use `async with Api(...) as api`")
        return self._opened

    async def _call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str],
        body: Any = None,
        content_type: str = "application/json",
        accept: str | None = None,
    ) -> Answer:
        headers = {"Accept": accept or "application/json"}
        if body is not None:
            headers["Content-Type"] = content_type
        data = None if body is None else json.dumps(body)
        async with self._session.request(
            method, path, params=query, data=data, headers=headers
        ) as answer:
            return answer.status, await answer.json(content_type=None)


async def _lines(stream: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    # The reader's own readline refuses objects longer than its buffer.
    pending = b""
    async for chunk in stream.iter_any():
        *complete, pending = (pending + chunk).split(b"\n")
        for line in complete:
            if line:
                yield line
