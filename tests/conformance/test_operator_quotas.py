"""A namespace gets what its ResourceQuotas allow and no more, and its pods say so."""

from __future__ import annotations

from typing import Any

from tests import builders
from tests.conformance import workload
from tests.conformance.cluster import Cluster, eventually

MEMORY = "limits.nvidia.com/gpumem"


async def put_quota(cluster: Cluster, name: str = "devices", **hard: Any) -> None:
    """Create a ResourceQuota of the test's namespace, or change its memory limit."""
    path = f"/api/v1/namespaces/{cluster.namespace}/resourcequotas"
    body = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name},
        "spec": {"hard": {f"limits.nvidia.com/{key}": str(each) for key, each in hard.items()}},
    }
    status, answer = await cluster.api.post(path, body)
    if status == 409:
        status, answer = await cluster.api.patch(f"{path}/{name}", {"spec": body["spec"]})
    assert status in (200, 201), answer


def asks(name: str, gpumem: int) -> builders.PodBuilder:
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(gpumem)}
    return builders.pod(name).container(limits=limits)


async def test_a_quota_is_kept_exactly_and_its_change_lets_pods_in(cluster: Cluster) -> None:
    names = [f"p{number}" for number in range(5)]

    def running() -> list[str]:
        return [name for name in names if cluster.phase(name) == "Running"]

    await put_quota(cluster, gpumem=4000)
    async with cluster.fleet([workload.host(f"{cluster.prefix}1", nvidia=2)]):
        operator = await cluster.deciding()
        for name in names:
            await cluster.pod(asks(name, 2000))
        await cluster.until(lambda: len(running()) == 2, "the quota is used up")
        waiting = [name for name in names if name not in running()]
        for name in waiting:
            assert await cluster.waits(name, MEMORY) == (
                f"0/1 nodes are available: 1 the namespace's quota {MEMORY} has no room: "
                "4000 used of 4000 MiB, 2000 asked (ResourceQuotaNotFit). preemption: 0/1 nodes "
                "are available: 1 No preemption victims found for incoming pod."
            )
        labels = {"namespace": cluster.namespace, "quota_name": "nvidia.com/gpumem"}
        assert await operator.metric("hami_resource_quota_used", **labels, limit="4000") == 4000
        assert await operator.metric("hami_resource_quota_limit", **labels) == 4000

        await put_quota(cluster, gpumem=6000)
        await cluster.until(lambda: len(running()) == 3, "a raised quota lets one more in")
        first = running()[0]
        await cluster.delete(first)
        names.remove(first)
        await cluster.until(lambda: len(running()) == 3, "and so does a pod that ends")
        await cluster.delete(*names)

        async def is_free() -> Any:
            return await operator.metric("hami_resource_quota_used", **labels) == 0

        await eventually(is_free, "the namespace holds nothing any more")
