"""The shipped roles grant exactly what the operator uses: no request is refused, no rule idle."""

from __future__ import annotations

import asyncio
import contextlib
import json

from hami_operator.cluster.memory import authorize
from tests import builders
from tests.conformance import claims, servers, workload
from tests.conformance.cluster import Cluster, eventually

NODE = r"/api/v1/nodes/[^/]+"
BINDING = r"/api/v1/namespaces/[^/]+/pods/[^/]+/binding"
Right = tuple[str, str, str, str]
"""Namespace that it is limited to, verb, group, resource."""
UNASKED = {("resource.k8s.io", "resourceclaims/binding"), ("scheduling.k8s.io", "podgroups")}
"""Rights that the API server looks at when another request is made, and those for a kind that
servers do not know unless told to; `test_operator_gangs` shows that these are used."""


POD_GROUPS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "podgroups.scheduling.x-k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
    },
    "spec": {
        "group": "scheduling.x-k8s.io",
        "scope": "Namespaced",
        "names": {"plural": "podgroups", "singular": "podgroup", "kind": "PodGroup"},
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}


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
        await use_claims(cluster)
        await provoke_an_eviction(cluster)
        await provoke_a_watch_of_groups(cluster)
        await provoke_a_repeated_event(cluster)
        await eventually(lambda: used(cluster) >= granted(), f"{granted() - used(cluster)} used")
        first.terminate()
        assert await asyncio.to_thread(first.wait, 20) == 0
    assert used(cluster) == granted()


async def use_claims(cluster: Cluster) -> None:
    """Pods that need what is watched only then."""
    name = await claims.put_volumes(cluster)
    await cluster.pod(claims.storing("stored", f"{name}-0", f"{name}-1"))
    await claims.chosen(cluster, f"{name}-1")
    await cluster.pod(claims.sharing("shared", await claims.put_devices(cluster)))
    await cluster.run("shared")
    await cluster.delete("stored", "shared")


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


async def provoke_a_watch_of_groups(cluster: Cluster) -> None:
    """A pod belongs to a PodGroup, a kind that a real server knows only by its definition."""
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    groups = "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"

    async def known() -> bool:
        with contextlib.suppress(json.JSONDecodeError):  # so a path is answered that is not there
            return (await cluster.api.get(groups))[0] == 200
        return False

    if not await known():
        status, answer = await cluster.api.post(definitions, POD_GROUPS)
        assert status == 201, answer

    try:
        await eventually(known, "PodGroups are known")
        watch = ("", "watch", "scheduling.x-k8s.io", "podgroups")
        pod = builders.pod("member").label("scheduling.x-k8s.io/pod-group", "g")
        await cluster.pod(pod.container())
        await cluster.bound("member")
        await eventually(lambda: watch in used(cluster), "PodGroups are watched")
    finally:
        with contextlib.suppress(json.JSONDecodeError):
            await cluster.api.delete(f"{definitions}/podgroups.scheduling.x-k8s.io")


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
        if (group, resource) not in UNASKED
    }


def test_the_roles_name_everything_they_grant() -> None:
    assert not [right for right in granted() if "*" in right]
