"""The operator works with the device backends that its configuration files ask for."""

from __future__ import annotations

import random
from typing import Any

import pytest
from structlog import testing

from hami_operator import errors, settings
from hami_operator.cli import wiring
from hami_operator.cluster import kubernetes
from hami_operator.scheduling import effects
from hami_operator.server import metrics
from tests import builders, fakes, moments

THEIRS = {"nvidia": {"resourceCountName": "a.b/gpu", "resourceCuontName": "x"}}


async def wired(**options: Any) -> wiring.Wiring:
    client = await kubernetes.Client.connect(server="http://127.0.0.1:9")
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


async def test_a_row_that_cannot_be_used_ends_the_start() -> None:
    with pytest.raises(errors.SettingsError, match=r"vendors\.NVIDIA\.cuont"):
        await wired(vendors={"NVIDIA": {"cuont": "a"}})
