"""The score of NodeResourcesFit: how full cpu and memory of a node would be with the pod.

Containers that request no cpu or no memory count with a small amount, so that they are spread or
packed like the others. All divisions are between integers, as kube-scheduler's are.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from hami_operator.protocol import quantity
from hami_operator.scheduling import fields, resources
from hami_operator.scheduling import node as nodes
from hami_operator.scheduling import pod as pods

BEST: Final = 100
_ASSUMED: Final = {
    resources.CPU: quantity.nanos("100m"),
    resources.MEMORY: quantity.nanos("200Mi"),
}


class Strategy(enum.Enum):
    """Which nodes score high."""

    LEAST_ALLOCATED = "LeastAllocated"
    MOST_ALLOCATED = "MostAllocated"
    REQUESTED_TO_CAPACITY_RATIO = "RequestedToCapacityRatio"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """One corner of the shape of RequestedToCapacityRatio: utilisation in percent, score to 10."""

    utilization: int
    score: int


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Scoring:
    """How to score.

    Attributes:
        strategy: which nodes score high.
        weights: of the resources that count.
        shape: corners by rising utilisation; for RequestedToCapacityRatio only.
    """

    strategy: Strategy = Strategy.LEAST_ALLOCATED
    weights: tuple[tuple[str, int], ...] = ((resources.CPU, 1), (resources.MEMORY, 1))
    shape: tuple[Point, ...] = ()


DEFAULT: Final = Scoring()


def score(
    pod: pods.Pod, node: nodes.Node, others: Iterable[pods.Pod], scoring: Scoring = DEFAULT
) -> int:
    """0 to 100 for one node.

    Args:
        pod: the pod to be placed.
        node: the node.
        others: the pods that are on it.
        scoring: how to score.
    """
    booked = dict(asked(pod))
    for one in others:
        for name, amount in assumed(one).items():
            booked[name] = booked.get(name, 0) + amount
    return rate(booked, node, scoring)


def rate(booked: Mapping[str, int], node: nodes.Node, scoring: Scoring = DEFAULT) -> int:
    """0 to 100 for a node on which so much would be booked, see `asked` and `assumed`."""
    rated_by = _RATES[scoring.strategy]
    total = weights = 0
    for name, weight in scoring.weights:
        offered = node.amounts.get(name, 0)
        if not offered:
            continue
        rated = rated_by(booked.get(name, 0), offered, scoring.shape)
        if rated or scoring.strategy is not Strategy.REQUESTED_TO_CAPACITY_RATIO:
            total += rated * weight
            weights += weight
    if not weights:
        return 0
    if scoring.strategy is Strategy.REQUESTED_TO_CAPACITY_RATIO:
        return (2 * total + weights) // (2 * weights)
    return total // weights


def asked(pod: pods.Pod) -> Mapping[str, int]:
    """Amounts of the pod that is to be placed: no container is without cpu and memory.

    What it requests as a whole does not count here, as it does not in kube-scheduler.
    """
    return _filled(pod, _ASSUMED, fields.EMPTY)


def assumed(pod: pods.Pod) -> Mapping[str, int]:
    """Amounts of a pod on a node, likewise; with a request as a whole, only what that lacks."""
    missing = _ASSUMED
    if any(resources.is_pod_level(name) for name in pod.pod_level):
        missing = {name: each for name, each in _ASSUMED.items() if name not in pod.requests}
    amounts = _filled(pod, missing, pod.pod_level)
    if pod.held is pod.requests:
        return amounts
    grown = {name: pod.held.get(name, 0) - pod.requests.get(name, 0) for name in _ASSUMED}
    return {name: amount + grown.get(name, 0) for name, amount in amounts.items()}


def _filled(
    pod: pods.Pod, missing: Mapping[str, int], pod_level: Mapping[str, int]
) -> dict[str, int]:
    filled = ((one.kind, {**missing, **one.amounts}) for one in pod.containers)
    return resources.rounded(resources.total(filled, pod_level=pod_level, overhead=pod.overhead))


def _least(booked: int, offered: int, shape: tuple[Point, ...]) -> int:
    del shape
    return 0 if booked > offered else (offered - booked) * BEST // offered


def _most(booked: int, offered: int, shape: tuple[Point, ...]) -> int:
    del shape
    return min(booked, offered) * BEST // offered


def _ratio(booked: int, offered: int, shape: tuple[Point, ...]) -> int:
    used = BEST if booked > offered else booked * BEST // offered
    before: Point | None = None
    for point in shape:
        if used <= point.utilization:
            return _between(before, point, used)
        before = point
    return shape[-1].score * 10 if shape else 0


def _between(before: Point | None, after: Point, used: int) -> int:
    """On the line between two corners, cut towards the earlier one."""
    if before is None:
        return after.score * 10
    rise = (after.score - before.score) * 10 * (used - before.utilization)
    cut = abs(rise) // (after.utilization - before.utilization)
    return before.score * 10 + (cut if rise >= 0 else -cut)


_RATES: Final[Mapping[Strategy, Callable[[int, int, tuple[Point, ...]], int]]] = {
    Strategy.LEAST_ALLOCATED: _least,
    Strategy.MOST_ALLOCATED: _most,
    Strategy.REQUESTED_TO_CAPACITY_RATIO: _ratio,
}
