"""What is exported of cards, and of the pods on them, for every way of counting."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import pytest

from hami_operator import settings
from hami_operator.cli import gauges
from hami_operator.devices import registry
from hami_operator.protocol import register
from hami_operator.scheduling import world
from hami_operator.server import metrics
from tests import builders, fakes, moments

ROWS = registry.default()
MIB = 2**20
CARD = register.Card(
    id="GPU-0", index=3, count=10, memory_mib=1000, cores=100, model="A100", mode="hami-core"
)
PROFILE = register.Profile(
    name="1g.5gb",
    memory_mib=5120,
    cores=14,
    slices=1,
    placements=(register.Placement(start=6, size=1),),
)
MIG_LIST = "hami.io/vgpu-mig-allocations"

Samples = Mapping[str, Mapping[str, float]]


class Fleet:
    """A world of nodes and bound pods, and what is exported of it."""

    def __init__(self, *, leads: bool = True, **options: Any) -> None:
        chosen = settings.load(options)
        self.world = world.World(ROWS, chosen)
        if leads:
            self.world.take_over(moments.at(0))
        for source in world.SOURCES:
            self.world.synced(source, moments.at(0))
        self._exported = metrics.Metrics()
        gauges.connect(
            self._exported,
            self.world,
            rows=ROWS,
            settings=chosen,
            time=fakes.FakeClock(),
            watches={},
        )

    def node(self, *cards: register.Card, word: str = "NVIDIA") -> None:
        made = builders.roomy("n1").register(word, cards, form=register.Form.JSON)
        self.world.node_seen(made.read(), moments.at(0))

    def raw_node(self, made: builders.NodeBuilder) -> None:
        self.world.node_seen(made.read(), moments.at(0))

    def pod(self, name: str, value: str, word: str = "NVIDIA", **more: str) -> None:
        row = ROWS.by_word[word]
        made = builders.pod(name).on("n1").phase("Running").init("setup").container("main")
        written = {row.pod.allocated: value, "hami.io/vgpu-node": "n1", **more}
        self.world.pod_seen(made.annotate(written).read(), moments.at(0))

    def told(self, *prefixes: str) -> Samples:
        """Family to samples, written as ``label=value`` in order, ``zone`` left out."""
        found: dict[str, dict[str, float]] = {}
        for family in self._exported.collect():
            if family.name.startswith(prefixes):
                found[family.name] = {_text(one.labels): one.value for one in family.samples}
        return found


def _text(labels: Mapping[str, str]) -> str:
    assert labels.get("zone", "vGPU") == "vGPU"
    return " ".join(f"{name}={text}" for name, text in labels.items() if name != "zone")


HERE = "node=n1 device_uuid=GPU-0 device_index=3"


def test_a_card_with_a_pod_of_two_containers() -> None:
    fleet = Fleet()
    fleet.node(CARD)
    fleet.pod("p", "GPU-0,NVIDIA,400,30:;GPU-0,NVIDIA,250,40:;")
    typed = f"{HERE} device_type=A100"
    assert fleet.told("hami_gpu", "hami_node_gpu") == {
        "hami_gpu_memory_limit_bytes": {typed: 1000 * MIB},
        "hami_gpu_core_limit_ratio": {typed: 100},
        "hami_gpu_shared_count": {typed: 1},
        "hami_gpu_core_allocated_ratio": {typed: 40},
        "hami_gpu_memory_allocated_bytes": {f"{typed} device_cores=100": 400 * MIB},
        "hami_node_gpu_overview": {
            f"{HERE} device_cores=100 device_memory_limit=1000 device_type=A100": 400 * MIB
        },
        "hami_node_gpu_memory_allocated_ratio": {typed: 0.4},
        "hami_node_gpu_mig_instance_info": {},
    }
    pod = "namespace=default node=n1 pod=p container_index=0 device_uuid=GPU-0"
    assert fleet.told("hami_vgpu") == {
        "hami_vgpu_memory_allocated_bytes": {pod: 400 * MIB},
        "hami_vgpu_core_allocated_ratio": {pod: 40},
    }
    head, tail = "namespace=default pod=p container=", "node=n1 device_uuid=GPU-0 device_type=A100"
    assert fleet.told("hami_allocation_memory", "hami_allocation_core") == {
        "hami_allocation_memory_bytes": {
            f"{head}setup class=init {tail}": 400 * MIB,
            f"{head}main class=app {tail}": 250 * MIB,
        },
        "hami_allocation_core_ratio": {
            f"{head}setup class=init {tail}": 0.3,
            f"{head}main class=app {tail}": 0.4,
        },
    }


def test_what_changes_is_told_at_the_next_look() -> None:
    fleet = Fleet()
    fleet.node(CARD)
    fleet.pod("p", ";GPU-0,NVIDIA,250,40:;")
    assert list(fleet.told("hami_gpu_shared")["hami_gpu_shared_count"].values()) == [1]
    fleet.world.pod_gone("uid-p", moments.at(1))
    assert list(fleet.told("hami_gpu_shared")["hami_gpu_shared_count"].values()) == [0]
    assert fleet.told("hami_vgpu", "hami_allocation_memory") == {}


def test_a_card_without_memory_has_no_part_of_it() -> None:
    fleet = Fleet()
    fleet.node(dataclasses.replace(CARD, memory_mib=0))
    assert "hami_node_gpu_memory_allocated_ratio" not in fleet.told("hami_node")
    assert "hami_gpu_memory_limit_bytes" in fleet.told("hami_gpu")


def test_a_card_that_nobody_registered_is_told_by_its_pods_alone() -> None:
    fleet = Fleet()
    fleet.node(CARD)
    fleet.pod("p", ";GPU-9,NVIDIA,250,40:;")
    pod = "namespace=default node=n1 pod=p container_index=0 device_uuid=GPU-9"
    assert fleet.told("hami_vgpu_core") == {"hami_vgpu_core_allocated_ratio": {pod: 40}}
    assert len(fleet.told("hami_gpu_shared")["hami_gpu_shared_count"]) == 1
    (ratio,) = fleet.told("hami_allocation_core")["hami_allocation_core_ratio"].values()
    assert ratio == 0.4


def test_compute_units_are_told_in_percent() -> None:
    fleet = Fleet()
    fleet.node(dataclasses.replace(CARD, cores=304, model="AMD Instinct"), word="AMD")
    fleet.pod("p", ";GPU-0,AMD Instinct,250,38:;", word="AMD")
    found = fleet.told("hami_gpu_core", "hami_vgpu_core", "hami_allocation_core")
    assert {name: [*samples.values()] for name, samples in found.items()} == {
        "hami_gpu_core_limit_ratio": [100],
        "hami_gpu_core_allocated_ratio": [13],
        "hami_vgpu_core_allocated_ratio": [13],
        "hami_allocation_core_ratio": [0.13],
    }


def test_a_mask_is_told_as_a_number() -> None:
    texts = {"aws.amazon.com/neuron": "1", "aws.amazon.com/neuroncore": "2"}
    fleet = Fleet()
    fleet.raw_node(builders.roomy("n1").capacity(texts).allocatable(texts))
    fleet.pod("p", ";n1-AWSNeuron-0,AWSNeuron,0,2:;", word="AWSNeuron")
    found = fleet.told("hami_gpu_core", "hami_vgpu_core", "hami_allocation_core")
    assert {name: [*samples.values()] for name, samples in found.items()} == {
        "hami_gpu_core_limit_ratio": [2],
        "hami_gpu_core_allocated_ratio": [1],
        "hami_vgpu_core_allocated_ratio": [1],
        "hami_allocation_core_ratio": [0.5],
    }


def test_slices_are_told_as_slots() -> None:
    listed = {
        "devices": [{"minor": "0", "index": "0", "capacity": 6}],
        "profiles": {"3g.20gb": "1", "6g.40gb": "2"},
    }
    node = builders.roomy("n1").annotate({"enflame.com/gcu-drs-capacity": json.dumps(listed)})
    fleet = Fleet()
    fleet.raw_node(node.allocatable({"enflame.com/drs-gcu": "6"}))
    fleet.pod("p", ";n1-enflame-drs-0,Enflame,20480,50:;", word="Enflame")
    assert list(fleet.told("hami_gpu_shared")["hami_gpu_shared_count"].values()) == [3]


def reserved(start: int, **made: object) -> dict[str, Any]:
    return {
        "containerIndex": 1,
        "deviceIndex": 0,
        "gpuUUID": "GPU-0",
        "profile": "1g.5gb",
        "placement": {"start": start, "size": 1},
        **made,
    }


@pytest.mark.parametrize(
    ("listed", "want"),
    [
        pytest.param(
            json.dumps([reserved(6, migUUID="MIG-1", gpuInstanceID=9, computeInstanceID=0)]),
            {
                f"{HERE} mig_uuid=MIG-1 profile=1g.5gb gpu_instance_id=9 compute_instance_id=0"
                " placement_start=6 placement_size=1": 1
            },
            id="one that was made",
        ),
        pytest.param(json.dumps([reserved(6)]), {}, id="one that is only reserved"),
        pytest.param("nonsense", {}, id="a list that cannot be read"),
    ],
)
def test_instances_are_told_once_they_are_made(listed: str, want: dict[str, float]) -> None:
    fleet = Fleet()
    fleet.node(dataclasses.replace(CARD, mode="mig", mig_profiles=(PROFILE,)))
    fleet.pod("p", ";GPU-0,NVIDIA,5120,14:;", **{MIG_LIST: listed})
    found = fleet.told("hami_node_gpu_mig")
    assert found == {"hami_node_gpu_mig_instance_info": want}


def test_what_each_pod_has_can_be_switched_off() -> None:
    fleet = Fleet(pod_metrics=False)
    fleet.node(CARD)
    fleet.pod("p", ";GPU-0,NVIDIA,250,40:;")
    assert fleet.told("hami_vgpu", "hami_allocation_memory", "hami_allocation_core") == {}
    assert list(fleet.told("hami_gpu_shared")["hami_gpu_shared_count"].values()) == [1]


def test_only_the_leader_tells() -> None:
    fleet = Fleet(leads=False)
    fleet.node(CARD)
    fleet.pod("p", ";GPU-0,NVIDIA,250,40:;")
    told = fleet.told("hami_gpu", "hami_node_gpu", "hami_vgpu", "hami_build", "hami_resource")
    assert not any(told.values())


def test_the_leader_says_what_runs() -> None:
    (told,) = Fleet().told("hami_build_info").values()
    ((labels, value),) = told.items()
    assert value == 1
    assert [pair.split("=")[0] for pair in labels.split(" ")] == [
        "version", "revision", "build_date", "go_version", "compiler", "platform",
    ]  # fmt: skip


def test_old_names_are_told_only_if_that_is_wanted() -> None:
    fleet = Fleet()
    fleet.node(CARD)
    assert fleet.told("GPU", "node", "vGPU", "Quota") == {}


def test_old_names_tell_the_units_of_the_row() -> None:
    fleet = Fleet(legacy_metrics=True)
    fleet.node(dataclasses.replace(CARD, cores=304, model="AMD Instinct"), word="AMD")
    fleet.pod("p", ";GPU-0,AMD Instinct,250,38:;", word="AMD")
    card = "nodeid=n1 deviceuuid=GPU-0 deviceidx=3"
    typed = f"{card} devicetype=AMD Instinct"
    share = "podnamespace=default nodename=n1 podname=p containeridx=0 deviceuuid=GPU-0"
    assert fleet.told("GPU", "nodeGPU", "vGPU") == {
        "GPUDeviceMemoryLimit": {typed: 1000 * MIB},
        "GPUDeviceCoreLimit": {typed: 304},
        "GPUDeviceSharedNum": {typed: 1},
        "GPUDeviceCoreAllocated": {typed: 38},
        "GPUDeviceMemoryAllocated": {f"{typed} devicecores=304": 250 * MIB},
        "nodeGPUOverview": {
            f"{card} devicecores=304 devicememorylimit=1000 devicetype=AMD Instinct": 250 * MIB
        },
        "nodeGPUMemoryPercentage": {card: 0.25},
        "vGPUMemoryAllocated": {share: 250 * MIB},
        "vGPUCoreAllocated": {share: 38},
        "nodeGPUMigInstance": {},
    }


def test_old_names_of_instances_and_quotas() -> None:
    fleet = Fleet(legacy_metrics=True)
    fleet.node(dataclasses.replace(CARD, mode="mig", mig_profiles=(PROFILE,)))
    made = reserved(6, migUUID="MIG-1", gpuInstanceID=9, computeInstanceID=0)
    fleet.pod("p", ";GPU-0,NVIDIA,5120,14:;", **{MIG_LIST: json.dumps([made])})
    assert fleet.told("nodeGPUMig") == {
        "nodeGPUMigInstance": {"nodeid=n1 deviceuuid=GPU-0 deviceidx=3 migname=1g.5gb-9": 1}
    }
    (quota,) = fleet.told("QuotaUsed").values()
    assert quota["quotanamespace=default quotaName=nvidia.com/gpumem limit="] == 5120
