"""Reading a Node."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_operator.scheduling import node as nodes
from hami_operator.scheduling import tolerations
from tests import builders


def test_a_bare_node() -> None:
    assert nodes.read({"metadata": {"name": "n"}}) == nodes.Node(name="n", uid="n")


def test_a_full_node() -> None:
    node = (
        builders.node("n1")
        .version(9)
        .label("zone", "z1")
        .annotate({"hami.io/x": "y"})
        .capacity(cpu=8)
        .allocatable({"nvidia.com/gpu": "10"}, cpu="7500m", memory="1Gi", pods=110)
        .cordoned()
        .taint("a", "b")
        .taint("c", effect="NoExecute")
        .taint("d", effect="PreferNoSchedule")
        .taint("e", effect="Unheard")
        .read()
    )
    one, two, three, four = node.taints
    assert node == nodes.Node(
        name="n1",
        uid="uid-n1",
        resource_version="9",
        labels={"zone": "z1"},
        annotations={"hami.io/x": "y"},
        capacity={"cpu": "8"},
        allocatable={"nvidia.com/gpu": "10", "cpu": "7500m", "memory": "1Gi", "pods": "110"},
        amounts={"nvidia.com/gpu": 10, "cpu": 7500, "memory": 2**30, "pods": 110},
        unschedulable=True,
        taints=(one, two, three, four),
        repelling=(one, two),
        deterring=(three,),
    )
    assert one == tolerations.Taint(key="a", value="b", effect="NoSchedule")


@pytest.mark.parametrize(
    ("path", "value", "want"),
    [
        pytest.param("metadata.name", None, "metadata.name: is missing", id="no name"),
        pytest.param(
            "status.allocatable",
            {"cpu": "lots"},
            "status.allocatable[cpu]: 'lots' is not a quantity",
            id="an unreadable amount",
        ),
        pytest.param(
            "spec.unschedulable",
            "true",
            "spec.unschedulable: is neither true nor false",
            id="a cordon in words",
        ),
        pytest.param("spec.taints", "x", "spec.taints: is not a list", id="taints are a text"),
        pytest.param("status", [], "status: is not an object", id="status is a list"),
    ],
)
def test_oddities_are_told_with_their_field(path: str, value: Any, want: str) -> None:
    node = builders.node("n").put(path, value).read()
    assert [str(finding) for finding in node.findings] == [want]


def test_an_unreadable_amount_is_not_offered() -> None:
    node = builders.node("n").allocatable(cpu="lots", memory="-1", pods="5").read()
    assert node.amounts == {"pods": 5}
    assert node.allocatable == {"cpu": "lots", "memory": "-1", "pods": "5"}


@given(
    st.dictionaries(
        st.sampled_from(["metadata", "spec", "status"]),
        st.none()
        | st.text()
        | st.dictionaries(
            st.sampled_from(["name", "labels", "taints", "allocatable", "unschedulable"]),
            st.none()
            | st.integers()
            | st.lists(st.integers())
            | st.dictionaries(st.text(), st.text()),
        ),
    )
)
def test_no_content_makes_reading_raise(raw: dict[str, Any]) -> None:
    nodes.read(raw)
