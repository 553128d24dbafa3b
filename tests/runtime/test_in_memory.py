"""Reflector, comparison and election over real sockets, against the API server in memory."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from hami_operator import clock, errors
from hami_operator.cluster import kubernetes, ports
from hami_operator.cluster.memory import server, store
from hami_operator.runtime import leader, reflector, resync
from tests import fakes


def pod(name: str) -> dict[str, Any]:
    spec = {"schedulerName": "x", "containers": [{"name": "c", "image": "i"}]}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


class Mirror:
    """A sink that holds name to UID and version."""

    def __init__(self) -> None:
        self.objects: dict[str, tuple[str, str]] = {}
        self.deleted: list[str] = []

    def upsert(self, raw: ports.Raw) -> None:
        metadata = raw["metadata"]
        self.objects[metadata["name"]] = (metadata["uid"], metadata["resourceVersion"])

    def delete(self, raw: ports.Raw) -> None:
        name = raw["metadata"]["name"]
        self.deleted.append(name)
        self.objects.pop(name, None)

    def synced(self) -> None:
        pass


@pytest.fixture
def api() -> Iterator[server.ApiServer]:
    with server.ApiServer(store.Store()) as running:
        yield running


@pytest.fixture
async def client(api: server.ApiServer) -> AsyncIterator[kubernetes.Client]:
    client = await kubernetes.Client.connect(server=api.url)
    yield client
    await client.close()


def create(api: server.ApiServer, *names: str) -> None:
    for name in names:
        api.call(api.store.create, "pods", pod(name), namespace="default")


def delete(api: server.ApiServer, name: str) -> None:
    api.call(api.store.delete, "pods", ("default", name))


def truth(api: server.ApiServer, resource: str = "pods") -> dict[str, tuple[str, str]]:
    return {
        found["metadata"]["name"]: (found["metadata"]["uid"], found["metadata"]["resourceVersion"])
        for found in api.objects(resource)
    }


@contextlib.asynccontextmanager
async def reflecting(
    client: kubernetes.Client, mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[reflector.Reflector]:
    monkeypatch.setattr(reflector, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(reflector, "PAGE", 3)
    subject = reflector.Reflector(
        client,
        ports.PODS,
        mirror,
        time=clock.SystemClock(),
        generator=random.Random(1),
        selector=ports.LIVE_PODS,
    )
    task = asyncio.create_task(subject.run())
    await asyncio.wait_for(subject.wait_synced(), timeout=10)
    yield subject
    assert not task.done()
    task.cancel()
    await asyncio.wait({task})


async def test_the_mirror_follows_through_every_kind_of_trouble(
    api: server.ApiServer, client: kubernetes.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(api, *(f"p{index}" for index in range(10)))
    mirror = Mirror()

    async def same(what: str) -> None:
        await fakes.eventually(lambda: mirror.objects == truth(api), what=what)

    async with reflecting(client, mirror, monkeypatch) as subject:
        assert mirror.objects == truth(api)
        create(api, "q1")
        delete(api, "p1")
        await same("plain watch")

        await fakes.eventually(lambda: api.watch_count("pods") == 1)
        api.cut_watches("pods", reset=True)
        create(api, "q2")
        delete(api, "p2")
        await same("broken connection")

        await fakes.eventually(lambda: api.watch_count("pods") == 1)
        api.silence_watches()
        create(api, "q3")
        delete(api, "p3")
        api.call(api.store.delete, "pods", ("default", "q1"))
        create(api, "q1")  # same name, another UID
        api.compact("pods")
        api.silence_watches(False)
        await same("gap that ends with 410")
        assert "p3" in mirror.deleted

        api.fail("GET", "/api/v1/pods", status=500, times=3)
        api.fail("WATCH", "/api/v1/pods", status=429, times=2)
        api.compact("pods")
        create(api, "q4")
        await same("refused lists and watches")

        await fakes.eventually(lambda: api.watch_count("pods") == 1)
        api.repeat_events(3)
        delete(api, "p4")
        create(api, "q5")
        await same("repeated events")

        status = {"status": {"phase": "Succeeded"}}
        merge = "application/merge-patch+json"
        api.call(
            api.store.patch,
            "pods",
            ("default", "p5"),
            status,
            content_type=merge,
            subresource="status",
        )
        await fakes.eventually(lambda: "p5" not in mirror.objects, what="left the selection")
        await asyncio.wait_for(subject.relist(), timeout=10)
        assert len(subject) == len(mirror.objects) == len(truth(api)) - 1


async def test_nodes_of_a_deaf_watch_are_repaired(
    api: server.ApiServer, client: kubernetes.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resync, "LOOK_S", 0.001)
    monkeypatch.setattr(resync, "PAGE", 2)
    for index in range(5):
        api.call(api.store.create, "nodes", {"metadata": {"name": f"n{index}"}})
    mirror = Mirror()
    mirror.objects["ghost"] = ("uid", "1")

    def node_event(kind: str, raw: ports.Raw) -> None:
        (mirror.delete if kind == "DELETED" else mirror.upsert)(raw)

    subject = resync.Resync(
        client,
        client,
        known=lambda: {name: resync.Known(*pair) for name, pair in mirror.objects.items()},
        node_event=node_event,
        time=clock.SystemClock(),
        recorder=ports.NoRecorder(),
    )
    await subject.once()
    assert mirror.objects == truth(api, "nodes")
    assert mirror.deleted == ["ghost"]
    metadata_only = [call for call in api.requests if "PartialObjectMetadataList" in call.accept]
    assert len(metadata_only) == 3


async def test_two_processes_hand_the_lease_over(
    api: server.ApiServer, client: kubernetes.Client
) -> None:
    def candidate(identity: str) -> leader.Leader:
        return leader.Leader(
            client,
            namespace="default",
            name="hami-scheduler",
            identity=identity,
            time=clock.SystemClock(),
            generator=random.Random(1),
            recorder=ports.NoRecorder(),
            lease_s=15.0,
            renew_s=10.0,
            retry_s=0.02,
        )

    first, second = candidate("a"), candidate("b")
    running = asyncio.create_task(first.run())
    await asyncio.wait_for(first.wait_leading(), timeout=10)
    waiting = asyncio.create_task(second.run())
    await fakes.eventually(lambda: len(api.requests) > 20)
    assert (first.leading, second.leading) == (True, False)
    writer = client.fenced(first.fence)
    api.call(api.store.create, "nodes", {"metadata": {"name": "n1"}})
    await writer.patch_node("n1", {"metadata": {"annotations": {"a": "1"}}})

    running.cancel()
    await asyncio.wait({running})
    await first.release()
    await asyncio.wait_for(second.wait_leading(), timeout=10)
    assert (first.leading, second.leading) == (False, True)
    assert second.term == first.term + 1
    with pytest.raises(errors.Fenced):
        await writer.patch_node("n1", {"metadata": {"annotations": {"a": "2"}}})
    waiting.cancel()
    await asyncio.wait({waiting})
