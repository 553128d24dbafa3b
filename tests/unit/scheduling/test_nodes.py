"""Nodes: what is available where, what is asked, and what is told."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given, strategies

from hami_operator import errors
from hami_operator.devices import inventory, registry
from hami_operator.protocol import keys
from hami_operator.scheduling import effects, nodes
from tests import builders
from tests.moments import asked, at

REG = "hami.io/node-nvidia-register"
HS = "hami.io/node-handshake-nvidia"
LEGACY = "hami.io/node-handshake"
MLU_REG = "hami.io/node-mlu-register"
MLU_HS = "hami.io/node-handshake-mlu"
TEXT = "GPU-A,10,24576,100,NVIDIA-Tesla T4,0,true:"
CARD = {"id": "GPU-A", "count": 10, "devmem": 24576, "devcore": 100, "health": True}
JSON = json.dumps([CARD])
OTHER = TEXT.replace("GPU-A", "GPU-C")
SICK = TEXT.replace("true", "false")
MLU = "MLU-1,10,23308,0,MLU-MLU370-X4,0,true:"


def known(timeout_s: float = 300.0) -> nodes.Nodes:
    return nodes.Nodes(registry.default(), timeout_s)


def node(version: int = 1, allocatable: int | None = 10, **annotations: str) -> Any:
    """A node with annotations by the constants above; None of allocatable is no entry."""
    names = {"reg": REG, "hs": HS, "legacy": LEGACY, "mlu": MLU_REG, "mlu_hs": MLU_HS}
    names |= {"cordon": keys.DEVICE_CORDON, "lock": keys.NODE_LOCK, "note": "example.com/note"}
    made = builders.node("n1").version(version)
    made = made.annotate({names[name]: text for name, text in annotations.items()})
    if allocatable is not None:
        made = made.allocatable({"nvidia.com/gpu": str(allocatable)})
    return made.read()


def because(every: nodes.Nodes, word: str = "NVIDIA") -> errors.Reason | str | None:
    standing = every.standings("n1").get(word)
    return "absent" if standing is None else standing.because


def told(change: nodes.Change) -> list[tuple[str, str]]:
    return [
        (effect.reason, effect.message)
        for effect in change.effects
        if isinstance(effect, effects.NodeEvent)
    ]


def test_devices_of_nodes_without_the_wanted_labels_are_left_alone() -> None:
    every = nodes.Nodes(registry.default(), 300.0, {"gpu": "on", "zone": "a"})
    outside = builders.NodeBuilder(builders.node("n1").raw()).annotate({REG: TEXT})
    every.seen(outside.merge("metadata.labels", {"gpu": "on"}).read(), at(0))
    assert every.get("n1") is not None, "it is still a node"
    assert (because(every), every.due(at(30))) == ("absent", {})

    inside = outside.merge("metadata.labels", {"gpu": "on", "zone": "a"}).version(2)
    every.seen(inside.read(), at(1))
    assert because(every) is None

    left = inside.version(3).merge("metadata.labels", {"zone": "b"})
    change = every.seen(left.read(), at(2))
    assert (because(every), change.words) == ("absent", frozenset({"NVIDIA"}))


@pytest.mark.parametrize(
    ("given", "want", "want_due"),
    [
        pytest.param(node(), "absent", {}, id="a node without cards is left alone"),
        pytest.param(node(hs="Reported"), "absent", {}, id="a handshake alone is no register"),
        pytest.param(node(reg=TEXT), None, {HS: asked(30)}, id="text: asked at the next tick"),
        pytest.param(node(reg=TEXT, hs=asked(0)), None, {}, id="text: never asked twice"),
        pytest.param(
            node(reg=TEXT, hs="Requesting_x"), None, {HS: asked(30)}, id="text: unreadable"
        ),
        pytest.param(node(reg=TEXT, hs="Deleted_x"), None, {HS: asked(30)}, id="text: tombstone"),
        pytest.param(
            node(reg=TEXT, legacy="Reported"), None, {LEGACY: asked(30)}, id="text: the old key"
        ),
        pytest.param(
            node(reg=TEXT, allocatable=0),
            errors.Reason.TYPE_NOT_ALLOCATABLE,
            {HS: asked(30)},
            id="text: kubelet offers none",
        ),
        pytest.param(node(reg=JSON), None, {}, id="JSON: silent, so nothing is asked"),
        pytest.param(
            node(reg=JSON, hs="Requesting_2020.01.01 00:00:00"), None, {}, id="JSON: not consulted"
        ),
        pytest.param(
            node(reg=JSON, allocatable=None),
            None,
            {HS: asked(30)},
            id="JSON: no word of kubelet",
        ),
        pytest.param(
            node(reg=JSON, allocatable=0),
            errors.Reason.TYPE_NOT_ALLOCATABLE,
            {},
            id="JSON: kubelet offers none",
        ),
        pytest.param(
            node(reg="garbage"),
            errors.Reason.REGISTER_UNREADABLE,
            {HS: asked(30)},
            id="no entry can be read",
        ),
        pytest.param(node(reg="[]"), "absent", {}, id="an empty list clears the type"),
        pytest.param(node(reg=":"), "absent", {}, id="separators alone are an empty list"),
    ],
)
def test_how_a_type_stands(given: Any, want: object, want_due: dict[str, str]) -> None:
    every = known()
    every.seen(given, at(0))
    assert because(every) == want
    assert every.due(at(30)) == ({"n1": want_due} if want_due else {})
    assert every.due_on("n1", at(30)) == want_due


def test_all_questions_of_a_node_are_asked_in_one_go() -> None:
    every = known()
    every.seen(node(reg=TEXT, mlu=MLU), at(0))
    assert every.due(at(30)) == {"n1": {HS: asked(30), MLU_HS: asked(30)}}
    assert every.due_on("nobody", at(30)) == {}


def test_a_dead_plugin_costs_one_question_and_expires_its_type_alone() -> None:
    every = known()
    every.seen(node(1, reg=TEXT, hs="Reported", mlu=MLU, mlu_hs="Reported"), at(0))
    every.seen(node(2, reg=TEXT, hs=asked(30), mlu=MLU, mlu_hs=asked(30)), at(30))
    every.seen(node(3, reg=TEXT, hs=asked(30), mlu=MLU, mlu_hs="Reported"), at(40))
    assert every.due_on("n1", at(60)) == {MLU_HS: asked(60)}
    assert every.expire(at(330)) == ()
    (change,) = every.expire(at(331))
    assert told(change) == [
        (
            "DeviceTypeUnavailable",
            "NVIDIA takes no new pods here: the device plugin has stopped answering "
            "(DeviceTypeExpired); running pods stay counted",
        )
    ]
    assert change.words == {"NVIDIA"}
    assert because(every, "MLU") is None
    assert every.expire(at(332)) == ()
    assert every.due_on("n1", at(340)) == {MLU_HS: asked(340)}
    back = every.seen(node(4, reg=TEXT, hs="Reported", mlu=MLU, mlu_hs="Reported"), at(400))
    assert told(back) == [("DeviceTypeAvailable", "NVIDIA takes new pods again")]
    assert back.words == {"NVIDIA"}


def test_an_event_also_notices_that_a_time_out_has_passed() -> None:
    every = known()
    every.seen(node(1, reg=TEXT, hs=asked(0)), at(0))
    every.seen(node(2, reg=TEXT, hs=asked(0), note="x"), at(301))
    assert because(every) is errors.Reason.TYPE_EXPIRED


def test_a_restart_takes_the_age_from_the_value() -> None:
    every = known()
    every.seen(node(reg=TEXT, hs=asked(-200)), at(0))
    assert every.restart(at(100)) == ()
    (change,) = every.restart(at(101))
    assert change.words == {"NVIDIA"}
    assert every.age_s("n1", "NVIDIA", at(101)) == 301


def test_a_type_that_speaks_again_is_judged_from_its_first_look() -> None:
    every = known()
    old = asked(-3600)
    every.seen(node(1, reg=JSON, hs=old), at(0))
    assert every.age_s("n1", "NVIDIA", at(0)) is None
    every.seen(node(2, reg=JSON, hs=old, allocatable=None), at(100))
    assert every.expire(at(400)) == ()
    assert len(every.expire(at(401))) == 1


def test_a_register_that_goes_and_comes_back_is_told_once_each() -> None:
    every = known()
    assert told(every.seen(node(1, reg=TEXT), at(0))) == []
    gone = every.seen(node(2, reg="[]"), at(1))
    assert told(gone) == [
        (
            "DeviceTypeUnavailable",
            "NVIDIA takes no new pods here: its register is empty or gone; running pods stay "
            "counted",
        )
    ]
    assert told(every.seen(node(3), at(2))) == []
    assert told(every.seen(node(4, reg=TEXT), at(3))) == [
        ("DeviceTypeAvailable", "NVIDIA takes new pods again")
    ]


def test_malformed_entries_are_told_when_they_change() -> None:
    every = known()
    bad = f"{TEXT}GPU-B,ten,24576,100,T4,0,true:short:"
    message = f"{REG}: cannot be read, so skipped: entry 1: count, entry 2: fields"
    assert told(every.seen(node(1, reg=bad), at(0))) == [("MalformedDeviceRegister", message)]
    assert because(every) is None
    assert told(every.seen(node(2, reg=bad, note="x"), at(1))) == []
    assert told(every.seen(node(3, reg=TEXT), at(2))) == []
    assert told(every.seen(node(4, reg=bad), at(3))) == [("MalformedDeviceRegister", message)]


def test_many_malformed_entries_are_cut_short() -> None:
    every = known()
    change = every.seen(node(reg="x:" * 25), at(0))
    (_, malformed) = told(change)
    assert malformed[1].endswith("entry 19: fields, and 5 more")


def test_a_new_leader_is_told_everything_that_is_amiss() -> None:
    every = known()
    every.seen(node(1, reg="x:", mlu=MLU), at(0))
    first = [effect.reason for effect in every.report() if isinstance(effect, effects.NodeEvent)]
    assert first == ["DeviceTypeUnavailable", "MalformedDeviceRegister"]
    assert [each for each in every.report() if isinstance(each, effects.NodeEvent)] != []


@pytest.mark.parametrize(
    ("change", "want_words", "want_version"),
    [
        pytest.param({"version": 2}, set(), False, id="a heartbeat changes nothing"),
        pytest.param({"hs": "Reported 2"}, set(), False, id="another answer"),
        pytest.param({"lock": "2026-03-01T12:00:00Z,ns,p"}, set(), False, id="a lock"),
        pytest.param({"note": "x"}, {"NVIDIA"}, True, id="any other annotation may be a rule's"),
        pytest.param({"cordon": "GPU-A"}, {"NVIDIA"}, True, id="a cordon"),
        pytest.param({"reg": SICK}, {"NVIDIA"}, True, id="a card turned unhealthy"),
        pytest.param({"reg": OTHER}, {"NVIDIA"}, True, id="a card swapped"),
        pytest.param({"allocatable": 0}, {"NVIDIA"}, True, id="kubelet offers none"),
        pytest.param({"allocatable": 5}, set(), True, id="another amount is for the filters"),
        pytest.param({"mlu": MLU}, {"MLU"}, True, id="another type appears"),
    ],
)
def test_what_counts_as_a_change(
    change: dict[str, Any], want_words: set[str], want_version: bool
) -> None:
    given: dict[str, Any] = {"version": 1, "reg": TEXT, "hs": "Reported"}
    every = known()
    every.seen(node(**given), at(0))
    version = every.version("n1")
    every.take_changed()
    done = every.seen(node(**(given | {"version": 2} | change)), at(1))
    assert done.words == want_words
    assert (every.version("n1") > version) is want_version
    assert every.take_changed() == (("n1",) if want_version else ())
    assert every.get("n1") is done.after


@pytest.mark.parametrize(
    ("changed", "want"),
    [
        pytest.param(builders.node("n1").label("a", "b"), {"NVIDIA"}, id="labels, for rules"),
        pytest.param(builders.node("n1").taint("a"), set(), id="a taint is for the filters"),
        pytest.param(builders.node("n1").cordoned(), set(), id="so is a cordoned node"),
        pytest.param(builders.node("n1").uid("other"), set(), id="another node of that name"),
    ],
)
def test_what_the_filters_read_is_a_new_version(
    changed: builders.NodeBuilder, want: set[str]
) -> None:
    every = known()
    every.seen(builders.node("n1").annotate({REG: TEXT}).read(), at(0))
    version = every.version("n1")
    change = every.seen(changed.annotate({REG: TEXT}).version(2).read(), at(1))
    assert change.words == want
    assert every.version("n1") > version


def test_an_older_version_is_ignored() -> None:
    every = known()
    every.seen(node(10, reg=TEXT), at(0))
    change = every.seen(node(9), at(1))
    assert change.after is change.before
    assert because(every) is None
    assert change.effects == ()


@pytest.mark.parametrize(
    ("version", "than", "want"),
    [
        pytest.param("9", "10", True, id="compared as numbers"),
        pytest.param("10", "9", False, id="newer"),
        pytest.param("9", "9", False, id="the same"),
        pytest.param("", "9", False, id="unknown is never older"),
        pytest.param("9", "abc", False, id="no numbers"),
        pytest.param("²", "9", False, id="a digit that is no number"),
    ],
)
def test_is_older(version: str, than: str, want: bool) -> None:
    assert nodes.is_older(version, than) is want


def test_a_node_that_is_gone_is_forgotten_with_its_ages() -> None:
    every = known()
    every.seen(node(1, reg=TEXT, hs=asked(0)), at(0))
    change = every.gone("n1")
    assert change.before == node(1, reg=TEXT, hs=asked(0))
    assert change.after is None
    assert change.words == {"NVIDIA"}
    again = every.gone("n1")
    assert again == nodes.Change(name="n1", before=None, after=None)
    assert (every.get("n1"), every.standings("n1"), every.version("n1")) == (None, {}, 0)
    assert (len(every), list(every), "n1" in every) == (0, [], False)
    every.seen(node(2, reg=TEXT, hs=asked(0)), at(1000))
    assert because(every) is None


def test_the_cards_of_a_type_are_known_node_by_node() -> None:
    every = known()
    every.seen(node(reg=TEXT), at(0))
    every.seen(builders.node("n2").read(), at(0))
    assert [[card.id for card in cards] for cards in every.cards("NVIDIA")] == [["GPU-A"]]
    assert list(every.cards("MLU")) == []


def test_what_is_handed_out_changes_nothing() -> None:
    every = known()
    every.seen(node(reg=TEXT), at(0))
    standings = every.standings("n1")
    assert isinstance(standings, dict)
    standings.clear()
    assert because(every) is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        every.standings("n1")["NVIDIA"].because = errors.Reason.TYPE_EXPIRED  # type: ignore[misc]


@given(
    strategies.lists(
        strategies.fixed_dictionaries(
            {},
            optional={
                "reg": strategies.sampled_from([TEXT, JSON, OTHER, SICK, "broken", ""]),
                "hs": strategies.sampled_from(["Reported", asked(0), asked(7)]),
                "legacy": strategies.sampled_from(["Reported", asked(0)]),
                "mlu": strategies.just(MLU),
                "lock": strategies.sampled_from(["a", "b"]),
                "note": strategies.sampled_from(["a", "b"]),
                "allocatable": strategies.sampled_from([None, 0, 10]),
            },
        ),
        min_size=2,
        max_size=6,
    )
)
def test_what_is_kept_of_a_node_is_what_reading_it_afresh_gives(looks: list[Any]) -> None:
    every = known()
    for version, look in enumerate(looks, 1):
        shown = node(version, **look)
        every.seen(shown, at(version))
        standings = every.standings("n1")
        kept = {word: standing.inventory for word, standing in standings.items()}
        assert kept == inventory.read_all(shown, registry.default())


@pytest.mark.parametrize(
    ("change", "want_same"),
    [
        pytest.param({"lock": "a"}, True, id="it is locked"),
        pytest.param({"hs": asked(7)}, True, id="its plugin is asked"),
        pytest.param({"reg": SICK}, False, id="a card turns unhealthy"),
        pytest.param({"legacy": "Reported"}, False, id="an old handshake key comes"),
    ],
)
def test_what_comes_often_makes_no_register_be_read_again(
    change: dict[str, Any], want_same: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = known()
    start: dict[str, Any] = {"reg": TEXT, "hs": asked(0)}
    every.seen(node(1, **start), at(0))
    read: list[str] = []

    def read_all(shown: Any, rows: Any) -> dict[str, inventory.Inventory]:
        read.append(shown.name)
        return {}

    monkeypatch.setattr(inventory, "read_all", read_all)
    every.seen(node(2, **(start | change)), at(1))
    assert read == ([] if want_same else ["n1"])
