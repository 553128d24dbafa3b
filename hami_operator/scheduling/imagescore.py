"""The score of ImageLocality: a node that holds the pod's images needs not fetch them.

An image counts by its size, and less the fewer nodes hold it, so that not all pods go to one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from hami_operator.scheduling import node as nodes
from hami_operator.scheduling import pod as pods
from hami_operator.scheduling import surroundings

BEST: Final = 100
_MIB: Final = 1024 * 1024
_LEAST: Final = 23 * _MIB
_MOST: Final = 1000 * _MIB
"""Per container; more images than that are as good as can be."""


def scorer(
    pod: pods.Pod, known: Sequence[surroundings.Holder]
) -> Callable[[nodes.Node], int] | None:
    """How to score a node; None where no node holds any of the images.

    Args:
        pod: the pod to be placed.
        known: every node.
    """
    if not any(one.node.images for one in known):
        return None
    names = [_full(name) for name in pod.images]
    counts = {name: sum(name in one.node.images for one in known) for name in set(names)}
    if not any(counts.values()):
        return None
    shares = {name: count / len(known) for name, count in counts.items()}
    most = _MOST * len(pod.containers)

    def score(node: nodes.Node) -> int:
        held = (name for name in names if name in node.images)
        total = sum(int(node.images[name] * shares[name]) for name in held)
        return BEST * (max(_LEAST, min(total, most)) - _LEAST) // (most - _LEAST)

    return score


def _full(name: str) -> str:
    """With its tag, as nodes name it."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"
