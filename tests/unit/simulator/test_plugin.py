"""What a simulated plugin shows, and how the operator's own readers understand it."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping

import pytest

from hami_operator.devices import inventory, registry
from hami_operator.protocol import handshake, register
from hami_operator.scheduling import node as nodes
from hami_operator.simulator import catalogue, models, plugin

NOW = datetime.datetime(2026, 3, 1, 12, 30, 15, tzinfo=datetime.UTC)
ROWS = registry.default()


def make(family: str, *, node: str = "n1", number: int = 2) -> plugin.Plugin:
    model = catalogue.MODELS[family]
    equipment = catalogue.Equipment(model=model, number=number)
    return plugin.install(ROWS.by_word[model.word], equipment, node)


def seen(one: plugin.Plugin, node: str = "n1") -> inventory.Inventory:
    """What the operator makes of the node."""
    status = {
        "capacity": {name: str(amount) for name, amount in plugin.capacity(one).items()},
        "allocatable": {name: str(amount) for name, amount in plugin.allocatable(one).items()},
    }
    meta = {"name": node, "annotations": dict(plugin.registration(one, NOW))}
    raw = {"metadata": meta, "spec": {}, "status": status}
    return inventory.read(nodes.read(raw), one.row)


@pytest.mark.parametrize("family", catalogue.MODELS)
def test_the_operator_sees_what_is_there(family: str) -> None:
    one = make(family)
    found = seen(one)
    assert found.state is inventory.State.AVAILABLE
    assert found.findings == ()
    assert [
        (card.index, card.count, card.memory_mib, card.cores, card.healthy) for card in found.cards
    ] == [
        (index, one.model.count, one.model.memory_mib, one.model.cores, True) for index in (0, 1)
    ]


REGISTERING = [
    name
    for name, model in catalogue.MODELS.items()
    if model.shown not in (models.Shown.CAPACITY, models.Shown.OWN)
]


@pytest.mark.parametrize("family", catalogue.MODELS)
def test_a_plugin_shows_its_cards_where_its_row_looks_for_them(family: str) -> None:
    one = make(family)
    assert one.registers is (family in REGISTERING)
    node = one.row.node
    shown = plugin.registration(one, NOW).keys() - {one.handshake_key, *node.extra}
    places = {models.Shown.CAPACITY: set(), models.Shown.OWN: {node.listed}}
    assert shown == places.get(one.model.shown, {node.register})


@pytest.mark.parametrize(
    "family", [name for name in catalogue.MODELS if make(name).row.node.extra]
)
def test_what_else_a_plugin_writes_is_read_without_complaint(family: str) -> None:
    one = make(family)
    written = plugin.registration(one, NOW)
    notes = one.model.notes(one.cards)
    assert [written[key] for key in one.row.node.extra if key in written] == list(notes)
    assert len(notes) in (0, len(one.row.node.extra))
    assert seen(one).findings == ()


@pytest.mark.parametrize("family", REGISTERING)
def test_registered_ids_and_models_are_copied(family: str) -> None:
    one = make(family)
    found = seen(one).cards
    assert [card.id for card in found] == [card.id for card in one.cards]
    assert {card.model for card in found} == {one.model.product}
    assert [card.mig_profiles for card in found] == [one.model.profiles] * 2
    assert [dict(card.custom) for card in found] == [one.model.facts(index) for index in (0, 1)]


@pytest.mark.parametrize(
    ("family", "want_key"),
    [
        pytest.param("nvidia", "", id="JSON of a silent row is never answered for"),
        pytest.param("nvidia-text", "hami.io/node-handshake-nvidia", id="text is"),
        pytest.param("nvidia-legacy", "hami.io/node-handshake", id="an old plugin's older key"),
        pytest.param("mlu", "hami.io/node-handshake-mlu", id="a registered MLU answers"),
        pytest.param("mlu-capacity", "", id="capacity asks nothing of anybody"),
        pytest.param("hcu", "hami.io/node-handshake-hcu", id="HCU answers"),
        pytest.param("dcu", "hami.io/node-handshake-dcu", id="DCU answers"),
        pytest.param("mthreads", "", id="Moore Threads has no handshake"),
        pytest.param("amd", "", id="AMD is silent as well"),
        pytest.param("metax-sgpu", "", id="a list of its own is not asked about"),
        pytest.param(
            "ascend910b4", "hami.io/node-handshake-Ascend910B4", id="JSON of other rows is"
        ),
    ],
)
def test_who_answers_the_handshake_and_where(family: str, want_key: str) -> None:
    one = make(family)
    assert one.handshake_key == want_key
    written = plugin.registration(one, NOW)
    want = {want_key: "Reported_2026.03.01 12:30:15"} if want_key else {}
    assert {key: text for key, text in written.items() if "handshake" in key} == want
    assert (seen(one).handshake_key or "") == want_key


def test_an_answer_is_an_answer() -> None:
    (text,) = (v for k, v in plugin.registration(make("hcu"), NOW).items() if "handshake" in k)
    assert handshake.classify(text) is handshake.Kind.ANSWER


@pytest.mark.parametrize(
    ("value", "want"),
    [
        pytest.param("Requesting_2026.03.01 12:00:00", True, id="a question"),
        pytest.param("Requesting", True, id="a question without a time"),
        pytest.param("Deleted_2026.03.01 12:00:00", True, id="a tombstone"),
        pytest.param("Reported_2026.03.01 12:00:00", False, id="its own answer"),
        pytest.param(None, False, id="nothing yet"),
    ],
)
def test_what_counts_as_being_asked(value: str | None, want: bool) -> None:
    one = make("hcu")
    annotations = {} if value is None else {one.handshake_key: value}
    assert plugin.is_asked(one, annotations) is want
    assert not plugin.is_asked(make("nvidia"), annotations)


@pytest.mark.parametrize(
    ("family", "want"),
    [
        pytest.param("nvidia", {"nvidia.com/gpu": 20}, id="registers: slots alone"),
        pytest.param(
            "mlu-capacity",
            {
                "cambricon.com/vmlu": 200,
                "cambricon.com/mlu.smlu.vcore": 200,
                "cambricon.com/mlu.smlu.vmemory": 192,
            },
            id="MLU capacity: in units of 256 MiB",
        ),
        pytest.param(
            "mthreads",
            {
                "mthreads.com/vgpu": 200,
                "mthreads.com/sgpu-core": 32,
                "mthreads.com/sgpu-memory": 192,
            },
            id="Moore Threads: 16 cores a card, units of 512 MiB",
        ),
        pytest.param("metax-gpu", {"metax-tech.com/gpu": 2}, id="whole GPUs"),
        pytest.param("kunlun", {"kunlunxin.com/xpu": 2}, id="whole XPUs, whatever their slots"),
        pytest.param(
            "aws-neuron",
            {"aws.amazon.com/neuron": 2, "aws.amazon.com/neuroncore": 4},
            id="devices and their cores",
        ),
        pytest.param(
            "enflame",
            {
                "enflame.com/drs-gcu": 12,
                "enflame.com/gcu-memory": 80,
                "enflame.com/gcu-core": 200,
            },
            id="slices, and sizes",
        ),
    ],
)
def test_resources_of_the_node(family: str, want: Mapping[str, int]) -> None:
    assert plugin.capacity(make(family)) == want
    assert plugin.allocatable(make(family)) == want


def test_a_sick_card_is_registered_as_such_and_not_offered() -> None:
    one = make("nvidia")
    sick = one.with_health(one.cards[1].id, healthy=False)
    assert [card.healthy for card in seen(sick).cards] == [True, False]
    assert plugin.capacity(sick) == {"nvidia.com/gpu": 20}
    assert plugin.allocatable(sick) == {"nvidia.com/gpu": 10}
    assert sick.with_health(one.cards[1].id, healthy=True) == one


def test_a_sick_card_is_left_out_where_the_list_has_no_health() -> None:
    one = make("enflame")
    sick = one.with_health(one.cards[0].id, healthy=False)
    assert [card.index for card in seen(sick).cards] == [1]


def test_a_lost_card_is_gone_from_register_and_resources() -> None:
    one = make("dcu")
    without = dataclasses.replace(one, lost=frozenset({one.cards[0].id}))
    assert [card.id for card in seen(without).cards] == [one.cards[1].id]
    assert plugin.capacity(without) == {"hygon.com/dcunum": 4}


@pytest.mark.parametrize("family", catalogue.MODELS)
def test_a_machine_without_cards_has_none_of_the_type(family: str) -> None:
    one = make(family)
    without = dataclasses.replace(one, lost=frozenset(card.id for card in one.cards))
    assert seen(without).state is inventory.State.ABSENT


def test_a_crash_that_kubelet_noticed_leaves_nothing_to_offer() -> None:
    one = dataclasses.replace(make("nvidia"), missed=True)
    assert plugin.allocatable(one) == {"nvidia.com/gpu": 0}
    assert plugin.capacity(one) == {"nvidia.com/gpu": 20}
    assert seen(one).state is inventory.State.UNAVAILABLE


@pytest.mark.parametrize("family", ["nvidia", "mthreads"])
def test_kubelet_may_offer_another_amount(family: str) -> None:
    one = dataclasses.replace(make(family), allocatable=0)
    assert set(plugin.allocatable(one).values()) == {0}
    assert seen(one).state is inventory.State.UNAVAILABLE


@pytest.mark.parametrize(
    ("family", "want_form", "want_fields"),
    [
        pytest.param("nvidia", register.Form.JSON, None, id="JSON"),
        pytest.param("dcu", register.Form.TEXT, 7, id="seven fields"),
        pytest.param("hcu", register.Form.TEXT, 9, id="nine fields"),
    ],
)
def test_encodings(family: str, want_form: register.Form, want_fields: int | None) -> None:
    one = make(family)
    text = plugin.registration(one, NOW)[one.row.node.register]
    assert register.decode(text).form is want_form
    if want_fields:
        assert {len(entry.split(",")) for entry in text.split(":") if entry} == {want_fields}
