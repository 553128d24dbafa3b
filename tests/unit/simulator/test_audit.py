"""The independent check: it must find what is wrong, in words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hami_operator.protocol import register
from hami_operator.simulator import audit
from tests import builders

KEY = "hami.io/vgpu-devices-allocated"
GPU = "nvidia.com/gpu"


def cards(*ids: str) -> list[register.Card]:
    return [
        register.Card(id=id, index=index, count=3, memory_mib=10000, cores=100)
        for index, id in enumerate(ids)
    ]


def node(name: str = "n1", form: register.Form = register.Form.JSON) -> dict[str, Any]:
    made = builders.node(name)
    return made.register("nvidia", cards("GPU-0", "GPU-1"), form=form, handshake=None).raw()


def pod(name: str = "p", *segments: str, on: str = "n1", **annotations: str) -> dict[str, Any]:
    made = builders.pod(name)
    for segment in segments:
        made = made.container(limits={GPU: segment.count(":")} if segment else {"cpu": "1"})
    value = "".join(f"{segment};" for segment in segments)
    return made.on(on).annotate({KEY: value, "hami.io/vgpu-node": on, **annotations}).raw()


def give(card: str, memory_mib: int = 1000, cores: int = 10) -> str:
    return f"{card},NVIDIA,{memory_mib},{cores}:"


@pytest.mark.parametrize(
    ("found", "want"),
    [
        pytest.param([pod("p", give("GPU-0", 10000, 100))], [], id="a whole card is no sin"),
        pytest.param(
            [pod("p", give("GPU-0", 10001))],
            ["n1 GPU-0: 10001 of 10000 MiB given to default/p"],
            id="a MiB too many",
        ),
        pytest.param(
            [pod("p", give("GPU-0", 1, 60)), pod("q", give("GPU-0", 1, 41))],
            ["n1 GPU-0: 101 of 100 cores given to default/p, default/q"],
            id="cores of two pods",
        ),
        pytest.param(
            [pod(name, give("GPU-1", 1, 1)) for name in "abcd"],
            [f"n1 GPU-1: 4 of 3 slots given to {', '.join(f'default/{n}' for n in 'abcd')}"],
            id="a slot too many",
        ),
        pytest.param(
            [pod("p", give("GPU-9", 1, 0))],
            [
                "n1 GPU-9: 1 of 0 slots given to default/p",
                "n1 GPU-9: 1 of 0 MiB given to default/p",
            ],
            id="a card that nobody registered",
        ),
        pytest.param(
            [{**pod("p", give("GPU-0", 99999)), "status": {"phase": "Succeeded"}}],
            [],
            id="a pod that has ended takes nothing",
        ),
        pytest.param(
            [pod("p", give("GPU-0"), **{"hami.io/vgpu-node": "n2"})],
            ["default/p: is on n1, decided for n2"],
            id="decided for another node",
        ),
        pytest.param(
            [builders.pod("p").container(limits={GPU: 1}).on("n1").raw()],
            [f"default/p: {KEY} gives [] cards to containers that ask for [1]"],
            id="bound without a decision",
        ),
        pytest.param(
            [builders.pod("p").container(limits={GPU: 1}).raw()], [], id="not bound at all"
        ),
        pytest.param(
            [builders.pod("p").container(limits={"cpu": 1}).on("n1").raw()],
            [],
            id="bound, and asks for no card",
        ),
        pytest.param(
            [
                builders.pod("p")
                .container()
                .container(limits={GPU: 1})
                .on("n1")
                .annotate({KEY: give("GPU-0") + ";;", "hami.io/vgpu-node": "n1"})
                .raw()
            ],
            [f"default/p: {KEY} gives [1, 0] cards to containers that ask for [0, 1]"],
            id="cards in another container's slot",
        ),
    ],
)
def test_findings(found: list[Any], want: list[str]) -> None:
    assert list(audit.findings([node()], found)) == want


MIG_CARD = register.Card(
    id="GPU-m",
    index=0,
    count=7,
    memory_mib=40960,
    cores=100,
    mode="mig",
    mig_profiles=(
        register.Profile(
            name="1g.5gb",
            memory_mib=5120,
            cores=14,
            slices=1,
            placements=(register.Placement(start=0, size=1), register.Placement(start=1, size=1)),
        ),
    ),
)


def partitioned(name: str, start: int, size: int = 1, card: str = "GPU-m", **place: int) -> Any:
    entry = {
        "containerIndex": 0,
        "deviceIndex": 0,
        "gpuUUID": card,
        "profile": "1g.5gb",
        "placement": {"start": start, "size": size},
    }
    return pod(
        name, give("GPU-m"), **{"hami.io/vgpu-mig-allocations": json.dumps([entry | place])}
    )


@pytest.mark.parametrize(
    ("found", "want"),
    [
        pytest.param(
            [partitioned("p", 0), partitioned("q", 1)], [], id="instances beside each other"
        ),
        pytest.param(
            [partitioned("p", 0, 2), partitioned("q", 1)],
            ["n1 GPU-m slice 1: 2 of 1 slots given to default/p, default/q"],
            id="instances that overlap",
        ),
        pytest.param(
            [partitioned("p", 2)],
            ["n1 GPU-m slice 2: 1 of 0 slots given to default/p"],
            id="an instance where the card ends",
        ),
        pytest.param(
            [pod("p", give("GPU-m"))],
            ["default/p: device 0 of container 0, GPU-m: no instance is reserved"],
            id="a card without an instance",
        ),
        pytest.param(
            [partitioned("p", 0, deviceIndex=1)],
            [
                "default/p: device 0 of container 0, GPU-m: no instance is reserved",
                "default/p: device 1 of container 0, GPU-m: the decision gives no such device",
            ],
            id="an instance for another device",
        ),
    ],
)
def test_findings_about_instances(found: list[Any], want: list[str]) -> None:
    made = builders.node("n1").register("nvidia", [MIG_CARD], form=register.Form.JSON)
    assert list(audit.findings([made.raw()], found)) == want


def neuron(name: str, cores: int, **limits: int) -> dict[str, Any]:
    asked = {f"aws.amazon.com/{name}": amount for name, amount in limits.items()}
    made = builders.pod(name).container(limits=asked).on("n1")
    value = f"n1-AWSNeuron-0,AWSNeuron,0,{cores}:;"
    key = "hami.io/aws-neuron-devices-allocated"
    return made.annotate({key: value, "hami.io/vgpu-node": "n1"}).raw()


@pytest.mark.parametrize(
    ("found", "want"),
    [
        pytest.param(
            [neuron("p", 1, neuroncore=1), neuron("q", 2, neuroncore=1)], [], id="halves"
        ),
        pytest.param([neuron("p", 3, neuron=1)], [], id="a device"),
        pytest.param([neuron("p", 3, neuroncore=2)], [], id="both cores"),
        pytest.param(
            [neuron("p", 3, neuron=1), neuron("q", 2, neuroncore=1)],
            ["n1 n1-AWSNeuron-0 core 1: 2 of 1 slots given to default/p, default/q"],
            id="a core that somebody has",
        ),
        pytest.param(
            [neuron("p", 1, neuroncore=2)],
            [
                "default/p: hami.io/aws-neuron-devices-allocated gives [1] cards "
                "to containers that ask for [2]"
            ],
            id="a core too few",
        ),
        pytest.param(
            [neuron("p", 4, neuroncore=0)],
            [
                "n1 n1-AWSNeuron-0 core 2: 1 of 0 slots given to default/p",
            ],
            id="a core that the device does not have",
        ),
    ],
)
def test_findings_about_masks(found: list[Any], want: list[str]) -> None:
    capacity = {"aws.amazon.com/neuron": "1", "aws.amazon.com/neuroncore": "2"}
    made = builders.node("n1").capacity(capacity)
    assert list(audit.findings([made.raw()], found)) == want


def sliced(name: str, slices: int, percent: int) -> dict[str, Any]:
    made = builders.pod(name).container("c", limits={"enflame.com/gcu-core": percent}).on("n1")
    return made.annotate(
        {
            "hami.io/enflame-vgpu-devices-allocated": f"n1-enflame-drs-0,Enflame,1024,{percent}:;",
            "hami.io/vgpu-node": "n1",
            "assigned-containers": json.dumps({"c": {"request": slices}}),
        }
    ).raw()


@pytest.mark.parametrize(
    ("slices", "want"),
    [
        pytest.param([1] * 6, [], id="six sixths, though they are 102 percent"),
        pytest.param(
            [3, 3, 1],
            ["n1 n1-enflame-drs-0: 7 of 6 slots given to default/p0, default/p1, default/p2"],
            id="seven sixths",
        ),
    ],
)
def test_findings_about_slices(slices: list[int], want: list[str]) -> None:
    listed = {"devices": [{"index": "0", "capacity": 6}], "profiles": {"6g.40gb": "0", "x": "1"}}
    made = builders.node("n1").annotate({"enflame.com/gcu-drs-capacity": json.dumps(listed)})
    found = [sliced(f"p{n}", one, -(-100 * one // 6)) for n, one in enumerate(slices)]
    assert list(audit.findings([made.raw()], found)) == want


def test_traces_are_finalizers_and_keys_that_nobody_ordered() -> None:
    dirty = builders.pod("p").annotate({"kopf.zalando.org/last": "x", "mine": "y"})
    dirty = dirty.append("metadata.finalizers", "kopf.zalando.org/finalizer")
    assert list(audit.traces([dirty.raw(), node()], {"mine", "hami.io/node-nvidia-register"})) == [
        "default/p: finalizer kopf.zalando.org/finalizer",
        "default/p: annotation kopf.zalando.org/last",
    ]


def test_locks_that_are_left() -> None:
    locked = builders.node("n2").annotate({"cambricon.com/dsmlu.lock": "t"}).raw()
    assert list(audit.locks([node(), locked])) == ["n2: cambricon.com/dsmlu.lock is still t"]


def test_phases_tell_bound_from_pending() -> None:
    found = [pod("a", ""), builders.pod("b").raw(), builders.pod("c").phase("Running").raw()]
    assert audit.phases(found) == {"Bound": 1, "Pending": 1, "Running": 1}
