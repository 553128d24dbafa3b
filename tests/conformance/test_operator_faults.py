"""An API server that says no for a while, on each kind of write, and watches that break."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Final

import pytest

from hami_operator.simulator import audit, machine
from tests import builders
from tests.conformance import proxy as proxies
from tests.conformance import workload
from tests.conformance.cluster import Cluster, eventually

NODE: Final = r"/api/v1/nodes/[^/]+"
POD: Final = r"/api/v1/namespaces/[^/]+/pods/[^/]+"
BINDING: Final = f"{POD}/binding"
STATUS: Final = f"{POD}/status"
EVENTS: Final = r"/apis/events.k8s.io/v1/namespaces/[^/]+/events"
LEASE: Final = r"/apis/coordination.k8s.io/v1/namespaces/[^/]+/leases/[^/]+"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Trouble:
    """How a request goes wrong."""

    status: int
    retry_after_s: int | None = None
    after_write: bool = False
    times: int = 1

    def befall(self, proxy: proxies.Proxy, method: str, path: str) -> None:
        """Let it happen to the next such requests."""
        proxy.fail(
            method,
            path,
            status=self.status,
            times=self.times,
            retry_after_s=self.retry_after_s,
            after_write=self.after_write,
        )


TROUBLES: Final = (
    pytest.param(Trouble(status=409), id="a conflict"),
    pytest.param(Trouble(status=429, retry_after_s=1), id="too many requests, retry after 1 s"),
    pytest.param(Trouble(status=500, times=2), id="an internal error, twice"),
    pytest.param(Trouble(status=500, after_write=True), id="an answer lost after the write"),
)


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize(
    ("method", "path", "flags"),
    [
        pytest.param("PATCH", NODE, (), id="the lock"),
        pytest.param("POST", BINDING, (), id="the Binding"),
        pytest.param("PATCH", POD, ("--decision-carrier=patch",), id="the decision"),
    ],
)
async def test_a_pod_is_bound_once_though_the_server_refuses(
    cluster: Cluster, method: str, path: str, flags: tuple[str, ...], trouble: Trouble
) -> None:
    """One card that two pods fill exactly: a third reservation, or a lost one, would show."""
    half = workload.ask("NVIDIA", memory=20480, cores=50)
    async with (
        cluster.proxy() as proxy,
        cluster.fleet([workload.host(f"{cluster.prefix}1", nvidia=1)]),
    ):
        operator = await cluster.deciding(*flags, through=proxy)
        trouble.befall(proxy, method, path)
        await cluster.pod(builders.pod("first").container(limits=half))
        await cluster.run("first")
        assert len(proxy.failed) == trouble.times
        await cluster.pod(builders.pod("second").container(limits=half))
        await cluster.run("second")
        await cluster.pod(builders.pod("third").container(limits=half))
        await cluster.waits("third", "CardInsufficient")
        assert await operator.metric("hami_reservations") == 0
        await cluster.until(lambda: not any(audit.locks(cluster.nodes.all())), "locks are gone")
        assert await cluster.overbooked() == []
        made = await cluster.settled_requests()
        landed = [one.name for one in made if (one.words, one.status) == BOUND]
        assert sorted(landed) == ["first", "second"]
        await cluster.end("second")
        await cluster.run("third")


BOUND: Final = ("create pods/binding", 201)


async def test_a_pod_that_waits_says_so_though_the_server_refuses(cluster: Cluster) -> None:
    async with (
        cluster.proxy() as proxy,
        cluster.fleet([workload.host(f"{cluster.prefix}1", nvidia=1)]),
    ):
        await cluster.deciding(through=proxy)
        for number, trouble in enumerate(every_trouble()):
            name = f"large-{number}"
            trouble.befall(proxy, "PATCH", STATUS)
            trouble.befall(proxy, "POST", EVENTS)
            await cluster.pod(builders.pod(name).container(limits=workload.ask("NVIDIA", 2)))
            await eventually(lambda: proxy.pending == 0, f"{trouble}")
            if trouble.status != 409:  # a conflict about a new Event, or a status, is an answer
                await cluster.waits(name, "0/1 nodes are available")
                await cluster.told("FailedScheduling", name)
                assert len(cluster.tales("FailedScheduling", name)) == 1
        await cluster.pod(builders.pod("small").container(limits=workload.ask("NVIDIA")))
        await cluster.run("small")
        await cluster.told("Scheduled", "small")


async def test_a_plugin_is_asked_though_the_server_refuses(cluster: Cluster) -> None:
    """Each node meets another trouble, in the order in which they are asked."""
    key = "hami.io/node-handshake-nvidia"
    nodes = [f"{cluster.prefix}{number}" for number in range(4)]
    hosts = [workload.host(node, nvidia_text=1) for node in nodes]
    behaviour = machine.Behaviour(answers_at_once=False, period_s=600.0, heartbeat_s=0.0)
    async with cluster.proxy() as proxy, cluster.fleet(hosts, behaviour=behaviour):
        for trouble in every_trouble():
            trouble.befall(proxy, "PATCH", NODE)
        await cluster.deciding("--handshake-interval=300ms", through=proxy)
        await cluster.until(
            lambda: all(is_asked(cluster.node_annotation(node, key)) for node in nodes),
            "all are asked",
        )
        assert proxy.pending == 0
        assert [len(cluster.nodes.values(node, key)) for node in nodes] == [2] * 4


async def test_the_lead_is_kept_though_the_server_refuses_a_renewal(cluster: Cluster) -> None:
    async with (
        cluster.proxy() as proxy,
        cluster.fleet([workload.host(f"{cluster.prefix}1", nvidia=1)]),
    ):
        operator = await cluster.deciding(through=proxy)
        for trouble in every_trouble():
            trouble.befall(proxy, "PUT", LEASE)
            await eventually(lambda: proxy.pending == 0, f"{trouble}")
            await renewed(cluster)
        await cluster.pod(builders.pod("p").container(limits=workload.ask("NVIDIA")))
        await cluster.run("p")
        assert operator.exit_code() is None
        assert await operator.metric("hami_leader") == 1


async def renewed(cluster: Cluster) -> None:
    """Wait until the Lease has been renewed once more."""
    before = await cluster.lease()

    async def changed() -> bool:
        return (await cluster.lease())["renewTime"] != before["renewTime"]

    await eventually(changed, "the Lease is renewed")


def every_trouble() -> list[Trouble]:
    return [
        trouble for param in TROUBLES for trouble in param.values if isinstance(trouble, Trouble)
    ]


def is_asked(value: str | None) -> bool:
    return str(value).startswith("Requesting_")


async def test_a_leader_that_cannot_renew_stops_before_another_may_lead(
    cluster: Cluster,
) -> None:
    async with (
        cluster.proxy() as proxy,
        cluster.fleet([workload.host(f"{cluster.prefix}1", nvidia=1)]),
    ):
        first = await cluster.deciding(through=proxy)
        proxy.fail("*", LEASE, status=503, times=10_000)
        second = cluster.operator()
        assert await asyncio.to_thread(first.wait, 30) == 1
        assert not second.decides
        await cluster.decides(second)
        await cluster.pod(builders.pod("p").container(limits=workload.ask("NVIDIA")))
        await cluster.run("p")


@pytest.mark.parametrize(
    "source",
    [pytest.param("kopf", id="watched by kopf"), pytest.param("reflector", id="watched by us")],
)
async def test_what_happened_while_watches_were_broken_is_found_out(
    cluster: Cluster, source: str
) -> None:
    """The history is lost as well: each watch is told 410 before it may start anew."""
    one, other = f"{cluster.prefix}1", f"{cluster.prefix}2"
    whole = workload.whole("NVIDIA")
    async with (
        cluster.proxy() as proxy,
        cluster.fleet([workload.host(one, nvidia=1), workload.host(other, nvidia=1)]),
    ):
        operator = await cluster.deciding(through=proxy, node_source=source, resync_interval="5s")
        await cluster.pod(builders.pod("first").container(limits=whole))
        await cluster.pod(builders.pod("second").container(limits=whole))
        await cluster.run("first", "second")
        for path in ("/api/v1/nodes", "/api/v1/pods"):
            proxy.fail("WATCH", path, status=410, times=2)
        proxy.cut_watches()
        await cluster.delete("first")
        gone = cluster.where("second")
        await cluster.api.delete(f"/api/v1/nodes/{gone}")
        await cluster.pod(builders.pod("third").container(limits=whole))
        await cluster.run("third")

        async def forgotten() -> bool:
            return await operator.metric("hami_node_device_available", node=gone) == 0

        await eventually(forgotten, "the node that is gone is gone here, too")
        await cluster.pod(builders.pod("fourth").container(limits=whole))
        await cluster.waits("fourth", "0/1 nodes are available")
        assert len(proxy.failed) >= 3


async def test_an_api_server_that_is_away_for_a_while_is_waited_for(cluster: Cluster) -> None:
    async with (
        cluster.proxy() as proxy,
        cluster.fleet([workload.host(f"{cluster.prefix}1", nvidia=1)]),
    ):
        operator = await cluster.deciding(
            through=proxy, lease_duration="60s", renew_deadline="40s"
        )
        await cluster.pod(builders.pod("before").container(limits=workload.ask("NVIDIA")))
        await cluster.run("before")
        proxy.fail("*", ".*", status=503, times=10_000)
        proxy.cut_watches()
        await cluster.pod(builders.pod("during").container(limits=workload.ask("NVIDIA")))
        await eventually(lambda: len(proxy.failed) >= 6, "it has tried in vain")
        proxy.heal()
        await cluster.run("during")
        assert operator.exit_code() is None
