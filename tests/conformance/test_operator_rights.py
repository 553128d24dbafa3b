"""The shipped roles grant exactly what the operator uses: no request is refused, no rule idle."""

from __future__ import annotations

import asyncio

from hami_operator.cluster.memory import authorize
from tests import builders
from tests.conformance import servers, workload
from tests.conformance.cluster import Cluster, eventually

NODE = r"/api/v1/nodes/[^/]+"
BINDING = r"/api/v1/namespaces/[^/]+/pods/[^/]+/binding"
Right = tuple[str, str, str, str]
"""Namespace that it is limited to, verb, group, resource."""


async def test_everything_that_is_granted_is_used_and_everything_used_is_granted(
    cluster: Cluster,
) -> None:
    """A short life with all that can happen in it; refusals fail every test of this suite."""
    async with (
        cluster.proxy() as proxy,
        cluster.fleet([workload.host(f"{cluster.prefix}1", nvidia_text=1)]),
    ):
        first = await cluster.deciding(
            "--handshake-interval=500ms", "--decision-carrier=patch", through=proxy
        )
        proxy.fail("PATCH", NODE, status=409)
        proxy.fail("POST", BINDING, status=500)
        await cluster.pod(builders.pod("p").container(limits=workload.ask("NVIDIA")))
        await cluster.run("p")
        await provoke_an_eviction(cluster)
        await provoke_a_repeated_event(cluster)
        await eventually(lambda: used(cluster) >= granted(), f"{granted() - used(cluster)} used")
        first.terminate()
        assert await asyncio.to_thread(first.wait, 20) == 0
    assert used(cluster) == granted()


async def provoke_an_eviction(cluster: Cluster) -> None:
    """A pod takes the place of one that matters less; it says that it waits until it can."""
    name = f"{cluster.prefix}class"
    urgent = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": 1000,
    }
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    status, answer = await cluster.api.post(classes, urgent)
    assert status == 201, answer
    try:
        pod = builders.pod("urgent").container(limits=workload.whole("NVIDIA"))
        await cluster.pod(pod.put("spec.priorityClassName", name))
        await cluster.run("urgent")
        assert cluster.pods.get("p") is None
    finally:
        await cluster.api.delete(f"{classes}/{name}")


async def provoke_a_repeated_event(cluster: Cluster) -> None:
    """The same thing happens twice to one node: its type goes, comes back, and goes again."""
    name = f"{cluster.prefix}2"
    cards = builders.cards(1, word="GPU-x")
    register = "hami.io/node-nvidia-register"
    node = builders.roomy(name).register("NVIDIA", cards, handshake="Reported now")
    made = await cluster.node(node)
    value = made["metadata"]["annotations"][register]
    for number in (1, 2):
        await cluster.patch_node(name, {register: ""})
        await told_so_often(cluster, "DeviceTypeUnavailable", name, number)
        await cluster.patch_node(name, {register: value})
        await told_so_often(cluster, "DeviceTypeAvailable", name, number)


async def told_so_often(cluster: Cluster, reason: str, about: str, least: int) -> None:
    """Wait until something was told of an object so often, repeats included."""

    def times() -> int:
        events = cluster.tales(reason, about)
        return sum((event.get("series") or {}).get("count", 1) for event in events)

    await cluster.until(lambda: times() >= least, f"{reason} is told {least} times")


def used(cluster: Cluster) -> set[Right]:
    """What the operator's ServiceAccount has done so far, discovery and health aside."""
    return {
        (servers.NAMESPACE if one.resource == "leases" else "", one.verb, one.group, one.resource)
        for one in cluster.requests()
    }


def granted() -> set[Right]:
    """What the shipped roles say, rule by rule."""
    account = authorize.service_account(servers.shipped(), servers.NAMESPACE, servers.ACCOUNT)
    return {
        (grant.namespace, verb, group, resource)
        for grant in account.grants
        for verb in grant.rule["verbs"]
        for group in grant.rule["apiGroups"]
        for resource in grant.rule["resources"]
    }


def test_the_roles_name_everything_they_grant() -> None:
    assert not [right for right in granted() if "*" in right]
