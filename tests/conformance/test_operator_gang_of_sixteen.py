"""Gangs of sixteen: one ends and the next starts; operators end in the middle of one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from tests.conformance import workload
from tests.conformance.cluster import Cluster
from tests.conformance.test_operator_preemption import begun, gang, names

SIZE = 16
SPREAD = "--node-scheduler-policy=spread"


def bound(cluster: Cluster) -> list[str]:
    return [name for name in names("g", SIZE) if cluster.where(name)]


@pytest.mark.parametrize(
    "enough",
    [
        pytest.param(1, id="after the first bind"),
        pytest.param(8, id="in the middle"),
        pytest.param(15, id="before the last"),
    ],
)
async def test_no_kill_leaves_half_a_gang(cluster: Cluster, enough: int) -> None:
    """Another gang waits as well, and must not get what the first one is still to have."""
    hosts = [workload.host(f"{cluster.prefix}{number}", nvidia=4) for number in range(5)]
    async with cluster.fleet(hosts):
        operator = await cluster.deciding("--no-leader-elect")
        for pod in gang("g", SIZE):
            await cluster.pod(pod)
        await cluster.until(lambda: len(bound(cluster)) >= enough, f"{enough} are bound")
        operator.kill()
        for pod in gang("other", SIZE):
            await cluster.pod(pod)
        await cluster.deciding("--no-leader-elect")
        await cluster.run(*names("g", SIZE))
        await cluster.waits("other-00", f"needs {SIZE} pods at once: 4 find room")
        assert begun(cluster, "other") == []
        assert await cluster.overbooked() == []


async def test_the_next_gang_starts_as_soon_as_the_first_one_ends(
    cluster: Cluster, record_property: Callable[[str, object], None]
) -> None:
    hosts = [workload.host(f"{cluster.prefix}{number}", nvidia=4) for number in range(5)]
    async with cluster.fleet(hosts):
        await cluster.deciding(SPREAD)
        for pod in gang("first", SIZE):
            await cluster.pod(pod)
        await cluster.run(*names("first", SIZE))
        for pod in gang("second", SIZE):
            await cluster.pod(pod)
        await cluster.waits("second-00", f"needs {SIZE} pods at once: 4 find room")
        async with asyncio.TaskGroup() as tasks:
            for name in names("first", SIZE):
                tasks.create_task(cluster.delete(name))
        began_s = time.monotonic()
        await cluster.bound(*names("second", SIZE))
        record_property("seconds_from_the_last_end_to_the_last_bind", time.monotonic() - began_s)
        await cluster.run(*names("second", SIZE))
        assert await cluster.overbooked() == []
