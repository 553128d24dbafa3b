"""The in-memory API server over HTTP: requests, watches, failures, webhooks, who may do what."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import aiohttp
import orjson
import pytest
from aiohttp import web

from hami_operator.cluster.memory import authorize, faults, refusals, server, store
from tests import fakes
from tests.conformance import api_facts
from tests.conformance.api import Api
from tests.unit.memory import objects

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
JSON = {"Content-Type": "application/json"}
LIMIT_S = 10.0


@pytest.fixture
def served() -> Iterator[server.ApiServer]:
    with server.ApiServer(objects.new_store()) as running:
        yield running


@pytest.fixture
async def api(served: server.ApiServer) -> AsyncIterator[Api]:
    async with Api(served.url) as client:
        yield client


@pytest.fixture
async def session(served: server.ApiServer) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(served.url) as client:
        yield client


class Stream:
    """A watch whose lines are read one by one, within a limit."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer

    async def event(self) -> dict[str, Any]:
        async with asyncio.timeout(LIMIT_S):
            line = await self._answer.content.readline()
        return orjson.loads(line) if line else {}

    async def kinds(self, count: int) -> list[str]:
        return [(await self.event()).get("type", "end") for _ in range(count)]


@contextlib.asynccontextmanager
async def watching(
    session: aiohttp.ClientSession, path: str, **query: str
) -> AsyncIterator[Stream]:
    async with session.get(path, params={"watch": "1", **query}) as answer:
        assert answer.status == 200
        yield Stream(answer)


# ---- requests ----------------------------------------------------------------------------------


@pytest.mark.parametrize("fact", api_facts.FACTS, ids=api_facts.sentence)
async def test_what_the_design_takes_for_granted(
    api: Api, fact: Callable[[Api], Awaitable[None]]
) -> None:
    await fact(api)


async def test_an_object_from_creation_to_deletion(api: Api) -> None:
    created, made = await api.post(MAPS, objects.config_map())
    read, same = await api.get(f"{MAPS}/c")
    patched, changed = await api.patch(f"{MAPS}/c", {"data": {"k": "v"}})
    put, replaced = await api.put(f"{MAPS}/c", {**changed, "data": {"k": "w"}})
    listed, found = await api.get("/api/v1/configmaps")
    deleted, answer = await api.delete(f"{MAPS}/c")
    gone, _ = await api.get(f"{MAPS}/c")
    assert (created, read, patched, put, listed, deleted, gone) == (
        201, 200, 200, 200, 200, 200, 404,
    )  # fmt: skip
    assert same == made
    assert replaced["data"] == {"k": "w"}
    assert [item["data"] for item in found["items"]] == [{"k": "w"}]
    assert answer["details"] == {
        "name": "c",
        "kind": "configmaps",
        "uid": made["metadata"]["uid"],
    }


async def test_a_put_that_creates_says_so(api: Api) -> None:
    status, made = await api.put(f"{LEASES}/l", objects.lease())
    again, _ = await api.put(f"{LEASES}/l", made)
    assert (status, again) == (201, 200)


async def test_pages(api: Api) -> None:
    for name in "abc":
        await api.post(MAPS, objects.config_map(name))
    _, first = await api.get(MAPS, limit="2")
    _, rest = await api.get(MAPS, limit="2", **{"continue": first["metadata"]["continue"]})
    names = [item["metadata"]["name"] for item in first["items"] + rest["items"]]
    assert names == ["a", "b", "c"]
    assert first["metadata"]["remainingItemCount"] == 1
    assert "continue" not in rest["metadata"]


async def test_a_selection_is_deleted(api: Api) -> None:
    for name in "ab":
        await api.post(MAPS, objects.config_map(name, labels={"n": name}))
    status, gone = await api.delete(MAPS, labelSelector="n=a")
    _, left = await api.get(MAPS)
    assert (status, [item["metadata"]["name"] for item in gone["items"]]) == (200, ["a"])
    assert [item["metadata"]["name"] for item in left["items"]] == ["b"]


async def test_the_grace_of_a_deletion(api: Api) -> None:
    await api.post(PODS, objects.pod())
    await api.post(f"{PODS}/p/binding", objects.binding())
    _, by_body = await api.delete(f"{PODS}/p", {"gracePeriodSeconds": 20})
    _, by_query = await api.delete(f"{PODS}/p", gracePeriodSeconds="10")
    graces = [pod["metadata"]["deletionGracePeriodSeconds"] for pod in (by_body, by_query)]
    assert graces == [20, 10]


async def test_a_dry_run_changes_nothing(api: Api, served: server.ApiServer) -> None:
    await api.post(PODS, objects.pod())
    version = served.store.version
    answers = [
        await api.post(PODS, objects.pod("q"), dryRun="All"),
        await api.patch(f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}}, dryRun="All"),
        await api.post(f"{PODS}/p/binding", objects.binding(), dryRun="All"),
        await api.delete(f"{PODS}/p", dryRun="All"),
    ]
    assert [status for status, _ in answers] == [201, 200, 201, 200]
    assert answers[1][1]["metadata"]["labels"] == {"a": "b"}
    assert served.store.version == version


@pytest.mark.parametrize(
    ("method", "path", "options", "want"),
    [
        pytest.param("GET", "/healthz", {}, (200, "ok"), id="health"),
        pytest.param("GET", "/readyz?verbose", {}, (200, "ok"), id="readiness"),
        pytest.param("GET", "/version", {}, (200, '"gitVersion":"v1.36.3"'), id="version"),
        pytest.param("GET", "/api/v1", {}, (200, "APIResourceList"), id="discovery"),
        pytest.param("GET", "/odd", {}, (404, "404 page not found"), id="an unknown path"),
        pytest.param("GET", "/apis/odd/v1/x", {}, (404, "404 page not found"), id="a group"),
        pytest.param("GET", "/api/v1/odd", {}, (404, "could not find the requested"), id="a kind"),
        pytest.param("GET", "/apis/apps/v1/odd", {}, (404, "could not find"), id="a named kind"),
        pytest.param("PUT", PODS, {"json": {}}, (405, "does not allow this method"), id="method"),
        pytest.param("POST", "/api/v1/pods", {"json": {}}, (405, "not allow"), id="no namespace"),
        pytest.param("GET", f"{PODS}?limit=x", {}, (400, "invalid syntax"), id="no number"),
        pytest.param("GET", f"{PODS}?watch=1&resourceVersion=x", {}, (400, "syntax"), id="word"),
        pytest.param("GET", f"{PODS}?fieldSelector=a", {}, (400, "invalid selector"), id="select"),
        pytest.param("GET", f"{PODS}?resourceVersion=99", {}, (504, "Too large"), id="the future"),
        pytest.param("GET", f"{PODS}/no?watch=1", {}, (404, "not found"), id="watch of one"),
        pytest.param(
            "GET", PODS, {"headers": {"Accept": "text/html"}}, (406, "Not Acceptable"), id="HTML"
        ),
        pytest.param(
            "POST", PODS, {"data": b"x", "headers": {"Content-Type": "application/yaml"}},
            (415, "415: Unsupported Media Type"),
            id="YAML",
        ),
        pytest.param(
            "PATCH", f"{PODS}/p",
            {"data": b"{}", "headers": {"Content-Type": "application/apply-patch+yaml"}},
            (404, "not found"),
            id="a patch of what is not there",
        ),
        pytest.param("DELETE", f"{PODS}/p", {"data": b"{odd"}, (400, "parse error"), id="options"),
        pytest.param("DELETE", f"{PODS}/p", {"json": []}, (400, "DeleteOptions"), id="list"),
        pytest.param(
            "POST", PODS, {"json": objects.pod(spec={"tolerations": 5})},
            (400, "field Pod.spec.tolerations of type array"),
            id="a wrong type",
        ),
    ],
)  # fmt: skip
async def test_answers(
    session: aiohttp.ClientSession, method: str, path: str, options: dict, want: tuple[int, str]
) -> None:
    async with session.request(method, path, **options) as answer:
        text = await answer.text()
    assert answer.status == want[0], text
    assert want[1] in text


@pytest.mark.parametrize(
    ("size", "want"),
    [
        pytest.param(2_000_000, 201, id="two megabytes are taken"),
        pytest.param(4_000_000, 413, id="four are refused"),
    ],
)
async def test_large_bodies(session: aiohttp.ClientSession, size: int, want: int) -> None:
    body = orjson.dumps({**objects.config_map(), "data": {"k": "x" * size}})
    async with session.post(MAPS, data=io.BytesIO(body), headers=JSON) as answer:
        found = await answer.json()
    assert answer.status == want
    assert found.get("code", 201) == want


async def test_the_log_keeps_what_was_asked(
    session: aiohttp.ClientSession, served: server.ApiServer
) -> None:
    await session.post(
        MAPS + "?fieldManager=me", json=objects.config_map(), headers={"User-Agent": "us/1"}
    )
    await session.get(f"{MAPS}/no")
    first, second = served.requests
    assert (first.method, first.path, first.query) == ("POST", MAPS, "fieldManager=me")
    assert (first.content_type, first.user_agent) == ("application/json", "us/1")
    assert (first.status, first.user) == (201, "system:admin")
    assert first.json == objects.config_map()
    assert (second.method, second.status) == ("GET", 404)
    served.forget_requests()
    assert served.requests == []


# ---- watches -----------------------------------------------------------------------------------


async def test_a_watch_without_version_starts_with_what_exists(
    session: aiohttp.ClientSession, served: server.ApiServer
) -> None:
    served.call(served.store.create, "configmaps", objects.config_map("a"))
    async with watching(session, MAPS) as stream:
        first = await stream.event()
        served.call(served.store.create, "configmaps", objects.config_map("b"))
        second = await stream.event()
    assert [first["type"], second["type"]] == ["ADDED", "ADDED"]
    assert [one["object"]["metadata"]["name"] for one in (first, second)] == ["a", "b"]
    assert first["object"]["kind"] == "ConfigMap"


async def test_a_watch_from_a_version_shows_what_came_later(
    session: aiohttp.ClientSession, served: server.ApiServer
) -> None:
    served.call(served.store.create, "configmaps", objects.config_map("a"))
    version = served.store.version
    served.call(served.store.delete, "configmaps", ("default", "a"))
    async with watching(session, "/api/v1/configmaps", resourceVersion=str(version)) as stream:
        event = await stream.event()
    assert event["type"] == "DELETED"
    assert event["object"]["metadata"]["resourceVersion"] == str(version + 1)


async def test_a_namespace_is_watched_alone(
    session: aiohttp.ClientSession, served: server.ApiServer
) -> None:
    async with watching(session, MAPS) as stream:
        served.call(served.store.create, "configmaps", objects.config_map("a", "kube-system"))
        served.call(served.store.create, "configmaps", objects.config_map("b"))
        assert (await stream.event())["object"]["metadata"]["name"] == "b"


async def test_many_watches_see_the_same(
    session: aiohttp.ClientSession, served: server.ApiServer
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        streams = [
            await stack.enter_async_context(watching(session, MAPS, resourceVersion="1"))
            for _ in range(20)
        ]
        served.call(served.store.create, "configmaps", objects.config_map())
        events = [await stream.event() for stream in streams]
    assert all(event == events[0] for event in events)
    assert events[0]["type"] == "ADDED"


async def test_initial_events_end_with_a_bookmark(
    session: aiohttp.ClientSession, served: server.ApiServer
) -> None:
    served.call(served.store.create, "configmaps", objects.config_map())
    async with watching(session, MAPS, sendInitialEvents="true") as stream:
        added, mark = await stream.event(), await stream.event()
    assert (added["type"], mark["type"]) == ("ADDED", "BOOKMARK")
    assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


@pytest.mark.parametrize(
    ("asked", "want"),
    [
        pytest.param({"allowWatchBookmarks": "true"}, ["BOOKMARK", "end"], id="asked for"),
        pytest.param({}, ["end"], id="not asked for"),
    ],
)
async def test_a_watch_ends_in_time_with_a_bookmark_if_that_was_asked_for(
    session: aiohttp.ClientSession, asked: dict, want: list[str]
) -> None:
    async with watching(session, MAPS, timeoutSeconds="1", **asked) as stream:
        assert await stream.kinds(len(want)) == want


async def test_bookmarks_come_while_nothing_happens(
    session: aiohttp.ClientSession, served: server.ApiServer
) -> None:
    served.bookmark_every(0.01)
    async with watching(session, MAPS, allowWatchBookmarks="1") as stream:
        mark = await stream.event()
    assert mark == {
        "type": "BOOKMARK",
        "object": {
            "kind": "ConfigMap",
            "apiVersion": "v1",
            "metadata": {"resourceVersion": str(served.store.version)},
        },
    }


async def test_an_expired_watch_says_410_in_the_stream(
    session: aiohttp.ClientSession, served: server.ApiServer
) -> None:
    version = str(served.store.version)
    async with watching(session, PODS, resourceVersion=version) as open_stream:
        served.compact("pods")
        async with watching(session, PODS, resourceVersion=version) as late_stream:
            events = [await open_stream.event(), await late_stream.event()]
            ends = [await open_stream.event(), await late_stream.event()]
    assert [(one["type"], one["object"]["code"]) for one in events] == [("ERROR", 410)] * 2
    assert ends == [{}, {}]


async def test_metadata_and_tables_are_watched_too(
    session: aiohttp.ClientSession, served: server.ApiServer
) -> None:
    served.call(served.store.create, "pods", objects.pod())
    kinds = []
    for form in ("PartialObjectMetadata", "Table"):
        headers = {"Accept": f"application/json;as={form};g=meta.k8s.io;v=v1"}
        async with session.get(PODS, params={"watch": "1"}, headers=headers) as answer:
            kinds.append((await Stream(answer).event())["object"]["kind"])
    assert kinds == ["PartialObjectMetadata", "Table"]


async def test_a_large_list_comes_in_parts(
    session: aiohttp.ClientSession, served: server.ApiServer
) -> None:
    for number in range(1100):
        served.store.create("configmaps", objects.config_map(f"c{number}"))
    async with watching(session, MAPS) as stream:
        names = {(await stream.event())["object"]["metadata"]["name"] for _ in range(1100)}
    assert len(names) == 1100


async def test_a_watch_whose_client_has_gone_is_forgotten(
    session: aiohttp.ClientSession, served: server.ApiServer
) -> None:
    async with watching(session, PODS):
        await fakes.eventually(lambda: served.watch_count("pods") == 1)
    await fakes.eventually(lambda: served.watch_count("pods") == 0)


# ---- failures ----------------------------------------------------------------------------------


async def test_the_next_requests_fail_as_ordered(api: Api, served: server.ApiServer) -> None:
    await api.post(MAPS, objects.config_map())
    served.fail("PATCH", f"{MAPS}/.*", status=500, times=2)
    answers = [await api.patch(f"{MAPS}/c", {"data": {"k": str(n)}}) for n in range(3)]
    assert [status for status, _ in answers] == [500, 500, 200]
    assert answers[0][1]["message"] == "injected failure"


async def test_too_many_requests_say_when_to_come_back(
    session: aiohttp.ClientSession, served: server.ApiServer
) -> None:
    served.fail("GET", MAPS, status=429, retry_after_s=7)
    async with session.get(MAPS) as answer:
        body = await answer.json()
    assert (answer.status, answer.headers["Retry-After"]) == (429, "7")
    assert body["reason"] == "TooManyRequests"
    assert body["details"]["retryAfterSeconds"] == 7


async def test_a_write_may_happen_although_the_client_is_told_otherwise(
    api: Api, served: server.ApiServer
) -> None:
    served.fail("POST", MAPS, status=504, after_write=True)
    status, _ = await api.post(MAPS, objects.config_map())
    assert status == 504
    assert [one["metadata"]["name"] for one in served.objects("configmaps")] == ["c"]


@pytest.mark.parametrize(
    ("after_write", "left"),
    [pytest.param(False, [], id="before"), pytest.param(True, ["c"], id="after the write")],
)
async def test_a_connection_breaks(
    api: Api, served: server.ApiServer, after_write: bool, left: list[str]
) -> None:
    served.reset("POST", MAPS, after_write=after_write)
    with pytest.raises(aiohttp.ClientError):
        await api.post(MAPS, objects.config_map())
    assert [one["metadata"]["name"] for one in served.objects("configmaps")] == left


async def test_a_late_answer(session: aiohttp.ClientSession, served: server.ApiServer) -> None:
    served.delay("GET", MAPS, seconds=30)
    with pytest.raises(TimeoutError):
        await session.get(MAPS, timeout=aiohttp.ClientTimeout(total=0.05))
    served.heal()
    async with session.get(MAPS) as answer:
        assert answer.status == 200


async def test_only_watches_fail(session: aiohttp.ClientSession, served: server.ApiServer) -> None:
    served.fail("WATCH", MAPS, status=503, times=faults.FOR_EVER)
    statuses = []
    for query in ({}, {"watch": "1"}, {"watch": "1"}):
        async with session.get(MAPS, params=query) as answer:
            statuses.append(answer.status)
    assert statuses == [200, 503, 503]


async def test_watches_are_cut(session: aiohttp.ClientSession, served: server.ApiServer) -> None:
    async with watching(session, MAPS) as cut, watching(session, PODS) as kept:
        await fakes.eventually(lambda: served.watch_count("pods") == 1)
        assert served.cut_watches("configmaps") == 1
        assert await cut.event() == {}
        served.call(served.store.create, "pods", objects.pod())
        assert (await kept.event())["type"] == "ADDED"


async def test_watches_are_broken(
    session: aiohttp.ClientSession, served: server.ApiServer
) -> None:
    async with watching(session, MAPS) as stream:
        await fakes.eventually(lambda: served.watch_count("configmaps") == 1)
        assert served.cut_watches(reset=True) == 1
        with pytest.raises(aiohttp.ClientError):
            await stream.event()


async def test_a_silent_watch_shows_later_what_it_kept_back(
    session: aiohttp.ClientSession, served: server.ApiServer
) -> None:
    async with watching(session, MAPS, allowWatchBookmarks="1") as stream:
        await fakes.eventually(lambda: served.watch_count("configmaps") == 1)
        served.silence_watches()
        served.bookmark_every(0.01)
        served.call(served.store.create, "configmaps", objects.config_map())
        waiting = asyncio.ensure_future(stream.event())
        await asyncio.wait([waiting], timeout=0.05)
        assert not waiting.done()
        served.silence_watches(silent=False)
        assert (await waiting)["type"] == "ADDED"


async def test_events_are_repeated(
    session: aiohttp.ClientSession, served: server.ApiServer
) -> None:
    served.repeat_events(2)
    async with watching(session, MAPS) as stream:
        served.call(served.store.create, "configmaps", objects.config_map())
        first, second = await stream.event(), await stream.event()
    assert first == second


# ---- who may do what ---------------------------------------------------------------------------

READER = authorize.Subject(
    "reader",
    (
        authorize.Grant(
            "", {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}
        ),
    ),
)


async def test_only_what_was_granted_is_done() -> None:
    with server.ApiServer(objects.new_store(), subjects={"secret": READER}) as served:
        headers = {"Authorization": "Bearer secret"}
        async with Api(served.url, headers=headers) as reader, Api(served.url) as nobody:
            statuses = [
                (await reader.get(MAPS))[0],
                (await reader.watch(MAPS, count=1, timeoutSeconds="1"))[0],
                (await reader.post(MAPS, objects.config_map()))[0],
                (await reader.watch(PODS, count=1))[0],
                (await nobody.get(MAPS))[0],
                (await nobody.get("/version"))[0],
            ]
        used = {(one.verb, one.resource) for one in served.authorizer.used["reader"]}
        users = [call.user for call in served.requests]
    assert statuses == [200, 200, 403, 403, 401, 200]
    assert used == {("list", "configmaps"), ("watch", "configmaps")}
    assert users == ["reader"] * 4 + ["", ""]


# ---- webhooks ----------------------------------------------------------------------------------


class Hook:
    """A webhook that answers what it is told, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.answer: dict[str, Any] = {"allowed": True}
        self.status = 200
        self.url = ""

    def patch(self, *operations: dict[str, Any]) -> None:
        encoded = base64.b64encode(orjson.dumps(operations)).decode()
        self.answer = {"allowed": True, "patchType": "JSONPatch", "patch": encoded}

    async def serve(self, request: web.Request) -> web.Response:
        review = await request.json()
        self.asked.append(review["request"])
        response = {"uid": review["request"]["uid"], **self.answer}
        return web.json_response({"response": response}, status=self.status)

    def configure(self, served: server.ApiServer, kind: str = "mutating", **more: Any) -> None:
        rule = {
            "operations": ["CREATE"],
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "resources": ["pods"],
        }
        webhook = {
            "name": "hook.example.com",
            "clientConfig": {"url": self.url},
            "rules": [rule],
            **more,
        }
        body = {"metadata": {"name": kind}, "webhooks": [webhook]}
        served.call(served.store.create, f"{kind}webhookconfigurations", body)


@pytest.fixture
async def hook() -> AsyncIterator[Hook]:
    hook = Hook()
    application = web.Application()
    application.router.add_post("/mutate", hook.serve)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    hook.url = f"http://127.0.0.1:{runner.addresses[0][1]}/mutate"
    yield hook
    await runner.cleanup()


async def test_a_webhook_sees_the_defaults_and_changes_the_pod(
    api: Api, served: server.ApiServer, hook: Hook
) -> None:
    hook.configure(served)
    hook.patch({"op": "replace", "path": "/spec/schedulerName", "value": "hami-scheduler"})
    status, pod = await api.post(PODS, objects.pod())
    (asked,) = hook.asked
    assert (status, pod["spec"]["schedulerName"]) == (201, "hami-scheduler")
    assert asked["object"]["spec"]["schedulerName"] == "default-scheduler"
    assert asked["object"]["kind"] == "Pod"
    assert (asked["operation"], asked["namespace"], asked["name"]) == ("CREATE", "default", "p")
    assert asked["resource"] == {"group": "", "version": "v1", "resource": "pods"}
    assert asked["userInfo"] == {"username": "system:admin"}


async def test_limits_of_a_webhook_become_requests(
    api: Api, served: server.ApiServer, hook: Hook
) -> None:
    hook.configure(served)
    limits = {"limits": {"nvidia.com/gpu": "1"}}
    hook.patch({"op": "replace", "path": "/spec/containers/0/resources", "value": limits})
    _, pod = await api.post(PODS, objects.pod())
    assert pod["spec"]["containers"][0]["resources"]["requests"] == {"nvidia.com/gpu": "1"}


async def test_a_webhook_of_a_service(hook: Hook) -> None:
    services = {("hami-system", "hook"): hook.url.removesuffix("/mutate")}
    with server.ApiServer(objects.new_store(), services=services) as served:
        service = {"namespace": "hami-system", "name": "hook", "path": "/mutate"}
        hook.configure(served, clientConfig={"service": service})
        async with Api(served.url) as api:
            assert (await api.post(PODS, objects.pod()))[0] == 201
    assert len(hook.asked) == 1


@pytest.mark.parametrize(
    ("answer", "want"),
    [
        pytest.param(
            {"allowed": False, "status": {"message": "no such card", "code": 422}},
            (422, 'admission webhook "hook.example.com" denied the request: no such card'),
            id="with code and words",
        ),
        pytest.param(
            {"allowed": False},
            (400, 'admission webhook "hook.example.com" denied the request without explanation'),
            id="without a word",
        ),
    ],
)
async def test_a_webhook_denies(
    api: Api, served: server.ApiServer, hook: Hook, answer: dict, want: tuple[int, str]
) -> None:
    hook.configure(served, "validating")
    hook.answer = answer
    status, body = await api.post(PODS, objects.pod())
    assert (status, body["message"]) == want
    assert served.objects("pods") == []


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        pytest.param(500, {"allowed": True}, id="an error"),
        pytest.param(200, {"allowed": True, "uid": "other"}, id="an answer to something else"),
        pytest.param(200, {"allowed": True, "patch": "e30=", "patchType": "JSONPatch"}, id="{}"),
        pytest.param(
            200, {"allowed": True, "patch": "!", "patchType": "JSONPatch"}, id="no base64"
        ),
        pytest.param(200, {"allowed": True, "patch": "W10="}, id="no patch type"),
    ],
)
@pytest.mark.parametrize(
    ("policy", "want"),
    [
        pytest.param({}, 500, id="fails by default"),
        pytest.param({"failurePolicy": "Ignore"}, 201, id="may be ignored"),
    ],
)
async def test_a_webhook_that_fails(
    served: server.ApiServer, hook: Hook, *, status: int, answer: dict, policy: dict, want: int
) -> None:
    hook.configure(served, **policy)
    hook.status, hook.answer = status, answer
    async with Api(served.url) as api:
        code, body = await api.post(PODS, objects.pod())
    assert code == want
    if code == 500:
        assert 'failed calling webhook "hook.example.com"' in body["message"]


@pytest.mark.parametrize(
    "config",
    [
        pytest.param({"url": "http://127.0.0.1:9/"}, id="nobody listens"),
        pytest.param({"service": {"namespace": "x", "name": "y"}}, id="an unknown Service"),
        pytest.param({"url": "https://127.0.0.1:9/", "caBundle": "YQ=="}, id="no certificate"),
    ],
)
async def test_a_webhook_that_cannot_be_reached(
    api: Api, served: server.ApiServer, hook: Hook, config: dict
) -> None:
    hook.configure(served, clientConfig=config)
    code, body = await api.post(PODS, objects.pod())
    assert (code, body["reason"]) == (500, "InternalError")


@pytest.mark.parametrize(
    ("more", "called"),
    [
        pytest.param({"namespaceSelector": {"matchLabels": {"a": "b"}}}, False, id="namespace"),
        pytest.param(
            {
                "namespaceSelector": {
                    "matchExpressions": [
                        {
                            "key": "kubernetes.io/metadata.name",
                            "operator": "NotIn",
                            "values": ["x"],
                        }
                    ]
                }
            },
            True,
            id="not this namespace",
        ),
        pytest.param({"objectSelector": {"matchLabels": {"a": "b"}}}, False, id="object"),
        pytest.param({"rules": []}, False, id="no rule"),
        pytest.param({"rules": [{"operations": ["UPDATE"]}]}, False, id="only updates"),
        pytest.param(
            {
                "rules": [
                    {
                        "operations": ["*"],
                        "apiGroups": ["*"],
                        "apiVersions": ["*"],
                        "resources": ["*"],
                        "scope": "Namespaced",
                    }
                ]
            },
            True,
            id="everything in namespaces",
        ),
    ],
)
async def test_which_objects_a_webhook_is_shown(
    api: Api, served: server.ApiServer, hook: Hook, more: dict, called: bool
) -> None:
    hook.configure(served, **more)
    await api.post(PODS, objects.pod())
    await api.post("/api/v1/nodes", objects.node())
    assert [asked["name"] for asked in hook.asked] == ["p"] * called


# ---- the server itself -------------------------------------------------------------------------


async def test_the_store_outlives_its_server() -> None:
    memory = objects.new_store()
    with server.ApiServer(memory) as first:
        async with Api(first.url) as api:
            await api.post(MAPS, objects.config_map())
            version = memory.version
    with server.ApiServer(memory) as second:
        async with Api(second.url) as api:
            assert (await api.get(f"{MAPS}/c"))[0] == 200
            served = second.call(memory.events_since, "configmaps", version)
    assert served == []


def test_a_server_can_be_stopped_twice_and_started_again() -> None:
    running = server.ApiServer()
    running.stop()
    running.start()
    running.stop()
    running.stop()
    running.start()
    assert running.call(lambda: running.store.version) == 6
    running.stop()


def test_without_its_thread_the_store_is_called_directly() -> None:
    idle = server.ApiServer(store.Store())
    idle.call(idle.store.create, "configmaps", objects.config_map())
    assert idle.object("configmaps", ("default", "c"))["metadata"]["name"] == "c"


def test_a_taken_port_is_an_error() -> None:
    with server.ApiServer() as first:
        port = int(first.url.rpartition(":")[2])
        second = server.ApiServer(port=port)
        with pytest.raises(OSError, match="in use"):
            second.start()
        second.stop()


def test_errors_come_back_to_the_caller(served: server.ApiServer) -> None:
    with pytest.raises(refusals.Refused, match="not found"):
        served.object("pods", ("default", "no"))


async def test_open_watches_do_not_hold_up_the_stop() -> None:
    running = server.ApiServer()
    running.start()
    async with (
        aiohttp.ClientSession(running.url) as session,
        watching(session, PODS) as stream,
    ):
        await fakes.eventually(lambda: running.watch_count("pods") == 1)
        await asyncio.to_thread(running.stop)
        assert await stream.event() == {}
