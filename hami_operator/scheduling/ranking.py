"""Which of two nodes is the better one for a pod without devices: kube-scheduler's other scores.

How full cpu and memory would be, how even, and whether the images are there, each of weight 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from hami_operator.scheduling import balance, fitscore
from hami_operator.scheduling import node as nodes
from hami_operator.scheduling import pod as pods

_NAMES: Final = tuple(name for name, _ in fitscore.DEFAULT.weights)


class View(Protocol):
    """One node with what is booked on it."""

    @property
    def node(self) -> nodes.Node:
        """The node."""

    @property
    def requested(self) -> Mapping[str, int]:
        """Sum of what its pods hold."""


class Ranking:
    """Rates nodes for one pod, by what stands on the node alone.

    Args:
        pod: the pod to be placed.
        load: per node, what the pods on it count with, see `fitscore.assumed`.

    Attributes:
        shape: pods with the same are rated the same.
    """

    def __init__(self, pod: pods.Pod, load: Callable[[str], Mapping[str, int]]) -> None:
        self._pod = pod
        self._load = load
        own = fitscore.asked(pod)
        self._own = {name: own.get(name, 0) for name in _NAMES}
        self.shape = tuple(self._own.values())

    def of(self, view: View) -> int:
        """From 0 to 200; higher is better."""
        load = self._load(view.node.name)
        booked = {name: own + load.get(name, 0) for name, own in self._own.items()}
        fullness = fitscore.rate(booked, view.node)
        return fullness + balance.score(self._pod, view.node, view.requested)
