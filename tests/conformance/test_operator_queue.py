"""Many pods that wait: an event costs what it may help, and time alone costs nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from tests import builders
from tests.conformance import operators, workload
from tests.conformance.cluster import Cluster

PARKED = 240
HELPED = 10
AT_ONCE = 16


def crowd() -> list[builders.PodBuilder]:
    """Pods parked for want of a label, of a device type, of cpu; and ten that want a card."""
    limits = workload.whole("NVIDIA")
    third = PARKED // 3
    pods = [
        builders.pod(f"label-{number:03}").container(limits=limits).node_selector({"zone": "none"})
        for number in range(third)
    ]
    pods += [
        builders.pod(f"mlu-{number:03}").container(limits=workload.ask("MLU"))
        for number in range(third)
    ]
    pods += [
        builders.pod(f"cpu-{number:03}").container(requests={"cpu": "5000"})
        for number in range(third)
    ]
    cards = [f"card-{number:03}" for number in range(HELPED)]
    return pods + [builders.pod(name).container(limits=limits) for name in cards]


async def attempts(operator: operators.Operator) -> float:
    return await operator.metric("hami_scheduling_attempts_total")


async def test_nodes_that_help_ten_of_many_parked_pods_cost_ten_attempts(
    cluster: Cluster, record_property: Callable[[str, object], None]
) -> None:
    pods, cards = crowd(), [f"card-{number:03}" for number in range(HELPED)]
    async with cluster.fleet([workload.host(f"{cluster.prefix}plain")]):
        operator = await cluster.deciding("--node-scheduler-policy=spread")
        for start in range(0, len(pods), AT_ONCE):
            async with asyncio.TaskGroup() as tasks:
                for pod in pods[start : start + AT_ONCE]:
                    tasks.create_task(cluster.pod(pod))
        everybody = [pod.raw()["metadata"]["name"] for pod in pods]
        await cluster.until(lambda: all(map(cluster.why, everybody)), "all say why they wait")
        assert await attempts(operator) == len(pods)

        before, tried = len(await cluster.settled_requests()), await attempts(operator)
        began_s = time.monotonic()
        async with cluster.fleet([workload.host(f"{cluster.prefix}cards", nvidia=HELPED)]):
            await cluster.bound(*cards)
            record_property("seconds_from_the_node_to_ten_binds", time.monotonic() - began_s)
            await cluster.run(*cards)
            for name in cards:
                await cluster.told("Scheduled", name)
            # A node comes in several steps; none of them may have tried anybody else, who would
            # have been told since that there is one node more.
            made = await cluster.settled_requests(since=before)
            written = [one for one in made if one.resource in ("pods/binding", "pods/status")]
            assert {one.name for one in written} == set(cards)
            # Some are tried while the node has its first cards, or is not open yet.
            assert HELPED <= await attempts(operator) - tried < 5 * HELPED
        assert [name for name in everybody if cluster.where(name)] == cards
