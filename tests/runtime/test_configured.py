"""The operator works with the device backends that its configuration files ask for."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from structlog import testing

from hami_operator import errors, settings
from hami_operator.cli import wiring
from hami_operator.cluster import kubernetes
from hami_operator.cluster.memory import server, store
from hami_operator.scheduling import effects
from hami_operator.server import metrics
from tests import builders, fakes, moments

THEIRS = {"nvidia": {"resourceCountName": "a.b/gpu", "resourceCuontName": "x"}}


async def wired(*, url: str = "", **options: Any) -> wiring.Wiring:
    """The operator's parts; without an API server none of them can be used that asks one."""
    client = await kubernetes.Client.connect(server=url or "http://127.0.0.1:9")
    try:
        return wiring.Wiring(
            wiring.Given(
                settings=settings.Settings(**options),
                client=client,
                server_version=(1, 36),
                identity="me",
                time=fakes.FakeClock(),
                generator=random.Random(0),
                metrics=metrics.Metrics(),
            )
        )
    finally:
        if not url:
            await client.close()


async def test_hamis_file_is_in_effect_and_what_nobody_knows_is_logged() -> None:
    with testing.capture_logs() as logs:
        built = await wired(device_config=THEIRS)
    offered = builders.roomy("n1").register("NVIDIA", builders.cards(2))
    none_left = offered.allocatable({"a.b/gpu": "0"}).read()
    change = built.state.nodes.seen(none_left, moments.at(0))
    (lost,) = change.effects
    assert isinstance(lost, effects.NodeEvent)
    assert lost.reason == "DeviceTypeUnavailable"
    told = [(one["log_level"], one["event"]) for one in logs]
    assert told == [
        (
            "warning",
            "device-config: nvidia.resourceCuontName is not known, and ignored; "
            "did you mean resourceCountName?",
        )
    ]


@pytest.mark.parametrize(
    ("options", "want"),
    [
        pytest.param({}, "hami-scheduler", id="the scheduler's name"),
        pytest.param({"scheduler_name": "ours"}, "ours", id="which may be another"),
        pytest.param({"lease_name": "theirs"}, "theirs", id="a name of its own"),
    ],
)
async def test_what_the_lease_is_called(options: dict[str, str], want: str) -> None:
    with server.ApiServer(store.Store()) as api:
        body = {"metadata": {"name": "hami-system"}}
        api.call(api.store.create, "namespaces", body)
        built = await wired(url=api.url, **options)
        running = asyncio.ensure_future(built.leadership.run())
        await built.leadership.wait_leading()
        running.cancel()
        names = [one["metadata"]["name"] for one in api.objects("leases", namespace="hami-system")]
        assert names == [want]
        await built.close()


async def test_health_and_metrics_are_served_on_both_addresses() -> None:
    built = await wired(http_bind="127.0.0.1:0", metrics_bind="127.0.0.1:0")
    await built.server.start()
    try:
        assert len(set(built.server.ports)) == 2
    finally:
        await built.server.stop()


async def test_devices_of_nodes_without_the_wanted_labels_do_not_count() -> None:
    built = await wired(node_label_selector={"gpu": "on"})
    node = builders.roomy("n1").register("NVIDIA", builders.cards(1))
    built.state.node_seen(node.read(), moments.at(0))
    assert built.state.nodes.standings("n1") == {}
    labelled = node.version(2).merge("metadata.labels", {"gpu": "on"})
    built.state.node_seen(labelled.read(), moments.at(1))
    assert list(built.state.nodes.standings("n1")) == ["NVIDIA"]


async def test_a_row_that_cannot_be_used_ends_the_start() -> None:
    with pytest.raises(errors.SettingsError, match=r"vendors\.NVIDIA\.cuont"):
        await wired(vendors={"NVIDIA": {"cuont": "a"}})
