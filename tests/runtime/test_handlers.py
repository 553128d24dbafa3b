"""kopf: what it may call, that it leaves no trace, and how it stops."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime
import getpass
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp
import kopf
import pytest

from hami_operator import clock as clock_module
from hami_operator import settings
from hami_operator.cluster import kubernetes, ports
from hami_operator.cluster.memory import server as api_server
from hami_operator.cluster.memory import store
from hami_operator.handlers import registry, serve
from hami_operator.server import app, health
from tests import fakes

OURS = "hami-scheduler"


@dataclasses.dataclass
class Intake:
    """Writes down what arrives."""

    nodes: list[tuple[str | None, str]] = dataclasses.field(default_factory=list)
    pods: list[tuple[str | None, str]] = dataclasses.field(default_factory=list)
    raw: list[ports.Raw] = dataclasses.field(default_factory=list)
    error: Exception | None = None

    def node_event(self, type_: str | None, raw: ports.Raw) -> None:
        self.raw.append(raw)
        if self.error is not None:
            raise self.error
        self.nodes.append((type_, raw["metadata"]["name"]))

    def pending_event(self, type_: str | None, raw: ports.Raw) -> None:
        self.raw.append(raw)
        self.pods.append((type_, raw["metadata"]["name"]))


async def no_login() -> kubernetes.Connection:
    return kubernetes.Connection(server="http://127.0.0.1:1")


async def no_drain() -> None:
    return None


def build(
    intake: Intake, *, time: clock_module.Clock | None = None, **given: Any
) -> kopf.OperatorRegistry:
    node_source = given.pop("node_source", "kopf")
    calls = {"login": no_login, "drain": no_drain} | given
    return registry.build(
        settings.Settings(scheduler_name=OURS, node_source=node_source),
        intake=intake,
        time=time or fakes.FakeClock(),
        **calls,
    )


def handlers(intake: Intake, **given: Any) -> registry.Handlers:
    calls = {"login": no_login, "drain": no_drain} | given
    return registry.Handlers(
        settings=settings.Settings(scheduler_name=OURS),
        intake=intake,
        time=fakes.FakeClock(),
        **calls,
    )


# ---- what is registered


@pytest.mark.parametrize("kind", ["_spawning", "_changing", "_indexing", "_webhooks"])
def test_no_handler_of_a_kind_that_writes_or_blocks(kind: str) -> None:
    assert list(getattr(build(Intake()), kind).get_all_handlers()) == []


def test_only_events_of_nodes_and_pods_are_handled_without_filters() -> None:
    found = build(Intake())._watching.get_all_handlers()
    assert {handler.id: str(handler.selector) for handler in found} == {
        "node": "Selector(group='', version='v1', any_name='nodes')",
        "pod": "Selector(group='', version='v1', any_name='pods')",
    }
    for handler in found:
        unfiltered = (handler.labels, handler.annotations, handler.when, handler.field)
        assert unfiltered == (None, None, None, None)


def test_with_reflectors_kopf_watches_nothing() -> None:
    assert list(build(Intake(), node_source="reflector")._watching.get_all_handlers()) == []


def test_the_global_registry_stays_empty() -> None:
    build(Intake())
    assert list(kopf.get_default_registry()._watching.get_all_handlers()) == []


async def test_the_mandatory_settings() -> None:
    found = kopf.OperatorSettings()
    await handlers(Intake()).startup(found)
    assert not found.posting.enabled
    assert found.scanning.disabled
    assert found.peering.standalone
    assert found.persistence.finalizer == "hami.io/never-used"
    assert dict(found.watching.field_selectors) == {
        key: f"spec.schedulerName={OURS},spec.nodeName=" for key in found.watching.field_selectors
    }
    assert len(found.watching.field_selectors) == 1
    assert found.watching.chunk_size == 500
    assert found.networking.request_timeout == 30
    assert not found.networking.trust_env
    assert found.queueing.worker_limit is None


def test_storages_store_nothing() -> None:
    found = kopf.OperatorSettings()
    registry.configure(found, scheduler_name=OURS)
    body, patch = kopf.Body({"spec": {"a": 1}}), kopf.Patch()
    diff: Any = found.persistence.diffbase_storage
    progress: Any = found.persistence.progress_storage
    assert diff.build(body=body) == {}
    assert diff.fetch(body=body) is None
    diff.store(body=body, patch=patch, essence={})
    assert progress.fetch(key="k", body=body) is None
    progress.store(key="k", record={}, body=body, patch=patch)
    progress.purge(key="k", body=body, patch=patch)
    progress.touch(body=body, patch=patch, value="v")
    assert progress.clear(essence={"a": 1}) == {"a": 1}
    assert not patch


# ---- each handler alone


@pytest.mark.parametrize("type_", [None, "ADDED", "MODIFIED", "DELETED"])
async def test_events_are_handed_over_as_they_are(type_: str | None) -> None:
    intake = Intake()
    calls = handlers(intake)
    raw = {"metadata": {"name": "a"}, "spec": {}}
    await calls.node({"type": type_, "object": raw}, patch=None)
    await calls.pending_pod({"type": type_, "object": raw}, patch=None)
    assert (intake.nodes, intake.pods) == ([(type_, "a")], [(type_, "a")])
    assert intake.raw == [raw, raw]
    assert type(intake.raw[0]) is dict


@pytest.mark.parametrize(
    ("event", "error"),
    [
        pytest.param({"type": None, "object": {}}, ValueError("bug"), id="a fault of the intake"),
        pytest.param({"type": None}, None, id="an event without object"),
        pytest.param({"type": None, "object": None}, None, id="an event with null"),
    ],
)
async def test_a_handler_never_raises_and_the_log_says_what_was_lost(
    event: dict, error: Exception | None, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = handlers(Intake(error=error))
    await calls.node(event)
    assert "event lost" in capsys.readouterr().out


async def test_a_drain_that_fails_does_not_make_kopf_repeat_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def broken() -> None:
        raise ValueError("bug")

    await handlers(Intake(), drain=broken).cleanup()
    assert "drain failed" in capsys.readouterr().out


async def test_waiters_that_kopf_has_left_of_its_watches_do_not_hold_up_the_end() -> None:
    async def drained() -> None: ...

    left, other = (
        asyncio.create_task(asyncio.Event().wait(), name=name)
        for name in (f"{registry.WAITER}pods.v1", "ours")
    )
    await handlers(Intake(), drain=drained).cleanup()
    await asyncio.wait({left}, timeout=5)
    assert left.cancelled()
    assert not other.done()
    other.cancel()


@pytest.mark.parametrize(
    ("connection", "want_headers", "want_proxy"),
    [
        pytest.param(
            kubernetes.Connection(server="http://a", authorization="Bearer t"),
            {"Authorization": "Bearer t"},
            None,
            id="a token",
        ),
        pytest.param(
            kubernetes.Connection(server="http://a", authorization="Basic eA=="),
            {"Authorization": "Basic eA=="},
            None,
            id="a password",
        ),
        pytest.param(
            kubernetes.Connection(server="http://a", proxy="http://p"),
            {},
            "http://p",
            id="a proxy",
        ),
        pytest.param(
            kubernetes.Connection(server="https://a", verify=False),
            {},
            None,
            id="no check of the server",
        ),
    ],
)
async def test_credentials_are_lent_for_ten_minutes(
    connection: kubernetes.Connection, want_headers: dict[str, str], want_proxy: str | None
) -> None:
    async def login() -> kubernetes.Connection:
        return connection

    found = await handlers(Intake(), login=login).login()
    async with found.aiohttp_session as lent:
        assert found.server == connection.server
        assert found.expiration == fakes.START + datetime.timedelta(minutes=10)
        assert dict(lent.headers) == want_headers
        assert str(lent._default_proxy or "") == (want_proxy or "")
        assert not lent.trust_env
        verifies = getattr(lent.connector, "_ssl", None)
        assert getattr(verifies, "check_hostname", None) == (None if connection.verify else False)


# ---- kopf itself, against an API server


def pod(name: str, *, scheduler: str = OURS, node: str = "") -> dict[str, Any]:
    spec: dict[str, Any] = {
        "schedulerName": scheduler,
        "containers": [{"name": "c", "image": "i"}],
    }
    if node:
        spec["nodeName"] = node
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


@pytest.fixture
def api() -> Iterator[api_server.ApiServer]:
    with api_server.ApiServer(store.Store()) as running:
        running.call(running.store.create, "nodes", {"metadata": {"name": "n1"}})
        for body in (pod("ours"), pod("other", scheduler="x"), pod("bound", node="n1")):
            running.call(running.store.create, "pods", body, namespace="default")
        yield running


@dataclasses.dataclass
class Run:
    """kopf at work."""

    intake: Intake
    task: asyncio.Task[None]
    stop: asyncio.Event
    drained: list[str]

    async def ended(self) -> None:
        """It is over within less than what kopf waits for tasks that it finds running."""
        await asyncio.wait_for(asyncio.shield(self.task), timeout=4)


@contextlib.asynccontextmanager
async def kopf_at(
    url: str, *, node_source: str = "kopf", closing: app.Server | None = None, only: str = ""
) -> AsyncIterator[Run]:
    client = await kubernetes.Client.connect(server=url)
    intake, stop, ready, drained = Intake(), asyncio.Event(), asyncio.Event(), list[str]()

    async def drain() -> None:
        drained.append("drained")
        if closing is not None:
            await closing.stop()
        stop.set()

    built = build(
        intake,
        time=clock_module.SystemClock(),
        login=client.connection,
        drain=drain,
        node_source=node_source,
    )
    if only:
        every = built._watching._handlers
        every[:] = [handler for handler in every if handler.id == only]
    task = asyncio.create_task(serve(built, identity="me", stop_flag=stop, ready_flag=ready))
    try:
        await asyncio.wait_for(ready.wait(), timeout=10)
        yield Run(intake, task, stop, drained)
    finally:
        stop.set()
        await asyncio.wait({task}, timeout=10)
        await client.close()


async def test_kopf_hands_over_nodes_and_pending_pods_of_ours_and_leaves_no_trace(
    api: api_server.ApiServer,
) -> None:
    patch = {"metadata": {"annotations": {"hami.io/node-handshake-nvidia": "Reported"}}}
    merge = "application/merge-patch+json"
    binding = {"metadata": {"name": "ours"}, "target": {"kind": "Node", "name": "n1"}}
    async with kopf_at(api.url) as run:
        await fakes.eventually(lambda: run.intake.nodes and run.intake.pods)
        assert (run.intake.nodes, run.intake.pods) == ([(None, "n1")], [(None, "ours")])
        await fakes.eventually(lambda: api.watch_count("pods") and api.watch_count("nodes"))
        api.call(api.store.patch, "nodes", ("", "n1"), patch, content_type=merge)
        api.call(api.store.create, "pods", pod("next"), namespace="default")
        api.call(api.store.create, "pods", pod("alien", scheduler="x"), namespace="default")
        api.call(api.store.bind, ("default", "ours"), binding)
        await fakes.eventually(lambda: len(run.intake.pods) >= 3 and len(run.intake.nodes) >= 2)
        run.stop.set()
        await run.ended()
        assert run.drained == ["drained"]
    assert run.intake.nodes == [(None, "n1"), ("MODIFIED", "n1")]
    assert sorted(run.intake.pods, key=str) == [
        ("ADDED", "next"), ("DELETED", "ours"), (None, "ours"),
    ]  # fmt: skip
    sweep(api)
    assert not [call.path for call in api.requests if "customresource" in call.path]


def sweep(api: api_server.ApiServer) -> None:
    """No finalizer, no kopf annotation, and no write by kopf."""
    writes = [call for call in api.requests if call.method not in ("GET", "HEAD")]
    assert writes == []
    assert any(call.user_agent.startswith("kopf/") for call in api.requests)
    for resource in ("nodes", "pods"):
        for found in api.objects(resource):
            assert not found["metadata"].get("finalizers")
            assert "kopf" not in str(found)


GONE = [
    pytest.param("WATCH", "nodes", id="the version of a watch of Nodes"),
    pytest.param("WATCH", "pods", id="the version of a watch of pods"),
]


@pytest.mark.parametrize(("method", "resource"), GONE)
async def test_kopf_lists_anew_where_a_watch_is_answered_410(
    api: api_server.ApiServer, method: str, resource: str
) -> None:
    """Told in the stream it is harmless to kopf; as an answer of its own it would end it."""
    path = f"/api/v1/{resource}"
    api.fail(method, path, status=410, times=2)

    def lists() -> int:
        calls = [call for call in api.requests if call.path == path and not call.watches]
        return len(calls)

    async with kopf_at(api.url, only=resource.removesuffix("s")) as run:
        await fakes.eventually(lambda: api.watch_count(resource))
        assert not run.task.done()
        assert lists() == 3
    assert run.task.exception() is None


async def test_kopf_lists_anew_where_a_page_of_a_list_is_gone(api: api_server.ApiServer) -> None:
    api.fail("GET", "/api/v1/nodes", status=410)
    async with kopf_at(api.url, only="node") as run:
        await fakes.eventually(lambda: run.intake.nodes and api.watch_count("nodes"))
        assert run.intake.nodes == [(None, "n1")]
        assert not run.task.done()
    assert run.task.exception() is None


async def test_kopf_names_the_waiters_of_its_watches_as_we_expect(
    api: api_server.ApiServer,
) -> None:
    async with kopf_at(api.url):
        await fakes.eventually(lambda: api.watch_count("pods") and api.watch_count("nodes"))
        names = [task.get_name() for task in asyncio.all_tasks()]
        assert sum(name.startswith(registry.WAITER) for name in names) == 2


async def test_a_user_without_a_name_is_enough(
    api: api_server.ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the image the user is a number that no file names."""

    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 65532")

    monkeypatch.setattr(getpass, "getuser", nameless)
    async with kopf_at(api.url) as run:
        await fakes.eventually(lambda: run.intake.nodes)
    assert run.task.exception() is None


async def test_credentials_come_from_our_login(api: api_server.ApiServer) -> None:
    async with kopf_at(api.url) as run:
        await fakes.eventually(lambda: run.intake.nodes)
    assert run.task.done()
    assert run.task.exception() is None


def has_looked_around(api: api_server.ApiServer) -> bool:
    """Whether kopf knows which groups there are; stopped earlier, it would first ask again."""
    return {"/api", "/apis"} <= {call.path for call in api.requests if call.status}


async def test_as_a_shell_it_asks_for_no_object_and_still_stops_in_order(
    api: api_server.ApiServer,
) -> None:
    async with kopf_at(api.url, node_source="reflector") as run:
        await fakes.eventually(lambda: has_looked_around(api))
        run.stop.set()
        await run.ended()
    assert run.drained == ["drained"]
    asked = {call.path for call in api.requests}
    assert not {path for path in asked if path.endswith(("/pods", "/nodes"))}


async def test_open_connections_to_our_server_do_not_delay_the_stop(
    api: api_server.ApiServer,
) -> None:
    async with aiohttp.ClientSession() as session:
        server = app.Server("127.0.0.1:0", health.routes(health.Readiness()))
        async with kopf_at(api.url, closing=server) as run:
            await server.start()  # later than kopf, so its tasks are ones that kopf waits for
            async with session.get(f"http://127.0.0.1:{server.port}/healthz") as response:
                assert response.status == 200
            await fakes.eventually(lambda: has_looked_around(api))
            run.stop.set()
            await run.ended()


async def test_a_watch_that_is_refused_for_good_ends_kopf_after_the_drain(
    api: api_server.ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = registry.configure

    def impatient(found: kopf.OperatorSettings, *, scheduler_name: str) -> None:
        original(found, scheduler_name=scheduler_name)
        found.networking.error_backoffs = [0.01]

    monkeypatch.setattr(registry, "configure", impatient)
    api.fail("GET", "/api/v1/nodes", status=403, times=99)
    async with kopf_at(api.url, only="node") as run:
        with pytest.raises(Exception, match="injected failure"):
            await run.ended()
        assert run.drained == ["drained"]
