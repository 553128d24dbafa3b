"""What a pod asks of every device type."""

from __future__ import annotations

import pytest

from hami_operator.devices import registry, request
from hami_operator.scheduling import demand
from hami_operator.scheduling.pod import Kind
from tests import builders

REGISTRY = registry.default()


def gpu(count: int = 1, memory_mib: int = 1000) -> dict[str, str]:
    return {"nvidia.com/gpu": str(count), "nvidia.com/gpumem": str(memory_mib)}


def read(pod: builders.PodBuilder) -> demand.Demand:
    return demand.read(pod.read(), REGISTRY)


def test_a_pod_without_devices_asks_for_nothing() -> None:
    found = read(builders.pod("p").container(limits={"cpu": "1"}))
    assert found == demand.Demand(words={}, kinds=(Kind.APP,))
    assert (found.asks, found.size) == (False, 1)


def test_requests_stand_at_the_place_of_their_container() -> None:
    found = read(
        builders.pod("p")
        .init("i", limits=gpu(memory_mib=500))
        .sidecar("s", limits=gpu(memory_mib=100))
        .container("idle")
        .container("c", limits=gpu(2) | {"hygon.com/hcunum": "1"})
    )
    nvidia = [
        None if memory is None else request.Request(word="NVIDIA", count=n, memory_mib=memory)
        for n, memory in ((1, 500), (1, 100), (0, None), (2, 1000))
    ]
    hcu = request.Request(word="HCU", count=1, percent=100, cores=100)
    assert found == demand.Demand(
        words={"HCU": (None, None, None, hcu), "NVIDIA": tuple(nvidia)},
        kinds=(Kind.INIT, Kind.SIDECAR, Kind.APP, Kind.APP),
        inits=(demand.Container(slot=0, requests=(("NVIDIA", nvidia[0]),)),),  # type: ignore[arg-type]
        sidecars=(demand.Container(slot=1, requests=(("NVIDIA", nvidia[1]),)),),  # type: ignore[arg-type]
        apps=(demand.Container(slot=3, requests=(("HCU", hcu), ("NVIDIA", nvidia[3]))),),  # type: ignore[arg-type]
    )
    assert (found.asks, found.size) == (True, 4)


@pytest.mark.parametrize("amount", ["-1", "1.5", "1e30", "NaN", "", "5000000000"])
def test_an_absurd_amount_is_no_request_for_nothing(amount: str) -> None:
    found = read(builders.pod("p").container("c", limits={"nvidia.com/gpu": amount}))
    (refused,) = found.invalid
    assert (refused.container, refused.invalid.resource, refused.invalid.value) == (
        "c",
        "nvidia.com/gpu",
        amount,
    )
    assert str(refused) == f"container c: {refused.invalid.text()}"


def test_every_bad_amount_of_every_container_is_named() -> None:
    found = read(
        builders.pod("p")
        .init("i", limits={"nvidia.com/gpu": "-1"})
        .container("c", limits=gpu() | {"mthreads.com/vgpu": "x"})
    )
    assert [(one.container, one.invalid.resource) for one in found.invalid] == [
        ("i", "nvidia.com/gpu"),
        ("c", "mthreads.com/vgpu"),
    ]
    assert found.asks


def test_a_privileged_container_is_named() -> None:
    pod = builders.pod("p").init("i").container("c", privileged=True, limits=gpu())
    assert read(pod).privileged == "c"


def test_reading_leaves_the_pod_as_it_was() -> None:
    pod = builders.pod("p").container(limits=gpu()).read()
    before = repr(pod)
    demand.read(pod, REGISTRY)
    assert repr(pod) == before
