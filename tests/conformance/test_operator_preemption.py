"""Room for more important pods, and pods that run together or not at all."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
from collections.abc import AsyncIterator, Iterable
from typing import Any

from hami_operator.protocol import keys
from tests import builders
from tests.conformance import workload
from tests.conformance.cluster import QUICK, Cluster

ALLOCATED = "hami.io/vgpu-devices-allocated"
REGISTER = "hami.io/node-nvidia-register"
SLOW = dataclasses.replace(QUICK, grace_s=4.0)
"""Pods take some seconds to end, so that others have time to come in between."""


@contextlib.asynccontextmanager
async def priorities(
    cluster: Cluster, *, policy: str = "PreemptLowerPriority", **values: int
) -> AsyncIterator[None]:
    """PriorityClasses of these names, with this test's prefix, inside the block."""
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    for name, value in values.items():
        body = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": f"{cluster.prefix}{name}"},
            "value": value,
            "preemptionPolicy": policy,
        }
        status, answer = await cluster.api.post(path, body)
        assert status == 201, answer
    try:
        yield
    finally:
        for name in values:
            await cluster.api.delete(f"{path}/{cluster.prefix}{name}")


def urgent(cluster: Cluster, name: str, priority: str, cores: int) -> builders.PodBuilder:
    pod = builders.pod(name).container(limits=workload.ask("NVIDIA", cores=cores))
    return pod.put("spec.priorityClassName", f"{cluster.prefix}{priority}")


async def protect(cluster: Cluster, **labels: str) -> None:
    """A PodDisruptionBudget that allows nothing; no controller ever fills in its status."""
    body = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "protect"},
        "spec": {"minAvailable": "100%", "selector": {"matchLabels": labels}},
    }
    path = f"/apis/policy/v1/namespaces/{cluster.namespace}/poddisruptionbudgets"
    status, answer = await cluster.api.post(path, body)
    assert status == 201, answer


def card(cluster: Cluster, name: str) -> tuple[str, str]:
    """Node and card of a pod with one card."""
    return cluster.where(name), cluster.annotations(name)[ALLOCATED].partition(",")[0]


async def test_the_cheapest_sufficient_victims_go_and_nobody_steals_their_card(
    cluster: Cluster,
) -> None:
    hosts = [workload.host(f"{cluster.prefix}{number}", nvidia=2) for number in range(2)]
    async with (
        cluster.fleet(hosts, behaviour=SLOW),
        priorities(cluster, high=1000, middle=500),
    ):
        await cluster.deciding()
        slices = [f"slice-{number:02}" for number in range(16)]
        for name in slices:
            pod = builders.pod(name).container(limits=workload.ask("NVIDIA", cores=25))
            await cluster.pod(pod.label("number", name[-1]))
        await cluster.run(*slices)
        await protect(cluster, number="3")
        cards = {name: card(cluster, name) for name in slices}

        await cluster.pod(urgent(cluster, "high", "high", 50))
        await cluster.until(lambda: len(ending(cluster, slices)) == 2, "two victims end")
        victims = ending(cluster, slices)
        await cluster.pod(urgent(cluster, "middle", "middle", 50))
        await cluster.bound("high")

        assert {cards[name] for name in victims} == {card(cluster, "high")}
        assert not [name for name in victims if name.endswith("3")]
        for name in victims:
            (event,) = await cluster.told("Preempted", name)
            assert f"on node {cluster.where('high')}" in event["note"]
        gone = [name for name in slices if cluster.pods.get(name) is None]
        assert set(victims) <= set(gone) | set(ending(cluster, slices))
        await cluster.bound("middle")
        assert card(cluster, "middle") != card(cluster, "high")
        assert await cluster.overbooked() == []


def ending(cluster: Cluster, names: Iterable[str]) -> list[str]:
    found = ((name, cluster.pods.get(name)) for name in names)
    return [name for name, pod in found if pod and "deletionTimestamp" in pod["metadata"]]


def on_card(name: str, uuid: str) -> builders.PodBuilder:
    """A quarter of one card, and of no other."""
    pod = builders.pod(name).container(limits=workload.ask("NVIDIA", cores=25))
    return pod.annotate({"nvidia.com/use-gpuuuid": uuid})


async def test_exactly_the_cheapest_victims_go_and_a_pod_that_may_not_push_takes_nothing(
    cluster: Cluster,
) -> None:
    """On ``a`` two that nobody protects, of the lowest priority, are enough; ``b`` costs more."""
    node = f"{cluster.prefix}1"
    async with (
        cluster.fleet([workload.host(node, nvidia=2)], behaviour=SLOW),
        priorities(cluster, high=1000, low=20, lowest=10),
        priorities(cluster, policy="Never", middle=500),
    ):
        await cluster.deciding()
        a, b = sorted(json.loads(cluster.node_annotation(node, REGISTER) or "[]"), key=id_of)
        ranks = {"a-0": "lowest", "a-1": "lowest", "a-2": "lowest", "a-3": "lowest"}
        ranks |= {"b-0": "lowest", "b-1": "low", "b-2": "low", "b-3": "low"}
        for name, rank in ranks.items():
            pod = on_card(name, id_of(a if name.startswith("a") else b))
            pod = pod.put("spec.priorityClassName", f"{cluster.prefix}{rank}")
            await cluster.pod(pod.label("app", "db" if name in ("a-1", "a-2") else "web"))
        await cluster.run(*ranks)
        await protect(cluster, app="db")

        await cluster.pod(urgent(cluster, "high", "high", 50))
        await cluster.until(lambda: len(ending(cluster, ranks)) == 2, "two victims end")
        assert ending(cluster, ranks) == ["a-0", "a-3"]
        assert cluster.where("high") == ""
        for name in ("a-0", "a-3"):
            assert disruption(cluster, name) == (
                "True",
                "PreemptionByScheduler",
                "hami-scheduler: preempting to accommodate a higher priority pod",
            )
        await cluster.pod(urgent(cluster, "middle", "middle", 50))
        await cluster.bound("high")
        assert [name for name in ranks if cluster.pods.get(name) is None] == ["a-0", "a-3"]
        assert card(cluster, "high") == (node, id_of(a))
        uid = pod_of(cluster, "high")["metadata"]["uid"]
        for name in ("a-0", "a-3"):
            (event,) = await cluster.told("Preempted", name)
            assert event["note"] == f"Preempted by pod {uid} on node {node}"
        await cluster.run("high")
        await cluster.waits("middle", "not eligible due to preemptionPolicy=Never.")
        assert await cluster.overbooked() == []


def pod_of(cluster: Cluster, name: str) -> dict[str, Any]:
    found = cluster.pods.get(name)
    assert found is not None
    return found


def id_of(registered: dict[str, Any]) -> str:
    return str(registered["id"])


def disruption(cluster: Cluster, name: str) -> tuple[str, ...]:
    """What the condition ``DisruptionTarget`` of a pod says."""
    conditions = pod_of(cluster, name)["status"]["conditions"]
    (found,) = (one for one in conditions if one["type"] == "DisruptionTarget")
    return found["status"], found["reason"], found["message"]


async def test_a_protected_pod_goes_where_nobody_else_is_left(cluster: Cluster) -> None:
    async with (
        cluster.fleet([workload.host(f"{cluster.prefix}1", nvidia=1)]),
        priorities(cluster, high=1000),
    ):
        await cluster.deciding()
        await protect(cluster, app="db")
        pod = builders.pod("db").label("app", "db").container(limits=workload.whole("NVIDIA"))
        await cluster.pod(pod)
        await cluster.run("db")
        await cluster.pod(urgent(cluster, "high", "high", 50))
        await cluster.run("high")
        assert cluster.pods.get("db") is None


# ---- gangs


def gang(name: str, size: int) -> list[builders.PodBuilder]:
    values = {keys.GANG_NAME: name, keys.GANG_MIN_MEMBER: str(size)}
    return [
        builders.pod(f"{name}-{number:02}")
        .annotate(values)
        .container(limits=workload.whole("NVIDIA"))
        for number in range(size)
    ]


def names(name: str, size: int) -> list[str]:
    return [f"{name}-{number:02}" for number in range(size)]


async def test_of_two_gangs_one_starts_whole_and_the_other_waits_whole(cluster: Cluster) -> None:
    hosts = [workload.host(f"{cluster.prefix}{number}", nvidia=4) for number in range(5)]
    async with cluster.fleet(hosts):
        await cluster.deciding()
        pairs = zip(gang("first", 16), gang("second", 16), strict=True)
        for pod in (pod for pair in pairs for pod in pair):
            await cluster.pod(pod)
        await cluster.until(lambda: begun(cluster, "first", "second"), "one begins")
        (running,) = begun(cluster, "first", "second")
        (waiting,) = {"first", "second"} - {running}
        await cluster.run(*names(running, 16))
        text = await cluster.waits(f"{waiting}-00", "needs 16 pods at once: 4 find room")
        assert f"gang {cluster.namespace}/{waiting}" in text
        assert begun(cluster, waiting) == []
        await cluster.delete(*names(running, 16))
        await cluster.bound(*names(waiting, 16))
        assert await cluster.overbooked() == []


def begun(cluster: Cluster, *gangs: str) -> list[str]:
    return [one for one in gangs if any(cluster.where(name) for name in names(one, 16))]


async def test_a_gang_is_completed_by_the_next_operator(cluster: Cluster) -> None:
    hosts = [workload.host(f"{cluster.prefix}{number}", nvidia=4) for number in range(2)]
    async with cluster.fleet(hosts):
        first = await cluster.deciding()
        members = names("g", 8)
        for pod in gang("g", 8):
            await cluster.pod(pod)
        await cluster.until(lambda: [name for name in members if cluster.where(name)], "it begins")
        first.kill()
        await asyncio.to_thread(first.wait, 20)
        await cluster.deciding()
        await cluster.run(*members)
