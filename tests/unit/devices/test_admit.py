"""Admission of one container for one row: values in, changed values out."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from hami_operator.devices import admit, request, vendor
from tests.unit.devices.rows import ROW, hooked

EMPTY = admit.Pod()


def container(**limits: str) -> admit.Container:
    return admit.Container(
        name="main", limits={f"acme.io/{name}": value for name, value in limits.items()}
    )


def test_without_a_hook_nothing_changes() -> None:
    given = container(card="1", memory="5")
    assert admit.admit(ROW, given, EMPTY) == admit.Admitted(container=given, pod=EMPTY, takes=True)


def test_a_container_that_asks_for_nothing_takes_nothing() -> None:
    given = container(memory="5")
    assert admit.admit(ROW, given, EMPTY) == admit.Admitted(
        container=given, pod=EMPTY, takes=False
    )


def test_a_denial_names_container_resource_and_value() -> None:
    answer = admit.admit(ROW, container(card="1", memory="16Gi"), EMPTY)
    assert isinstance(answer, admit.Denied)
    assert answer.text() == (
        "container main: acme.io/memory: '16Gi' is not between 0 and 2147483647"
    )


def test_quantities_are_checked_after_the_hook() -> None:
    def spoil(
        row: vendor.Vendor, given: admit.Container, pod: admit.Pod
    ) -> admit.Admitted | admit.Denied:
        return admit.Admitted(container=given.with_limit("acme.io/card", "-1"), pod=pod)

    answer = admit.admit(hooked(admit=spoil), container(card="1"), EMPTY)
    assert isinstance(answer, admit.Denied)
    assert answer.problem.resource == "acme.io/card"


def test_a_hook_may_deny() -> None:
    denied = admit.Denied(
        container="main", problem=request.Invalid(resource="r", value="v", why="w")
    )
    assert admit.admit(hooked(admit=lambda *_: denied), container(), EMPTY) == denied


def test_a_limit_brings_the_request_of_the_same_resource_along_if_there_is_one() -> None:
    given = admit.Container(name="main", limits={"a": "1"}, requests={"a": "1", "b": "2"})
    changed = given.with_limit("a", "3").with_limit("c", "4")

    assert changed == admit.Container(
        name="main", limits={"a": "3", "c": "4"}, requests={"a": "3", "b": "2"}
    )
    assert given.limits == {"a": "1"}


def env(*names: str) -> tuple[dict[str, Any], ...]:
    return tuple({"name": name, "value": str(place)} for place, name in enumerate(names))


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param((), [("X", "new")], id="appended"),
        pytest.param(env("A", "B"), [("A", "0"), ("B", "1"), ("X", "new")], id="at the end"),
        pytest.param(env("A", "X", "B"), [("A", "0"), ("X", "new"), ("B", "2")], id="in place"),
        pytest.param(env("X", "A", "X"), [("X", "new"), ("A", "1")], id="only one stays"),
        pytest.param(
            ({"name": "X", "valueFrom": {"fieldRef": {}}},), [("X", "new")], id="a reference goes"
        ),
    ],
)
def test_an_environment_variable_is_there_exactly_once(
    given: tuple[dict[str, Any], ...], want: list[tuple[str, str]]
) -> None:
    changed = admit.Container(name="main", env=given).with_env("X", "new")
    assert [(entry["name"], entry["value"]) for entry in changed.env] == want
    assert all(set(entry) == {"name", "value"} for entry in changed.env)


@pytest.mark.parametrize(
    ("had", "given", "want"),
    [
        pytest.param("", "fast", "fast", id="set where there is none"),
        pytest.param("mine", "fast", "mine", id="kept"),
        pytest.param("", "", "", id="none to set"),
    ],
)
def test_a_runtime_class_is_set_only_where_there_is_none(had: str, given: str, want: str) -> None:
    assert admit.Pod(runtime_class=had).with_runtime_class(given).runtime_class == want


def test_an_annotation_is_added_to_a_copy() -> None:
    changed = EMPTY.with_annotation("k", "v")
    assert (dict(EMPTY.annotations), dict(changed.annotations)) == ({}, {"k": "v"})


def test_requests_count_where_the_row_reads_them() -> None:
    given = admit.Container(name="main", requests={"acme.io/card": "2"})
    strict = dataclasses.replace(ROW, read_requests=False)

    assert admit.asked(ROW, given).raw("acme.io/card") == "2"
    assert admit.asked(strict, given).raw("acme.io/card") is None
