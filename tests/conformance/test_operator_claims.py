"""Pods with claims of volumes and devices: the claims are served first, then the pod is bound."""

from __future__ import annotations

from tests import builders
from tests.conformance import claims, workload
from tests.conformance.cluster import Cluster


def nominated(cluster: Cluster, name: str) -> str:
    """Where a pod is expected, by its status."""
    found = cluster.pods.get(name)
    return str(found["status"].get("nominatedNodeName", "")) if found else ""


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
        await cluster.until(lambda: nominated(cluster, "p") == node, "p says where it is expected")
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


async def test_a_resource_that_stands_for_devices_of_a_class_is_refused_unless_a_plugin_offers_it(
    cluster: Cluster,
) -> None:
    resource, name = "example.com/fast", f"{cluster.prefix}fast"
    path = f"{claims.DEVICES}/deviceclasses"
    await claims.put(cluster, path, name, spec={"extendedResourceName": resource})
    try:
        await cluster.node(builders.roomy(f"{cluster.prefix}1"))
        await cluster.deciding()
        await cluster.pod(builders.pod("p").container(limits={resource: "1"}))
        await cluster.waits("p", f"{resource} stands for devices of DeviceClass {name}")
        rich = builders.roomy(f"{cluster.prefix}2").allocatable({resource: 1})
        await cluster.node(rich.capacity({resource: 1}))
        await cluster.bound("p")
        assert cluster.where("p") == f"{cluster.prefix}2"
    finally:
        await cluster.api.delete(f"{path}/{name}")
