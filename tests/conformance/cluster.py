"""A cluster for one test: an API server, simulated nodes, operators, and eyes on all of it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import sys
import time
import uuid
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from pathlib import Path
from typing import Any, Final

import yaml

from hami_operator import clock
from hami_operator.cluster import pages, ports
from hami_operator.cluster.kubernetes import admin
from hami_operator.devices import registry
from hami_operator.simulator import audit, catalogue, feed, fleet, machine, mirror
from tests import builders
from tests.conformance import operators, proxy, servers
from tests.conformance.api import Api

DEADLINE_S: Final = 60.0
"""For everything that is waited for; nothing takes so long unless something is wrong."""
POLL_S: Final = 0.05
SCHEDULER: Final = "hami-scheduler"
LEASE: Final = f"/apis/coordination.k8s.io/v1/namespaces/{servers.NAMESPACE}/leases/{SCHEDULER}"
FAST: Final[Mapping[str, Any]] = {
    "lease_duration": "6s",
    "renew_deadline": "4s",
    "retry_period": "500ms",
}
"""A Lease that passes on within seconds; the proportions are those of the defaults."""
QUICK: Final = machine.Behaviour(period_s=20.0, grace_s=0.05, heartbeat_s=0.0)

Raw = dict[str, Any]


class Cluster:
    """See the module.

    Attributes:
        server: where everything is.
        api: raw requests as the admin.
        admin: the same, typed.
        namespace: of this test's pods.
        prefix: what the names of this test's nodes begin with.
        pods: this test's pods as a watch shows them.
        nodes: all Nodes, likewise.
        events: all Events, likewise.
    """

    def __init__(
        self, server: servers.Server, api: Api, client: admin.Admin, folder: Path
    ) -> None:
        unique = uuid.uuid4().hex[:6]
        self.server = server
        self.api = api
        self.admin = client
        self.namespace = f"t-{unique}"
        self.prefix = f"n-{unique}-"
        self.bell = asyncio.Event()
        self.pods = mirror.Mirror(self.bell)
        self.nodes = Diary(self.bell)
        self.events = mirror.Mirror(self.bell)
        self.operators: list[operators.Operator] = []
        self._folder = folder
        self._numbers = itertools.count(1)
        self._began = len(server.requests())

    # ---- life

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[Cluster]:
        """Watch and serve inside the block, and leave the server as it was found."""
        await self._make_namespaces()
        try:
            async with contextlib.AsyncExitStack() as running:
                for source in self._feeds():
                    await running.enter_async_context(background(source.run(), "eyes"))
                running.callback(self._stop_operators)
                yield self
                complaints = [text for one in self.operators for text in one.complaints()]
                assert not complaints, complaints
            refused = [one for one in self.requests() if one.status == 403]
            assert not refused, f"the operator lacks rights: {refused[:3]}"
        finally:
            await self._clean_up()

    def _stop_operators(self) -> None:
        for one in self.operators:
            one.stop()

    async def _make_namespaces(self) -> None:
        for name in (servers.NAMESPACE, self.namespace):
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            status, answer = await self.api.post("/api/v1/namespaces", body)
            assert status in (201, 409), answer

    def _feeds(self) -> list[feed.Feed]:
        own = ports.Selector(fields=f"metadata.namespace={self.namespace}")
        return [
            feed.Feed(self.admin, resource, sink, selector=selector, time=clock.SystemClock())
            for resource, sink, selector in (
                (ports.PODS, self.pods, own),
                (ports.NODES, self.nodes, ports.EVERYTHING),
                (ports.EVENTS, self.events, ports.EVERYTHING),
            )
        ]

    async def _clean_up(self) -> None:
        pods = f"/api/v1/namespaces/{self.namespace}/pods"
        leases = f"/apis/coordination.k8s.io/v1/namespaces/{servers.NAMESPACE}/leases"
        for path in (pods, "/api/v1/nodes", leases):
            status, answer = await self.api.delete(path, gracePeriodSeconds="0")
            assert status == 200, answer

    # ---- actors

    def operator(
        self,
        *flags: str,
        through: proxy.Proxy | None = None,
        env: Mapping[str, str] | None = None,
        command: Sequence[str] = operators.COMMAND,
        **config: Any,
    ) -> operators.Operator:
        """Start a replica.

        Args:
            flags: more of them.
            through: how it reaches the API server; directly, unless given.
            env: more of its environment.
            command: the module that is run, with its own arguments.
            config: keys of the configuration file.
        """
        name = f"operator-{next(self._numbers)}"
        file = self._folder / f"{name}.yaml"
        file.write_text(yaml.safe_dump({**FAST, **config}))
        kubeconfig = self.server.write_kubeconfig(
            self._folder / f"{name}.kubeconfig", url=through.url if through else ""
        )
        made = operators.Operator(
            kubeconfig,
            self._folder,
            f"--config={file}",
            *flags,
            name=name,
            env=env,
            command=command,
        )
        self.operators.append(made)
        return made

    async def deciding(
        self, *flags: str, through: proxy.Proxy | None = None, **config: Any
    ) -> operators.Operator:
        """Start a replica and wait until it leads and has seen everything."""
        made = self.operator(*flags, through=through, **config)
        await self.decides(made)
        return made

    async def decides(self, made: operators.Operator) -> None:
        """Wait until a replica leads and has seen everything."""

        def ready() -> bool:
            if made.exit_code() is not None:
                raise made.failure(f"ended with exit code {made.exit_code()}")
            return made.decides

        try:
            await eventually(ready, "it decides", deadline_s=operators.START_S)
        except TimeoutError as error:
            raise made.failure(str(error)) from None

    @contextlib.asynccontextmanager
    async def fleet(
        self,
        hosts: Iterable[catalogue.Host],
        *,
        behaviour: machine.Behaviour = QUICK,
        rows: registry.Registry | None = None,
    ) -> AsyncIterator[fleet.Fleet]:
        """Simulated nodes, serving inside the block."""
        made = fleet.Fleet(hosts, self.admin, rows=rows, behaviour=behaviour)
        await made.install()
        async with background(made.serve(), "fleet"):
            await made.started.wait()
            yield made

    @contextlib.asynccontextmanager
    async def proxy(self) -> AsyncIterator[proxy.Proxy]:
        """A proxy in front of the server, running inside the block."""
        async with proxy.Proxy(self.server.url, ssl=self.server.ssl).running() as running:
            yield running

    async def node(self, made: builders.NodeBuilder) -> Raw:
        """Create a Node that no simulated kubelet looks after, open for pods."""
        body = _bare(made.raw())
        status, found = await self.api.post("/api/v1/nodes", body)
        assert status == 201, found
        taints = body["spec"].get("taints")
        if found["spec"].get("taints") != taints:
            path = f"/api/v1/nodes/{found['metadata']['name']}"
            status, found = await self.api.patch(path, {"spec": {"taints": taints}})
            assert status == 200, found
        return found

    async def patch_node(self, name: str, annotations: Mapping[str, str | None]) -> Raw:
        """Write annotations of a Node, as a plugin does."""
        body = {"metadata": {"annotations": dict(annotations)}}
        status, found = await self.api.patch(f"/api/v1/nodes/{name}", body)
        assert status == 200, found
        return found

    async def pod(self, made: builders.PodBuilder, *, status: int = 201) -> Raw:
        """Create a pod in the test's namespace; ours to place, unless it says otherwise."""
        answered, found = await self.api.post(self.path(), self.manifest(made))
        assert answered == status, found
        return found

    def manifest(self, made: builders.PodBuilder) -> Raw:
        """The pod as a user would write it."""
        body = _bare(made.raw())
        body["metadata"]["namespace"] = self.namespace
        body["spec"].setdefault("schedulerName", SCHEDULER)
        return body

    def path(self, name: str = "", subresource: str = "") -> str:
        """Path of a pod, or of all of them."""
        tail = "".join(f"/{part}" for part in (name, subresource) if part)
        return f"/api/v1/namespaces/{self.namespace}/pods{tail}"

    async def bind_elsewhere(self, name: str, node: str, **annotations: str) -> None:
        """Bind a pod as another scheduler would."""
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "annotations": annotations},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        status, answer = await self.api.post(self.path(name, "binding"), body)
        assert status == 201, answer

    async def end(self, name: str, phase: str = "Succeeded") -> None:
        """Let a pod end, as kubelet says it."""
        path = self.path(name, "status")
        status, answer = await self.api.patch(path, {"status": {"phase": phase}})
        assert status == 200, answer

    async def delete(self, *names: str) -> None:
        """Delete pods at once."""
        for name in names:
            status, answer = await self.api.delete(self.path(name), gracePeriodSeconds="0")
            assert status == 200, answer

    async def lease(self) -> dict[str, Any]:
        """What the Lease of the operators says."""
        status, found = await self.api.get(LEASE)
        assert status == 200, found
        return found["spec"]

    async def hold_lease(self, holder: str) -> None:
        """Let somebody else hold the Lease for an hour."""
        spec = {"holderIdentity": holder, "leaseDurationSeconds": 3600}
        status, answer = await self.api.patch(LEASE, {"spec": spec})
        assert status == 200, answer

    # ---- eyes

    async def until(
        self, holds: Callable[[], Any], what: str, *, deadline_s: float = DEADLINE_S
    ) -> None:
        """Wait for something that the watches will show."""
        if await mirror.until(lambda: bool(holds()), self.bell, timeout_s=deadline_s):
            return
        raise AssertionError(f"not within {deadline_s:.0f} s: {what}\n{self.story()}")

    async def bound(self, *names: str, deadline_s: float = DEADLINE_S) -> None:
        """Wait until all these pods have a node."""
        await self.until(
            lambda: not [name for name in names if not self.where(name)],
            f"bound: {', '.join(names[:10])}",
            deadline_s=deadline_s,
        )

    async def run(self, *names: str, deadline_s: float = DEADLINE_S) -> None:
        """Wait until all these pods run, that is, have been served."""
        await self.until(
            lambda: not [name for name in names if self.phase(name) != "Running"],
            f"running: {', '.join(names[:10])}",
            deadline_s=deadline_s,
        )

    async def waits(self, name: str, because: str, *, deadline_s: float = DEADLINE_S) -> str:
        """Wait until a pod is unschedulable for a reason, and give the whole text."""
        await self.until(
            lambda: because in self.why(name),
            f"{name} waits because of {because}",
            deadline_s=deadline_s,
        )
        assert self.where(name) == ""
        return self.why(name)

    async def told(self, reason: str, about: str, *words: str, count: int = 1) -> list[Raw]:
        """Wait for so many Events about an object whose text has all these words."""
        await self.until(
            lambda: len(self.tales(reason, about, *words)) >= count,
            f"{count} Event {reason} about {about} with {words}",
        )
        return self.tales(reason, about, *words)

    def tales(self, reason: str, about: str, *words: str) -> list[Raw]:
        """The Events about an object whose text has all these words."""
        return [
            event
            for event in self.events.all()
            if event["metadata"]["namespace"] in (self.namespace, "default")
            and event.get("reason") == reason
            and event.get("regarding", {}).get("name") == about
            and all(word in event.get("note", "") for word in words)
        ]

    def where(self, name: str) -> str:
        """The node of a pod; empty while it has none."""
        found = self.pods.get(name)
        return str(found["spec"].get("nodeName", "")) if found else ""

    def phase(self, name: str) -> str:
        """Phase of a pod; empty if it is not there."""
        found = self.pods.get(name)
        return str(found["status"].get("phase", "")) if found else ""

    def why(self, name: str) -> str:
        """What its condition says of why a pod waits; empty where it says nothing."""
        found = self.pods.get(name)
        for one in (found or {"status": {}})["status"].get("conditions") or ():
            if (one["type"], one["status"], one.get("reason")) == (
                "PodScheduled",
                "False",
                "Unschedulable",
            ):
                return str(one.get("message", ""))
        return ""

    def annotations(self, name: str) -> Mapping[str, str]:
        """Annotations of a pod."""
        found = self.pods.get(name)
        return (found["metadata"].get("annotations") or {}) if found else {}

    def node_annotation(self, name: str, key: str) -> str | None:
        """An annotation of a Node; None where it has none."""
        found = self.nodes.get(name)
        return (found["metadata"].get("annotations") or {}).get(key) if found else None

    async def snapshot(self) -> tuple[list[Raw], list[Raw]]:
        """All Nodes and pods, read afresh."""
        nodes = await pages.whole(self.admin, ports.NODES)
        pods = await pages.whole(self.admin, ports.PODS)
        return list(nodes.items), list(pods.items)

    async def overbooked(self) -> list[str]:
        """What an independent check finds wrong with what the server holds."""
        return list(audit.findings(*await self.snapshot()))

    def requests(self, *, since: int = 0, user: str = servers.USER) -> list[servers.Request]:
        """The operator's requests of this test, oldest first."""
        made = self.server.requests()[self._began :]
        return [one for one in made if one.user == user][since:]

    async def settled_requests(self, *, since: int = 0) -> list[servers.Request]:
        """The same, once no more come in: the record of the real server lags a little.

        A mark of the admin's, sent last and recorded in order, shows that all are there.
        """
        name = f"mark-{uuid.uuid4().hex[:8]}"
        await self.api.get(self.path(name))

        def seen() -> bool:
            return any(one.name == name for one in self.server.requests()[self._began :])

        await eventually(seen, "the record of requests is complete")
        return self.requests(since=since)

    async def command(self, *arguments: str, given: str | None = None) -> str:
        """Run one of our commands as the admin and give what it printed."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "hami_operator",
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate(given.encode() if given is not None else None)
        assert process.returncode == 0, err.decode()
        return out.decode()

    async def cards(self) -> list[dict[str, Any]]:
        """What ``hami-operator devices`` says of this cluster."""
        kubeconfig = f"--kubeconfig={self.server.admin_kubeconfig}"
        return json.loads(await self.command("devices", kubeconfig, "--output=json"))

    def story(self) -> str:
        """All pods and the ends of the operators' logs, for whoever has to find out."""
        pods = "\n".join(
            f"{one['metadata']['name']}: {one['spec'].get('nodeName', '-')} "
            f"{one['status'].get('phase')} {self.why(one['metadata']['name'])}"
            for one in self.pods.all()
        )
        logs = "\n".join(f"--- {one.log_path}\n{_tail(one.log_path)}" for one in self.operators)
        return f"{pods}\n{logs}"


class Diary(mirror.Mirror):
    """Nodes, and every value that each of their annotations had."""

    def __init__(self, bell: asyncio.Event) -> None:
        super().__init__(bell)
        self._values: dict[tuple[str, str], list[str]] = {}

    def upsert(self, found: ports.Raw) -> None:
        """See `feed.Sink`."""
        for key, value in (found["metadata"].get("annotations") or {}).items():
            known = self._values.setdefault((found["metadata"]["name"], key), [])
            if known[-1:] != [value]:
                known.append(value)
        super().upsert(found)

    def values(self, node: str, key: str) -> list[str]:
        """All values that an annotation has had, oldest first."""
        return list(self._values.get((node, key), ()))


@contextlib.asynccontextmanager
async def opened(server: servers.Server, folder: Path) -> AsyncIterator[Cluster]:
    """A cluster on a running server."""
    headers = {"Authorization": f"Bearer {server.admin_token}"}
    client = await admin.Admin.connect(kubeconfig=os.fspath(server.admin_kubeconfig))
    try:
        async with (
            Api(server.url, headers=headers, ssl=server.ssl) as api,
            Cluster(server, api, client, folder).open() as made,
        ):
            yield made
    finally:
        await client.close()


@contextlib.asynccontextmanager
async def background(work: Coroutine[Any, Any, None], name: str) -> AsyncIterator[None]:
    """Something that runs beside the block and must not end before it."""
    task = asyncio.create_task(work, name=name)
    try:
        yield
        assert not task.done(), f"{name} ended early: {task}"
    finally:
        task.cancel()
        await asyncio.wait({task})


async def eventually(
    condition: Callable[[], object], what: str, *, deadline_s: float = DEADLINE_S
) -> None:
    """Wait until something that no watch shows comes true; it may be a coroutine function.

    Raises:
        TimeoutError: it did not.
    """
    end_s = time.monotonic() + deadline_s
    while True:
        found = condition()
        if (await found) if isinstance(found, Awaitable) else found:
            return
        if time.monotonic() > end_s:
            raise TimeoutError(f"not within {deadline_s:.0f} s: {what}")
        await asyncio.sleep(POLL_S)


def _bare(raw: Raw) -> Raw:
    """Without what only the server writes."""
    for field in ("uid", "resourceVersion", "creationTimestamp"):
        raw["metadata"].pop(field, None)
    if raw["kind"] == "Pod":
        raw.pop("status", None)
    return raw


def _tail(path: Path) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-25:]) if path.exists() else ""
