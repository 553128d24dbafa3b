"""Which device resources kubelet counts itself: those that come from a node's capacity."""

import pytest

from hami_operator.devices import inventory, registry
from tests.unit.devices.rows import Node


def test_only_capacity_resources_are_left_to_the_ordinary_filter() -> None:
    assert registry.default().counted_by_kubelet == {
        "aws.amazon.com/neuron",
        "aws.amazon.com/neuroncore",
        "cambricon.com/mlu.smlu.vcore",
        "cambricon.com/mlu.smlu.vmemory",
        "enflame.com/gcu",
        "kunlunxin.com/xpu",
        "metax-tech.com/gpu",
        "mthreads.com/sgpu-core",
        "mthreads.com/sgpu-memory",
    }


@pytest.mark.parametrize("word", ["GCU", "Metax-GPU", "kunlun"])
def test_a_resource_that_bears_another_name_is_read_and_counted_under_it(word: str) -> None:
    rows = registry.build(overrides={word: {"count": "example.com/card"}})
    row = rows.by_word[word]
    found = inventory.read(Node(capacity={"example.com/card": "2"}), row)
    assert len(found.cards) == 2
    assert row.kubelet_resources == ("example.com/card",)
    assert (
        inventory.read(
            Node(capacity={registry.default().by_word[word].resources.count: "2"}), row
        ).cards
        == ()
    )


def test_cores_and_memory_of_a_node_bear_other_names_too() -> None:
    rows = registry.build(overrides={"MLU": {"cores": "example.com/c", "memory": "example.com/m"}})
    row = rows.by_word["MLU"]
    found = inventory.read(Node(capacity={"example.com/c": "100", "example.com/m": "2"}), row)
    assert [card.memory_mib for card in found.cards] == [512]
    assert rows.counted_by_kubelet >= {"example.com/c", "example.com/m"}
