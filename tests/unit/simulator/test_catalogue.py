"""What simulated nodes can be equipped with."""

from __future__ import annotations

import pytest

from hami_operator import errors
from hami_operator.devices import registry
from hami_operator.simulator import catalogue, models


def test_every_entry_belongs_to_a_vendor_row() -> None:
    assert {model.word for model in catalogue.MODELS.values()} <= set(registry.default().by_word)


def test_every_row_can_be_simulated() -> None:
    words = {model.word for model in catalogue.MODELS.values()}
    assert words == {row.keyword for row in registry.default()}


@pytest.mark.parametrize("name", catalogue.MODELS)
def test_what_a_plugin_is_asked_by_is_a_resource_of_its_row(name: str) -> None:
    model = catalogue.MODELS[name]
    resources = registry.default().by_word[model.word].resources
    for field in (*model.asked, *model.offers):
        assert getattr(resources, field), field


def test_every_way_of_showing_cards_is_in_use() -> None:
    assert {model.shown for model in catalogue.MODELS.values()} == set(models.Shown)


def test_cards_are_the_same_in_every_run_and_differ_between_nodes_and_models() -> None:
    nvidia, hcu = catalogue.MODELS["nvidia"], catalogue.MODELS["hcu"]
    assert nvidia.cards("n1", 4) == nvidia.cards("n1", 4)
    ids = [
        card.id
        for node in ("n1", "n2")
        for model in (nvidia, hcu)
        for card in model.cards(node, 4)
    ]
    assert len(set(ids)) == 16


@pytest.mark.parametrize(
    ("number", "want_numa"),
    [
        pytest.param(1, [0], id="one card lies on the first NUMA node"),
        pytest.param(2, [0, 1], id="two lie apart"),
        pytest.param(5, [0, 0, 0, 1, 1], id="an odd number is shared out"),
    ],
)
def test_cards_are_spread_over_two_numa_nodes(number: int, want_numa: list[int]) -> None:
    cards = catalogue.MODELS["nvidia"].cards("n", number)
    assert [card.numa for card in cards] == want_numa
    assert [card.index for card in cards] == list(range(number))


def test_families_take_turns() -> None:
    hosts = catalogue.hosts(5, ("nvidia", "hcu"), cards=2)
    assert [(host.name, host.equipment[0].model.word) for host in hosts] == [
        ("sim-01", "NVIDIA"),
        ("sim-02", "HCU"),
        ("sim-03", "NVIDIA"),
        ("sim-04", "HCU"),
        ("sim-05", "NVIDIA"),
    ]
    assert {host.equipment[0].number for host in hosts} == {2}


def test_names_sort_as_they_are_numbered() -> None:
    names = [host.name for host in catalogue.hosts(120, ("nvidia",), prefix="x-")]
    assert names == sorted(names)
    assert names[0] == "x-001"


def test_an_unknown_family_is_refused_with_those_that_exist() -> None:
    with pytest.raises(errors.SettingsError, match=r"families: 'gpu' is none of nvidia, .*hcu"):
        catalogue.hosts(1, ("gpu",))


def test_a_node_may_have_cards_of_two_families() -> None:
    (host,) = catalogue.hosts(1, ("nvidia+hcu",), cards=2)
    assert [one.model.word for one in host.equipment] == ["NVIDIA", "HCU"]


def test_a_node_has_one_plugin_of_a_type() -> None:
    with pytest.raises(errors.SettingsError, match="names cards of one type twice"):
        catalogue.hosts(1, ("nvidia+nvidia-mig",))
