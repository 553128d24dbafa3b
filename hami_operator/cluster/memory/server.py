"""The API server: a store behind HTTP, in a thread and event loop of its own.

Always a thread of its own: in kopf's loop its connections would be cancelled, or cost five
seconds at each stop. The store belongs to that thread while the server runs: other threads reach
it through `ApiServer.call`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import re
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final, ParamSpec, TypeVar

from aiohttp import abc, http_parser, streams, web

from hami_operator.cluster.memory import (
    authorize,
    calls,
    faults,
    http,
    records,
    store,
    webhooks,
)

P = ParamSpec("P")
T = TypeVar("T")

_START_LIMIT_S: Final = 10.0
_CALL_LIMIT_S: Final = 30.0
_STOP_LIMIT_S: Final = 10.0
_DRAIN_LIMIT_S: Final = 1.0


class ApiServer:
    """Serves a store at `url` between ``start`` and ``stop`` (or inside ``with``).

    The same store may be served again later, as by an API server that was restarted.

    Args:
        objects: the store; None: a new one.
        host: address to listen on.
        port: 0: any free one.
        subjects: token to who has it; if given, everything else is answered 401 or 403.
        services: base URL of each Service that webhooks name, by (namespace, name).
        log_limit: how many requests `requests` keeps.
    """

    def __init__(
        self,
        objects: store.Store | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        subjects: Mapping[str, authorize.Subject] | None = None,
        services: Mapping[tuple[str, str], str] | None = None,
        log_limit: int = http.DEFAULT_LOG_LIMIT,
    ) -> None:
        self.store = objects or store.Store()
        self.authorizer = authorize.Authorizer(subjects)
        hooks = webhooks.Webhooks(self.store, services)
        self._face = http.Face(
            self.store, authorizer=self.authorizer, hooks=hooks, log_limit=log_limit
        )
        self._host, self._port = host, port
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stopping: asyncio.Event | None = None

    @property
    def url(self) -> str:
        """Where it listens, without a slash at the end."""
        return f"http://{self._host}:{self._port}"

    def __enter__(self) -> ApiServer:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Listen; returns when requests are answered.

        Raises:
            OSError: the port is taken.
            TimeoutError: it does not come up.
        """
        ready: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._thread = threading.Thread(
            target=self._run, args=(ready,), name="memory-api-server", daemon=True
        )
        self._thread.start()
        try:
            ready.result(timeout=_START_LIMIT_S)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End all watches and connections, and the thread; may be called twice."""
        if self._thread is None:
            return
        loop, stopping = self._loop, self._stopping
        if loop is not None and stopping is not None:
            with contextlib.suppress(RuntimeError):  # it has just ended by itself
                loop.call_soon_threadsafe(stopping.set)
        self._thread.join(timeout=_STOP_LIMIT_S)
        self._thread = None

    def _run(self, ready: concurrent.futures.Future[None]) -> None:
        with asyncio.Runner() as runner:
            runner.run(self._serve(ready))

    async def _serve(self, ready: concurrent.futures.Future[None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        runner = web.ServerRunner(
            web.Server(self._face.handle, request_factory=self._request, access_log=None),
            shutdown_timeout=_DRAIN_LIMIT_S,
            handle_signals=False,
        )
        await runner.setup()
        try:
            site = web.TCPSite(runner, self._host, self._port, reuse_address=True)
            await site.start()
            self._port = runner.addresses[0][1]
            ready.set_result(None)
            await self._stopping.wait()
        except OSError as error:
            ready.set_exception(error)
        finally:
            self._loop = self._stopping = None
            self._face.watches.cut()
            await self._face.hooks.close()
            await runner.cleanup()

    @staticmethod
    def _request(
        message: http_parser.RawRequestMessage,
        payload: streams.StreamReader,
        protocol: web.RequestHandler,
        writer: abc.AbstractStreamWriter,
        task: asyncio.Task[None],
    ) -> web.BaseRequest:
        """A request that may be as large as kube-apiserver takes it."""
        return web.BaseRequest(
            message,
            payload,
            protocol,
            writer,
            task,
            task.get_loop(),
            client_max_size=http.BODY_LIMIT_BYTES,
        )

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function in the thread of the server and return its result.

        This is how a test reads and writes the store while the server runs.

        Raises:
            TimeoutError: the server is too busy.
        """
        if self._loop is None or threading.current_thread() is self._thread:
            return function(*args, **kwargs)
        result: concurrent.futures.Future[T] = concurrent.futures.Future()

        def run() -> None:
            try:
                result.set_result(function(*args, **kwargs))
            except BaseException as error:  # it is raised again in the caller
                result.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        return result.result(timeout=_CALL_LIMIT_S)

    @property
    def requests(self) -> list[calls.Call]:
        """All requests so far, oldest first."""
        return self.call(lambda: list(self._face.log))

    def forget_requests(self) -> None:
        """Start the log afresh."""
        self.call(self._face.log.clear)

    # Failures

    def fail(
        self,
        method: str,
        path_regex: str,
        *,
        status: int,
        times: int = 1,
        retry_after_s: int | None = None,
        after_write: bool = False,
        message: str = "injected failure",
    ) -> None:
        """Answer the next matching requests with a failure.

        Args:
            method: of the request; ``WATCH`` is a GET that watches, ``*`` any.
            path_regex: what the whole path must match.
            status: the answer.
            times: how often; `faults.FOR_EVER`: until `heal`.
            retry_after_s: the ``Retry-After`` header.
            after_write: the request is carried out all the same.
            message: the text of the answer.
        """
        self._add_fault(method, path_regex, status=status, times=times, message=message,
                        retry_after_s=retry_after_s, after_write=after_write)  # fmt: skip

    def reset(
        self, method: str, path_regex: str, *, times: int = 1, after_write: bool = False
    ) -> None:
        """Break the connection of the next matching requests; see `fail`."""
        self._add_fault(method, path_regex, times=times, reset=True, after_write=after_write)

    def delay(
        self, method: str, path_regex: str, *, seconds: float, times: int = faults.FOR_EVER
    ) -> None:
        """Answer the matching requests later; see `fail`."""
        self._add_fault(method, path_regex, times=times, latency_s=seconds)

    def _add_fault(self, method: str, path_regex: str, **how: Any) -> None:
        fault = faults.Fault(method=method, path=re.compile(path_regex), **how)
        self.call(self._face.faults.add, fault)

    def heal(self) -> None:
        """Take back all failures that have not happened yet, silence and repetition included."""
        self.call(self._face.faults.clear)
        self.silence_watches(False)
        self.repeat_events(1)

    def cut_watches(self, resource: str | None = None, *, reset: bool = False) -> int:
        """End the open watches of a kind, or all, and say how many that were.

        Args:
            resource: the kind; None: all.
            reset: break the connections instead of ending the streams.
        """
        return self.call(self._face.watches.cut, resource, reset=reset)

    def silence_watches(self, silent: bool = True) -> None:
        """Watches stay open and show nothing; when the silence ends they show what they missed."""
        self.call(setattr, self._face.watches, "silent", silent)
        self.call(self._face.watches.wake_all)

    def bookmark_every(self, interval_s: float) -> None:
        """How often watches that asked for bookmarks get one."""
        self.call(setattr, self._face.watches, "bookmark_interval_s", interval_s)
        self.call(self._face.watches.wake_all)

    def repeat_events(self, times: int) -> None:
        """Watches show each event so many times."""
        self.call(setattr, self._face.watches, "repeats", times)

    def compact(self, resource: str) -> None:
        """Forget the history of a kind: a watch from before gets 410, an open one too."""
        self.call(self.store.compact, resource)
        self.call(self._face.watches.wake_all)

    def watch_count(self, resource: str) -> int:
        """How many watches of a kind are open."""
        return self.call(self._face.watches.count, resource)

    # Objects, without HTTP

    def objects(self, resource: str, *, namespace: str = "") -> list[dict[str, Any]]:
        """Copies of all objects of a kind, ordered by namespace and name."""
        page = self.call(self.store.list, resource, namespace=namespace)
        return [record.copy(resource) for record in page.records]

    def object(self, resource: str, key: records.Key) -> dict[str, Any]:
        """A copy of one object."""
        return self.call(self.store.get, resource, key).copy(resource)
