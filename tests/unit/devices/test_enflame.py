"""Enflame: lists of the node, profiles, slices."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hami_operator.devices import account, admit, fit, request, usage
from tests.unit.devices import family
from tests.unit.devices.rows import candidate

WORD = "Enflame"
KEY = "enflame.com/gcu-drs-capacity"
PROFILES = {"1g.6gb": "0", "3g.20gb": "1", "6g.40gb": "2"}


def listed(*devices: Any, profiles: Any = PROFILES) -> Any:
    value = {"devices": list(devices), "profiles": profiles}
    return family.devices(WORD, name="node-a", annotations={KEY: json.dumps(value)})


def gcu(used: int = 0, memory_mib: int = 0, **facts: Any) -> usage.CardUsage:
    custom = {"minor": "3", "maxSlice": 6, "profiles": PROFILES}
    usual = {"count": 6, "memory_mib": 40960, "custom": custom}
    return candidate("g-0", index=0, used=usage.Usage(used, memory_mib), **(usual | facts))


@pytest.mark.parametrize(
    ("device", "want"),
    [
        pytest.param({"index": "4", "minor": "5", "capacity": 6}, (4, "5", 6), id="all said"),
        pytest.param({"INDEX": " ", "capacity": "2"}, (0, "0", 2), id="blank: the position"),
        pytest.param({"index": "07", "capacity": 1}, (7, "7", 1), id="the index for the minor"),
    ],
)
def test_a_device_is_what_the_node_says(device: Any, want: tuple[int, str, int]) -> None:
    (card,) = listed(device).cards
    assert (card.index, card.custom["minor"], card.count) == want
    assert card.id == f"node-a-enflame-drs-{want[0]}"


@pytest.mark.parametrize(
    ("devices", "want"),
    [
        pytest.param([{"capacity": 0}, {"capacity": 1}], [(0, "capacity")], id="no slice"),
        pytest.param([{"capacity": "x"}, {"capacity": 1}], [(0, "capacity")], id="no number"),
        pytest.param([{"index": 1, "capacity": 1}], [(0, "index")], id="an index as number"),
        pytest.param([{"minor": "a", "capacity": 1}], [(0, "minor")], id="a minor as word"),
        pytest.param(
            [{"index": "1", "capacity": 1}, {"capacity": 1}], [(1, "index")], id="an index twice"
        ),
        pytest.param([7], [(0, "json")], id="no object"),
    ],
)
def test_a_bad_device_leaves_the_others(devices: list[Any], want: list[tuple[int, str]]) -> None:
    found = listed(*devices)
    assert [(bad.entry, bad.field) for bad in found.findings] == want
    assert len(found.cards) == len(devices) - 1


@pytest.mark.parametrize(
    ("value", "state"),
    [
        pytest.param("", "absent", id="blank"),
        pytest.param("null", "absent", id="null"),
        pytest.param('{"devices":[],"profiles":{}}', "absent", id="no devices"),
        pytest.param("[1]", "unavailable", id="a list"),
        pytest.param("{", "unavailable", id="no JSON"),
        pytest.param('{"devices":[{"capacity":6}]}', "unavailable", id="no profiles"),
        pytest.param(
            '{"devices":[{"capacity":6}],"profiles":{"big":"0","0g.1gb":"1"}}',
            "unavailable",
            id="no usable profile",
        ),
    ],
)
def test_a_value_without_devices(value: str, state: str) -> None:
    assert family.devices(WORD, annotations={KEY: value}).state.value == state


def ask(**amounts: str) -> Any:
    return family.ask(WORD, **amounts)


@pytest.mark.parametrize(
    ("amounts", "want"),
    [
        pytest.param({}, None, id="nothing"),
        pytest.param({"count": "0", "memory": "0"}, None, id="zeros"),
        pytest.param({"count": "2", "memory": "9"}, {"slices": 2}, id="slices win"),
        pytest.param({"memory": "9"}, {"memory": 9, "cores": 0}, id="memory"),
        pytest.param({"cores": "30"}, {"memory": 0, "cores": 30}, id="cores"),
        pytest.param({"cores": "101"}, "enflame.com/gcu-core", id="more than a card"),
        pytest.param({"count": "1", "memory": "x"}, "enflame.com/gcu-memory", id="no number"),
    ],
)
def test_slices_or_a_size(amounts: dict[str, str], want: Any) -> None:
    found = ask(**amounts)
    if isinstance(found, request.Request):
        assert (found.count, found.detail) == (1, want)
    elif isinstance(found, request.Invalid):
        assert found.resource == want
    else:
        assert want is None


@pytest.mark.parametrize(
    ("amounts", "want"),
    [
        pytest.param({"count": "1"}, "1g.6gb", id="one slice"),
        pytest.param({"count": "6"}, "6g.40gb", id="all slices"),
        pytest.param({"count": "2"}, None, id="no profile of two"),
        pytest.param({"memory": "6"}, "1g.6gb", id="GB"),
        pytest.param({"memory": "7"}, "3g.20gb", id="a little more"),
        pytest.param({"memory": "80"}, None, id="more GB than a card"),
        pytest.param({"memory": "81"}, "1g.6gb", id="so large that it is MiB"),
        pytest.param({"memory": "6145"}, "3g.20gb", id="MiB, rounded up to GB"),
        pytest.param({"cores": "17"}, "1g.6gb", id="a sixth, rounded up"),
        pytest.param({"cores": "18"}, "3g.20gb", id="more than a sixth"),
        pytest.param({"memory": "6", "cores": "51"}, "6g.40gb", id="both"),
    ],
)
def test_the_smallest_profile_that_serves(amounts: dict[str, str], want: str | None) -> None:
    answer = family.place(WORD, ask(**amounts), [gcu()])
    if want is None:
        assert family.told(answer) == "1/1 ModeNotFit"
    else:
        assert isinstance(answer, fit.Fit)
        assert answer.picks[0].custom["profileName"] == want


@pytest.mark.parametrize(
    ("card", "want"),
    [
        pytest.param(gcu(3), "g-0", id="three of six are left"),
        pytest.param(gcu(4), "1/1 CardInsufficientCore", id="two of six are left"),
        pytest.param(gcu(6), "1/1 CardTimeSlicingExhausted", id="none is left"),
        pytest.param(gcu(1, 20481), "1/1 CardInsufficientMemory", id="too little memory"),
    ],
)
def test_slices_of_a_card_run_out(card: usage.CardUsage, want: str) -> None:
    assert family.told(family.place(WORD, ask(count="3"), [card])) == want


def test_no_device_is_no_question_of_profiles() -> None:
    assert family.told(family.place(WORD, ask(count="2"), [])) == "NodeInsufficientDevice"


def test_six_slices_of_six_fit_though_their_percents_add_up_to_more() -> None:
    standing = gcu()
    for _ in range(6):
        answer = family.place(WORD, ask(count="1"), [standing])
        assert isinstance(answer, fit.Fit), answer.text()
        standing = account.charge(family.ROWS[WORD], standing, answer.picks[0])
    assert (standing.usage.used, standing.usage.cores) == (6, 102)
    assert family.told(family.place(WORD, ask(count="1"), [standing])) == (
        "1/1 CardTimeSlicingExhausted"
    )


@pytest.mark.parametrize(
    ("limits", "requests", "want"),
    [
        pytest.param({"drs-gcu": "1"}, {}, {"drs-gcu": "1"}, id="to requests"),
        pytest.param({}, {"gcu-memory": "9"}, {"gcu-memory": "9"}, id="to limits"),
        pytest.param(
            {"drs-gcu": "1", "gcu-core": "0"},
            {},
            {"drs-gcu": "1", "gcu-core": "0"},
            id="slices decide",
        ),
    ],
)
def test_what_is_given_stands_on_both_sides(
    limits: dict[str, str], requests: dict[str, str], want: dict[str, str]
) -> None:
    def named(amounts: dict[str, str]) -> dict[str, str]:
        return {f"enflame.com/{name}": value for name, value in amounts.items()}

    answer = family.admitted(WORD, named(limits), requests=named(requests))
    assert isinstance(answer, admit.Admitted)
    assert answer.container.limits == answer.container.requests == named(want)


@pytest.mark.parametrize(
    ("name", "value"),
    [("drs-gcu", "0"), ("gcu-memory", "0"), ("gcu-core", "0"), ("gcu-core", "101")],
)
def test_nothing_is_denied_by_name(name: str, value: str) -> None:
    text = family.denial(family.admitted(WORD, {f"enflame.com/{name}": value}))
    assert f"enflame.com/{name}" in text
    assert value in text


def test_containers_are_told_apart_by_name() -> None:
    def slices(number: int, name: str) -> Any:
        custom = {"minor": "3", "slices": number, "profileID": "1", "profileName": name}
        return family.pick("g-0", 4, custom=custom)

    slots = ((), (slices(3, "3g.20gb"),), (slices(1, "1g.6gb"),))
    found = family.written(WORD, slots, containers=("init", "a", "b"))
    assert list(json.loads(found["assigned-containers"])) == ["a", "b"]
    assert {
        key: found[f"enflame.com/gcu-{key}"] for key in ("request-size", "assigned-minor")
    } == {
        "request-size": "3",
        "assigned-minor": "3",
    }


def test_a_whole_card_is_given_once() -> None:
    found = family.devices("GCU", name="s60", capacity={"enflame.com/gcu": "2"})
    first, second = family.cards(found)
    asked_ = family.ask("GCU", count="1")
    answer = family.place("GCU", asked_, [first, second])
    assert isinstance(answer, fit.Fit)
    charged = account.charge(family.ROWS["GCU"], first, answer.picks[0])
    assert family.told(family.place("GCU", asked_, [charged, second])) == "s60-GCU-1"
    assert family.told(family.place("GCU", asked_, [charged])) == (
        "1/1 ExclusiveDeviceAllocateConflict"
    )
