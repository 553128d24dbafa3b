"""Preemption for a whole gang: room for all pods that are missing, or nobody has to go for any.

The pods are looked at one after the other, as the gang's own attempt does, each on what those
before it would leave. Victims are chosen for each as for a single pod, so the sum need not be
the least that is possible; but where it is not enough for all, none of them goes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Final, Protocol

from hami_operator.protocol import instant
from hami_operator.scheduling import cycle, preemption, preemptor
from hami_operator.scheduling import pod as pods

MOST: Final = 32
"""For no more pods of a gang at once is it tried: each costs as much as one of its own."""
TOO_MANY: Final = f"preemption: not tried, since more than {MOST} pods of the gang lack room."


class Desk(Protocol):
    """What is done with one pod."""

    def decide(self, pod: pods.Pod, now: instant.Instant) -> cycle.Placed | cycle.Unplaced:
        """Find a node for it, as things stand."""
        ...

    def suppose(self, pod: pods.Pod, placed: cycle.Placed) -> None:
        """Reserve what was found."""
        ...

    def preempt(self, pod: pods.Pod, unplaced: cycle.Unplaced) -> preemptor.Verdict:
        """Choose who has to go for it, and promise it their room."""
        ...


@dataclasses.dataclass(slots=True)
class Round:
    """One try of a gang.

    Attributes:
        untried: who was not asked yet.
        found: who found room, which is supposed to be theirs.
        failed: who found none.
        verdicts: UID to what preemption does for it.
        text: what is to be said of preemption; empty where it is hoped for.
    """

    untried: list[pods.Pod]
    found: list[tuple[pods.Pod, cycle.Placed]] = dataclasses.field(default_factory=list)
    failed: list[tuple[pods.Pod, cycle.Unplaced]] = dataclasses.field(default_factory=list)
    verdicts: dict[str, preemptor.Verdict] = dataclasses.field(default_factory=dict)
    text: str = ""

    @property
    def hoped_for(self) -> int:
        """How many have room, or will have it."""
        return len(self.found) + len(self.verdicts)


def run(
    tried: Round, lacking: int, desk: Desk, making: preemptor.Preemptor, now: instant.Instant
) -> bool:
    """Make room for those that found none.

    Args:
        tried: how far the gang's own attempt came; says afterwards what became of it.
        lacking: how many have to come together.
        desk: finds room, and makes it.
        making: remembers promises and victims.
        now: the present.

    Returns:
        Whether all get room; if not, nobody is promised any and nobody has to go.
    """
    if lacking - len(tried.found) > MOST:
        tried.text = TOO_MANY
        return False
    saved = making.save()
    refused = _make_room(tried, lacking, desk, making, now)
    making.budgets = saved.budgets
    if refused is None or tried.hoped_for >= lacking:
        tried.text = _hope(tried)
        return True
    making.restore(saved)
    tried.text = _why_not(tried, refused)
    tried.verdicts.clear()
    return False


def _make_room(
    tried: Round, lacking: int, desk: Desk, making: preemptor.Preemptor, now: instant.Instant
) -> tuple[pods.Pod, str] | None:
    """Go on with the gang's attempt until enough have room, or no longer can; who gets none."""
    refused: tuple[pods.Pod, str] | None = None
    spare = len(tried.found) + len(tried.failed) + len(tried.untried) - lacking
    for pod, unplaced in _unplaced(tried, desk, now):
        if tried.hoped_for >= lacking or spare < 0:
            break
        verdict = desk.preempt(pod, unplaced)
        if verdict.nominated or verdict.text == preemption.WAITING:
            tried.verdicts[pod.uid] = verdict
            making.charge(verdict)
        else:
            refused = refused or (pod, verdict.text)
            spare -= 1
    return refused


def _unplaced(
    tried: Round, desk: Desk, now: instant.Instant
) -> Iterator[tuple[pods.Pod, cycle.Unplaced]]:
    """Those that found no room, then those not asked yet that find none either."""
    yield from tuple(tried.failed)
    while tried.untried:
        pod = tried.untried.pop(0)
        outcome = desk.decide(pod, now)
        if isinstance(outcome, cycle.Placed):
            desk.suppose(pod, outcome)
            tried.found.append((pod, outcome))
            continue
        tried.failed.append((pod, outcome))
        yield pod, outcome


def _hope(tried: Round) -> str:
    """Nothing where victims were chosen; it is waited for those that were chosen before."""
    chosen = any(verdict.victims for verdict in tried.verdicts.values())
    return "" if chosen or not tried.verdicts else preemption.WAITING


def _why_not(tried: Round, refused: tuple[pods.Pod, str]) -> str:
    """Who gets no room whoever goes, and why."""
    pod, text = refused
    if not tried.verdicts or not text:
        return text
    why = text.removeprefix("preemption: ")
    return f"preemption: {len(tried.verdicts)} more would find room, and {pod.name} not: {why}"
