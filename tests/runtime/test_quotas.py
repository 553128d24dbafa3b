"""ResourceQuotas over the whole runtime: from the object that the API shows to bound pods."""

from __future__ import annotations

from typing import Any

import pytest

from hami_operator.cli import gauges
from hami_operator.scheduling import quota, world
from hami_operator.server import metrics
from tests.runtime import bench


def asks(on: bench.Bench, name: str, gpumem: int) -> None:
    on.add(on.ask(name, **{"nvidia.com/gpu": 1, "nvidia.com/gpumem": gpumem}))


def bound(on: bench.Bench, *names: str) -> set[str]:
    return {name for name in names if on.node_of(name)}


async def test_a_pod_waits_for_its_quota_and_is_bound_when_it_is_raised() -> None:
    async with bench.running(node_lock="memory") as on:
        on.add_node(cards=2)
        on.set_quota(gpumem=4000)
        asks(on, "a", 3000)
        await on.run()
        on.serve("a")
        asks(on, "b", 2000)
        await on.run()
        assert bound(on, "a", "b") == {"a"}
        (condition,) = on.pod("b")["status"]["conditions"]
        assert condition["message"] == (
            "0/1 nodes are available: 1 the namespace's quota limits.nvidia.com/gpumem has no "
            "room: 3000 used of 4000 MiB, 2000 asked (ResourceQuotaNotFit). "
            "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
        )
        assert on.metrics.counts["hami_fit_rejections_total{reason=ResourceQuotaNotFit}"] == 1
        on.set_quota(gpumem=5000)
        await on.run()
        assert bound(on, "a", "b") == {"a", "b"}


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(lambda on: on.delete_pod("a"), id="a pod of the namespace is deleted"),
        pytest.param(lambda on: on.delete_quota(), id="the quota is deleted"),
    ],
)
async def test_what_else_lets_a_pod_that_waits_for_its_quota_be_bound(event: Any) -> None:
    async with bench.running(node_lock="memory") as on:
        on.add_node(cards=2)
        on.set_quota(gpumem=4000)
        asks(on, "a", 3000)
        await on.run()
        on.serve("a")
        asks(on, "b", 2000)
        await on.run()
        assert not on.node_of("b")
        event(on)
        await on.run()
        assert on.node_of("b") == "n1"


async def test_a_burst_fills_the_quota_exactly() -> None:
    async with bench.running(node_lock="memory") as on:
        on.add_node(cards=4)
        on.set_quota(gpumem=4000)
        names = [f"p{number}" for number in range(10)]
        for name in names:
            asks(on, name, 2000)
        for _ in range(5):
            await on.run(1.0)
            for name in bound(on, *names):
                on.serve(name)
        assert len(bound(on, *names)) == 2


async def test_what_cannot_be_a_limit_is_an_event_on_the_object() -> None:
    async with bench.running() as on:
        on.set_quota("odd", gpumem="1500m")
        await on.run()
        on.set_quota("odd", gpumem="1500m", gpucores=5)
        await on.run()
        body = on.api.body("POST events")
        assert on.reasons == ["MalformedResourceQuota odd"]
        assert body["regarding"] == {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "name": "odd",
            "namespace": "default",
            "uid": on.store.get("resourcequotas", ("default", "odd")).copy("resourcequotas")[
                "metadata"
            ]["uid"],
        }
        assert (body["metadata"]["namespace"], body["type"]) == ("default", "Warning")
        assert "spec.hard[limits.nvidia.com/gpumem]: '1500m' is not a whole" in body["note"]


async def test_a_quota_that_breaks_us_is_told_and_stops_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with bench.running() as on:
        on.add_node()

        def fail(self: quota.Quotas, raw: Any) -> None:
            raise RuntimeError("bug")

        monkeypatch.setattr(quota.Quotas, "seen", fail)
        on.set_quota(gpumem=1)
        await on.run()
        assert on.notes("IntakeFailed") == [
            "this ResourceQuota could not be taken in: RuntimeError('bug')"
        ]
        assert on.metrics.counts["hami_intake_errors_total{kind=ResourceQuota}"] == 1
        on.add(on.ask())
        await on.run()
        assert on.node_of() == "n1"


async def test_gauges_say_what_namespaces_hold_and_may_hold() -> None:
    async with bench.running() as on:
        on.add_node()
        exported = metrics.Metrics()
        gauges.connect(
            exported,
            on.world,
            rows=on.registry,
            settings=on.settings,
            time=on.clock,
            watches={},
        )
        on.set_quota(gpumem=4000)
        asks(on, "a", 3000)
        await on.run()
        labels = {"namespace": "default", "quota_name": "nvidia.com/gpumem", "zone": "vGPU"}
        assert samples(exported) == {
            "hami_resource_quota_limit": (labels, 4000),
            "hami_resource_quota_used": ({**labels, "limit": "4000"}, 3000),
        }
        on.world.step_down()
        assert samples(exported) == {}


def samples(exported: metrics.Metrics) -> dict[str, tuple[dict[str, str], float]]:
    """Name to labels and value; the only sample of each."""
    return {
        one.name: (one.labels, one.value)
        for family in exported.registry.collect()
        for one in family.samples
        if one.name.startswith("hami_resource_quota")
    }


async def test_nothing_is_decided_before_quotas_are_listed() -> None:
    on = bench.Bench()
    on.add_node()
    on.add(on.ask())
    on.world.take_over(on.scheduler._now())
    for source in sorted(world.SOURCES - {world.QUOTAS}):
        on.intake.source_synced(source)
    assert not on.world.active
    on.intake.quotas.synced()
    assert on.world.active
