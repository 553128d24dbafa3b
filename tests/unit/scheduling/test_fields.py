"""Typed access to raw objects."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest

from hami_operator.scheduling import fields


@pytest.mark.parametrize(
    ("reader", "value", "want", "problem"),
    [
        ("text", "a", "a", None),
        ("text", None, "", None),
        ("text", 5, "", "is not a text"),
        ("integer", 5, 5, None),
        ("integer", None, 0, None),
        ("integer", False, 0, "is not an integer"),
        ("integer", 5.0, 0, "is not an integer"),
        ("boolean", True, True, None),
        ("boolean", None, False, None),
        ("boolean", 1, False, "is neither true nor false"),
        ("mapping", {"a": 1}, {"a": 1}, None),
        ("mapping", MappingProxyType({"a": 1}), {"a": 1}, None),
        ("mapping", None, {}, None),
        ("mapping", [1], {}, "is not an object"),
        ("texts", {"a": "b"}, {"a": "b"}, None),
        ("texts", "ab", {}, "is not an object"),
    ],
)
def test_reads_or_notes(reader: str, value: Any, want: Any, problem: str | None) -> None:
    found = fields.Fields()
    assert getattr(found, reader)({"key": value}, "key", "spec.") == want
    assert [(one.field, one.problem) for one in found.findings] == (
        [("spec.key", problem)] if problem else []
    )


def test_absent_is_like_null() -> None:
    found = fields.Fields()
    assert found.text({}, "a", "") == ""
    assert found.integer({}, "a", "") == 0
    assert found.boolean({}, "a", "") is False
    assert found.mapping({}, "a", "") == {}
    assert list(found.items({}, "a", "")) == []
    assert found.findings == ()


def test_items_come_with_their_place() -> None:
    found = fields.Fields()
    raw = {"list": [{"a": 1}, "odd", MappingProxyType({"b": 2})]}
    assert list(found.items(raw, "list", "spec.")) == [
        ("spec.list[0]", {"a": 1}),
        ("spec.list[2]", {"b": 2}),
    ]
    assert [str(one) for one in found.findings] == ["spec.list[1]: is not an object"]


def test_a_map_of_texts_is_a_copy() -> None:
    raw = {"labels": {"a": "b"}}
    read = fields.Fields().texts(raw, "labels", "")
    raw["labels"]["a"] = "c"
    assert read == {"a": "b"}
