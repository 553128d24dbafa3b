"""Health, readiness, metrics, and how the server stops."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping

import aiohttp
import pytest
from prometheus_client import parser

from hami_operator.cluster import ports
from hami_operator.server import app, families, health, metrics


@contextlib.asynccontextmanager
async def serving(
    readiness: health.Readiness, exported: metrics.Metrics, bind: str = "127.0.0.1:0"
) -> AsyncIterator[str]:
    server = app.Server(bind, [*health.routes(readiness), *exported.routes()])
    await server.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        await server.stop()


async def get(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.text()


def samples(exported: metrics.Metrics) -> dict[str, float]:
    """Every sample as ``name{label=value}``, buckets and creation times left out."""
    found: dict[str, float] = {}
    for family in exported.registry.collect():
        for sample in family.samples:
            if not sample.name.endswith(("_bucket", "_created")):
                labels = ",".join(f"{key}={value}" for key, value in sample.labels.items())
                found[f"{sample.name}{{{labels}}}"] = sample.value
    return found


# ---- health


async def test_liveness_is_an_answer_and_readiness_names_what_is_missing() -> None:
    readiness = health.Readiness()
    synced = {"pods": False, "nodes": False}
    readiness.require("pods are not synced", lambda: synced["pods"])
    readiness.require("nodes are not synced", lambda: synced["nodes"])
    async with serving(readiness, metrics.Metrics()) as url:
        assert await get(f"{url}/healthz") == (200, "ok")
        want = '{"missing":["pods are not synced","nodes are not synced"]}'
        assert await get(f"{url}/readyz") == (503, want)
        synced["pods"] = True
        assert await get(f"{url}/readyz") == (503, '{"missing":["nodes are not synced"]}')
        synced["nodes"] = True
        assert await get(f"{url}/readyz") == (200, "ok")
        assert (await get(f"{url}/other"))[0] == 404


def test_without_conditions_a_replica_is_ready() -> None:
    assert health.Readiness().missing() == ()


# ---- the server


async def test_a_stop_closes_idle_connections_at_once() -> None:
    server = app.Server("127.0.0.1:0", health.routes(health.Readiness()))
    await server.start()
    before = asyncio.all_tasks()
    async with aiohttp.ClientSession() as session:
        async with session.get(f"http://127.0.0.1:{server.port}/healthz") as response:
            assert response.status == 200
        assert asyncio.all_tasks() - before, "a kept connection is a task"
        await asyncio.wait_for(server.stop(), timeout=0.9)
        assert not [task for task in asyncio.all_tasks() - before if not task.done()]
        with pytest.raises(aiohttp.ClientConnectionError):
            await session.get(f"http://127.0.0.1:{server.port}/healthz")
    await server.stop()


async def test_a_server_that_never_started_can_be_stopped() -> None:
    await app.Server("127.0.0.1:0", []).stop()


async def test_a_port_that_is_taken_is_an_error() -> None:
    server = app.Server("127.0.0.1:0", [])
    await server.start()
    other = app.Server(f"127.0.0.1:{server.port}", [])
    with pytest.raises(OSError, match="address already in use"):
        await other.start()
    await other.stop()
    await server.stop()


async def test_two_addresses_serve_the_same() -> None:
    routes = health.routes(health.Readiness())
    server = app.Server("127.0.0.1:0", routes, also="127.0.0.1:0")
    await server.start()
    assert len(set(server.ports)) == 2
    for port in server.ports:
        assert await get(f"http://127.0.0.1:{port}/healthz") == (200, "ok")
    await server.stop()


async def test_ipv6_addresses_are_written_in_brackets() -> None:
    server = app.Server("[::1]:0", [])
    try:
        await server.start()
    except OSError:
        pytest.skip("no IPv6 here")
    assert server.port > 0
    await server.stop()


# ---- metrics


async def test_metrics_are_served_in_the_format_that_prometheus_reads() -> None:
    exported = metrics.Metrics(revision="abc")
    exported.count("hami_fit_rejections_total", reason="NumaNotFit")
    async with serving(health.Readiness(), exported) as url:
        status, text = await get(f"{url}/metrics")
    assert status == 200
    found = {family.name: family for family in parser.text_string_to_metric_families(text)}
    (sample,) = [
        sample
        for sample in found["hami_fit_rejections"].samples
        if not sample.name.endswith("_created")
    ]
    assert (sample.name, sample.labels, sample.value) == (
        "hami_fit_rejections_total", {"reason": "NumaNotFit"}, 1.0,
    )  # fmt: skip


def test_each_kind_is_taken_through_the_recorder_port() -> None:
    exported = metrics.Metrics(revision="abc")
    recorder: ports.Recorder = exported
    recorder.count("hami_node_lock_contention_total")
    recorder.count("hami_ledger_corrections_total", 3, kind="node_ghost")
    recorder.observe("hami_scheduling_duration_seconds", 0.25, phase="bind")
    recorder.observe("hami_node_lock_wait_seconds", 2)
    recorder.gauge("hami_leader", 1)
    found = samples(exported)
    python = next(key for key in found if key.startswith("hami_operator_build_info"))
    assert "revision=abc" in python
    del found[python]
    # Metrics without labels are there from the start, with 0.
    assert {key: value for key, value in found.items() if value} == {
        "hami_node_lock_contention_total{}": 1.0,
        "hami_ledger_corrections_total{kind=node_ghost}": 3.0,
        "hami_scheduling_duration_seconds_count{phase=bind}": 1.0,
        "hami_scheduling_duration_seconds_sum{phase=bind}": 0.25,
        "hami_node_lock_wait_seconds_count{}": 1.0,
        "hami_node_lock_wait_seconds_sum{}": 2.0,
        "hami_leader{}": 1.0,
    }


def test_gauges_are_read_from_their_owners_when_somebody_asks() -> None:
    exported = metrics.Metrics()
    waiting: dict[tuple[str, ...], float] = {("active",): 2, ("backoff",): 0}
    exported.read("hami_pending_pods", lambda: waiting)
    exported.read("hami_reservations", lambda: {(): 4})
    assert samples(exported)["hami_pending_pods{queue=active}"] == 2
    waiting[("active",)] = 7
    found = samples(exported)
    assert found["hami_pending_pods{queue=active}"] == 7
    assert found["hami_reservations{}"] == 4


def test_an_owner_that_fails_does_not_hide_the_other_metrics(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def broken() -> Mapping[tuple[str, ...], float]:
        raise RuntimeError("bug")

    exported = metrics.Metrics()
    exported.read("hami_reservations", broken)
    exported.read("hami_allocation_stuck_pods", lambda: {("n1",): 1})
    found = samples(exported)
    assert found["hami_allocation_stuck_pods{node=n1}"] == 1
    assert "hami_reservations{}" not in found
    assert "metric cannot be read" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        pytest.param("hami_unheard_of_total", {}, id="an unknown name"),
        pytest.param("hami_fit_rejections_total", {}, id="a label is missing"),
        pytest.param("hami_fit_rejections_total", {"reason": "x", "y": "z"}, id="one too many"),
        pytest.param("hami_leader", {}, id="a gauge that is counted"),
    ],
)
def test_a_wrong_metric_is_reported_once_and_fails_nobody(
    name: str, labels: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    exported = metrics.Metrics()
    exported.count(name, **labels)
    exported.count(name, **labels)
    assert capsys.readouterr().out.count("unknown name or labels") == 1


@pytest.mark.parametrize("name", ["hami_leader", "hami_fit_rejections_total", "hami_no_such"])
def test_only_gauges_made_for_it_can_be_read(name: str) -> None:
    with pytest.raises(KeyError):
        metrics.Metrics().read(name, dict)


@pytest.mark.parametrize("family", families.FAMILIES, ids=lambda family: family.name)
def test_names_follow_the_conventions(family: families.Family) -> None:
    assert family.name.startswith("hami_")
    assert family.name.endswith("_total") == (family.kind is families.Kind.COUNTER)
    assert (family.kind is families.Kind.HISTOGRAM) == bool(family.buckets)
    assert list(family.buckets) == sorted(set(family.buckets))
    assert len(set(family.labels)) == len(family.labels)
    assert family.help.endswith(".")


def test_no_name_is_there_twice() -> None:
    names = [family.name for family in families.FAMILIES]
    assert len(names) == len(set(names))
