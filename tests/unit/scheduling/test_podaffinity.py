"""Terms of pod affinity: whom they select."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from hami_operator.scheduling import fields, podaffinity
from tests import builders

TEAMS = {"red": {"team": "a"}, "blue": {"team": "b"}}
TEAM_A = {"matchLabels": {"team": "a"}}


def read(**term: Any) -> podaffinity.Term:
    raw = {podaffinity.REQUIRED: [{"labelSelector": {}, "topologyKey": "zone", **term}]}
    found = podaffinity.read({"podAffinity": raw}, fields.Fields(), namespace="own")
    (only,) = found.required
    return only


@pytest.mark.parametrize(
    ("term", "namespace", "known", "want"),
    [
        pytest.param({}, "own", {}, True, id="without a word about namespaces: its own"),
        pytest.param({}, "red", TEAMS, False, id="and no other"),
        pytest.param({"namespaces": ["red"]}, "red", {}, True, id="a namespace by name"),
        pytest.param({"namespaces": ["red"]}, "own", {}, False, id="then not its own"),
        pytest.param({"namespaceSelector": {}}, "blue", TEAMS, True, id="all namespaces"),
        pytest.param({"namespaceSelector": TEAM_A}, "red", TEAMS, True, id="by label"),
        pytest.param({"namespaceSelector": TEAM_A}, "blue", TEAMS, False, id="by other label"),
        pytest.param(
            {"namespaceSelector": TEAM_A, "namespaces": ["blue"]}, "blue", TEAMS, True, id="either"
        ),
        pytest.param(
            {"namespaceSelector": TEAM_A}, "green", TEAMS, True, id="an unknown namespace may be"
        ),
        pytest.param(
            {"namespaces": ["red"]}, "green", TEAMS, False, id="an unknown one without selector"
        ),
        pytest.param({"labelSelector": None}, "own", {}, False, id="null selects no pod"),
        pytest.param(
            {"labelSelector": {"matchLabels": {"a": "x"}}}, "own", {}, True, id="a pod by label"
        ),
        pytest.param(
            {"labelSelector": {"matchLabels": {"a": "y"}}}, "own", {}, False, id="by other label"
        ),
    ],
)
def test_selects(
    term: dict[str, Any], namespace: str, known: Mapping[str, Mapping[str, str]], want: bool
) -> None:
    assert read(**term).selects({"a": "x"}, namespace, known) is want


@pytest.mark.parametrize(
    ("term", "want"),
    [
        pytest.param(
            {"labelSelector": {"matchExpressions": [builders.requirement("a", "In")]}},
            "required[0]: labelSelector: a: In None is not legal",
            id="a selector that does not parse",
        ),
        pytest.param(
            {"namespaceSelector": 5},
            "required[0]: labelSelector: type: is not an object",
            id="a namespace selector that is a number",
        ),
        pytest.param(
            {"namespaces": "red"},
            "required[0]: term: namespaces: is not a list",
            id="namespaces that are a text",
        ),
    ],
)
def test_a_term_that_does_not_parse_is_told(term: dict[str, Any], want: str) -> None:
    found = fields.Fields()
    raw = {"podAntiAffinity": {podaffinity.REQUIRED: [term]}}
    assert podaffinity.read(raw, found, namespace="own") == podaffinity.NONE
    (finding,) = found.findings
    path = f"spec.affinity.podAntiAffinity.{podaffinity.REQUIRED}"
    assert str(finding) == want.replace("required", path)


def test_equal_terms_are_equal_keys() -> None:
    assert len({read(), read(), read(topologyKey="host")}) == 2
