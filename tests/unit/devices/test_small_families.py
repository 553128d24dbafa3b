"""Iluvatar, AMD, Vastai, Biren: what no case row states."""

from __future__ import annotations

from typing import Any

import pytest

from hami_operator.devices import account, admit, fit, request, usage
from hami_operator.protocol import register
from tests.unit.devices import family
from tests.unit.devices.rows import candidate, taken

# --- Iluvatar --------------------------------------------------------------------------------


@pytest.mark.parametrize("chip", ["MR-V100", "MR-V50", "BI-V150", "BI-V100"])
@pytest.mark.parametrize(
    ("count", "cores", "want"),
    [("1", "30", "30"), ("1", None, None), ("2", "30", "200"), ("3", None, "300")],
)
def test_several_cards_are_whole_cards(
    chip: str, count: str, cores: str | None, want: str | None
) -> None:
    limits = {f"iluvatar.ai/{chip}-vgpu": count}
    if cores:
        limits[f"iluvatar.ai/{chip}.vCore"] = cores
    answer = family.admitted(chip, limits, requests=limits)
    assert isinstance(answer, admit.Admitted)
    assert answer.container.limits.get(f"iluvatar.ai/{chip}.vCore") == want
    assert answer.container.requests.get(f"iluvatar.ai/{chip}.vCore") == (want if cores else None)
    found = admit.read(family.ROWS[chip], answer.container)
    assert isinstance(found, request.Request)
    cards = [candidate(str(index), index=index, memory_mib=32768) for index in range(3)]
    placed = family.place(chip, found, cards)
    assert isinstance(placed, fit.Fit)
    assert {pick.cores for pick in placed.picks} == {min(int(want or 0), 100)}


def test_the_name_of_a_container_is_not_overwritten() -> None:
    own = ({"name": "SOL_CONTINER_NAME", "value": "mine"},)
    answer = family.admitted("MR-V100", {"iluvatar.ai/MR-V100-vgpu": "1"}, env=own)
    assert isinstance(answer, admit.Admitted)
    assert answer.container.env == own


# --- AMD -------------------------------------------------------------------------------------


def test_a_product_name_that_cannot_be_written_makes_the_entry_malformed() -> None:
    key = family.ROWS["AMD"].node.register
    value = register.encode(
        [register.Card(id="a", model="MI300X"), register.Card(id="b", model="MI300X, 192 GB")],
        register.Form.JSON,
    )
    found = family.devices("AMD", annotations={key: value})
    assert [card.id for card in found.cards] == ["a"]
    assert found.findings == (register.Finding(entry=1, field="type"),)


@pytest.mark.parametrize("cores", ["0", "101", "x"])
def test_a_share_of_the_units_is_a_percentage(cores: str) -> None:
    found = family.ask("AMD", count="1", cores=cores)
    assert isinstance(found, request.Invalid)
    assert (found.resource, found.value) == ("amd.com/gpucores", cores)


@pytest.mark.parametrize(
    ("units", "percent", "want"),
    [(304, 100, 304), (304, 25, 76), (304, 1, 3), (50, 1, 1), (10, 5, 1)],
)
def test_units_are_rounded_down_but_never_to_none(units: int, percent: int, want: int) -> None:
    asked = family.ask("AMD", count="1", cores=str(percent))
    answer = family.place("AMD", asked, [candidate("a", cores=units, model="M")])
    assert isinstance(answer, fit.Fit)
    assert answer.picks[0].cores == want


@pytest.mark.parametrize(
    ("percent", "want"),
    [(25, 25), (1, 1), (100, 100), (33, 33)],
)
def test_a_quota_counts_percent_again(percent: int, want: int) -> None:
    questions: list[int] = []

    def fits(picks: Any, memory_mib: int, cores: int, card: str) -> bool:
        questions.append(cores)
        return True

    card = candidate("a", cores=304, model="M")
    asked = family.ask("AMD", count="1", cores=str(percent))
    answer = family.place("AMD", asked, [card], quota_fits=fits)
    assert isinstance(answer, fit.Fit)
    row, (pick,) = family.ROWS["AMD"], answer.picks
    read = family.pick("a", cores=pick.cores)
    assert questions == [want]
    assert account.metered(row, pick).cores == want
    assert account.metered(row, read, card.card).cores == want
    assert account.metered(row, read).cores == 100, "of a card that is gone"


def test_units_run_out() -> None:
    asked = family.ask("AMD", count="1", cores="50")
    cards = [candidate("a", cores=304, model="M", used=taken(1, 0, 153))]
    assert family.told(family.place("AMD", asked, cards)) == "1/1 CardInsufficientCore"


# --- Vastai and Biren ------------------------------------------------------------------------


def die(id: str, card: Any, *, used: int = 0, count: int = 1) -> usage.CardUsage:
    custom = {"DeviceStrategy": "die"} | ({} if card is None else {"AIC": card})
    return candidate(id, count=count, custom=custom, used=taken(used))


@pytest.mark.parametrize(
    ("dies", "count", "want"),
    [
        pytest.param([("a", "1"), ("b", "2"), ("c", "2")], 1, "a", id="one: the first"),
        pytest.param([("a", "1"), ("b", "2"), ("c", "2")], 2, "b c", id="two of one card"),
        pytest.param([("a", None), ("b", None), ("c", "2")], 2, "a b", id="a lost die is alone"),
        pytest.param([("a", 5), ("b", 5), ("c", "2"), ("d", "2")], 2, "c d", id="an id is a text"),
        pytest.param([("a", "1")], 2, "NodeInsufficientDevice", id="too few"),
    ],
)
def test_dies_of_one_card_are_given_together(
    dies: list[tuple[str, Any]], count: int, want: str
) -> None:
    cards = [die(id, card) for id, card in dies]
    answer = family.place("Vastai", family.ask("Vastai", count=str(count)), cards)
    assert family.told(answer) == want


@pytest.mark.parametrize(
    ("cards", "want"),
    [
        pytest.param(
            [die("a", "1", used=1, count=2), die("b", "1"), die("c", "2")],
            "c",
            id="a die whose card is in use",
        ),
        pytest.param(
            [die("a", None, used=1, count=2), die("b", None)], "b", id="a card that is not known"
        ),
        pytest.param(
            [candidate("a", used=taken()), candidate("b", custom={"AIC": "1"})],
            "b",
            id="without dies each device is alone",
        ),
    ],
)
def test_whoever_wants_to_be_alone_wants_the_card_alone(
    cards: list[usage.CardUsage], want: str
) -> None:
    asked = family.ask("Vastai", count="1")
    assert family.told(family.place("Vastai", asked, cards, policy=("mutex",))) == want


@pytest.mark.parametrize(
    ("slots", "before", "want"),
    [
        pytest.param([["1", "1"], [], ["1", "2"]], [die("x", "1")], 1.5, id="a sum"),
        pytest.param([["1", None]], [die("x", "1")], 0.0, id="a die without card"),
        pytest.param([["1"]], [candidate("x")], 0.0, id="no dies"),
    ],
)
def test_a_node_scores_by_how_much_lies_on_one_card(
    slots: list[list[Any]], before: list[usage.CardUsage], want: float
) -> None:
    picks = tuple(
        tuple(family.pick("d", custom={} if card is None else {"AIC": card}) for card in slot)
        for slot in slots
    )
    assert family.node_score("Vastai", picks, before=tuple(before)) == want
    assert family.node_score("Vastai", picks, before=tuple(before), node_policy="spread") == -want


@pytest.mark.parametrize("word", ["Vastai", "Biren"])
def test_devices_have_all_their_cores_whatever_the_register_says(word: str) -> None:
    row = family.ROWS[word]
    card = register.Card(id="a", count=1, cores=7, healthy=True)
    value = register.encode([card], register.Form.JSON)
    (found,) = family.devices(word, annotations={row.node.register: value}).cards
    assert found.cores == 100
    answer = family.place(word, family.ask(word, count="1"), [usage.CardUsage(found)])
    assert isinstance(answer, fit.Fit)
    assert [(pick.memory_mib, pick.cores) for pick in answer.picks] == [(0, 0)]
