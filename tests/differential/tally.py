"""A run over many scenarios, and what came out of it in figures."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from tests.differential import compare, generate, oracle, ours

CHUNK: Final = 200
"""So many scenarios are in memory at once."""


@dataclasses.dataclass(kw_only=True)
class Tally:
    """Figures of a run.

    Attributes:
        scenarios: how many were compared.
        placed: in how many of them a node takes the pod.
        mixed: in how many of them others refuse it.
        nodes: how many nodes were judged.
        refused: plugin to the scenarios in which it refuses a node, or the pod.
        scored: plugin to the nodes whose scores were compared.
        differences: all that was found.
    """

    scenarios: int = 0
    placed: int = 0
    mixed: int = 0
    nodes: int = 0
    refused: Counter[str] = dataclasses.field(default_factory=Counter)
    scored: Counter[str] = dataclasses.field(default_factory=Counter)
    differences: list[compare.Difference] = dataclasses.field(default_factory=list)

    @property
    def faults(self) -> list[compare.Difference]:
        """Differences that are not meant."""
        return [one for one in self.differences if not one.meant]

    def add(self, scenario: oracle.Scenario, theirs: oracle.Verdict) -> None:
        """Compare one scenario.

        Raises:
            ValueError: the oracle could not run it.
        """
        if theirs.error:
            raise ValueError(f"{theirs.id}: {theirs.error}")
        self.scenarios += 1
        self.nodes += len(scenario["kinds"]["nodes"])
        self.placed += bool(theirs.feasible)
        self.mixed += bool(theirs.feasible and theirs.refusals)
        refusals = [*theirs.refusals.values(), *([theirs.prefilter] if theirs.prefilter else [])]
        self.refused.update({one.plugin for one in refusals})
        for points in theirs.scores.values():
            self.scored.update(points.keys())
        self.differences += compare.find(scenario, theirs, ours.judge(scenario))

    def lines(self) -> Iterator[str]:
        """The table."""
        yield f"scenarios {self.scenarios}, with {self.nodes} nodes"
        yield f"  some node takes the pod: {self.placed}; others refuse it: {self.mixed}"
        yield "refusing plugin: scenarios"
        yield from (f"  {name:32} {count:6}" for name, count in sorted(self.refused.items()))
        yield "scoring plugin: scores compared"
        yield from (f"  {name:32} {count:6}" for name, count in sorted(self.scored.items()))
        yield "differences"
        for about in compare.About:
            found = [one for one in self.differences if one.about is about]
            faults = sum(not one.meant for one in found)
            yield f"  {about.value:48} {len(found):6}, not explained {faults}"
        meant = Counter(one.meant for one in self.differences if one.meant)
        yield from (f"  explained: {name:37} {count:6}" for name, count in sorted(meant.items()))


def run(seeds: Iterable[int], judge: oracle.Oracle) -> Tally:
    """Compare the scenarios of these seeds."""
    tally = Tally()
    for chunk in _chunks(seeds):
        scenarios = [generate.scenario(seed) for seed in chunk]
        for scenario, theirs in zip(scenarios, judge.ask(scenarios), strict=True):
            tally.add(scenario, theirs)
    return tally


def _chunks(seeds: Iterable[int]) -> Iterator[Sequence[int]]:
    known = list(seeds)
    for start in range(0, len(known), CHUNK):
        yield known[start : start + CHUNK]
