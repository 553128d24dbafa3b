"""While nothing changes, nothing is written, whoever waits for whatever."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from typing import Any

import orjson

from hami_operator import settings
from hami_operator.cli import wiring
from hami_operator.cluster import kubernetes
from hami_operator.cluster.memory import server, store
from hami_operator.protocol import keys, register
from hami_operator.scheduling import queue
from hami_operator.server import metrics
from tests import builders, fakes
from tests.runtime import bench

LEASE = "/apis/coordination.k8s.io/v1/namespaces/hami-system/leases/hami-scheduler"
NODE = "/api/v1/nodes/n1"
STEP_S = 0.5


def park(on: bench.Bench) -> None:
    """Pods that wait: for room, for a promised place, for their gang, for a gate."""
    for name, value in (("high", 100), ("low", 1)):
        on.store.create(
            "priorityclasses", orjson.dumps({"metadata": {"name": name}, "value": value})
        )
    large = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 30_000}
    on.add(on.ask("holder", **large).put("spec.priorityClassName", "low"))
    for number in range(5):
        on.add(on.ask(f"large{number}", **{"nvidia.com/gpu": 3}))
    gang = {keys.GANG_NAME: "g", keys.GANG_MIN_MEMBER: "4"}
    for number in range(3):
        on.add(on.ask(f"member{number}").annotate(gang))
    on.add(on.ask("gated").gate("later"))


async def test_no_request_is_sent_in_a_minute_in_which_nothing_changes() -> None:
    async with bench.running(node_lock="memory") as on:
        on.add_node()
        park(on)
        await on.run()
        on.serve("holder")
        on.admit("holder", "Running")
        large = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 20_000}
        on.add(on.ask("urgent", **large).put("spec.priorityClassName", "high"))
        await on.run(30)
        assert "deletionTimestamp" in on.pod("holder")["metadata"]
        before = len(on.api.calls)
        await on.run(60)
        assert on.api.calls[before:] == []
        on.delete_pod("holder")
        await on.run(1)
        assert on.node_of("urgent") == "n1"


@contextlib.asynccontextmanager
async def whole(api: server.ApiServer, clock: fakes.FakeClock) -> AsyncIterator[wiring.Wiring]:
    """All tasks of the operator, on a clock that stands still; its own reflectors watch."""
    client = await kubernetes.Client.connect(server=api.url, time=clock)
    given = wiring.Given(
        settings=settings.Settings(node_source="reflector"),
        client=client,
        server_version=(1, 36),
        identity="me",
        time=clock,
        generator=random.Random(1),
        metrics=metrics.Metrics(),
    )
    made = wiring.Wiring(given)
    made.start()
    try:
        yield made
    finally:
        await made.close()


async def answered(api: server.ApiServer) -> None:
    """Wait, in real time, until all that was asked is answered and nothing more is asked."""
    quiet = 0
    while quiet < 3:
        before = len(api.requests)
        await asyncio.sleep(0.002)
        await fakes.settle()
        quiet = quiet + 1 if len(api.requests) == before else 0


async def pass_by(api: server.ApiServer, clock: fakes.FakeClock, seconds: float) -> None:
    for _ in range(round(seconds / STEP_S)):
        await clock.advance(STEP_S)
        await answered(api)


def fill(api: server.ApiServer) -> None:
    """A node whose plugin never answers, one without handshake, and pods that wait."""

    def create(resource: str, body: dict[str, Any], namespace: str = "") -> None:
        api.call(api.store.create, resource, body, namespace=namespace)

    create("namespaces", {"metadata": {"name": "hami-system"}})
    silent = builders.roomy("n0").register(
        "NVIDIA", builders.cards(1), form=register.Form.JSON, handshake=None
    )
    asked = builders.roomy("n1").register("NVIDIA", builders.cards(1), form=register.Form.JSON)
    for made in (silent, asked):
        raw = made.allocatable({"nvidia.com/gpu": "10"}).raw()
        status = orjson.dumps({"status": raw["status"]})
        create("nodes", bare(raw))
        name = raw["metadata"]["name"]
        api.call(api.store.patch, "nodes", ("", name), status, subresource="status")
        untainted = orjson.dumps({"spec": {"taints": None}})
        api.call(api.store.patch, "nodes", ("", name), untainted)
    gang = {keys.GANG_NAME: "g", keys.GANG_MIN_MEMBER: "4"}
    waiting = [builders.pod(f"large{number}") for number in range(5)]
    waiting += [builders.pod(f"member{number}").annotate(gang) for number in range(3)]
    waiting.append(builders.pod("gated").gate("later"))
    limits = {"nvidia.com/gpu": 3}
    for one in waiting:
        pod = one.scheduler("hami-scheduler").container("c", limits=limits)
        create("pods", bare(pod.raw()), "default")


def bare(raw: dict[str, Any]) -> dict[str, Any]:
    for field in ("uid", "resourceVersion", "creationTimestamp"):
        raw["metadata"].pop(field, None)
    raw.pop("status", None)
    return raw


async def test_the_whole_operator_writes_nothing_but_its_lease_and_handshakes() -> None:
    """The protocol wants both: the Lease every 2 s, a question to a plugin that has answered.

    kopf, which is not here, keeps watches and writes nothing.
    """
    clock = fakes.FakeClock()
    with server.ApiServer(store.Store(system_clock=clock)) as api:
        fill(api)
        async with whole(api, clock) as on:
            await pass_by(api, clock, 70)  # conditions are written, first repeats have been told
            places = {item.place for item in on.state.queue.items()}
            assert places == {queue.Place.UNSCHEDULABLE, queue.Place.GATED}
            before = len(api.requests)
            await pass_by(api, clock, 60)
            made = api.requests[before:]
            others = [
                f"{one.method} {one.path}"
                for one in made
                if one.path not in {LEASE, NODE} and not one.watches
            ]
            assert others == []
            assert {one.method for one in made if one.path == NODE} <= {"PATCH", "GET"}
            renewals = [one for one in made if one.path == LEASE and one.method != "GET"]
            assert 20 <= len(renewals) <= 31
