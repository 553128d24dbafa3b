"""What annotations demand of cards."""

from __future__ import annotations

import pytest

from hami_operator.devices import selection
from hami_operator.protocol import register
from tests.unit.devices.rows import ROW


def read(**annotations: str) -> selection.Chosen:
    given = {f"acme.io/{key.replace('_', '-')}": text for key, text in annotations.items()}
    return selection.read(ROW.selection, given)


@pytest.mark.parametrize(
    ("chosen", "want"),
    [
        pytest.param(read(), selection.ANY, id="no annotation"),
        pytest.param(read(other="x"), selection.ANY, id="another annotation"),
        pytest.param(
            read(use_type=" ", skip_type="", use_id="  ", skip_id=""), selection.ANY, id="blanks"
        ),
        pytest.param(
            read(use_type="a10, ,B", skip_type=",c,"),
            selection.Chosen(use_types=("A10", "B"), skip_types=("C",)),
            id="types, trimmed, upper case, without empty items",
        ),
        pytest.param(
            read(use_id="x, y", use_id_too="y,z", skip_id="w"),
            selection.Chosen(use_ids=frozenset({"y"}), skip_ids=frozenset({"w"})),
            id="all keys of ids hold together",
        ),
        pytest.param(
            read(use_type=",", use_id=","),
            selection.Chosen(use_types=(), use_ids=frozenset()),
            id="a list of nothing is met by nothing",
        ),
    ],
)
def test_demands_are_read(chosen: selection.Chosen, want: selection.Chosen) -> None:
    assert chosen == want


@pytest.mark.parametrize(
    ("chosen", "model", "want"),
    [
        (read(use_type="a10"), "NV A100", True),
        (read(use_type="a10"), "nv a10", True),
        (read(use_type="a100"), "NV A10", False),
        (read(use_type="a10", skip_type="a100"), "NV A100", False),
        (read(skip_type="a100"), "NV A10", True),
        (read(use_type=","), "NV A10", False),
        (read(use_type="x"), "", False),
    ],
)
def test_models_are_matched_by_a_part_without_case(
    chosen: selection.Chosen, model: str, want: bool
) -> None:
    assert chosen.by_type
    assert chosen.allows_model(register.Card(id="c", model=model)) is want


@pytest.mark.parametrize(
    ("chosen", "id", "want"),
    [
        (read(use_id="c0,c1"), "c1", True),
        (read(use_id="c0,c1"), "C1", False),
        (read(use_id="c0"), "c01", False),
        (read(use_id=","), "c0", False),
        (read(skip_id="c0"), "c1", True),
        (read(use_id="c0", skip_id="c0"), "c0", False),
    ],
)
def test_ids_are_matched_whole(chosen: selection.Chosen, id: str, want: bool) -> None:
    assert chosen.by_id
    assert chosen.allows_id(register.Card(id=id)) is want


@pytest.mark.parametrize(("text", "want"), [(None, set()), ("", set()), (" a ,, b,", {"a", "b"})])
def test_the_cordon_list_is_trimmed(text: str | None, want: set[str]) -> None:
    assert selection.cordoned(text) == want


@pytest.mark.parametrize("word", ["1", "t", "T", "TRUE", "true", "True"])
def test_true_words_bind_to_a_numa_node(word: str) -> None:
    assert selection.numa_bound(ROW, {"acme.io/numa": word})


def test_nothing_binds_to_a_numa_node_by_itself() -> None:
    assert not selection.numa_bound(ROW, {})
