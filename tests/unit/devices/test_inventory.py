"""What a node has of a row, where it comes from, and why it may not be given away."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_operator import errors
from hami_operator.devices import capacity, inventory, registry, vendor
from hami_operator.protocol import register
from tests.unit.devices.rows import ROW, Node, hooked, row

State = inventory.State
TEXT = "c0,10,10000,100,X1,0,true:"
JSON = '[{"id":"c0","count":10,"devmem":10000,"devcore":100,"type":"X1","health":true}]'
CARD = register.Card(id="c0", index=0, count=10, memory_mib=10_000, cores=100, model="X1")
SILENT = row(silent=True)
BAD = (register.Finding(entry=0, field="fields"),)


def node(value: str | None = None, offered: str | None = None, **annotations: str) -> Node:
    registered = {} if value is None else {"acme.io/register": value}
    return Node(
        annotations={
            **registered,
            **{f"acme.io/{key}": text for key, text in annotations.items()},
        },
        allocatable={} if offered is None else {"acme.io/card": offered},
    )


def found(state: State, **facts: Any) -> inventory.Inventory:
    return inventory.Inventory(state=state, key="acme.io/register", **facts)


TEXT_CARD = dataclasses.replace(CARD, mode="hami-core")
ASKED: dict[str, Any] = {"asks": True, "handshake_key": "acme.io/handshake"}
NOT_OFFERED = errors.Reason.TYPE_NOT_ALLOCATABLE
UNREADABLE = errors.Reason.REGISTER_UNREADABLE


@pytest.mark.parametrize(
    ("one", "given_node", "want"),
    [
        pytest.param(ROW, node(), inventory.ABSENT, id="no register"),
        pytest.param(ROW, node(""), found(State.ABSENT), id="an empty register"),
        pytest.param(
            ROW,
            node("[]", "0"),
            found(State.ABSENT, allocatable=0),
            id="an empty list although kubelet offers none",
        ),
        pytest.param(
            ROW, node(TEXT), found(State.AVAILABLE, cards=(TEXT_CARD,), **ASKED), id="text"
        ),
        pytest.param(
            ROW,
            node(TEXT, "8"),
            found(State.AVAILABLE, cards=(TEXT_CARD,), allocatable=8, **ASKED),
            id="text is asked also where kubelet offers devices",
        ),
        pytest.param(
            ROW,
            node(TEXT, "0"),
            found(
                State.UNAVAILABLE,
                cards=(TEXT_CARD,),
                allocatable=0,
                unavailable_because=NOT_OFFERED,
                **ASKED,
            ),
            id="kubelet offers none",
        ),
        pytest.param(
            ROW,
            node("garbage", "8"),
            found(
                State.UNAVAILABLE,
                findings=BAD,
                allocatable=8,
                unavailable_because=UNREADABLE,
                **ASKED,
            ),
            id="nothing is well-formed",
        ),
        pytest.param(
            ROW,
            node(f"{TEXT}garbage"),
            found(
                State.AVAILABLE,
                cards=(TEXT_CARD,),
                findings=(register.Finding(entry=1, field="fields"),),
                **ASKED,
            ),
            id="one entry is well-formed",
        ),
        pytest.param(
            ROW,
            node(JSON, "8"),
            found(State.AVAILABLE, cards=(CARD,), allocatable=8, **ASKED),
            id="JSON of a plugin that answers",
        ),
        pytest.param(
            SILENT,
            node(JSON, "8"),
            found(State.AVAILABLE, cards=(CARD,), allocatable=8),
            id="a silent plugin is not asked",
        ),
        pytest.param(
            SILENT,
            node(JSON, "0"),
            found(
                State.UNAVAILABLE,
                cards=(CARD,),
                allocatable=0,
                unavailable_because=NOT_OFFERED,
            ),
            id="a silent plugin whose kubelet offers none",
        ),
        pytest.param(
            SILENT,
            node(JSON),
            found(State.AVAILABLE, cards=(CARD,), **ASKED),
            id="a silent plugin is asked where kubelet says nothing",
        ),
        pytest.param(
            SILENT,
            node(TEXT, "8"),
            found(State.AVAILABLE, cards=(TEXT_CARD,), allocatable=8, **ASKED),
            id="text of a row that is silent only with JSON",
        ),
        pytest.param(
            SILENT,
            node(JSON, "many"),
            found(State.AVAILABLE, cards=(CARD,), **ASKED),
            id="an amount that cannot be read says nothing",
        ),
        pytest.param(
            ROW,
            node(TEXT, **{"old-handshake": "Reported"}),
            found(
                State.AVAILABLE,
                cards=(TEXT_CARD,),
                asks=True,
                handshake_key="acme.io/old-handshake",
            ),
            id="the older handshake key where the node carries it",
        ),
        pytest.param(
            row(node=vendor.NodeKeys(register="acme.io/register")),
            node(TEXT),
            found(State.AVAILABLE, cards=(TEXT_CARD,)),
            id="a row without handshake is never asked",
        ),
    ],
)
def test_what_a_node_has(one: vendor.Vendor, given_node: Node, want: inventory.Inventory) -> None:
    assert inventory.read(given_node, one) == want


# --- capacity --------------------------------------------------------------------------------

SHAPE = capacity.Shape(
    infix="acme",
    model="Acme",
    units=16,
    count=100,
    cores=16,
)
COUNTED = hooked(
    devices=lambda _, node: capacity.found(
        node, "acme.io/c", SHAPE, memory="acme.io/m", unit_mib=512
    )
)


def counted(number: int, memory_mib: int) -> tuple[register.Card, ...]:
    return tuple(
        register.Card(
            id=f"n1-acme-{index}",
            index=index,
            count=100,
            memory_mib=memory_mib,
            cores=16,
            model="Acme",
            custom=capacity.SOURCE,
        )
        for index in range(number)
    )


def shown(**amounts: str) -> Node:
    return Node(capacity={f"acme.io/{name}": value for name, value in amounts.items()})


@pytest.mark.parametrize(
    ("given_node", "want"),
    [
        pytest.param(shown(c="32", m="192"), counted(2, 49152), id="two cards share the memory"),
        pytest.param(shown(c="17", m="34"), counted(2, 16384), id="a started card is a card"),
        pytest.param(shown(c="16"), counted(1, 0), id="no memory"),
        pytest.param(shown(c="16", m="-5"), counted(1, 0), id="memory that no node has"),
        pytest.param(shown(c="16", m="x"), counted(1, 0), id="memory that cannot be read"),
        pytest.param(shown(m="192"), (), id="no cores"),
        pytest.param(shown(c="0", m="192"), (), id="cores 0"),
        pytest.param(shown(c="1.5"), (), id="a fraction"),
        pytest.param(shown(c="-16"), (), id="negative"),
        pytest.param(shown(c="many"), (), id="a word"),
    ],
)
def test_cards_from_capacity(given_node: Node, want: tuple[register.Card, ...]) -> None:
    read = inventory.read(given_node, COUNTED)

    assert read.cards == want
    assert read.state is (State.AVAILABLE if want else State.ABSENT)
    assert not read.asks


@pytest.mark.parametrize(
    ("given_node", "want_field"),
    [
        pytest.param(shown(c="2147483647", m="1"), "acme.io/c", id="millions of cards"),
        pytest.param(shown(c="16", m="9Gi"), "acme.io/m", id="more memory than 32 bits hold"),
    ],
)
def test_capacity_that_no_node_can_have_is_a_finding(given_node: Node, want_field: str) -> None:
    assert inventory.read(given_node, COUNTED) == inventory.Inventory(
        state=State.UNAVAILABLE,
        key="acme.io/c",
        findings=(register.Finding(entry=0, field=want_field),),
        unavailable_because=UNREADABLE,
    )


def test_capacity_that_kubelet_does_not_offer_is_unavailable() -> None:
    read = inventory.read(
        dataclasses.replace(shown(c="16", m="1"), allocatable={"acme.io/c": "0"}), COUNTED
    )
    assert (read.state, read.unavailable_because) == (State.UNAVAILABLE, NOT_OFFERED)
    assert read.cards == counted(1, 512)


def test_a_register_goes_before_capacity_even_when_it_is_empty() -> None:
    both = dataclasses.replace(shown(c="16", m="1"), annotations={"acme.io/register": ""})
    assert inventory.read(both, COUNTED).state is State.ABSENT


def test_only_cards_made_from_capacity_are_known_as_such() -> None:
    assert capacity.counted(counted(1, 5)[0])
    assert not capacity.counted(dataclasses.replace(CARD, custom={"source": "capacity"}))


# --- what never breaks -----------------------------------------------------------------------

VALUES = st.text(alphabet='0123456789.-,:[]{}"kGi mtrue', max_size=20)


@given(st.sampled_from(list(registry.default())), st.data())
def test_any_node_has_an_inventory_of_good_cards(one: vendor.Vendor, data: st.DataObject) -> None:
    names = st.sampled_from([*one.resources.names, "cambricon.com/mlu.smlu.vcore"])
    read = inventory.read(
        Node(
            annotations=data.draw(
                st.dictionaries(st.just(one.node.register) | st.just(one.node.handshake), VALUES)
            ),
            capacity=data.draw(st.dictionaries(names, VALUES)),
            allocatable=data.draw(st.dictionaries(names, VALUES)),
        ),
        one,
    )
    assert (read.state is State.UNAVAILABLE) == (read.unavailable_because is not None)
    assert read.state is State.ABSENT or read.cards or read.findings
    for card in read.cards:
        assert 0 <= card.memory_mib < 2**31
        assert 0 <= card.count < 2**31
