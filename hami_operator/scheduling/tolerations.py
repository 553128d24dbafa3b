"""Taints and tolerations."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from hami_operator.scheduling import fields, labels

NO_SCHEDULE: Final = "NoSchedule"
NO_EXECUTE: Final = "NoExecute"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
FILTERING: Final = frozenset({NO_SCHEDULE, NO_EXECUTE})
_CANONICAL: Final = re.compile(r"0|-?[1-9]\d{0,18}", re.ASCII)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Taint:
    """What keeps pods off a node; an absent value is empty."""

    key: str
    value: str = ""
    effect: str = NO_SCHEDULE


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Toleration:
    """What lets a pod onto a tainted node; empty key or effect covers all."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""

    def covers(self, taint: Taint, *, comparison: bool = False) -> bool:
        """Whether the taint is tolerated.

        Args:
            taint: the taint.
            comparison: whether the operators Gt and Lt mean anything (the feature gate
                TaintTolerationComparisonOperators).
        """
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator in {"", "Equal"}:
            return self.value == taint.value
        if self.operator == "Exists":
            return True
        return comparison and _compares(self.operator, taint.value, self.value)


def untolerated(
    taints: Iterable[Taint], tolerations: Iterable[Toleration], *, comparison: bool = False
) -> Taint | None:
    """The first taint that no toleration covers."""
    for taint in taints:
        if not any(one.covers(taint, comparison=comparison) for one in tolerations):
            return taint
    return None


def read_taints(parent: Mapping[str, Any], path: str, found: fields.Fields) -> tuple[Taint, ...]:
    """``taints`` of a node's spec."""
    return tuple(
        Taint(
            key=found.text(item, "key", f"{place}."),
            value=found.text(item, "value", f"{place}."),
            effect=found.text(item, "effect", f"{place}."),
        )
        for place, item in found.items(parent, "taints", path)
    )


def read_tolerations(
    parent: Mapping[str, Any], path: str, found: fields.Fields
) -> tuple[Toleration, ...]:
    """``tolerations`` of a pod's spec; how long they last does not matter to a scheduler."""
    listed = parent.get("tolerations")
    return _tolerations(listed, f"{path}tolerations", found) if listed else ()


def _read_list(listed: Any, path: str, found: fields.Fields) -> tuple[Toleration, ...]:
    return tuple(
        Toleration(
            key=found.text(item, "key", f"{place}."),
            operator=found.text(item, "operator", f"{place}."),
            value=found.text(item, "value", f"{place}."),
            effect=found.text(item, "effect", f"{place}."),
        )
        for place, item in found.items({path: listed}, path, "")
    )


_tolerations: Final = fields.recalled(_read_list, most=1024)
"""Every pod has the two that admission adds."""


def _compares(operator: str, taint: str, bound: str) -> bool:
    have, want = _number(taint), _number(bound)
    if have is None or want is None:
        return False
    return (operator == "Gt" and have > want) or (operator == "Lt" and have < want)


def _number(text: str) -> int | None:
    return labels.integer(text) if _CANONICAL.fullmatch(text) else None
