"""Label requirements and selectors, against tables and a naive oracle."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_operator import errors
from hami_operator.scheduling import labels
from tests import builders

KEYS = st.sampled_from(["a", "b", "example.com/c"])
VALUES = st.sampled_from(["", "x", "y", "1", "007", "-5"])
LABELS = st.dictionaries(KEYS, VALUES)
LEGAL_VALUES = st.sampled_from(["", "x", "y", "1", "007"])


@pytest.mark.parametrize(
    ("raw", "have", "want"),
    [
        pytest.param(None, {"a": "x"}, False, id="null selects nothing"),
        pytest.param({}, {}, True, id="empty selects everything"),
        pytest.param({"matchLabels": None}, {}, True, id="null sections are empty"),
        pytest.param({"matchLabels": {"a": "x"}}, {"a": "x", "b": ""}, True, id="a label equals"),
        pytest.param({"matchLabels": {"a": "x"}}, {"a": "y"}, False, id="a label differs"),
        pytest.param(
            {"matchLabels": {"a": "x"}, "matchExpressions": [{"key": "b", "operator": "Exists"}]},
            {"a": "x"},
            False,
            id="both sections must hold",
        ),
        pytest.param(
            {"matchExpressions": [builders.requirement("a", "NotIn", "x")]},
            {},
            True,
            id="NotIn takes an absent label",
        ),
        pytest.param(
            {"matchExpressions": [builders.requirement("a", "In", "")]},
            {},
            False,
            id="In of the empty value does not take an absent label",
        ),
    ],
)
def test_selects(raw: Any, have: dict[str, str], want: bool) -> None:
    assert labels.read(raw).matches(have) is want


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        pytest.param([], "type", id="a list"),
        pytest.param({"matchLabels": ["a"]}, "matchLabels", id="labels are no map"),
        pytest.param({"matchLabels": {"a": 5}}, "a", id="a value is no text"),
        pytest.param({"matchLabels": {"a": "b c"}}, "a", id="a value with a blank"),
        pytest.param({"matchLabels": {"/a": "b"}}, "/a", id="a key with an empty prefix"),
        pytest.param({"matchExpressions": {}}, "matchExpressions", id="expressions are no list"),
        pytest.param({"matchExpressions": ["a"]}, "matchExpressions", id="an expression is text"),
        pytest.param(
            {"matchExpressions": [builders.requirement("a", "Gt", "1")]},
            "matchExpressions",
            id="Gt is for nodes only",
        ),
        pytest.param(
            {"matchExpressions": [builders.requirement("a", "In")]}, "a", id="In without values"
        ),
        pytest.param(
            {"matchExpressions": [builders.requirement("a", "Exists", "x")]},
            "a",
            id="Exists with a value",
        ),
    ],
)
def test_refuses_a_selector(raw: Any, field: str) -> None:
    with pytest.raises(errors.DecodeError) as caught:
        labels.read(raw)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("item", "have", "want"),
    [
        pytest.param(("a", "Gt", "5"), {"a": "6"}, True, id="greater"),
        pytest.param(("a", "Gt", "5"), {"a": "5"}, False, id="equal is not greater"),
        pytest.param(("a", "Lt", "05"), {"a": "004"}, True, id="leading zeros count for nothing"),
        pytest.param(("a", "Lt", "5"), {"a": "-7"}, True, id="a label may have a sign"),
        pytest.param(("a", "Lt", "5"), {"a": "x"}, False, id="a label that is no number"),
        pytest.param(("a", "Gt", "0"), {"a": str(2**63)}, False, id="beyond int64"),
        pytest.param(("a", "Gt", "5"), {}, False, id="an absent label is no number"),
        pytest.param(("a", "DoesNotExist"), {"a": ""}, False, id="an empty label exists"),
    ],
)
def test_requirement(item: tuple[str, ...], have: dict[str, str], want: bool) -> None:
    found = labels.requirement(builders.requirement(*item))
    assert found is not None
    assert found.matches(have) is want


@pytest.mark.parametrize(
    "item",
    [
        pytest.param({"key": "a", "operator": "Like", "values": ["x"]}, id="unknown operator"),
        pytest.param({"key": "a", "operator": "Gt", "values": ["-5"]}, id="operand with a sign"),
        pytest.param({"key": "a", "operator": "Gt", "values": ["5", "6"]}, id="two operands"),
        pytest.param({"key": "a", "operator": "Lt", "values": ["x"]}, id="operand is no number"),
        pytest.param({"key": "a", "operator": "In", "values": "x"}, id="values are no list"),
        pytest.param({"key": "a", "operator": "In", "values": [5]}, id="a value is no text"),
        pytest.param({"key": 5, "operator": "Exists"}, id="the key is no text"),
        pytest.param({"operator": "Exists"}, id="no key"),
        pytest.param({"key": "a" * 64, "operator": "Exists"}, id="a name of 64"),
        pytest.param({"key": "x" * 254 + "/a", "operator": "Exists"}, id="a prefix of 254"),
        pytest.param({"key": "A.com/a", "operator": "Exists"}, id="a prefix in capitals"),
        pytest.param({"key": "a", "operator": "In", "values": ["v" * 64]}, id="a value of 64"),
        pytest.param({"key": "a", "operator": "In", "values": ["v-"]}, id="a value ends badly"),
    ],
)
def test_a_requirement_that_does_not_parse(item: dict[str, Any]) -> None:
    assert labels.requirement(item) is None


def _oracle(operator: str, values: list[str], have: dict[str, str], key: str) -> bool:
    if operator == "Exists":
        return key in have
    if operator == "DoesNotExist":
        return key not in have
    if operator == "In":
        return key in have and have[key] in values
    return key not in have or have[key] not in values


@given(
    KEYS,
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
    st.lists(LEGAL_VALUES, min_size=1, max_size=3),
    LABELS,
)
def test_requirements_agree_with_a_naive_oracle(
    key: str, operator: str, values: list[str], have: dict[str, str]
) -> None:
    given_values = values if operator in {"In", "NotIn"} else []
    found = labels.requirement({"key": key, "operator": operator, "values": given_values})
    assert found is not None
    assert found.matches(have) is _oracle(operator, values, have, key)


@given(st.integers(0, 10**6), st.integers(-(10**6), 10**6))
def test_comparisons_agree_with_integers(operand: int, value: int) -> None:
    have = {"a": str(value)}
    greater = labels.requirement(builders.requirement("a", "Gt", str(operand)))
    less = labels.requirement(builders.requirement("a", "Lt", str(operand)))
    assert greater is not None
    assert less is not None
    assert greater.matches(have) is (value > operand)
    assert less.matches(have) is (value < operand)


@given(LABELS.filter(lambda have: "-5" not in have.values()), LABELS)
def test_match_labels_is_a_subset_test(wanted: dict[str, str], have: dict[str, str]) -> None:
    selector = labels.read({"matchLabels": wanted})
    assert selector.matches(have) is (wanted.items() <= have.items())
