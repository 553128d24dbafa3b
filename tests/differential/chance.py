"""Chance, in the words of the generator; equal seeds draw the same, in any process."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Final, TypeVar

Raw = dict[str, Any]
T = TypeVar("T")

CREATED: Final = "2026-03-01T12:00:00Z"
NAMESPACES: Final = {
    "default": {"kubernetes.io/metadata.name": "default", "tier": "base"},
    "red": {"kubernetes.io/metadata.name": "red", "team": "red", "tier": "top"},
    "blue": {"kubernetes.io/metadata.name": "blue", "team": "blue"},
}
"""Namespaces of every scenario with their labels."""
OWN: Final = "default"
"""Where the pod lives that is to be placed."""


class Dice:
    """Draws for one scenario.

    Attributes:
        focus: what this scenario is mostly about.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.focus: frozenset[str] = frozenset()

    def chance(self, percent: float) -> bool:
        """True in so many of a hundred cases."""
        return self._random.random() * 100 < percent

    def about(self, family: str, often: float, seldom: float) -> bool:
        """Chance that differs with the focus."""
        return self.chance(often if family in self.focus else seldom)

    def number(self, least: int, most: int) -> int:
        """A whole number, both ends included."""
        return self._random.randint(least, most)

    def pick(self, choices: Sequence[T]) -> T:
        """One of them; list a choice twice to make it likelier."""
        return choices[self._random.randrange(len(choices))]

    def some(self, choices: Sequence[T], least: int, most: int) -> list[T]:
        """Some of them, each once, in a random order."""
        size = min(self.number(least, most), len(choices))
        return self._random.sample(list(choices), size)


def meta(kind: str, name: str, namespace: str = "") -> Raw:
    """Metadata as the API server gives it."""
    made: Raw = {
        "name": name,
        "uid": f"{kind}-{namespace or 'cluster'}-{name}".lower(),
        "resourceVersion": "7",
        "creationTimestamp": CREATED,
    }
    if namespace:
        made["namespace"] = namespace
    return made


def requirement(key: str, operator: str, *values: str) -> Raw:
    """A condition on a label."""
    made: Raw = {"key": key, "operator": operator}
    if values:
        made["values"] = list(values)
    return made
