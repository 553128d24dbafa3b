"""Operators that are killed, stopped and replaced in the middle of their work."""

from __future__ import annotations

import asyncio
import datetime
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import pytest

from hami_operator.protocol import keys
from hami_operator.simulator import audit, fleet
from tests import builders
from tests.conformance import operators, workload
from tests.conformance.cluster import FAST, Cluster, eventually

LEASE_S: Final = 6.0
EXIT_S: Final = 13.0
"""What a stop may take: some seconds for binds in flight, and kopf's five for a stray task."""
SPREAD: Final = "--node-scheduler-policy=spread"
"""So that many binds are under way at once, one on each node."""
BINDINGS: Final = r"/api/v1/namespaces/[^/]+/pods/[^/]+/binding"


@pytest.fixture
async def nodes(cluster: Cluster) -> AsyncIterator[fleet.Fleet]:
    """Twelve nodes of NVIDIA and HCU."""
    hosts = [
        workload.host(f"{cluster.prefix}{number:02}", **equipment)
        for number, equipment in zip(
            range(12), [{"nvidia": 4}, {"nvidia_text": 4}, {"hcu": 4}] * 4, strict=True
        )
    ]
    async with cluster.fleet(hosts) as made:
        yield made


def burst(count: int) -> Iterator[builders.PodBuilder]:
    """Pods that all fit on the twelve nodes; one card of three is taken by others."""
    limits = (
        workload.ask("NVIDIA", memory=3000, cores=5),
        workload.ask("NVIDIA", 2, memory=1000),
        workload.ask("HCU", memory=8000, cores=10),
    )
    for number in range(count):
        share = 2 if number % 4 == 0 else number % 2 if number % 3 == 0 else 0
        yield builders.pod(f"p-{number:03}").container(limits=limits[share])


async def create(cluster: Cluster, count: int) -> list[str]:
    """Create the burst, some at a time."""
    pods = [*burst(count)]
    for start in range(0, count, 20):
        async with asyncio.TaskGroup() as tasks:
            for pod in pods[start : start + 20]:
                tasks.create_task(cluster.pod(pod))
    return [pod.raw()["metadata"]["name"] for pod in pods]


def bound_count(cluster: Cluster) -> int:
    return sum(bool(pod["spec"].get("nodeName")) for pod in cluster.pods.all())


async def bound_so_many(cluster: Cluster, least: int) -> None:
    """Wait until so many pods, or more, are bound."""
    await cluster.until(lambda: bound_count(cluster) >= least, f"{least} pods are bound")


async def assert_sound(cluster: Cluster, names: list[str]) -> None:
    """Every pod is bound exactly once, every card has room, and no lock is left."""
    await cluster.run(*names)
    await cluster.until(lambda: not any(audit.locks(cluster.nodes.all())), "locks are gone")
    assert await cluster.overbooked() == []
    made = await cluster.settled_requests()
    landed = [one.name for one in made if (one.words, one.status) == BOUND]
    assert sorted(landed) == sorted(names)


BOUND: Final = ("create pods/binding", 201)


async def test_kills_in_the_middle_of_a_burst_book_nothing_twice_and_lose_nothing(
    cluster: Cluster, nodes: fleet.Fleet
) -> None:
    operator = await cluster.deciding("--no-leader-elect")
    creating = asyncio.create_task(create(cluster, 200))
    for enough in (20, 70, 130):
        await bound_so_many(cluster, enough)
        operator.kill()
        operator = cluster.operator("--no-leader-elect")
    names = await creating
    await assert_sound(cluster, names)
    assert bound_count(cluster) == 200


async def test_a_term_signal_finishes_or_undoes_binds_and_gives_the_lease_up(
    cluster: Cluster, nodes: fleet.Fleet
) -> None:
    async with cluster.proxy() as proxy:
        operator = await cluster.deciding(SPREAD, through=proxy)
        proxy.delay("POST", BINDINGS, seconds=1.5)
        names = await create(cluster, 40)
        await eventually(lambda: proxy.delayed >= 4, "some binds are under way")
        operator.terminate()
        assert await ended(operator) == 0
        # What was under way is through, and what was not is as if nobody had ever decided.
        await cluster.until(lambda: not proxy.delayed, "nothing is on its way")
        await assert_nothing_is_half_done(cluster)
        assert 4 <= bound_count(cluster) < 40
    assert (await cluster.lease()).get("holderIdentity", "") == ""
    await cluster.deciding()
    await assert_sound(cluster, names)


async def test_locks_of_a_killed_operator_do_not_keep_its_successor_from_binding(
    cluster: Cluster, nodes: fleet.Fleet
) -> None:
    """Every node is locked for a pod that nobody has bound, and never will by that decision."""
    async with cluster.proxy() as proxy:
        operator = await cluster.deciding(SPREAD, through=proxy)
        proxy.delay("POST", BINDINGS, seconds=3600)
        names = await create(cluster, 40)
        await eventually(lambda: proxy.delayed == 12, "a bind is under way on every node")
        operator.kill()
    # Pods that come first now are not those that came first then.
    await cluster.pod(builders.pod("a-first").container(limits=workload.ask("HCU")))
    await cluster.deciding(SPREAD)
    await assert_sound(cluster, ["a-first", *names])


async def test_bindings_that_land_after_their_operators_end_do_no_harm(
    cluster: Cluster, nodes: fleet.Fleet
) -> None:
    """The API server, or the way to it, is so slow that a successor decides before they land."""
    async with cluster.proxy() as proxy:
        operator = await cluster.deciding(SPREAD, through=proxy)
        proxy.delay("POST", BINDINGS, seconds=13)
        names = await create(cluster, 30)
        await eventually(lambda: proxy.delayed >= 4, "some binds are under way")
        operator.terminate()
        assert await ended(operator) == 0
        assert (await cluster.lease()).get("holderIdentity", "") == ""
        assert proxy.delayed >= 4
        await cluster.deciding(SPREAD)
        await bound_so_many(cluster, 1)
        await eventually(lambda: not proxy.delayed, "the late ones have landed")
        await assert_sound(cluster, names)


async def ended(operator: operators.Operator) -> int:
    """Exit code; it must come in time."""
    began_s = time.monotonic()
    code = await asyncio.to_thread(operator.wait, EXIT_S)
    print(f"stopped after {time.monotonic() - began_s:.2f} s")
    return code


async def assert_nothing_is_half_done(cluster: Cluster) -> None:
    """No pod has a decision without a node, no lock names a pod that is not bound."""
    nodes, pods = await cluster.snapshot()
    bound = {audit.name(pod) for pod in pods if pod["spec"].get("nodeName")}
    half = [
        audit.name(pod)
        for pod in pods
        if keys.VGPU_NODE in (pod["metadata"].get("annotations") or {})
        and audit.name(pod) not in bound
    ]
    held = [lock for lock in audit.locks(nodes) if "/".join(lock.rsplit(",", 2)[1:]) not in bound]
    assert (half, held) == ([], [])


async def test_when_the_leader_is_killed_the_other_replica_goes_on_within_the_lease_time(
    cluster: Cluster, nodes: fleet.Fleet
) -> None:
    first = await cluster.deciding()
    second = cluster.operator()
    await eventually(lambda: second.said("lease seen"), "the second one sees the leader")
    await eventually(lambda: answers(second), "the second one is ready as well")
    assert await second.metric("hami_leader") == 0
    creating = asyncio.create_task(create(cluster, 60))
    await bound_so_many(cluster, 15)
    killed = now()
    first.kill()
    names = await creating
    await cluster.decides(second)
    led = datetime.datetime.fromisoformat(second.said("leading")[0]["timestamp"])
    waited_s = (led - killed).total_seconds()
    print(f"led again after {waited_s:.2f} s of a lease of {FAST['lease_duration']}")
    # The pause between two looks at the Lease comes on top, and a busy machine's share.
    assert waited_s < LEASE_S + 3
    await assert_sound(cluster, names)
    assert await second.metric("hami_leader") == 1


async def test_a_replica_that_does_not_lead_writes_nothing(
    cluster: Cluster, nodes: fleet.Fleet
) -> None:
    first = await cluster.deciding("--handshake-interval=1s")
    await cluster.pod(builders.pod("p").container(limits=workload.ask("NVIDIA")))
    await cluster.run("p")
    first.terminate()
    await ended(first)
    await cluster.hold_lease("another")
    before = len(await cluster.settled_requests())
    second = cluster.operator("--handshake-interval=500ms")
    await eventually(lambda: second.said("lease seen"), "it sees the leader")
    await eventually(lambda: answers(second), "it is ready")
    await cluster.pod(builders.pod("q").container(limits=workload.ask("NVIDIA")))
    await eventually(lambda: pending(second), "it knows of the pod")
    second.stop()
    made = await cluster.settled_requests(since=before)
    assert [one for one in made if one.verb not in ("get", "list", "watch")] == []
    assert cluster.where("q") == ""


async def answers(operator: operators.Operator) -> bool:
    return bool(operator.said("serving")) and await operator.readiness() == 200


async def pending(operator: operators.Operator) -> bool:
    return await operator.metric("hami_pending_pods") > 0


def now() -> Any:
    return datetime.datetime.fromtimestamp(time.time(), datetime.UTC)
