"""Changes share what they do not touch; a patch turns the old document into the new one."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hami_operator.admission import edit
from hami_operator.cluster.memory import patches

SCALARS = (
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-2, 2) | st.text("ab/~", max_size=3)
)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text("ab/~", max_size=2), inner, max_size=4)
    ),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("document", "path", "want"),
    [
        pytest.param({}, ("a",), {"a": 1}, id="a new key"),
        pytest.param({"a": 0, "b": 2}, ("a",), {"a": 1, "b": 2}, id="an old key"),
        pytest.param(None, ("a", "b"), {"a": {"b": 1}}, id="objects that are missing are made"),
        pytest.param({"a": None}, ("a", "b"), {"a": {"b": 1}}, id="so are those that are null"),
        pytest.param({"a": {"c": 3}}, ("a", "b"), {"a": {"c": 3, "b": 1}}, id="inside"),
        pytest.param({"a": 1}, (), 1, id="the whole document"),
    ],
)
def test_a_value_is_put_without_changing_the_old_document(
    document: Any, path: edit.Path, want: Any
) -> None:
    before = copy.deepcopy(document)
    assert edit.put(document, path, 1) == want
    assert document == before


@pytest.mark.parametrize(
    ("document", "path", "want"),
    [
        pytest.param({"a": 1, "b": 2}, ("a",), {"b": 2}, id="a key"),
        pytest.param({"a": {"b": 1}}, ("a", "b"), {"a": {}}, id="inside"),
        pytest.param({"a": 1}, ("b", "c"), {"a": 1}, id="nothing there"),
        pytest.param({"a": None}, ("a", "b"), {"a": None}, id="nothing inside"),
    ],
)
def test_a_value_is_dropped_without_changing_the_old_document(
    document: Any, path: edit.Path, want: Any
) -> None:
    before = copy.deepcopy(document)
    assert edit.drop(document, path) == want
    assert document == before


def test_what_is_not_on_the_path_is_shared() -> None:
    document = {"a": {"b": 1}, "c": {"d": [1]}}
    changed = edit.put(document, ("a", "b"), 2)
    assert changed["c"] is document["c"]


E1, E2, E3, OTHER, NEW = {"n": 1}, {"n": 2}, {"n": 3}, {"m": 0}, {"n": 9}


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        pytest.param({"a": 1}, {"a": 1}, [], id="equal documents"),
        pytest.param({"a": float("2.5")}, {"a": float("2.5")}, [], id="equal, not the same"),
        pytest.param(
            {"a/b~c": 1},
            {"a/b~c": 2},
            [{"op": "replace", "path": "/a~1b~0c", "value": 2}],
            id="slashes and tildes are escaped",
        ),
        pytest.param(
            {"a": 1, "b": 2},
            {"b": 2, "c": 3},
            [{"op": "remove", "path": "/a"}, {"op": "add", "path": "/c", "value": 3}],
            id="a key that goes and one that comes",
        ),
        pytest.param(
            {"a": 1}, {"a": True}, [{"op": "replace", "path": "/a", "value": True}],
            id="true is not 1",
        ),
        pytest.param(
            {"a": {}}, {"a": []}, [{"op": "replace", "path": "/a", "value": []}],
            id="another type",
        ),
        pytest.param(
            [E1, E2], [E1, E2, NEW], [{"op": "add", "path": "/2", "value": NEW}],
            id="one more at the end",
        ),
        pytest.param(
            [E1, OTHER, E2], [E1, NEW, E2],
            [{"op": "remove", "path": "/1/m"}, {"op": "add", "path": "/1/n", "value": 9}],
            id="one in the middle",
        ),
        pytest.param(
            [E1, E2, OTHER, E3], [NEW, OTHER],
            [
                {"op": "replace", "path": "/0/n", "value": 9},
                {"op": "remove", "path": "/1"},
                {"op": "remove", "path": "/2"},
            ],
            id="duplicates go, and nothing of the others is said",
        ),
        pytest.param(
            [E1], [NEW, E1], [{"op": "add", "path": "/0", "value": NEW}], id="one before"
        ),
    ],
)  # fmt: skip
def test_a_patch_says_only_what_has_changed(before: Any, after: Any, want: Any) -> None:
    assert edit.patch(before, after) == want
    assert patches.apply_operations(before, want) == after


@settings(deadline=None)
@given(JSON, JSON)
def test_applying_a_patch_gives_the_new_document(before: Any, after: Any) -> None:
    wrapped = ({"r": before}, {"r": after})
    first = copy.deepcopy(wrapped[0])
    found = patches.apply_operations(wrapped[0], edit.patch(*wrapped))
    assert _typed(found) == _typed(wrapped[1])
    assert wrapped[0] == first


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([E1, E2, E3]), max_size=6),
    st.lists(st.sampled_from([E1, E2, NEW]), max_size=6),
)
def test_items_that_stand_in_a_list_more_than_once_are_no_trap(before: Any, after: Any) -> None:
    assert patches.apply_operations(before, edit.patch(before, after)) == after


def _typed(value: Any) -> Any:
    """Python holds 1, 1.0 and true for equal; JSON does not."""
    if isinstance(value, dict):
        return {key: _typed(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_typed(inner) for inner in value]
    return type(value), value
