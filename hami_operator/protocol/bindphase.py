"""The bind phase of a pod: legal moves, and who may make them."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from hami_operator import errors


class Phase(enum.Enum):
    """Value of the bind-phase annotation; NONE is no annotation, UNKNOWN any other text."""

    NONE = ""
    ALLOCATING = "allocating"
    SUCCESS = "success"
    FAILED = "failed"
    UNKNOWN = "?"


class Writer(enum.Enum):
    """Whose move it is."""

    OPERATOR = "operator"
    PLUGIN = "plugin"


class IllegalMove(errors.OperatorError):
    """The move is in nobody's right; a bug on our side, never an effect of what others wrote."""


_Key = tuple[Writer, bool, Phase]
MOVES: Final[Mapping[_Key, frozenset[Phase]]] = {
    # (who, the pod has a node, from) -> to. Plugins look at bound pods only, so an unbound pod is
    # the operator's; whatever an unbound pod carries is left from an attempt that failed.
    (Writer.OPERATOR, False, Phase.NONE): frozenset({Phase.ALLOCATING}),
    (Writer.OPERATOR, False, Phase.ALLOCATING): frozenset({Phase.ALLOCATING, Phase.NONE}),
    (Writer.OPERATOR, False, Phase.SUCCESS): frozenset({Phase.ALLOCATING, Phase.NONE}),
    (Writer.OPERATOR, False, Phase.FAILED): frozenset({Phase.ALLOCATING, Phase.NONE}),
    (Writer.OPERATOR, False, Phase.UNKNOWN): frozenset({Phase.ALLOCATING, Phase.NONE}),
    (Writer.PLUGIN, True, Phase.ALLOCATING): frozenset({Phase.SUCCESS, Phase.FAILED}),
    # A pod with two device types is finished by one plugin and then refused by the other.
    (Writer.PLUGIN, True, Phase.SUCCESS): frozenset({Phase.SUCCESS, Phase.FAILED}),
}


def classify(value: str | None) -> Phase:
    """The phase that ``value`` names; None is an annotation that is not there."""
    try:
        return Phase(value or "")
    except ValueError:
        return Phase.UNKNOWN


def move(current: Phase, new: Phase, *, writer: Writer, bound: bool) -> Phase:
    """Return ``new`` if ``writer`` may set it.

    Args:
        current: the phase that the pod has.
        new: the phase that is to be written.
        writer: who writes.
        bound: whether the pod has a node.

    Raises:
        IllegalMove: the table has no such move.
    """
    if new not in MOVES.get((writer, bound, current), frozenset()):
        where = "a bound" if bound else "an unbound"
        raise IllegalMove(
            f"{writer.value} may not move {where} pod from {current.name} to {new.name}"
        )
    return new
