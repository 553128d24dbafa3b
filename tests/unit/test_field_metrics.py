"""Faults that people met with the metrics of cards: one bad pod or card hides no other."""

from __future__ import annotations

import dataclasses
import math

import pytest

from tests.unit.test_cardgauges import CARD, Fleet


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("GPU-0,NVIDIA,abc,30:;", id="a number that is none"),
        pytest.param("GPU-0,NVIDIA:;", id="two fields"),
        pytest.param(";,NVIDIA,100,0:;", id="no id"),
        pytest.param(";GPU-\x00\ufffd,NVIDIA,100,0:;", id="bytes that no id has"),
    ],
)
def test_a_bad_decision_among_good_ones_hides_none_of_them(value: str) -> None:
    fleet = Fleet()
    fleet.node(CARD)
    fleet.pod("bad", value)
    fleet.pod("good", ";GPU-0,NVIDIA,400,30:;")
    told = fleet.told("hami_vgpu_memory_allocated_bytes")["hami_vgpu_memory_allocated_bytes"]
    good = [amount for labels, amount in told.items() if "pod=good" in labels]
    assert good == [400 * 2**20]


def test_a_card_without_memory_gives_no_number_that_is_none() -> None:
    fleet = Fleet()
    fleet.node(dataclasses.replace(CARD, memory_mib=0, cores=0, count=0))
    fleet.pod("p", ";GPU-0,NVIDIA,400,30:;")
    told = fleet.told("hami_")
    assert all(math.isfinite(one) for samples in told.values() for one in samples.values())
    assert not told.get("hami_node_gpu_memory_allocated_ratio")
    assert told["hami_gpu_memory_limit_bytes"]


def test_memory_is_told_in_bytes() -> None:
    fleet = Fleet()
    fleet.node(dataclasses.replace(CARD, memory_mib=24576))
    (limit,) = fleet.told("hami_gpu_memory_limit")["hami_gpu_memory_limit_bytes"].values()
    assert limit == 25769803776
