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


def _counting() -> tuple[fields.Reader[str], list[object]]:
    """A reader of texts that keeps what it was asked to read."""
    asked: list[object] = []

    def read(raw: Any, path: str, found: fields.Fields) -> str:
        asked.append(raw)
        return found.text(raw, "key", f"{path}.")

    return fields.recalled(read, most=2), asked


def test_what_was_read_is_known_again_by_its_text() -> None:
    read, asked = _counting()
    found = fields.Fields()
    assert [read({"key": "a"}, path, found) for path in ("here", "there")] == ["a", "a"]
    assert (asked, found.findings) == ([{"key": "a"}], ())


def test_what_is_odd_is_told_each_time_with_its_place() -> None:
    read, _ = _counting()
    found = fields.Fields()
    assert [read({"key": 1}, path, found) for path in ("here", "there")] == ["", ""]
    assert [one.field for one in found.findings] == ["here.key", "there.key"]


def test_what_json_cannot_say_is_read_all_the_same() -> None:
    read, asked = _counting()
    assert read(MappingProxyType({"key": "a"}), "", fields.Fields()) == "a"
    assert len(asked) == 1
