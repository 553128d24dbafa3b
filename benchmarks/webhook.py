"""Admission reviews per second on one core, over TLS; and what decisions notice of them.

The server is a process of its own on one core, the load comes from another. Decisions are made in
the server's loop, one every 20 ms on 100 nodes; their latency counts from the moment when each
was due, so it includes waiting for reviews.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import datetime
import os
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import orjson
from aiohttp import web

from benchmarks import decisions, figures, meter, objects
from hami_operator import clock, settings
from hami_operator.cli import wiring
from hami_operator.cluster import ports
from hami_operator.devices import registry
from hami_operator.server import authority, tls, webhook

NAME: Final = "webhook"
HOST: Final = "127.0.0.1"
POD_BYTES: Final = 4500
PARALLEL: Final = 16
PERIOD_S: Final = 0.02
PACED_PER_S: Final = 300
START_S: Final = 60.0
COLUMNS: Final = {
    "load": "load",
    "reviews/s": "reviews_per_s",
    "CPU ms/review": "cpu_ms",
    "p50 ms": "p50_ms",
    "p99 ms": "p99_ms",
    "max ms": "max_ms",
    "decision p50 ms": "decision_p50_ms",
    "decision p99 ms": "decision_p99_ms",
}


def main(arguments: Sequence[str]) -> int:
    """Measure reviews alone, decisions alone, and both together."""
    args = _parser().parse_args(arguments)
    if args.serve:
        asyncio.run(_serve(Path(args.serve), args))
        return 0
    rows = asyncio.run(_measure(args))
    print(figures.table(rows, COLUMNS))
    figures.keep(NAME, {"machine": figures.machine(), "rows": rows}, args.output)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks {NAME}", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="per load (%(default)s)")
    parser.add_argument("--nodes", type=int, default=100, help="for decisions (%(default)s)")
    parser.add_argument("--cards", type=int, default=8, help="per node (%(default)s)")
    parser.add_argument("--pods", type=int, default=800, help="running pods (%(default)s)")
    parser.add_argument("--output", metavar="FILE", help="JSON (default: build/benchmarks)")
    parser.add_argument("--serve", metavar="FOLDER", help=argparse.SUPPRESS)
    return parser


# ---- the server


async def _serve(folder: Path, args: argparse.Namespace) -> None:
    """Answer reviews, and decide when told to, until the process is ended."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    rules = wiring.admission_rules(registry.default(), settings.Settings())
    decider = Decider(args)
    endpoint = webhook.Endpoint(
        f"{HOST}:0",
        tls.Certificate(str(folder / "tls.crt"), str(folder / "tls.key")),
        [*webhook.routes(rules, metrics=ports.NoRecorder()), *decider.routes()],
        time=clock.SystemClock(),
    )
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(endpoint.run())
        tasks.create_task(decider.run())
        while not endpoint.ready:  # noqa: ASYNC110 - once, before anything is measured
            await asyncio.sleep(0.01)
        (folder / "port.new").write_text(str(endpoint.port))
        (folder / "port.new").rename(folder / "port")


class Decider:
    """Decides for one pod per period while it is told to, and keeps the latencies."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._state = decisions.Cluster(args).world()
        self._latencies_ms: list[float] = []
        self._on = False

    def routes(self) -> list[web.RouteDef]:
        """``POST /decisions/on|off``; the answer to ``off`` is what was measured."""

        async def switch(request: web.Request) -> web.Response:
            self._on = request.match_info["how"] == "on"
            body = orjson.dumps(self._latencies_ms)
            self._latencies_ms = []
            return web.Response(body=body)

        return [web.post("/decisions/{how}", switch)]

    async def run(self) -> None:
        """One pod after another, each of its own size, for ever."""
        number = 0
        due_s = time.monotonic()
        while True:
            due_s = max(due_s + PERIOD_S, time.monotonic() - PERIOD_S)
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))
            if self._on:
                number += 1
                limits = objects.gpu(1, 1000 + 10 * (number % 50))
                next(decisions.attempts(self._state, [objects.pod(f"p{number}", limits)]))
                self._state.pod_gone(f"uid-p{number}", decisions.now())
                self._latencies_ms.append((time.monotonic() - due_s) * 1000)


# ---- the load


async def _measure(args: argparse.Namespace) -> list[dict[str, Any]]:
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with _server(folder, args) as process:
            load = Load(int((folder / "port").read_text()), folder / "ca.crt", process.pid)
            await load.run(1.0)  # warm
            return [
                {"load": "reviews", **await load.run(args.seconds)},
                {"load": "decisions", **await load.run(args.seconds, parallel=0, decide=True)},
                {
                    "load": f"decisions, {PACED_PER_S} reviews/s",
                    **await load.run(args.seconds, decide=True, per_s=PACED_PER_S),
                },
                {
                    "load": "decisions, reviews without pause",
                    **await load.run(args.seconds, decide=True),
                },
            ]


@contextlib.contextmanager
def _server(folder: Path, args: argparse.Namespace) -> Iterator[subprocess.Popen[bytes]]:
    now = datetime.datetime.now(datetime.UTC)
    issued = authority.issue([HOST], now=now, lifetime=datetime.timedelta(hours=1))
    for name, content in (
        ("tls.crt", issued.certificate),
        ("tls.key", issued.key),
        ("ca.crt", issued.bundle),
    ):
        (folder / name).write_bytes(content)
    command = [sys.executable, "-m", "benchmarks", NAME, f"--serve={folder}"]
    command += [f"--nodes={args.nodes}", f"--cards={args.cards}", f"--pods={args.pods}"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        end_s = time.monotonic() + START_S
        while not (folder / "port").exists():
            if process.poll() is not None or time.monotonic() > end_s:
                raise RuntimeError("the server did not start")
            time.sleep(0.05)
        yield process
    finally:
        process.kill()
        process.wait()


def review() -> bytes:
    """A review of a pod of the usual size: two containers, one with a card."""
    pod = objects.pod("bench", {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4000"}, {"cpu": "1"})
    pod["spec"]["schedulerName"] = "default-scheduler"
    env = pod["spec"]["containers"][0].setdefault("env", [])
    while len(orjson.dumps(pod)) < POD_BYTES:
        env.append({"name": f"SETTING_{len(env)}", "value": "a value of the usual length"})
    return orjson.dumps(
        {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
                "kind": {"group": "", "version": "v1", "kind": "Pod"},
                "resource": {"group": "", "version": "v1", "resource": "pods"},
                "namespace": objects.NAMESPACE,
                "operation": "CREATE",
                "userInfo": {"username": "bench"},
                "object": pod,
            },
        }
    )


class Load:
    """Sends reviews over kept connections, by a client that costs next to nothing."""

    def __init__(self, port: int, authority_file: Path, pid: int) -> None:
        self._port = port
        self._context = ssl.create_default_context(cafile=authority_file)
        self._pid = pid
        body = review()
        head = f"POST /webhook HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"
        self._request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body

    async def run(
        self, seconds: float, *, parallel: int = PARALLEL, decide: bool = False, per_s: float = 0.0
    ) -> dict[str, float]:
        """Figures of one load; ``per_s`` limits the reviews of all connections together."""
        if decide:
            await self._switch("on")
        began_s, cpu_s = time.monotonic(), meter.cpu_s(self._pid)
        pause_s = parallel / per_s if per_s else 0.0
        async with asyncio.TaskGroup() as tasks:
            senders = [
                tasks.create_task(self._send(began_s + seconds, pause_s)) for _ in range(parallel)
            ]
            await asyncio.sleep(seconds)
        took_ms = [one for sender in senders for one in sender.result()]
        used_s = meter.cpu_s(self._pid) - cpu_s
        found: dict[str, float] = {}
        if took_ms:
            found |= {"reviews_per_s": len(took_ms) / seconds, **figures.spread(took_ms, "ms")}
        if took_ms and not decide:
            found["cpu_ms"] = used_s * 1000 / len(took_ms)
        if decide:
            late = orjson.loads(await self._switch("off"))
            found |= {f"decision_{key}": one for key, one in figures.spread(late, "ms").items()}
        return found

    async def _send(self, end_s: float, pause_s: float) -> list[float]:
        took_ms = []
        async with self._connected() as (reader, writer):
            while (began_s := time.monotonic()) < end_s:
                writer.write(self._request)
                answer = await _answer(reader)
                took_ms.append((time.monotonic() - began_s) * 1000)
                if b'"allowed":true' not in answer or b"JSONPatch" not in answer:
                    raise RuntimeError(f"not the answer that was expected: {answer!r}")
                if pause_s:
                    await asyncio.sleep(max(0.0, began_s + pause_s - time.monotonic()))
        return took_ms

    async def _switch(self, how: str) -> bytes:
        async with self._connected() as (reader, writer):
            head = f"POST /decisions/{how} HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 0\r\n\r\n"
            writer.write(head.encode())
            return await _answer(reader)

    @contextlib.asynccontextmanager
    async def _connected(
        self,
    ) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        reader, writer = await asyncio.open_connection(HOST, self._port, ssl=self._context)
        try:
            yield reader, writer
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()


async def _answer(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    (length,) = [
        int(line.partition(b":")[2])
        for line in head.lower().split(b"\r\n")
        if line.startswith(b"content-length:")
    ]
    return await reader.readexactly(length)
