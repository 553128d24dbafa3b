"""Moves of the bind phase: the table is complete, and a miss is an error."""

from __future__ import annotations

import itertools
from typing import TypeAlias

import pytest

from hami_operator.protocol import bindphase

Phase: TypeAlias = bindphase.Phase
Writer: TypeAlias = bindphase.Writer

LEGAL = {
    # A pod without a node is the operator's.
    *((Writer.OPERATOR, False, old, Phase.ALLOCATING) for old in Phase),
    *((Writer.OPERATOR, False, old, Phase.NONE) for old in Phase if old is not Phase.NONE),
    # A bound pod is the plugin's.
    (Writer.PLUGIN, True, Phase.ALLOCATING, Phase.SUCCESS),
    (Writer.PLUGIN, True, Phase.ALLOCATING, Phase.FAILED),
    (Writer.PLUGIN, True, Phase.SUCCESS, Phase.SUCCESS),
    (Writer.PLUGIN, True, Phase.SUCCESS, Phase.FAILED),
}
MOVES = list(itertools.product(Writer, (False, True), Phase, Phase))


@pytest.mark.parametrize(("writer", "bound", "old", "new"), sorted(LEGAL, key=str))
def test_a_legal_move_answers_the_new_phase(
    writer: Writer, bound: bool, old: Phase, new: Phase
) -> None:
    assert bindphase.move(old, new, writer=writer, bound=bound) is new


@pytest.mark.parametrize(
    ("writer", "bound", "old", "new"), [move for move in MOVES if move not in LEGAL]
)
def test_any_other_move_is_refused(writer: Writer, bound: bool, old: Phase, new: Phase) -> None:
    with pytest.raises(bindphase.IllegalMove, match="may not move"):
        bindphase.move(old, new, writer=writer, bound=bound)


def test_the_operator_never_moves_a_bound_pod() -> None:
    assert not [key for key in bindphase.MOVES if key[0] is Writer.OPERATOR and key[1]]


@pytest.mark.parametrize(
    ("value", "want"),
    [
        pytest.param(None, Phase.NONE, id="no annotation"),
        pytest.param("", Phase.NONE, id="an empty text"),
        pytest.param("allocating", Phase.ALLOCATING, id="allocating"),
        pytest.param("success", Phase.SUCCESS, id="success"),
        pytest.param("failed", Phase.FAILED, id="failed"),
        pytest.param("Success", Phase.UNKNOWN, id="case matters"),
        pytest.param("done", Phase.UNKNOWN, id="another word"),
    ],
)
def test_what_a_value_says(value: str | None, want: Phase) -> None:
    assert bindphase.classify(value) is want
