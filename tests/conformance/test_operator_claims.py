"""Pods with claims of volumes and devices: the claims are served first, then the pod is bound."""

from __future__ import annotations

from tests.conformance import claims, workload
from tests.conformance.cluster import Cluster


async def test_volumes_are_given_and_made_where_the_cards_are(cluster: Cluster) -> None:
    node = f"{cluster.prefix}1"
    async with cluster.fleet([workload.host(node, nvidia_text=1)]):
        await cluster.deciding()
        name = await claims.put_volumes(cluster)
        await cluster.pod(claims.storing("p", f"{name}-0", f"{name}-1"))
        assert await claims.chosen(cluster, f"{name}-1") == node
        _, volume = await cluster.api.get(f"{claims.VOLUMES}/{name}")
        assert volume["spec"]["claimRef"]["name"] == f"{name}-0"
        assert cluster.where("p") == ""
        await claims.make(cluster, f"{name}-0", name)
        await claims.make(cluster, f"{name}-1", name)
        await cluster.run("p")
        assert cluster.where("p") == node


async def test_a_place_in_a_claim_of_devices_is_taken(cluster: Cluster) -> None:
    async with cluster.fleet([workload.host(f"{cluster.prefix}1", nvidia_text=1)]):
        await cluster.deciding()
        name = await claims.put_devices(cluster)
        await cluster.pod(claims.sharing("p", name))
        await cluster.run("p")
        _, claim = await cluster.api.get(claims.devices(cluster, name))
        assert [user["name"] for user in claim["status"]["reservedFor"]] == ["p"]


async def test_a_claim_that_does_not_exist_is_named(cluster: Cluster) -> None:
    async with cluster.fleet([workload.host(f"{cluster.prefix}1", nvidia_text=1)]):
        await cluster.deciding()
        await cluster.pod(claims.storing("p", "nowhere"))
        await cluster.waits("p", 'persistentvolumeclaim "nowhere" not found')
