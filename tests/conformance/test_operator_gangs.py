"""Gangs: all pods run at once or none does, whoever says how many these are.

Kubernetes' own gangs are an alpha feature, so their API server is one of its own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from hami_operator.protocol import keys
from tests import builders
from tests.conformance import cluster as clusters
from tests.conformance import servers, workload
from tests.conformance.cluster import Cluster, eventually
from tests.conformance.test_operator_preemption import SLOW, priorities
from tests.controlplane import cluster as controlplane
from tests.controlplane import commands

GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/{}/podgroups"
SWITCHED_ON = commands.Options(
    apiserver_arguments=(
        "--feature-gates=GenericWorkload=true,GangScheduling=true",
        "--runtime-config=scheduling.k8s.io/v1alpha2=true",
    )
)
WHOLE: Mapping[str, str] = workload.whole("NVIDIA")


@pytest.fixture(scope="module")
def gang_server(built_control_plane: Path) -> Iterator[servers.Real]:
    """A real API server that knows Kubernetes' own gangs."""
    assert built_control_plane.is_dir()
    with controlplane.ControlPlane(options=SWITCHED_ON) as running:
        yield servers.Real(running)


@pytest.fixture(
    params=[
        pytest.param("memory", id="in memory"),
        pytest.param("real", id="real API server", marks=pytest.mark.e2e),
    ]
)
async def native(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Cluster]:
    """A cluster whose server knows Kubernetes' own gangs."""
    if request.param == "real":
        server = request.getfixturevalue("gang_server")
        async with clusters.opened(server, tmp_path) as made:
            yield made
        return
    with servers.Memory.made() as running:
        async with clusters.opened(servers.Memory(running, tmp_path), tmp_path) as made:
            yield made


def of_group(name: str, group: str) -> builders.PodBuilder:
    """A pod with a whole card, of a gang of Kubernetes' own."""
    pod = builders.pod(name).container(limits=WHOLE)
    return pod.put("spec.schedulingGroup.podGroupName", group)


def of_gang(name: str, gang: str, size: int) -> builders.PodBuilder:
    """A pod with a whole card, of a gang by our annotations."""
    pod = builders.pod(name).container(limits=WHOLE)
    return pod.annotate({keys.GANG_NAME: gang, keys.GANG_MIN_MEMBER: str(size)})


async def put_group(cluster: Cluster, name: str, **policy: Any) -> None:
    """A PodGroup of Kubernetes' own."""
    body = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"schedulingPolicy": policy},
    }
    status, answer = await cluster.api.post(GROUPS.format(cluster.namespace), body)
    assert status == 201, answer


async def test_kubernetes_own_gangs(native: Cluster) -> None:
    async with native.fleet([workload.host(f"{native.prefix}1", nvidia=2)]):
        await native.deciding()
        await native.pod(of_group("a-0", "a"))
        await native.waits("a-0", "of scheduling.k8s.io does not exist (GangIncomplete)")
        await put_group(native, "a", gang={"minCount": 2})
        await native.waits("a-0", f"gang {native.namespace}/a needs 2 pods at once: 1 are here")
        await native.pod(of_group("a-1", "a"))
        await native.run("a-0", "a-1")
        used = {(one.verb, one.group, one.resource) for one in native.requests()}
        granted = {(verb, "scheduling.k8s.io", "podgroups") for verb in ("list", "watch")}
        assert used >= granted


async def test_a_gang_of_kubernetes_own_that_does_not_fit_waits_whole(native: Cluster) -> None:
    async with native.fleet([workload.host(f"{native.prefix}1", nvidia=2)]):
        await native.deciding()
        await put_group(native, "b", gang={"minCount": 3})
        await put_group(native, "c", basic={})
        for number in range(3):
            await native.pod(of_group(f"b-{number}", "b"))
        text = await native.waits("b-0", "needs 3 pods at once: 2 find room, and b-2 does not")
        assert "CardInsufficient" in text or "CardTimeSlicing" in text or "Exclusive" in text
        await native.pod(of_group("c-0", "c"))
        await native.run("c-0")
        assert [native.where(f"b-{number}") for number in range(3)] == ["", "", ""]


async def test_one_of_two_gangs_runs_and_the_other_follows_it(cluster: Cluster) -> None:
    """Together they want more than there is; neither ever holds a part."""
    async with cluster.fleet([workload.host(f"{cluster.prefix}{n}", nvidia=2) for n in (1, 2)]):
        await cluster.deciding()
        names = {gang: [f"{gang}-{number}" for number in range(3)] for gang in "ab"}
        for one, other in zip(*names.values(), strict=True):
            await cluster.pod(of_gang(one, "a", 3))
            await cluster.pod(of_gang(other, "b", 3))

        def bound(gang: str) -> int:
            return sum(bool(cluster.where(name)) for name in names[gang])

        await cluster.until(lambda: 3 in (bound("a"), bound("b")), "one gang is bound")
        first, second = ("a", "b") if bound("a") == 3 else ("b", "a")
        await cluster.run(*names[first])
        assert bound(second) == 0
        await cluster.waits(names[second][0], f"gang {cluster.namespace}/{second} needs 3 pods")
        await cluster.delete(*names[first])
        await cluster.run(*names[second])
        assert await cluster.overbooked() == []


async def test_pods_that_start_gated_count_from_the_moment_they_are_let_in(
    cluster: Cluster,
) -> None:
    async with cluster.fleet([workload.host(f"{cluster.prefix}1", nvidia=2)]):
        await cluster.deciding()
        await cluster.pod(of_gang("a-1", "a", 2).gate("kueue.x-k8s.io/admission"))
        await cluster.pod(of_gang("a-0", "a", 2))
        await cluster.waits("a-0", "needs 2 pods at once: 1 are here, and 1 are gated")
        status, answer = await cluster.api.patch(
            cluster.path("a-1"), {"spec": {"schedulingGates": None}}
        )
        assert status == 200, answer
        await cluster.run("a-0", "a-1")


async def test_a_gang_that_is_not_whole_in_time_gives_everything_back(cluster: Cluster) -> None:
    """The bind of one of its pods fails for good."""
    async with (
        cluster.proxy() as proxy,
        cluster.fleet([workload.host(f"{cluster.prefix}1", nvidia=2)]),
    ):
        await cluster.deciding(through=proxy, gang_timeout="3s")
        proxy.fail("POST", r".*/pods/a-1/binding", status=403, times=10_000)
        await cluster.pod(of_gang("a-0", "a", 2))
        await cluster.pod(of_gang("a-1", "a", 2))
        await cluster.told("GangReleased", "a-0", "needs 2 pods at once: 1 were bound")
        await cluster.until(lambda: cluster.pods.get("a-0") is None, "the bound one is gone")
        await eventually(lambda: cluster.where("a-1") == "", "the other one is not bound")


async def test_a_gang_pushes_off_as_many_as_it_lacks_or_nobody(cluster: Cluster) -> None:
    hosts = [workload.host(f"{cluster.prefix}{number}", nvidia=1) for number in range(3)]
    async with cluster.fleet(hosts, behaviour=SLOW), priorities(cluster, high=1000):

        def urgent(name: str, gang: str, size: int) -> builders.PodBuilder:
            pod = of_gang(name, gang, size)
            return pod.put("spec.priorityClassName", f"{cluster.prefix}high")

        def preempted() -> list[str]:
            return [name for name in lows if cluster.tales("Preempted", name)]

        await cluster.deciding()
        lows = ["low-0", "low-1"]
        for name in lows:
            await cluster.pod(builders.pod(name).container(limits=WHOLE))
        await cluster.run(*lows)
        for number in range(4):
            await cluster.pod(urgent(f"large-{number}", "large", 4))
        text = await cluster.waits("large-0", "2 more would find room, and large-3 not")
        assert "needs 4 pods at once: 1 find room, and large-1 does not" in text
        await cluster.delete(*(f"large-{number}" for number in range(4)))
        assert [cluster.where(name) != "" for name in lows] == [True, True]

        for number in range(2):
            await cluster.pod(urgent(f"small-{number}", "small", 2))
        await cluster.until(preempted, "somebody has to go")
        await cluster.pod(builders.pod("thief").container(limits=WHOLE))
        await cluster.run("small-0", "small-1")
        assert len(preempted()) == 1
        assert cluster.where("thief") == ""
