"""Plugins that die and return, in any time zone and while somebody sets the clock."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from hami_operator.protocol import handshake
from hami_operator.simulator import fleet, machine
from tests import builders
from tests.conformance import operators, workload
from tests.conformance.cluster import Cluster

INTERVAL_S: Final = 0.5
TIMEOUT_S: Final = 3.0
KEY: Final = "hami.io/node-handshake-nvidia"
SILENT_KEY: Final = "hami.io/node-handshake-nvidia"


def start(cluster: Cluster, tmp_path: Path, zone: str = "UTC") -> operators.Operator:
    """An operator that asks often and is not patient, on a clock that can be moved."""
    (tmp_path / "shift").write_text("0")
    return cluster.operator(
        f"--handshake-interval={INTERVAL_S}s",
        f"--device-timeout={TIMEOUT_S}s",
        env={"TZ": zone},
        command=("tests.conformance.shifted", str(tmp_path / "shift")),
    )


@pytest.mark.parametrize(
    ("zone", "shift_s"),
    [
        pytest.param("UTC", 0, id="in UTC"),
        pytest.param("Asia/Shanghai", 0, id="eight hours ahead"),
        pytest.param("America/New_York", 0, id="hours behind"),
        pytest.param("UTC", 3600, id="while the clock is set an hour ahead"),
        pytest.param("UTC", -3600, id="while the clock is set an hour back"),
    ],
)
async def test_a_dead_plugin_is_asked_once_and_its_cards_take_nobody_until_it_answers(
    cluster: Cluster, tmp_path: Path, zone: str, shift_s: int
) -> None:
    one, other = f"{cluster.prefix}1", f"{cluster.prefix}2"
    hosts = [workload.host(one, nvidia_text=1, mlu=1), workload.host(other, nvidia_text=1)]
    behaviour = machine.Behaviour(period_s=2.0, grace_s=0.05, heartbeat_s=0.0)
    async with cluster.fleet(hosts, behaviour=behaviour) as simulated:
        operator = start(cluster, tmp_path, zone)
        await cluster.decides(operator)
        await cluster.pod(on(one, "before", workload.ask("NVIDIA", memory=20000)))
        await cluster.run("before")

        known = len(cluster.nodes.values(one, KEY))
        await simulated.die(one, "NVIDIA")
        await cluster.until(lambda: is_asked(cluster, one), "the plugin is asked")
        (tmp_path / "shift").write_text(str(shift_s))
        await cluster.told("DeviceTypeUnavailable", one, "NVIDIA", "stopped answering")
        # It may have answered once more before it died; whoever asks never asks again.
        asked = [v for v in cluster.nodes.values(one, KEY)[known:] if is_question(v)]
        assert asked[-1] == cluster.node_annotation(one, KEY)
        assert not cluster.tales("DeviceTypeUnavailable", other)

        await cluster.pod(on(one, "barred", workload.ask("NVIDIA", memory=1000)))
        await cluster.waits("barred", "DeviceTypeExpired")
        await cluster.pod(on(one, "beside", workload.ask("MLU")))
        await cluster.pod(on(other, "elsewhere", workload.ask("NVIDIA")))
        await cluster.run("beside", "elsewhere")
        assert await operator.metric("hami_node_device_available", node=one, type="NVIDIA") == 0
        assert asked[-1:] == cluster.nodes.values(one, KEY)[-1:]

        await assert_comes_back(cluster, simulated, one)


async def assert_comes_back(cluster: Cluster, simulated: fleet.Fleet, node: str) -> None:
    """One answer lets the waiting pod in, and what was taken before is taken still."""
    await simulated.revive(node, "NVIDIA")
    await cluster.run("barred")
    await cluster.told("DeviceTypeAvailable", node, "NVIDIA")
    await cluster.pod(on(node, "large", workload.ask("NVIDIA", memory=12000)))
    await cluster.waits("large", "CardInsufficientMemory")
    assert await cluster.overbooked() == []


async def test_a_plugin_that_is_asked_for_the_first_time_is_asked_exactly_once(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Nobody answers here: one value, from the first question to the expiry and beyond."""
    name = f"{cluster.prefix}1"
    await cluster.node(text_node(name, "Reported_2026.01.01 00:00:00"))
    await cluster.decides(start(cluster, tmp_path))
    await cluster.told("DeviceTypeUnavailable", name, "NVIDIA")
    await cluster.pod(on(name, "barred", workload.ask("NVIDIA")))
    await cluster.waits("barred", "DeviceTypeExpired")
    first, *asked = cluster.nodes.values(name, KEY)
    assert first == "Reported_2026.01.01 00:00:00"
    assert len(asked) == 1
    assert is_question(asked[0])


ODD: Final = {
    "no time at all": "Requesting",
    "an empty time": "Requesting_",
    "no date": "Requesting_notadate",
    "a date that does not exist": "Requesting_2026.13.45 99:99:99",
    "a tombstone": "Deleted_2026-05-07 10:00:00",
    "a bare tombstone": "Deleted",
    "an empty value": "",
    "an answer": "Reported 2024-01-23 04:30:04.43 +0000 UTC m=+1104711.7",
    "nonsense": "\N{SNOWMAN}" * 100,
}
"""Handshake values that are no question that could be read."""


async def test_an_odd_handshake_is_replaced_by_a_question_and_expires_nothing_before(
    cluster: Cluster,
) -> None:
    nodes = {words: f"{cluster.prefix}{number}" for number, words in enumerate(ODD)}
    for words, node in nodes.items():
        await cluster.node(text_node(node, ODD[words]))
    await cluster.deciding(f"--handshake-interval={INTERVAL_S}s", "--device-timeout=1h")
    for node in nodes.values():
        await cluster.pod(on(node, node, workload.ask("NVIDIA")))
    await cluster.bound(*nodes.values())
    await cluster.until(
        lambda: all(is_asked(cluster, node) for node in nodes.values()), "all are asked"
    )
    before = {words: cluster.nodes.values(node, KEY)[:-1] for words, node in nodes.items()}
    assert before == {words: [value] for words, value in ODD.items()}


async def test_a_silent_plugin_lives_by_what_kubelet_offers_and_is_never_asked(
    cluster: Cluster, tmp_path: Path
) -> None:
    name = f"{cluster.prefix}1"
    async with cluster.fleet([workload.host(name, nvidia=1)]) as simulated:
        await cluster.decides(start(cluster, tmp_path))
        await cluster.pod(on(name, "first", workload.ask("NVIDIA")))
        await cluster.run("first")
        await simulated.die(name, "NVIDIA", noticed=True)
        await cluster.told("DeviceTypeUnavailable", name, "NVIDIA")
        await cluster.pod(on(name, "second", workload.ask("NVIDIA")))
        await cluster.waits("second", "DeviceTypeNotAllocatable")
        await simulated.revive(name, "NVIDIA")
        await cluster.run("second")
        assert cluster.nodes.values(name, SILENT_KEY) == []


async def test_a_card_that_turns_unhealthy_takes_nobody_until_it_is_well(
    cluster: Cluster,
) -> None:
    name = f"{cluster.prefix}1"
    async with cluster.fleet([workload.host(name, nvidia=2)]) as simulated:
        sick, well = (card.id for card in simulated.machines[name].plugins["NVIDIA"].cards)
        await cluster.deciding()
        await simulated.sicken(name, "NVIDIA", sick)
        for number in range(3):
            await cluster.pod(on(name, f"p{number}", workload.ask("NVIDIA", memory=1000)))
        await cluster.run("p0", "p1", "p2")
        written = [cluster.annotations(f"p{number}") for number in range(3)]
        allocated = [one["hami.io/vgpu-devices-allocated"] for one in written]
        assert allocated == [f"{well},NVIDIA,1000,0:;"] * 3
        await cluster.pod(on(name, "both", workload.ask("NVIDIA", 2, memory=1000)))
        await cluster.waits("both", "0/1 nodes are available")
        await simulated.heal(name, "NVIDIA", sick)
        await cluster.run("both")


def on(node: str, name: str, limits: dict[str, str]) -> builders.PodBuilder:
    """A pod that must go to a node."""
    return builders.pod(name).container(limits=limits).requires(builders.pin(node))


def text_node(name: str, value: str) -> builders.NodeBuilder:
    """A node of two cards in seven text fields, whose plugin never says anything again."""
    cards = builders.cards(2, word=f"GPU-{name}")
    return builders.roomy(name).register("NVIDIA", cards, handshake=value)


def is_question(value: str) -> bool:
    return handshake.classify(value) is handshake.Kind.REQUESTING


def is_asked(cluster: Cluster, node: str) -> bool:
    return is_question(cluster.node_annotation(node, KEY) or "")
