"""What the operator says about itself while it works."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterable, Mapping
from typing import Any, Final

from tests import builders
from tests.conformance import operators, workload
from tests.conformance.cluster import SCHEDULER, Cluster

TRIES: Final = 600


async def test_requests_to_the_api_server_are_counted_and_timed(cluster: Cluster) -> None:
    operator = await cluster.deciding()
    lists = {"verb": "list", "resource": "pods", "code": "200"}
    count = await operator.metric("hami_api_requests_total", **lists)
    assert count > 0
    assert await operator.metric("hami_api_request_duration_seconds_count", **lists) == count


MIB: Final = 2**20
ASKS: Final[Mapping[str, Mapping[str, str]]] = {
    "nvidia": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4096", "nvidia.com/gpucores": "30"},
    "nvidia-mig": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "10000"},
    "enflame": {"enflame.com/drs-gcu": "3"},
    "aws-neuron": {"aws.amazon.com/neuroncore": "1"},
    "amd": {"amd.com/gpu": "1", "amd.com/gpumem": "16384", "amd.com/gpucores": "25"},
}
"""What a pod asks of a node equipped so: instances, slices, masks and compute units among it."""
WANTED: Final = {
    "nvidia": (1, 4096, 30, 100),
    "nvidia-mig": (1, 10240, 28, 100),
    "enflame": (3, 20480, 50, 100),
    "aws-neuron": (1, 0, 1, 2),
    "amd": (1, 16384, 25, 100),
}
"""Slots, MiB and cores that are told of its card then, and the card's cores."""


async def test_cards_are_told_as_the_scheduler_counts_them(cluster: Cluster) -> None:
    nodes = {family: f"{cluster.prefix}{family}" for family in ASKS}
    hosts = [workload.host(name, **{family: 2}) for family, name in nodes.items()]
    async with cluster.fleet(hosts):
        operator = await cluster.deciding(legacy_metrics=True)
        for family, limits in ASKS.items():
            pod = builders.pod(family).scheduler(SCHEDULER).container("main", limits=limits)
            await cluster.pod(pod.node_selector({"kubernetes.io/hostname": nodes[family]}))
        await cluster.run(*ASKS)
        told = {family: await taken(operator, node) for family, node in nodes.items()}
        assert told == WANTED
        shown = {family: card_of(await cluster.cards(), node) for family, node in nodes.items()}
        assert shown == WANTED

        instance = {"node": nodes["nvidia-mig"], "profile": "2g.10gb", "placement_size": "2"}
        assert await operator.metric("hami_node_gpu_mig_instance_info", **instance) == 1
        one = {"namespace": cluster.namespace, "pod": "nvidia"}
        assert await operator.metric("hami_vgpu_memory_allocated_bytes", **one) == 4096 * MIB
        assert await operator.metric("vGPUMemoryAllocated", podname="nvidia") == 4096 * MIB
        main = {**one, "container": "main", "class": "app", "node": nodes["nvidia"]}
        assert await operator.metric("hami_allocation_core_ratio", **main) == 0.3
        assert await operator.metric("hami_build_info") == 1

        await cluster.delete(*ASKS)
        await cluster.until(lambda: not cluster.pods.all(), "the pods are gone")
        left = [await taken(operator, node) for node in nodes.values()]
        assert [each[:3] for each in left] == [(0, 0, 0)] * len(nodes)
        assert await operator.metric("hami_vgpu_memory_allocated_bytes") == 0


async def taken(operator: operators.Operator, node: str) -> tuple[float, float, float, float]:
    """What is told of all cards of a node together, but for the cores of one of them."""
    read = functools.partial(operator.metric, node=node)
    return (
        await read("hami_gpu_shared_count"),
        await read("hami_gpu_memory_allocated_bytes") / MIB,
        await read("hami_gpu_core_allocated_ratio"),
        await read("hami_gpu_core_limit_ratio", device_index="0"),
    )


def card_of(cards: Iterable[Mapping[str, Any]], node: str) -> tuple[int, int, int, int]:
    """The same as people see it."""
    mine = [one for one in cards if one["node"] == node]
    used = (sum(one[f"{name}_used"] for one in mine) for name in ("slots", "cores"))
    slots, cores = used
    return slots, sum(one["memory_used_mib"] for one in mine), cores, mine[0]["cores"]


async def test_a_follower_tells_nothing_of_cards(cluster: Cluster) -> None:
    async with cluster.fleet([workload.host(f"{cluster.prefix}0", nvidia=1)]):
        leader = await cluster.deciding()
        follower = cluster.operator()
        await cluster.until(lambda: bool(follower.said("serving")), "the follower serves")
        for _ in range(TRIES):
            if await follower.readiness() == 200:
                break
            await asyncio.sleep(0.05)
        assert await follower.readiness() == 200
        assert await follower.metric("hami_node_device_available", type="NVIDIA") == 1
        assert await follower.metric("hami_gpu_memory_limit_bytes") == 0
        assert await leader.metric("hami_gpu_memory_limit_bytes") > 0
