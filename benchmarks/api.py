"""The load: a light client that creates and deletes pods, and an own watch that times them."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Self

import aiohttp
import orjson

from benchmarks import objects
from tests.controlplane import cluster

POD_PATH: Final = f"/api/v1/namespaces/{objects.NAMESPACE}/pods"
SENDERS: Final = 16
"""Requests under way at once."""
REQUEST_S: Final = 30.0
JSON: Final = "application/json"
MERGE: Final = "application/merge-patch+json"


class Unexpected(Exception):
    """The API server answered something else than what the benchmark needs."""


class Api:
    """An admin's connection to the control plane; use it in ``async with``."""

    def __init__(self, plane: cluster.ControlPlane) -> None:
        self._plane = plane
        self._session: aiohttp.ClientSession

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            self._plane.url,
            headers={"Authorization": f"Bearer {self._plane.admin_token}"},
            connector=aiohttp.TCPConnector(ssl=self._plane.ssl_context(), limit=SENDERS + 4),
            timeout=aiohttp.ClientTimeout(total=REQUEST_S),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def call(
        self, method: str, path: str, body: Any = None, *, kind: str = JSON, want: int = 200
    ) -> Any:
        """One request; its answer.

        Raises:
            Unexpected: another status than the wanted one.
        """
        data = None if body is None else orjson.dumps(body)
        headers = {"Content-Type": kind}
        async with self._session.request(method, path, data=data, headers=headers) as answer:
            text = await answer.read()
            if answer.status != want:
                raise Unexpected(f"{method} {path}: {answer.status} {text[:300]!r}")
            return orjson.loads(text)

    async def each(self, calls: Sequence[tuple[str, str, Any, int]]) -> list[float]:
        """Many requests (method, path, body, wanted status), some at once; when each was sent."""
        sent = [0.0] * len(calls)
        remaining = iter(enumerate(calls))

        async def send() -> None:
            for at, (method, path, body, want) in remaining:
                sent[at] = time.monotonic()
                await self.call(method, path, body, want=want)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(SENDERS, len(calls))):
                tasks.create_task(send())
        return sent

    async def create(self, pods: Iterable[objects.Raw]) -> dict[str, float]:
        """Create pods; name to when its request was sent."""
        made = list(pods)
        sent = await self.each([("POST", POD_PATH, pod, 201) for pod in made])
        names = [pod["metadata"]["name"] for pod in made]
        return dict(zip(names, sent, strict=True))

    async def delete(self, names: Iterable[str]) -> None:
        """End pods at once."""
        query = "gracePeriodSeconds=0"
        await self.each([("DELETE", f"{POD_PATH}/{name}?{query}", None, 200) for name in names])

    async def delete_all(self) -> None:
        """End every pod of the benchmark at once; without a grace period none is left after it."""
        await self.call("DELETE", f"{POD_PATH}?gracePeriodSeconds=0")

    async def lines(self, path: str) -> AsyncIterator[bytes]:
        """Lines of a watch, as long as it lives."""
        timeout = aiohttp.ClientTimeout(total=None)
        async with self._session.get(path, timeout=timeout) as answer:
            pending = b""
            async for chunk in answer.content.iter_any():
                *complete, pending = (pending + chunk).split(b"\n")
                for line in complete:
                    yield line


@dataclasses.dataclass(slots=True)
class Seen:
    """When a pod's watch first showed something, on the monotonic clock; None for not yet."""

    bound_s: float | None = None
    running_s: float | None = None
    refused_s: float | None = None
    gone_s: float | None = None


class Eyes:
    """An own watch of the benchmark's pods; use it in ``async with``.

    Attributes:
        pods: name to what was seen of it.
        interruptions: how often the server ended the watch; each delays what is seen a little.
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self.pods: dict[str, Seen] = {}
        self.interruptions = 0
        self._news = asyncio.Event()

    async def __aenter__(self) -> Self:
        found = await self._api.call("GET", f"{POD_PATH}?limit=1")
        version = found["metadata"]["resourceVersion"]
        self._task = asyncio.create_task(self._watch(version))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def until(self, holds: Callable[[], bool], deadline_s: float) -> bool:
        """Wait until something holds, until a moment of the monotonic clock at most."""
        while not holds():
            if self._task.done():
                self._task.result()  # whatever ended the watch
            self._news.clear()
            try:
                async with asyncio.timeout_at(deadline_s):
                    await self._news.wait()
            except TimeoutError:
                return holds()
        return True

    def count(self, names: Iterable[str], what: str) -> int:
        """How many of these pods have shown ``what``, a field of `Seen`."""
        return sum(getattr(self.pods.get(name), what, None) is not None for name in names)

    def times(self, names: Iterable[str], what: str) -> dict[str, float]:
        """When they did, for those that have."""
        found = {name: getattr(self.pods.get(name), what, None) for name in names}
        return {name: at for name, at in found.items() if at is not None}

    async def _watch(self, version: str) -> None:
        """Watch for ever: on a busy machine the server ends a watch that does not keep up."""
        while True:
            path = f"{POD_PATH}?watch=1&resourceVersion={version}&timeoutSeconds=1800"
            async for line in self._api.lines(path):
                event = orjson.loads(line)
                version = event["object"]["metadata"]["resourceVersion"]
                self._take(event, time.monotonic())
                self._news.set()
            self.interruptions += 1

    def _take(self, event: Mapping[str, Any], at: float) -> None:
        pod = event["object"]
        seen = self.pods.setdefault(pod["metadata"]["name"], Seen())
        if event["type"] == "DELETED":
            seen.gone_s = seen.gone_s or at
            return
        if pod["spec"].get("nodeName"):
            seen.bound_s = seen.bound_s or at
        if pod["status"].get("phase") == "Running":
            seen.running_s = seen.running_s or at
        if _is_refused(pod):
            seen.refused_s = seen.refused_s or at


def _is_refused(pod: Mapping[str, Any]) -> bool:
    return any(
        one["type"] == "PodScheduled" and one["status"] == "False"
        for one in pod["status"].get("conditions") or ()
    )
