"""Merge, JSON and strategic merge patches; none of them touches the original."""

from __future__ import annotations

import copy
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies

from hami_operator.cluster.memory import patches, refusals, strategic

TARGET: dict[str, Any] = {"a": {"b": 1, "c": [1, 2]}, "d": "x", "e/f~g": 0}
JSON_VALUES = strategies.recursive(
    strategies.none() | strategies.integers(0, 3) | strategies.sampled_from("xy"),
    lambda inner: (
        strategies.dictionaries(strategies.sampled_from("abc"), inner, max_size=3)
        | strategies.lists(inner, max_size=2)
    ),
    max_leaves=8,
)
DOCUMENTS = strategies.dictionaries(strategies.sampled_from("abcd"), JSON_VALUES, max_size=4)


@pytest.mark.parametrize(
    ("patch", "want"),
    [
        pytest.param({}, TARGET, id="nothing"),
        pytest.param({"d": "y"}, {**TARGET, "d": "y"}, id="replaces a value"),
        pytest.param({"d": None, "no": None}, {k: TARGET[k] for k in ("a", "e/f~g")}, id="null"),
        pytest.param({"a": {"b": 2}}, {**TARGET, "a": {"b": 2, "c": [1, 2]}}, id="goes deeper"),
        pytest.param({"a": {"c": [3]}}, {**TARGET, "a": {"b": 1, "c": [3]}}, id="lists whole"),
        pytest.param({"d": {"n": None, "m": 1}}, {**TARGET, "d": {"m": 1}}, id="new object"),
        pytest.param([1], [1], id="a patch that is no object replaces everything"),
    ],
)
def test_merge(patch: Any, want: Any) -> None:
    before = copy.deepcopy(TARGET)
    assert patches.merge(TARGET, patch) == want
    assert before == TARGET


@hypothesis.given(DOCUMENTS, DOCUMENTS)
def test_a_merge_patch_can_be_repeated(target: dict, patch: dict) -> None:
    once = patches.merge(target, patch)
    assert patches.merge(once, patch) == once


def test_a_merge_shares_what_it_does_not_touch() -> None:
    merged = patches.merge(TARGET, {"d": "y"})
    assert merged["a"] is TARGET["a"]


@pytest.mark.parametrize(
    ("operations", "want"),
    [
        pytest.param([], TARGET, id="nothing"),
        pytest.param(
            [{"op": "add", "path": "/d", "value": 1}], {**TARGET, "d": 1}, id="add replaces a key"
        ),
        pytest.param(
            [{"op": "add", "path": "/a/c/1", "value": 9}],
            {**TARGET, "a": {"b": 1, "c": [1, 9, 2]}},
            id="add inserts into a list",
        ),
        pytest.param(
            [{"op": "add", "path": "/a/c/-", "value": 9}],
            {**TARGET, "a": {"b": 1, "c": [1, 2, 9]}},
            id="add appends to a list",
        ),
        pytest.param(
            [{"op": "remove", "path": "/a/c/0"}],
            {**TARGET, "a": {"b": 1, "c": [2]}},
            id="remove from a list",
        ),
        pytest.param(
            [{"op": "remove", "path": "/e~1f~0g"}],
            {k: TARGET[k] for k in "ad"},
            id="escaped slashes and tildes",
        ),
        pytest.param(
            [{"op": "replace", "path": "/a/c/0", "value": 7}],
            {**TARGET, "a": {"b": 1, "c": [7, 2]}},
            id="replace in a list",
        ),
        pytest.param(
            [{"op": "replace", "path": "", "value": {"new": 1}}], {"new": 1}, id="replace it all"
        ),
        pytest.param(
            [{"op": "move", "from": "/a/b", "path": "/m"}],
            {**TARGET, "a": {"c": [1, 2]}, "m": 1},
            id="move",
        ),
        pytest.param(
            [{"op": "copy", "from": "/a/b", "path": "/m"}], {**TARGET, "m": 1}, id="copy"
        ),
        pytest.param(
            [{"op": "test", "path": "/a/b", "value": 1}, {"op": "remove", "path": "/d"}],
            {k: TARGET[k] for k in ("a", "e/f~g")},
            id="a test that holds lets the rest happen",
        ),
    ],
)
def test_operations(operations: list, want: Any) -> None:
    before = copy.deepcopy(TARGET)
    assert patches.apply_operations(TARGET, operations) == want
    assert before == TARGET


@pytest.mark.parametrize(
    "operation",
    [
        pytest.param({"op": "test", "path": "/d", "value": "y"}, id="a test that does not hold"),
        pytest.param({"op": "remove", "path": "/no"}, id="remove what is not there"),
        pytest.param({"op": "remove", "path": ""}, id="remove everything"),
        pytest.param({"op": "replace", "path": "/no", "value": 1}, id="replace what is not there"),
        pytest.param({"op": "add", "path": "/no/x", "value": 1}, id="no parent"),
        pytest.param({"op": "add", "path": "/d/x", "value": 1}, id="the parent is a text"),
        pytest.param({"op": "add", "path": "/a/c/9", "value": 1}, id="beyond the end"),
        pytest.param({"op": "add", "path": "/a/c/x", "value": 1}, id="no index"),
        pytest.param({"op": "add", "path": "/d"}, id="no value"),
        pytest.param({"op": "add", "path": "d", "value": 1}, id="no pointer"),
        pytest.param({"op": "add", "value": 1}, id="no path"),
        pytest.param({"op": "odd", "path": "/d"}, id="an unknown operation"),
        pytest.param("odd", id="no operation at all"),
    ],
)
def test_operations_that_cannot_be_applied(operation: Any) -> None:
    with pytest.raises(refusals.Refused) as caught:
        patches.apply_operations(TARGET, [operation])
    assert caught.value.code == 422


CONDITIONS = [{"type": "A", "status": "True", "reason": "r"}, {"type": "B", "status": "True"}]


@pytest.mark.parametrize(
    ("target", "patch", "want"),
    [
        pytest.param({"a": 1}, {"b": 2}, {"a": 1, "b": 2}, id="adds a field"),
        pytest.param({"a": 1}, {"a": None}, {}, id="null removes"),
        pytest.param({"m": {"a": 1}}, {"m": {"b": 2}}, {"m": {"a": 1, "b": 2}}, id="maps merge"),
        pytest.param(
            {"conditions": CONDITIONS},
            {"conditions": [{"type": "A", "status": "False"}]},
            {"conditions": [{**CONDITIONS[0], "status": "False"}, CONDITIONS[1]]},
            id="conditions merge by type",
        ),
        pytest.param(
            {"conditions": CONDITIONS},
            {"conditions": [{"type": "C"}]},
            {"conditions": [{"type": "C"}, *CONDITIONS]},
            id="a new condition comes first",
        ),
        pytest.param(
            {"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}]}]},
            {"containers": [{"name": "a", "env": [{"name": "Y", "value": "2"}]}]},
            {
                "containers": [
                    {
                        "name": "a",
                        "env": [{"name": "Y", "value": "2"}, {"name": "X", "value": "1"}],
                    }
                ]
            },
            id="keyed lists inside keyed lists",
        ),
        pytest.param(
            {"ports": [{"containerPort": 1, "name": "a"}]},
            {"ports": [{"containerPort": 1, "name": "b"}]},
            {"ports": [{"containerPort": 1, "name": "b"}]},
            id="ports of containers",
        ),
        pytest.param(
            {"ports": [{"port": 1, "name": "a"}]},
            {"ports": [{"port": 2}]},
            {"ports": [{"port": 2}, {"port": 1, "name": "a"}]},
            id="ports of services",
        ),
        pytest.param(
            {"tolerations": [{"key": "a"}]},
            {"tolerations": [{"key": "b"}]},
            {"tolerations": [{"key": "b"}]},
            id="tolerations are replaced",
        ),
        pytest.param(
            {"finalizers": ["a"]},
            {"finalizers": ["a", "b"]},
            {"finalizers": ["a", "b"]},
            id="finalizers are a set",
        ),
        pytest.param(
            {"finalizers": ["a", "b"]},
            {"$deleteFromPrimitiveList/finalizers": ["a"]},
            {"finalizers": ["b"]},
            id="a finalizer is taken out",
        ),
        pytest.param(
            {"containers": [{"name": "a"}, {"name": "b"}]},
            {"containers": [{"name": "a", "$patch": "delete"}]},
            {"containers": [{"name": "b"}]},
            id="an entry is deleted",
        ),
        pytest.param(
            {"containers": [{"name": "a"}]},
            {"containers": [{"name": "b"}, {"$patch": "replace"}]},
            {"containers": [{"name": "b"}]},
            id="a keyed list is replaced",
        ),
        pytest.param(
            {"m": {"a": 1}},
            {"m": {"b": 2, "$patch": "replace"}},
            {"m": {"b": 2}},
            id="a map is replaced",
        ),
        pytest.param(
            {"m": {"a": 1}}, {"m": {"$patch": "delete"}}, {"m": {}}, id="a map is emptied"
        ),
        pytest.param(
            {"s": {"a": 1, "b": 2}},
            {"s": {"$retainKeys": ["a"], "a": 3}},
            {"s": {"a": 3}},
            id="only some keys are kept",
        ),
        pytest.param(
            {"containers": [{"name": "a"}, {"name": "b"}]},
            {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]},
            {"containers": [{"name": "b"}, {"name": "a"}]},
            id="an order of entries",
        ),
        pytest.param(
            {"finalizers": ["a", "b"]},
            {"$setElementOrder/finalizers": ["b", "a"], "$setElementOrder/none": []},
            {"finalizers": ["b", "a"]},
            id="an order of texts",
        ),
        pytest.param(
            {"containers": [{"name": "c"}, {"name": "a"}]},
            {"$setElementOrder/containers": [{"name": "a"}]},
            {"containers": [{"name": "a"}, {"name": "c"}]},
            id="an order that does not name all",
        ),
        pytest.param(
            {"conditions": "odd"},
            {"conditions": [{"type": "A"}]},
            {"conditions": [{"type": "A"}]},
            id="a list over something that is none",
        ),
    ],
)
def test_strategic(target: dict, patch: dict, want: dict) -> None:
    before = copy.deepcopy(target)
    assert strategic.merge(target, patch) == want
    assert before == target


@pytest.mark.parametrize(
    ("patch", "want"),
    [
        pytest.param({"$patch": "odd"}, "Unknown patch type: odd", id="an unknown directive"),
        pytest.param(
            {"conditions": [{"status": "True"}]},
            "does not contain declared merge key: type",
            id="an entry without its key",
        ),
        pytest.param(
            {"conditions": [{"type": {}}]},
            "does not contain declared merge key: type",
            id="a key that is no text",
        ),
        pytest.param(
            {"$setElementOrder/conditions": 1},
            "$setElementOrder/conditions must be a list",
            id="an order that is no list",
        ),
    ],
)
def test_strategic_refusals(patch: dict, want: str) -> None:
    with pytest.raises(refusals.Refused) as caught:
        strategic.merge({"conditions": CONDITIONS}, patch)
    assert caught.value.code == 400
    assert want in caught.value.message
