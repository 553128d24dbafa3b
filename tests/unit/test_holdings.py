"""``hami-operator devices`` and the gauges see cards as new pods find them, in users' units."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from hami_operator.cli import holdings
from hami_operator.devices import registry
from hami_operator.protocol import register
from hami_operator.scheduling import ledger, nodes
from tests import builders, moments

ROWS = registry.default()
PROFILE = register.Profile(
    name="1g.5gb",
    memory_mib=5120,
    cores=14,
    slices=1,
    placements=tuple(register.Placement(start=start, size=1) for start in range(7)),
)
MIG_LIST = "hami.io/vgpu-mig-allocations"
NEURON = {"aws.amazon.com/neuron": 2, "aws.amazon.com/neuroncore": 4}
DRS = {
    "devices": [{"minor": "0", "index": "0", "capacity": 6}],
    "profiles": {"1g.6gb": "0", "3g.20gb": "1", "6g.40gb": "2"},
}


def pod(name: str, word: str, value: str, **more: str) -> builders.PodBuilder:
    row = ROWS.by_word[word]
    made = builders.pod(name).on("n1").phase("Running")
    for _ in range(max(value.count(";"), 1)):
        made = made.container(limits={row.resources.count: 1})
    return made.annotate({row.pod.allocated: value, "hami.io/vgpu-node": "n1", **more})


def cards(node: builders.NodeBuilder, *pods: builders.PodBuilder) -> dict[str, holdings.Holding]:
    found = holdings.read(
        [node.raw()],
        [one.raw() for one in pods],
        ROWS,
        device_timeout_s=300.0,
        now=moments.at(0),
    )
    return {one.id: one for one in found}


def taken(one: holdings.Holding) -> tuple[int, int, int, int]:
    return one.slots_used, one.memory_used_mib, one.cores_used, one.cores


def owners(one: holdings.Holding) -> list[tuple[str, int, int, int]]:
    return [(each.pod, each.slots, each.memory_mib, each.cores) for each in one.owners]


def neurons() -> builders.NodeBuilder:
    texts = {name: str(amount) for name, amount in NEURON.items()}
    return builders.roomy("n1").capacity(texts).allocatable(texts)


def test_cores_of_a_mask_are_counted_one_by_one() -> None:
    first = "n1-AWSNeuron-0"
    found = cards(
        neurons(),
        pod("a", "AWSNeuron", f"{first},AWSNeuron,0,1:;"),
        pod("b", "AWSNeuron", f"{first},AWSNeuron,0,2:;"),
    )
    assert taken(found[first]) == (2, 0, 2, 2)
    assert owners(found[first]) == [("default/a", 1, 0, 1), ("default/b", 1, 0, 1)]
    assert taken(found["n1-AWSNeuron-1"]) == (0, 0, 0, 2)


def test_two_containers_of_a_pod_with_the_same_core_have_one() -> None:
    first = "n1-AWSNeuron-0"
    value = f"{first},AWSNeuron,0,2:;{first},AWSNeuron,0,2:;"
    found = cards(neurons(), pod("a", "AWSNeuron", value))
    assert taken(found[first])[2:] == (1, 2)
    assert owners(found[first]) == [("default/a", 2, 0, 1)]


def test_slots_of_a_sliced_card_are_slices() -> None:
    node = builders.roomy("n1").annotate({"enflame.com/gcu-drs-capacity": json.dumps(DRS)})
    node = node.allocatable({"enflame.com/drs-gcu": "6"})
    (id,) = cards(node)
    found = cards(node, pod("a", "Enflame", f"{id},Enflame,20480,50:;"))
    assert taken(found[id]) == (3, 20480, 50, 100)
    assert owners(found[id]) == [("default/a", 3, 20480, 50)]


def test_compute_units_are_shown_in_percent() -> None:
    card = register.Card(id="A", index=0, count=10, memory_mib=1000, cores=304, model="AMD X")
    node = builders.roomy("n1").register("AMD", [card], form=register.Form.JSON)
    found = cards(node, pod("a", "AMD", "A,AMD X,100,38:;"))
    assert taken(found["A"]) == (1, 100, 13, 100)
    assert owners(found["A"]) == [("default/a", 1, 100, 13)]


def partitioned() -> builders.NodeBuilder:
    every = [
        register.Card(
            id=id,
            index=index,
            count=7,
            memory_mib=40960,
            cores=100,
            mode="mig",
            mig_profiles=(PROFILE,),
        )
        for index, id in enumerate(("G", "H"))
    ]
    return builders.roomy("n1").register("NVIDIA", every, form=register.Form.JSON)


def reserved(card: str, start: int) -> dict[str, Any]:
    place = {"start": start, "size": 1}
    return {
        "containerIndex": 0,
        "deviceIndex": 0,
        "gpuUUID": card,
        "profile": "1g.5gb",
        "placement": place,
    }


@pytest.mark.parametrize(
    ("listed", "want_healthy"),
    [
        pytest.param([reserved("G", 6)], {"G": True, "H": True}, id="all is known"),
        pytest.param([], {"G": False, "H": True}, id="nobody knows which slices are left"),
        pytest.param([reserved("Z", 6)], {"G": False, "H": False}, id="an unknown card"),
    ],
)
def test_partitioned_cards_that_take_nothing_more_are_bad(
    listed: list[Any], want_healthy: dict[str, bool]
) -> None:
    made = pod("a", "NVIDIA", "G,NVIDIA,5120,14:;", **{MIG_LIST: json.dumps(listed)})
    found = cards(partitioned(), made)
    assert {id: one.healthy for id, one in found.items()} == want_healthy
    assert taken(found["G"]) == (1, 5120, 14, 100)


def test_books_can_be_read_in_the_units_of_the_row() -> None:
    known, books = nodes.Nodes(ROWS, 300.0), ledger.Ledger(ROWS)
    known.seen(neurons().read(), moments.at(0), at_start=True)
    books.observe(pod("a", "AWSNeuron", "n1-AWSNeuron-0,AWSNeuron,0,2:;").read(), ours=True)
    plain = holdings.Books(ROWS, known, books)
    raw = dataclasses.replace(plain, raw=True)
    assert [taken(one)[2:] for one in plain.cards("n1", "AWSNeuron")] == [(1, 2), (0, 2)]
    assert [taken(one)[2:] for one in raw.cards("n1", "AWSNeuron")] == [(2, 3), (0, 3)]
