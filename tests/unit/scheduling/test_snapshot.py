"""The snapshot: a view that is always right and nearly free."""

from __future__ import annotations

import dataclasses

import pytest

from hami_operator import errors
from hami_operator.devices import registry, usage
from hami_operator.protocol import decision, keys
from hami_operator.scheduling import ledger, nodes, snapshot
from tests import builders
from tests.moments import at

AL = "hami.io/vgpu-devices-allocated"
ROWS = registry.default()


class House:
    """Nodes, ledger and the snapshot over both."""

    def __init__(self) -> None:
        self.nodes = nodes.Nodes(ROWS, 300)
        self.books = ledger.Ledger(ROWS)
        self.snapshot = snapshot.Snapshot(self.nodes, self.books)

    def node(self, name: str, *, version: int = 1, cards: int = 2, offered: int = 20) -> None:
        made = builders.node(name).version(version).allocatable({"nvidia.com/gpu": offered})
        made = made.register("NVIDIA", builders.cards(cards))
        self.nodes.seen(made.read(), at(0))

    def reserve(self, name: str, node: str, card: str = "GPU-0") -> None:
        pod = builders.pod(name).container(requests={"cpu": "1"}).read()
        pick = decision.Pick(id=card, memory_mib=1000, cores=10)
        self.books.assume(pod, node, {"NVIDIA": ((pick,),)})


def test_a_view_shows_cards_with_what_is_taken_of_them() -> None:
    house = House()
    house.node("n1")
    house.reserve("a", "n1")
    view = house.snapshot.view("n1")
    first, second = builders.cards(2)
    assert view is not None
    assert view.cards == {
        "NVIDIA": (
            usage.CardUsage(
                dataclasses.replace(first, mode="hami-core"),
                usage.Usage(1, 1000, 10, view.cards["NVIDIA"][0].usage.pods),
            ),
            usage.CardUsage(dataclasses.replace(second, mode="hami-core")),
        )
    }
    assert (view.name, view.requested, view.pod_count) == ("n1", {"cpu": 1000}, 1)
    assert view.base == snapshot.Totals(
        used=1,
        count=20,
        cores=10,
        total_cores=200,
        memory_mib=1000,
        total_memory_mib=65536,
    )


def test_nodes_come_in_the_order_of_their_names() -> None:
    house = House()
    for name in ("n2", "n10", "n1"):
        house.node(name)
    assert [view.name for view in house.snapshot] == ["n1", "n10", "n2"]
    assert house.snapshot.names == ("n1", "n10", "n2")
    assert len(house.snapshot) == 3


def test_only_what_changed_is_put_together_again() -> None:
    house = House()
    for number in range(100):
        house.node(f"n{number}")
    before = house.snapshot.views()
    assert house.snapshot.rebuilt == 100
    assert house.snapshot.views() is before
    house.reserve("a", "n7")
    house.reserve("b", "n7")
    after = house.snapshot.views()
    changed = [new.name for old, new in zip(before, after, strict=True) if old is not new]
    assert (changed, house.snapshot.rebuilt) == (["n7"], 101)


def test_a_heartbeat_rebuilds_nothing() -> None:
    house = House()
    house.node("n1")
    version = house.snapshot.version
    for number in range(2, 1000):
        house.node("n1", version=number)
    assert (house.snapshot.version, house.snapshot.rebuilt) == (version, 1)


def test_later_views_bear_higher_versions() -> None:
    house = House()
    house.node("n1")
    house.node("n2")
    first = {view.version for view in house.snapshot}
    house.reserve("a", "n1")
    view = house.snapshot.view("n1")
    assert view is not None
    assert len(first) == 2
    assert view.version > max(first)
    assert house.snapshot.version == view.version


def test_unusable_types_have_no_cards_and_a_reason() -> None:
    house = House()
    house.node("n1", offered=0)
    house.node("n2")
    bad = builders.pod("bad").on("n2").annotate({keys.VGPU_NODE: "n2", AL: "x"})
    house.books.observe(bad.read(), ours=True)
    want = {
        "n1": errors.Reason.TYPE_NOT_ALLOCATABLE,
        "n2": errors.Reason.DECISION_UNREADABLE,
    }
    for view in house.snapshot:
        assert (view.cards, view.unavailable) == ({}, {"NVIDIA": want[view.name]})
        assert view.base == snapshot.Totals()
    house.books.gone("uid-bad")
    view_again = house.snapshot.view("n2")
    assert view_again is not None
    assert len(view_again.cards["NVIDIA"]) == 2


def test_usage_of_a_card_that_is_not_registered_touches_no_other_and_comes_back() -> None:
    house = House()
    house.node("n1", cards=1)
    house.reserve("a", "n1", card="GPU-1")
    for version, (cards, want) in enumerate([(1, [0]), (2, [0, 1]), (1, [0]), (2, [0, 1])], 2):
        house.node("n1", version=version, cards=cards)
        view = house.snapshot.view("n1")
        assert view is not None
        assert [card.usage.used for card in view.cards["NVIDIA"]] == want


def test_a_node_that_is_gone_leaves_its_pods_counted() -> None:
    house = House()
    house.node("n1")
    house.reserve("a", "n1")
    house.nodes.gone("n1")
    assert (house.snapshot.views(), house.snapshot.view("n1")) == ((), None)
    house.node("n1", version=2)
    view = house.snapshot.view("n1")
    assert view is not None
    assert view.pod_count == 1


def test_what_is_booked_on_a_node_that_nobody_knows_is_no_view() -> None:
    house = House()
    house.reserve("a", "ghost")
    assert (house.snapshot.views(), house.snapshot.view("ghost")) == ((), None)


def test_nobody_changes_the_snapshot_through_what_it_hands_out() -> None:
    house = House()
    house.node("n1")
    view = house.snapshot.view("n1")
    assert view is not None
    for frozen in (view.cards, view.unavailable, view.requested):
        with pytest.raises(TypeError):
            frozen["x"] = 1  # type: ignore[index]
    with pytest.raises(dataclasses.FrozenInstanceError):
        view.pod_count = 9  # type: ignore[misc]
