"""PodDisruptionBudgets: what they protect, and who would break them."""

from __future__ import annotations

from typing import Any

import pytest

from hami_operator.scheduling import disruption, labels
from tests import builders


def raw(name: str = "b", *, allowed: Any = 0, selector: Any = None, **status: Any) -> dict:
    return {
        "metadata": {"namespace": "team", "name": name, "uid": f"uid-{name}"},
        "spec": {"selector": selector},
        "status": {"disruptionsAllowed": allowed, **status},
    }


APP = {"matchLabels": {"app": "x"}}


def pods(*names: str, **values: str) -> list:
    made = (builders.pod(name, "team").label("app", values.get(name, "x")) for name in names)
    return [one.read() for one in made]


def split(*objects: dict, names: str = "abc") -> tuple[str, str]:
    budgets = disruption.Budgets()
    for one in objects:
        budgets.seen(one)
    breaking, harmless = budgets.split(pods(*names))
    return "".join(one.name for one in breaking), "".join(one.name for one in harmless)


@pytest.mark.parametrize(
    ("objects", "want"),
    [
        pytest.param([], ("", "abc"), id="no budget"),
        pytest.param([raw(selector=APP)], ("abc", ""), id="one that allows nothing"),
        pytest.param(
            [raw(selector=APP, allowed=2)], ("c", "ab"), id="the first take what is left"
        ),
        pytest.param([raw(selector=None)], ("", "abc"), id="null selects none"),
        pytest.param([raw(selector={})], ("abc", ""), id="empty selects all"),
        pytest.param(
            [raw(selector={"matchExpressions": [{"key": "a", "operator": "No"}]})],
            ("abc", ""),
            id="a selector that nobody understands protects all",
        ),
        pytest.param(
            [raw(selector=APP, disruptedPods={"b": "2026-03-01T12:00:00Z"})],
            ("ac", "b"),
            id="a disruption that was counted is not counted twice",
        ),
        pytest.param(
            [raw("b", selector=APP, allowed=1), raw("c", selector=APP, allowed=2)],
            ("bc", "a"),
            id="the tightest of several counts",
        ),
        pytest.param(
            [raw(selector={"matchLabels": {"app": "y"}})], ("", "abc"), id="pods of other labels"
        ),
        pytest.param(
            [{**raw(selector=APP), "metadata": {"namespace": "other", "name": "b"}}],
            ("", "abc"),
            id="pods of another namespace",
        ),
        pytest.param([raw(selector=APP, allowed="2")], ("abc", ""), id="an odd number is none"),
    ],
)
def test_whose_end_breaks_a_budget(objects: list[dict], want: tuple[str, str]) -> None:
    assert split(*objects) == want


def test_a_budget_as_it_is_read() -> None:
    assert disruption.read(raw(selector=APP, allowed=3)) == disruption.Budget(
        namespace="team", name="b", uid="uid-b", selector=labels.read(APP), allowed=3
    )


@pytest.mark.parametrize(
    ("uid", "want"),
    [
        pytest.param("uid-b", [], id="the object itself"),
        pytest.param("uid-older", ["b"], id="an earlier one of the same name"),
    ],
)
def test_which_budget_is_gone(uid: str, want: list[str]) -> None:
    budgets = disruption.Budgets()
    budgets.gone("team", "b", uid)
    budgets.seen(raw(selector=APP))
    budgets.gone("team", "b", uid)
    assert [one.name for one in budgets] == want


def test_one_of_several_goes() -> None:
    budgets = disruption.Budgets()
    budgets.seen(raw("b"))
    budgets.seen(raw("c"))
    budgets.gone("team", "b", "uid-b")
    assert [one.name for one in budgets] == ["c"]


def test_what_is_left_of_budgets_after_some_have_gone() -> None:
    budgets = disruption.Budgets()
    for one in (raw("b", selector=APP, allowed=2), raw("c", selector={}, allowed=1)):
        budgets.seen(one)
    left = budgets.after([*pods("a"), builders.pod("z", "other").read()])
    assert {one.name: (one.allowed, one.disrupted) for one in left} == {
        "b": (1, frozenset("a")),
        "c": (0, frozenset("a")),
    }
    assert {one.name: (one.allowed, one.disrupted) for one in budgets} == {
        "b": (2, frozenset()),
        "c": (1, frozenset()),
    }
