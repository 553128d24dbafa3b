"""The client against an API server in memory, and against servers that misbehave."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import orjson
import pytest
from aiohttp import web

import hami_operator
from hami_operator import clock as clock_module
from hami_operator import errors
from hami_operator.cluster import kubernetes, ports
from hami_operator.cluster.kubernetes import transport
from hami_operator.cluster.memory import authorize, server, store
from tests import fakes
from tests.runtime import test_connection

POD = {
    "metadata": {"name": "p", "namespace": "default"},
    "spec": {"schedulerName": "hami-scheduler", "containers": [{"name": "c", "image": "i"}]},
}
BINDING = {
    "apiVersion": "v1",
    "kind": "Binding",
    "metadata": {"name": "p", "annotations": {"hami.io/vgpu-node": "n1"}},
    "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
}


class Recorded(ports.NoRecorder):
    def __init__(self) -> None:
        self.counts: list[tuple[str, ...]] = []
        self.observed: list[tuple[str, float]] = []

    def count(self, name: str, amount: float = 1.0, /, **labels: str) -> None:
        assert name == "hami_api_requests_total"
        self.counts.append((labels["verb"], labels["resource"], labels["code"]))

    def observe(self, name: str, value: float, /, **labels: str) -> None:
        assert name == "hami_api_request_duration_seconds"
        self.observed.append((labels["verb"], value))


@pytest.fixture
def api() -> Iterator[server.ApiServer]:
    with server.ApiServer(store.Store()) as running:
        yield running


@contextlib.asynccontextmanager
async def connected(
    url: str, *, time: clock_module.Clock | None = None
) -> AsyncIterator[tuple[kubernetes.Client, Recorded]]:
    recorded = Recorded()
    client = await kubernetes.Client.connect(server=url, recorder=recorded, time=time)
    try:
        yield client, recorded
    finally:
        await client.close()


@pytest.fixture
async def client(api: server.ApiServer) -> AsyncIterator[kubernetes.Client]:
    async with connected(api.url) as (client, _):
        yield client


def put(api: server.ApiServer, resource: str, body: dict[str, Any]) -> dict[str, Any]:
    record = api.call(api.store.create, resource, body, namespace="default")
    return record.copy(resource)


def pod_of(api: server.ApiServer) -> dict[str, Any]:
    return api.object("pods", ("default", "p"))


# ---- every call


async def test_reads(api: server.ApiServer, client: kubernetes.Client) -> None:
    put(api, "pods", POD)
    api.call(api.store.create, "nodes", {"metadata": {"name": "n1"}})
    pod, node = await client.get_pod("default", "p"), await client.get_node("n1")
    assert pod["metadata"]["uid"] == pod_of(api)["metadata"]["uid"]
    assert node["metadata"]["name"] == "n1"
    assert await client.version() >= (1, 30)
    with pytest.raises(errors.NotFound):
        await client.get_pod("default", "other")


async def test_every_request_says_who_we_are_and_what_it_carries(
    api: server.ApiServer, client: kubernetes.Client
) -> None:
    put(api, "pods", POD)
    api.call(api.store.create, "nodes", {"metadata": {"name": "n1"}})
    api.forget_requests()
    await client.patch_pod("default", "p", {"metadata": {"annotations": {"a": "b"}}})
    await client.patch_pod_status("default", "p", {"status": {"conditions": []}})
    await client.patch_node("n1", {"metadata": {"annotations": {"a": None}}})
    await client.bind("default", "p", BINDING)
    assert [(call.method, call.path, call.content_type) for call in api.requests] == [
        ("PATCH", "/api/v1/namespaces/default/pods/p", "application/merge-patch+json"),
        (
            "PATCH",
            "/api/v1/namespaces/default/pods/p/status",
            "application/strategic-merge-patch+json",
        ),
        ("PATCH", "/api/v1/nodes/n1", "application/merge-patch+json"),
        ("POST", "/api/v1/namespaces/default/pods/p/binding", "application/json"),
    ]
    want = f"hami-operator/{hami_operator.__version__}"
    assert {call.user_agent for call in api.requests} == {want}
    bound = pod_of(api)
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["annotations"] == {"a": "b", "hami.io/vgpu-node": "n1"}


async def test_null_removes_a_key_and_versions_are_preconditions(
    api: server.ApiServer, client: kubernetes.Client
) -> None:
    put(api, "pods", POD)
    first = await client.patch_pod("default", "p", {"metadata": {"annotations": {"a": "1"}}})
    await client.patch_pod("default", "p", {"metadata": {"annotations": {"a": None, "b": "2"}}})
    assert pod_of(api)["metadata"]["annotations"] == {"b": "2"}
    stale = {"metadata": {"resourceVersion": first["metadata"]["resourceVersion"], "labels": {}}}
    with pytest.raises(errors.Conflict):
        await client.patch_pod("default", "p", stale)
    with pytest.raises(errors.Invalid):
        await client.patch_pod("default", "p", {"metadata": {"uid": "another"}})


async def test_conditions_are_merged_by_type(
    api: server.ApiServer, client: kubernetes.Client
) -> None:
    put(api, "pods", POD)
    for kind in ("Initialized", "PodScheduled"):
        condition = {"type": kind, "status": "False", "reason": "x"}
        await client.patch_pod_status("default", "p", {"status": {"conditions": [condition]}})
    kinds = {condition["type"] for condition in pod_of(api)["status"]["conditions"]}
    assert kinds >= {"Initialized", "PodScheduled"}


async def test_the_second_bind_is_a_conflict(
    api: server.ApiServer, client: kubernetes.Client
) -> None:
    put(api, "pods", POD)
    await client.bind("default", "p", BINDING)
    with pytest.raises(errors.Conflict, match='already assigned to node "n1"'):
        await client.bind("default", "p", BINDING)


async def test_events(api: server.ApiServer, client: kubernetes.Client) -> None:
    body = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "default"},
        "eventTime": "2026-03-01T12:00:00.000000Z",
        "reportingController": "hami-scheduler",
        "reportingInstance": "a",
        "action": "Scheduling",
        "reason": "FailedScheduling",
        "type": "Warning",
        "note": "no card",
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
    }
    await client.create_event("default", body)
    series = {"count": 2, "lastObservedTime": "2026-03-01T12:01:00.000000Z"}
    found = await client.patch_event("default", "e", {"series": series})
    assert found["series"]["count"] == 2
    with pytest.raises(errors.Conflict):
        await client.create_event("default", body)


async def test_leases(api: server.ApiServer, client: kubernetes.Client) -> None:
    body = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}}
    with pytest.raises(errors.NotFound):
        await client.get_lease("default", "l", timeout_s=4)
    first = await client.create_lease("default", body, timeout_s=4)
    with pytest.raises(errors.Conflict):
        await client.create_lease("default", body, timeout_s=4)
    second = await client.replace_lease(
        "default", "l", first | {"spec": {"holderIdentity": "b"}}, timeout_s=4
    )
    assert second["spec"]["holderIdentity"] == "b"
    with pytest.raises(errors.Conflict):
        await client.replace_lease("default", "l", first, timeout_s=4)
    assert await client.get_lease("default", "l", timeout_s=4) == second


async def test_lists_in_pages_by_selector_and_as_metadata(
    api: server.ApiServer, client: kubernetes.Client
) -> None:
    for index in range(5):
        put(api, "pods", POD | {"metadata": {"name": f"p{index}", "namespace": "default"}})
    await client.bind("default", "p3", BINDING | {"metadata": {"name": "p3"}})
    names, token, versions = [], "", set()
    while True:
        page = await client.list_page(ports.PODS, limit=2, token=token)
        names += [item["metadata"]["name"] for item in page.items]
        versions.add(page.version)
        if not (token := page.token):
            break
    assert names == ["p0", "p1", "p2", "p3", "p4"]
    assert len(versions) == 1
    bound = ports.Selector(fields="spec.nodeName=n1")
    (item,) = (await client.list_page(ports.PODS, selector=bound)).items
    assert item["spec"]["nodeName"] == "n1"
    slim = await client.list_page(ports.PODS, metadata_only=True)
    assert "spec" not in slim.items[0]
    assert slim.items[0]["metadata"]["uid"]
    with pytest.raises(errors.ApiError):
        await client.list_page(ports.PODS, selector=ports.Selector(fields="spec.odd=1"))


# ---- watches


async def take(
    client: kubernetes.Client, version: str, count: int, **how: Any
) -> list[tuple[str, ports.Raw]]:
    found: list[tuple[str, ports.Raw]] = []
    stream = client.watch(ports.PODS, version=version, timeout_s=300, **how)
    async with contextlib.aclosing(stream) as events, asyncio.timeout(10):
        async for event in events:
            found.append(event)
            if len(found) == count:
                break
    return found


async def test_a_watch_tells_what_happened_after_a_version(
    api: server.ApiServer, client: kubernetes.Client
) -> None:
    version = (await client.list_page(ports.PODS)).version
    put(api, "pods", POD)
    await client.bind("default", "p", BINDING)
    api.call(api.store.delete, "pods", ("default", "p"))
    events = await take(client, version, 2)
    assert [kind for kind, _ in events] == ["ADDED", "MODIFIED"]
    assert events[1][1]["spec"]["nodeName"] == "n1"
    pending = ports.Selector(fields="spec.nodeName=")
    events = await take(client, version, 2, selector=pending)
    assert [kind for kind, _ in events] == ["ADDED", "DELETED"]
    query = api.requests[-1].parameters
    assert query["allowWatchBookmarks"] == "1" or query["allowWatchBookmarks"] == "true"
    assert (query["timeoutSeconds"], query["fieldSelector"]) == ("300", "spec.nodeName=")
    await fakes.eventually(lambda: api.watch_count("pods") == 0, what="watches closed")


async def test_an_object_larger_than_any_line_limit_arrives_whole(
    api: server.ApiServer, client: kubernetes.Client
) -> None:
    version = (await client.list_page(ports.PODS)).version
    environment = [{"name": f"V{index}", "value": "x" * 1000} for index in range(900)]
    container = {"name": "c", "image": "i", "env": environment}
    put(api, "pods", POD | {"spec": {"containers": [container]}})
    ((_, found),) = await take(client, version, 1)
    assert len(orjson.dumps(found)) > 900_000
    assert found["spec"]["containers"][0]["env"] == environment


async def test_a_version_that_is_too_old_is_gone(
    api: server.ApiServer, client: kubernetes.Client
) -> None:
    version = (await client.list_page(ports.PODS)).version
    put(api, "pods", POD)
    api.compact("pods")
    with pytest.raises(errors.Gone):
        await take(client, version, 1)


async def test_a_watch_that_the_server_ends_just_ends(
    api: server.ApiServer, client: kubernetes.Client
) -> None:
    taking = asyncio.create_task(take(client, "1", 99))
    await fakes.eventually(lambda: api.watch_count("pods") == 1)
    api.cut_watches("pods")
    await asyncio.wait_for(taking, timeout=5)


async def test_a_watch_that_breaks_may_be_retried(
    api: server.ApiServer, client: kubernetes.Client
) -> None:
    taking = asyncio.create_task(take(client, "1", 99))
    await fakes.eventually(lambda: api.watch_count("pods") == 1)
    api.cut_watches("pods", reset=True)
    with pytest.raises(errors.Retryable):
        await asyncio.wait_for(taking, timeout=5)


async def test_a_silent_watch_is_given_up(
    api: server.ApiServer, client: kubernetes.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "SILENCE_S", 0.05)
    api.silence_watches()
    with pytest.raises(errors.Retryable):
        await take(client, "1", 1)


async def test_many_open_watches_leave_the_pool_for_requests_alone(
    api: server.ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "CONNECTIONS", 1)
    async with connected(api.url) as (client, _):
        watches = [asyncio.create_task(take(client, "1", 99)) for _ in range(5)]
        await fakes.eventually(lambda: api.watch_count("pods") == 5)
        await asyncio.wait_for(client.version(), timeout=5)
        for watch in watches:
            watch.cancel()
        await asyncio.wait(watches)


# ---- failures

Call = Callable[[kubernetes.Client], Awaitable[object]]
READ: Call = lambda client: client.get_node("n1")  # noqa: E731 - names two rows of a table
WRITE: Call = lambda client: client.patch_node("n1", {})  # noqa: E731 - names two rows of a table


@pytest.mark.parametrize(
    ("call", "answer", "want"),
    [
        pytest.param(WRITE, (500, None), errors.Unclear, id="a write and 500"),
        pytest.param(READ, (500, None), errors.Retryable, id="a read and 500"),
        pytest.param(WRITE, (429, 2), errors.Retryable, id="a write and 429"),
        pytest.param(WRITE, (503, 2), errors.Retryable, id="a write and 503 with Retry-After"),
        pytest.param(WRITE, (503, None), errors.Unclear, id="a write and 503 without"),
        pytest.param(WRITE, (403, None), errors.Forbidden, id="a write and 403"),
    ],
)
async def test_refusals(
    api: server.ApiServer,
    client: kubernetes.Client,
    call: Call,
    answer: tuple[int, int | None],
    want: type[errors.ApiError],
) -> None:
    status, retry_after_s = answer
    api.call(api.store.create, "nodes", {"metadata": {"name": "n1"}})
    api.fail("*", "/api/v1/nodes/n1", status=status, retry_after_s=retry_after_s)
    with pytest.raises(want) as caught:
        await call(client)
    assert type(caught.value) is want
    assert caught.value.status == status
    assert caught.value.retry_after_s == retry_after_s
    await call(client)  # the connection is as good as before


async def test_a_lost_connection_makes_a_write_unclear_and_a_read_repeatable(
    api: server.ApiServer, client: kubernetes.Client
) -> None:
    put(api, "pods", POD)
    api.reset("POST", ".*/binding", after_write=True)
    with pytest.raises(errors.Unclear):
        await client.bind("default", "p", BINDING)
    assert pod_of(api)["spec"]["nodeName"] == "n1"
    api.reset("GET", ".*/pods/p", times=5)
    with pytest.raises(errors.Retryable):
        await client.get_pod("default", "p")


async def test_a_server_that_is_not_there_was_never_sent_anything() -> None:
    with server.ApiServer(store.Store()) as api:
        url = api.url
    async with connected(url) as (client, recorded):
        for call in (READ, WRITE):
            with pytest.raises(errors.Retryable):
                await call(client)
        assert recorded.counts == [("get", "nodes", "none"), ("patch", "nodes", "none")]


@contextlib.asynccontextmanager
async def odd_server(
    handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
) -> AsyncIterator[str]:
    application = web.Application()
    application.router.add_route("*", "/{tail:.*}", handler)
    runner = web.AppRunner(application, shutdown_timeout=0.05)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{site.port}"
    finally:
        await runner.cleanup()


async def test_a_server_that_does_not_answer_in_time_leaves_a_write_unclear(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def hang(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(30)
        raise AssertionError

    async with odd_server(hang) as url, connected(url) as (client, _):
        with pytest.raises(errors.Retryable):
            await client.get_lease("ns", "l", timeout_s=0.05)
        with pytest.raises(errors.Unclear):
            await client.replace_lease("ns", "l", {}, timeout_s=0.05)
        with pytest.raises(errors.Unclear):
            await client.fenced(Fence(remaining_s=1.05)).patch_node("n1", {})


async def test_an_answer_that_is_cut_off_makes_a_write_unclear() -> None:
    async def torn(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b'{"a":')
        assert request.transport is not None
        request.transport.close()
        return response

    async with odd_server(torn) as url, connected(url) as (client, _):
        with pytest.raises(errors.Unclear):
            await client.patch_node("n1", {})
        with pytest.raises(errors.Retryable):
            await client.get_node("n1")


async def test_a_redirect_is_not_followed() -> None:
    async def elsewhere(_: web.Request) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": "http://127.0.0.1:1/"})

    async with odd_server(elsewhere) as url, connected(url) as (client, _):
        with pytest.raises(errors.ApiError) as caught:
            await client.patch_node("n1", {})
        assert caught.value.status == 302


async def test_names_are_quoted() -> None:
    paths: list[str] = []

    async def note(request: web.Request) -> web.StreamResponse:
        paths.append(request.raw_path)
        return web.json_response({})

    async with odd_server(note) as url, connected(f"{url}/base") as (client, _):
        await client.get_pod("n s", "../x?y")
        await client.list_page(ports.PODS, selector=ports.Selector(labels="a in (b,c)"))
    assert paths == [
        "/base/api/v1/namespaces/n%20s/pods/..%2Fx%3Fy",
        "/base/api/v1/pods?labelSelector=a+in+%28b%2Cc%29&limit=500",
    ]


# ---- credentials


async def test_a_token_that_was_replaced_is_read_again_and_the_request_repeated(
    tmp_path: Any,
) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    with server.ApiServer(store.Store(), subjects={"new": authorize.ADMIN}) as api:
        path = test_connection.write_config(
            tmp_path / "config", user={"tokenFile": str(token)}, cluster={"server": api.url}
        )
        client = await kubernetes.Client.connect(kubeconfig=path)
        with pytest.raises(errors.Unauthorized):
            await client.list_page(ports.PODS)
        with pytest.raises(errors.Unauthorized):
            await take(client, "1", 1)
        token.write_text("new")
        assert (await client.list_page(ports.PODS)).items == []
        assert (await client.connection()).authorization == "Bearer new"
        await client.close()


# ---- the fence


class Fence:
    def __init__(self, remaining_s: float, *, closed: bool = False) -> None:
        self._remaining_s = remaining_s
        self._closed = closed

    def check(self) -> None:
        if self._closed:
            raise errors.Fenced("closed")

    def remaining_s(self) -> float:
        return self._remaining_s


@pytest.mark.parametrize(
    "fence",
    [
        pytest.param(Fence(15, closed=True), id="the deadline has passed"),
        pytest.param(Fence(1.0), id="no answer could come in time"),
        pytest.param(Fence(-math.inf), id="never led"),
    ],
)
async def test_behind_a_closed_fence_nothing_is_written(
    api: server.ApiServer, client: kubernetes.Client, fence: Fence
) -> None:
    put(api, "pods", POD)
    api.call(api.store.create, "nodes", {"metadata": {"name": "n1"}})
    api.forget_requests()
    fenced = client.fenced(fence)
    writes: list[Awaitable[object]] = [
        fenced.patch_pod("default", "p", {}),
        fenced.patch_pod_status("default", "p", {}),
        fenced.bind("default", "p", BINDING),
        fenced.patch_node("n1", {}),
        fenced.create_event("default", {}),
        fenced.patch_event("default", "e", {}),
    ]
    for write in writes:
        with pytest.raises(errors.Fenced):
            await write
    assert api.requests == []


async def test_reads_and_leases_are_never_fenced(
    api: server.ApiServer, client: kubernetes.Client
) -> None:
    fenced = client.fenced(Fence(0, closed=True))
    await fenced.version()
    await fenced.list_page(ports.PODS)
    await fenced.create_lease("default", {"metadata": {"name": "l"}}, timeout_s=4)
    with pytest.raises(errors.NotFound):
        await client.patch_node("n1", {})  # the client itself stays without a fence


@pytest.mark.parametrize(
    ("remaining_s", "want_s"),
    [
        pytest.param(math.inf, 10.0, id="without an election the usual time-out"),
        pytest.param(15.0, 10.0, id="just renewed"),
        pytest.param(7.5, 6.5, id="one second before another may lead"),
    ],
)
def test_budget(remaining_s: float, want_s: float) -> None:
    request = transport.Request(
        verb="patch", resource="nodes", path="/x", fence=Fence(remaining_s)
    )
    assert transport._budget_s(request) == want_s


# ---- metrics


async def test_every_request_is_counted_once_with_its_outcome(api: server.ApiServer) -> None:
    put(api, "pods", POD)
    async with connected(api.url) as (client, recorded):
        await client.bind("default", "p", BINDING)
        with contextlib.suppress(errors.NotFound):
            await client.get_node("other")
        await client.list_page(ports.NODES)
        version = (await client.list_page(ports.PODS)).version
        put(api, "pods", POD | {"metadata": {"name": "q", "namespace": "default"}})
        await take(client, version, 1)
    assert recorded.counts == [
        ("create", "pods/binding", "201"),
        ("get", "nodes", "404"),
        ("list", "nodes", "200"),
        ("list", "pods", "200"),
        ("watch", "pods", "200"),
    ]
    assert [verb for verb, _ in recorded.observed] == ["create", "get", "list", "list"]
    assert all(0 <= seconds < 10 for _, seconds in recorded.observed)


async def test_the_client_keeps_every_promise_of_the_ports(client: kubernetes.Client) -> None:
    kept: tuple[
        ports.PodReader, ports.PodWriter, ports.NodeReader, ports.NodeWriter, ports.EventWriter,
        ports.LeaseStore, ports.ListWatcher, ports.VersionReader,
    ] = (client,) * 8  # fmt: skip
    assert all(part is client for part in kept)
