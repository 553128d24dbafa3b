"""What was read is found again by its text, and only so much of it is kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hami_operator.scheduling import recall


class Reader:
    """Counts what it reads."""

    def __init__(self) -> None:
        self.reads = 0

    def __call__(self, raw: Mapping[str, Any]) -> tuple[Any, ...]:
        self.reads += 1
        return tuple(raw.items())


def test_what_is_met_again_and_again_is_read_twice() -> None:
    read = Reader()
    known = recall.Recall(read, most=4)
    assert {known({"a": 1}) for _ in range(9)} == {(("a", 1),)}
    assert (read.reads, len(known)) == (2, 1)


def test_what_is_met_once_is_not_kept() -> None:
    known = recall.Recall(Reader(), most=4)
    for number in range(100):
        known({"a": number})
    assert len(known) == 0


def test_what_was_not_met_for_long_goes() -> None:
    read = Reader()
    known = recall.Recall(read, most=2)
    for number in (1, 1, 2, 2, 3, 3, 4, 4, 5, 5):
        known({"a": number})
    assert 2 <= len(known) <= 4
    before = read.reads
    known({"a": 5})
    assert read.reads == before
    known({"a": 1})
    assert read.reads == before + 1


def test_what_is_met_often_stays_beside_many_others() -> None:
    read = Reader()
    known = recall.Recall(read, most=8)
    for number in range(200):
        known({"a": number // 2})
        known({"often": True})
    assert read.reads <= 200 + 30


def test_what_cannot_be_written_is_read_each_time() -> None:
    read = Reader()
    known = recall.Recall(read, most=4)
    deep: Any = []
    for _ in range(300):
        deep = [deep]
    for _ in range(3):
        known({"a": deep})
    assert (read.reads, len(known)) == (3, 0)


@given(
    keys=st.lists(st.integers(0, 12), max_size=60),
    most=st.integers(1, 6),
)
def test_an_item_is_always_that_of_its_object(keys: list[int], most: int) -> None:
    known = recall.Recall(Reader(), most)
    for key in keys:
        assert known({"a": key}) == (("a", key),)
        assert len(known) <= 2 * most


def test_what_bears_a_new_identity_is_not_looked_up() -> None:
    read = Reader()
    known = recall.Recall(read, most=4)
    for number in range(3):
        known({"metadata": {"uid": "u", "resourceVersion": str(number)}})
    assert (read.reads, len(known)) == (3, 0)


def test_equal_identities_with_other_texts_are_other_objects() -> None:
    known = recall.Recall(Reader(), most=4)
    objects = [{"metadata": {"uid": "u"}, "spec": number} for number in range(3)]
    for _ in range(4):
        assert [known(one) for one in objects] == [tuple(one.items()) for one in objects]
    assert len(known) == 3


def test_an_identity_that_is_no_text_does_not_matter() -> None:
    known = recall.Recall(Reader(), most=4)
    odd = {"metadata": {"uid": ["u"]}}
    assert [known(odd) for _ in range(3)] == [tuple(odd.items())] * 3
    assert len(known) == 1
