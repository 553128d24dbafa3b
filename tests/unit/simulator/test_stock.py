"""What nodes have, as the independent check reads it; it must agree with the operator."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from hami_operator.devices import inventory, registry
from hami_operator.protocol import register
from hami_operator.simulator import catalogue, plugin, stock
from tests import builders

NOW = datetime.datetime(2026, 3, 1, 12, 30, 15, tzinfo=datetime.UTC)
ROWS = registry.default()


def cards(*ids: str) -> list[register.Card]:
    return [
        register.Card(id=id, index=index, count=3, memory_mib=10000, cores=100)
        for index, id in enumerate(ids)
    ]


@pytest.mark.parametrize("form", [register.Form.JSON, register.Form.TEXT])
def test_cards_of_a_register(form: register.Form) -> None:
    made = builders.node("n1").register("nvidia", cards("GPU-0", "GPU-1"), form=form)
    assert dict(stock.cards(made.raw())) == {
        "GPU-0": (3, 10000, 100),
        "GPU-1": (3, 10000, 100),
    }


def test_cards_of_capacity() -> None:
    capacity = {
        "cambricon.com/mlu.smlu.vcore": "200",
        "cambricon.com/mlu.smlu.vmemory": "192",
        "mthreads.com/sgpu-core": "16",
        "mthreads.com/sgpu-memory": "96",
        "aws.amazon.com/neuron": "1",
        "aws.amazon.com/neuroncore": "2",
    }
    assert dict(stock.cards(builders.node("n").capacity(capacity).raw())) == {
        "n-cambricon-mlu-0": (100, 24576, 100),
        "n-cambricon-mlu-1": (100, 24576, 100),
        "n-mthreads-0": (100, 49152, 16),
        "n-AWSNeuron-0 core 0": (1, 0, 0),
        "n-AWSNeuron-0 core 1": (1, 0, 0),
    }


def test_a_register_replaces_the_capacity_of_its_type() -> None:
    capacity = {"cambricon.com/mlu.smlu.vcore": "100", "cambricon.com/mlu.smlu.vmemory": "96"}
    made = builders.node("n").capacity(capacity)
    made = made.register("mlu", cards("MLU-0"))
    assert dict(stock.cards(made.raw())) == {"MLU-0": (3, 10000, 100)}


def equipped(family: str) -> tuple[plugin.Plugin, builders.NodeBuilder]:
    model = catalogue.MODELS[family]
    equipment = catalogue.Equipment(model=model, number=2)
    one = plugin.install(ROWS.by_word[model.word], equipment, "n1")
    made = builders.node("n1").annotate(dict(plugin.registration(one, NOW)))
    amounts = {name: str(amount) for name, amount in plugin.capacity(one).items()}
    return one, made.capacity(amounts).allocatable(amounts)


@pytest.mark.parametrize("family", catalogue.MODELS)
def test_every_card_that_the_operator_sees_is_there_with_no_more_than_it_has(family: str) -> None:
    one, made = equipped(family)
    found = dict(stock.cards(made.raw()))
    seen = inventory.read(made.read(), one.row).cards
    assert len(seen) == 2
    for card in seen:
        parts = {id: total for id, total in found.items() if id.startswith(f"{card.id} ")}
        if card.id not in found:  # given core by core
            assert parts == {f"{card.id} core {core}": (1, 0, 0) for core in range(card.count)}
            continue
        have = (card.count, card.memory_mib, 100 if "Ascend" in one.row.keyword else card.cores)
        totals: tuple[Any, ...] = found[card.id]
        assert all(
            total in (amount, stock.ANY) or (total == 1 and place == 0)
            for place, (total, amount) in enumerate(zip(totals, have, strict=True))
        )
        assert totals[1] != stock.ANY, "memory is always bounded"
        assert len(parts) == (8 if card.mode == "mig" else 0)
    assert list(stock.partitioned(made.raw())) == [c.id for c in seen if c.mode == "mig"]
