"""Node selectors: terms that do not parse, names, preferences."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_operator.scheduling import fields, nodeselector
from tests import builders

LABELS = st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(["x", "y"]))
EXPRESSIONS = st.builds(
    builders.requirement, st.sampled_from(["a", "b"]), st.just("In"), st.sampled_from(["x", "y"])
)
PINS = st.builds(
    builders.requirement,
    st.just("metadata.name"),
    st.sampled_from(["In", "NotIn"]),
    st.sampled_from(["n1", "n2"]),
)
TERMS = st.fixed_dictionaries(
    {
        "matchExpressions": st.lists(EXPRESSIONS, max_size=2),
        "matchFields": st.lists(PINS, max_size=2),
    }
)


def read(*terms: Any) -> nodeselector.NodeSelector:
    return nodeselector.read({"nodeSelectorTerms": list(terms)}, "required.", fields.Fields())


@pytest.mark.parametrize(
    ("term", "want"),
    [
        pytest.param({}, False, id="an empty term matches no node"),
        pytest.param({"matchExpressions": None, "matchFields": []}, False, id="empty sections"),
        pytest.param(builders.expression("zone", "In", "z1"), True, id="a label matches"),
        pytest.param(builders.pin("n1"), True, id="the name matches"),
        pytest.param(builders.pin("n1", operator="NotIn"), False, id="the name is excluded"),
        pytest.param(builders.pin("n2", operator="NotIn"), True, id="another name is excluded"),
        pytest.param(builders.pin("n1", operator="Exists"), False, id="names know In and NotIn"),
        pytest.param(builders.pin("n1", "n2"), False, id="two names do not parse"),
        pytest.param(
            {"matchFields": [builders.requirement("spec.x", "In", "n1")]},
            False,
            id="another field does not parse",
        ),
        pytest.param(
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [5]}]},
            False,
            id="a name that is no text",
        ),
        pytest.param(
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": "n1"}]},
            False,
            id="names that are no list",
        ),
        pytest.param({"matchExpressions": "zone"}, False, id="expressions that are no list"),
        pytest.param({"matchExpressions": ["zone"]}, False, id="an expression that is a text"),
        pytest.param({"matchFields": ["n1"]}, False, id="a field that is a text"),
        pytest.param(
            builders.expression("zone", "In", "z1") | builders.pin("n2"),
            False,
            id="labels and name must both match",
        ),
    ],
)
def test_one_term(term: dict[str, Any], want: bool) -> None:
    assert read(term).matches("n1", {"zone": "z1"}) is want


def test_a_term_that_does_not_parse_leaves_the_others() -> None:
    selector = read(builders.expression("zone", "Like", "z"), builders.pin("n1"))
    assert selector.matches("n1", {})
    assert not selector.matches("n2", {})


def test_without_terms_no_node_matches() -> None:
    assert not read().matches("n1", {})


@pytest.mark.parametrize(
    ("terms", "want"),
    [
        pytest.param([], None, id="no terms narrow nothing"),
        pytest.param([builders.pin("n1")], {"n1"}, id="one name"),
        pytest.param([builders.pin("n1"), builders.pin("n2")], {"n1", "n2"}, id="either name"),
        pytest.param(
            [builders.pin("n1"), builders.expression("a", "Exists")],
            None,
            id="one term without a name leaves all",
        ),
        pytest.param([builders.pin("n1", operator="NotIn")], None, id="exclusion leaves all"),
        pytest.param(
            [
                {
                    "matchFields": [
                        *builders.pin("n1")["matchFields"],
                        *builders.pin("n2")["matchFields"],
                    ]
                }
            ],
            set(),
            id="two names in one term contradict",
        ),
        pytest.param(
            [builders.pin("n1", "n2")], {"n1", "n2"}, id="a term that does not parse narrows too"
        ),
        pytest.param([{"matchFields": ["n1"]}], None, id="what is no object narrows nothing"),
        pytest.param(
            [{"matchFields": [builders.requirement("spec.x", "In", "n1")]}],
            None,
            id="another field narrows nothing",
        ),
    ],
)
def test_names(terms: list[Any], want: set[str] | None) -> None:
    assert read(*terms).names() == want


def test_preferences_without_weight_or_content_are_dropped() -> None:
    liked = builders.expression("a", "Exists")
    raw = {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 5, "preference": liked},
            {"weight": 0, "preference": liked},
            {"weight": 7, "preference": {}},
            {"preference": liked},
            {"weight": "3", "preference": liked},
        ]
    }
    found = fields.Fields()
    affinity = nodeselector.read_affinity(raw, "nodeAffinity.", found)
    want = nodeselector.Preference(weight=5, term=nodeselector.read_term(liked))
    assert affinity == nodeselector.Affinity(preferred=(want,))
    place = "nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[4].weight"
    assert [str(finding) for finding in found.findings] == [f"{place}: is not an integer"]


def _oracle(terms: list[dict[str, Any]], name: str, labels: dict[str, str]) -> bool:
    for term in terms:
        expressions, pins = term["matchExpressions"], term["matchFields"]
        if not expressions and not pins:
            continue
        labelled = all(labels.get(one["key"]) in one["values"] for one in expressions)
        named = all((name in pin["values"]) == (pin["operator"] == "In") for pin in pins)
        if labelled and named:
            return True
    return False


@given(st.lists(TERMS, max_size=3), st.sampled_from(["n1", "n2", "n3"]), LABELS)
def test_selectors_agree_with_a_naive_oracle(
    terms: list[dict[str, Any]], name: str, labels: dict[str, str]
) -> None:
    selector = read(*terms)
    assert selector.matches(name, labels) is _oracle(terms, name, labels)
    names = selector.names()
    if names is not None and name not in names:
        assert not selector.matches(name, labels)
