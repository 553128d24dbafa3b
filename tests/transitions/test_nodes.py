"""What a node's event changes, and whom it wakes."""

from __future__ import annotations

import pytest

from hami_operator.protocol import keys, register
from hami_operator.scheduling import queue
from tests import builders
from tests.moments import asked
from tests.transitions.stage import AL, OURS, Stage, gpus, placed, wants

Place = queue.Place
HS = "hami.io/node-handshake-nvidia"
REG = "hami.io/node-nvidia-register"


def speaking(name: str, handshake: str, version: int = 1) -> builders.NodeBuilder:
    """A node with a text register, so its plugin must answer."""
    made = builders.roomy(name).version(version).allocatable({"nvidia.com/gpu": 10})
    return made.register("NVIDIA", builders.cards(1), handshake=handshake)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(None, gpus("n1"), id="a node with cards appears"),
        pytest.param(builders.roomy("n1"), gpus("n1").version(2), id="its plugin registers"),
        pytest.param(
            gpus("n1").allocatable({"nvidia.com/gpu": 0}),
            gpus("n1").version(2),
            id="kubelet offers devices again",
        ),
        pytest.param(
            gpus("n1", healthy=False), gpus("n1").version(2), id="the card is healthy again"
        ),
        pytest.param(
            gpus("n1").annotate({keys.DEVICE_CORDON: "GPU-0"}),
            gpus("n1").version(2),
            id="the administrator lifts the cordon of the card",
        ),
        pytest.param(gpus("n1").cordoned(), gpus("n1").version(2), id="the node is uncordoned"),
        pytest.param(gpus("n1").taint("a"), gpus("n1").version(2), id="the taint is gone"),
        pytest.param(
            gpus("n1").put("metadata.annotations", {REG: "x"}),
            gpus("n1").version(2),
            id="the register can be read again",
        ),
        pytest.param(
            speaking("n1", asked(-3600)),
            speaking("n1", "Reported", 2),
            id="the plugin answers again",
        ),
        pytest.param(
            gpus("n1").allocatable(cpu="0"), gpus("n1").version(2), id="the node has cpu now"
        ),
    ],
)
def test_capacity_that_appears_wakes_who_waits_for_it_at_once(
    before: builders.NodeBuilder | None, after: builders.NodeBuilder
) -> None:
    stage = Stage(active=False)
    if before is not None:
        stage.node(before)
    stage.lead()
    stage.pod(wants("a").container(requests={"cpu": "1"}))
    assert stage.bind() == {}
    assert stage.place("a") is Place.UNSCHEDULABLE
    stage.wait(0.5)
    stage.node(after)
    assert stage.world.next_due(stage.now) == 0
    assert stage.bind() == {"a": "n1"}


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(gpus("n1").version(2), id="a heartbeat"),
        pytest.param(
            gpus("n1").version(2).annotate({keys.NODE_LOCK: "2026-03-01T12:00:00Z,ns,p"}),
            id="a lock",
        ),
        pytest.param(
            gpus("n1").version(2).allocatable({"nvidia.com/gpu": 0}), id="less than before"
        ),
        pytest.param(gpus("n2").put("metadata.annotations", {}), id="a node without cards"),
    ],
)
def test_what_cannot_help_wakes_nobody(after: builders.NodeBuilder) -> None:
    stage = Stage()
    stage.node(gpus("n1"))
    stage.pod(wants("a", mem=99999))
    assert stage.bind() == {}
    stage.node(after)
    assert stage.place("a") is Place.UNSCHEDULABLE


def test_other_device_types_wake_nobody_who_does_not_ask_for_them() -> None:
    stage = Stage()
    stage.node(gpus("n1"))
    stage.pod(wants("a", mem=99999))
    stage.run()
    mlu = builders.roomy("n2").register("MLU", builders.cards(1, word="MLU"))
    stage.node(mlu)
    stage.pod(
        builders.pod("m")
        .on("n2")
        .annotate({keys.VGPU_NODE: "n2", "hami.io/cambricon-mlu-devices-allocated": "x"})
    )
    stage.gone("m")
    assert stage.place("a") is Place.UNSCHEDULABLE


def test_a_dead_plugin_keeps_pods_away_and_its_running_pods_counted() -> None:
    stage = Stage()
    stage.node(speaking("n1", "Reported"))
    stage.pod(wants("a"))
    assert stage.bind() == {"a": "n1"}
    stage.pod(placed(wants("a").version(5), "n1", "GPU-0,NVIDIA,1000,0:;").phase("Running"))
    assert stage.world.nodes.due(stage.now) == {"n1": {HS: asked(0)}}
    stage.node(speaking("n1", asked(0), 2))
    for _ in range(10):
        assert stage.wait(30) == []
        assert stage.world.nodes.due(stage.now) == {}
    assert stage.wait(1) == ["n1: DeviceTypeUnavailable"]
    assert stage.wait(1) == []
    stage.pod(wants("b"))
    assert stage.bind() == {}
    assert stage.usage("n1") == {"GPU-0": (1, 1000)}
    stage.pod(builders.pod("plain").scheduler(OURS).container(requests={"cpu": "1"}))
    assert stage.bind() == {"plain": "n1"}
    assert stage.node(speaking("n1", "Reported", 3)) == ["n1: DeviceTypeAvailable"]
    assert stage.bind() == {"b": "n1"}


def test_a_register_that_is_malformed_in_part_is_told_and_used() -> None:
    stage = Stage()
    good = register.encode(builders.cards(1), register.Form.TEXT)
    node = builders.roomy("n1").annotate({REG: good + "bad:"})
    assert stage.node(node) == ["n1: MalformedDeviceRegister"]
    assert stage.node(node.version(2)) == []
    stage.pod(wants("a"))
    assert stage.bind() == {"a": "n1"}


def test_a_card_that_vanishes_under_its_pods_is_told_and_charged_when_it_returns() -> None:
    stage = Stage()
    stage.node(gpus("n1", 2))
    stage.pod(placed(wants("a"), "n1", "GPU-1,NVIDIA,30000,0:;").phase("Running"))
    assert stage.node(gpus("n1", 1).version(2)) == ["n1: UnknownDevice"]
    assert stage.world.oddities.unknown() == {("n1", "NVIDIA"): frozenset({"GPU-1"})}
    assert stage.node(gpus("n1", 1).version(3).label("x")) == []
    stage.pod(wants("b", mem=30000), wants("c", mem=30000))
    assert stage.bind() == {"b": "n1"}
    stage.node(gpus("n1", 2).version(4))
    assert stage.world.oddities.unknown() == {}
    assert stage.bind() == {}
    stage.gone("a")
    assert stage.bind() == {"c": "n1"}


def test_a_node_that_is_deleted_keeps_the_entries_of_its_pods() -> None:
    stage = Stage()
    stage.node(gpus("n1"))
    stage.pod(wants("a", mem=30000))
    stage.bind()
    before = stage.state
    stage.world.node_gone("n1", stage.now)
    assert stage.world.node_gone("n1", stage.now) == ()
    assert stage.state == before
    stage.node(gpus("n1").version(9))
    stage.pod(wants("b", mem=30000))
    assert stage.bind() == {}


def test_an_older_version_of_a_node_changes_nothing() -> None:
    stage = Stage()
    stage.node(gpus("n1").version(5))
    lock = {keys.NODE_LOCK: "2026-03-01T12:00:00Z,ns,p"}
    assert stage.node(builders.roomy("n1").version(4).annotate(lock)) == []
    stage.pod(wants("a"))
    assert stage.bind() == {"a": "n1"}


def test_everything_that_runs_is_counted_whoever_placed_it() -> None:
    stage = Stage()
    stage.node(gpus("n1").allocatable(cpu="2"))
    stage.pod(builders.pod("mirror").on("n1").container(requests={"cpu": "1500m"}))
    stage.pod(wants("a").container(requests={"cpu": "1"}))
    assert stage.bind() == {}
    stage.gone("mirror")
    assert stage.bind() == {"a": "n1"}
    assert stage.world.ledger.requested("n1")[0]["cpu"] == 1000


def test_pods_before_their_node_count_as_soon_as_it_appears() -> None:
    stage = Stage()
    taken = wants("x").annotate({keys.VGPU_NODE: "n1", AL: "GPU-0,NVIDIA,30000,0:;"}).on("n1")
    stage.pod(taken.phase("Running"), wants("a", mem=30000))
    stage.node(gpus("n1"))
    assert stage.bind() == {}
