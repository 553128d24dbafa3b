"""The score of NodeResourcesBalancedAllocation: does the pod even out cpu and memory of a node?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hami_operator.scheduling import node as nodes
from hami_operator.scheduling import pod as pods
from hami_operator.scheduling import resources

BEST: Final = 100
_WEIGHED: Final = (resources.CPU, resources.MEMORY)


def score(pod: pods.Pod, node: nodes.Node, requested: Mapping[str, int]) -> int:
    """0 for a pod that requests neither; else from 50 (less even) over 75 to 100 (more even).

    Args:
        pod: the pod to be placed.
        node: the node.
        requested: what is booked on it.
    """
    if not any(pod.requests.get(name, 0) for name in _WEIGHED):
        return 0
    before = {name: requested.get(name, 0) for name in _WEIGHED}
    after = {name: amount + pod.requests.get(name, 0) for name, amount in before.items()}
    gained = _evenness(after, node) - _evenness(before, node)
    return BEST // 2 + (BEST // 2 + gained) // 2


def _evenness(booked: Mapping[str, int], node: nodes.Node) -> int:
    """50 to 100: less the standard deviation of how full the resources are."""
    offered = ((name, node.amounts.get(name, 0)) for name in _WEIGHED)
    shares = [min(booked[name] / amount, 1.0) for name, amount in offered if amount]
    deviation = abs((shares[0] - shares[1]) / 2) if len(shares) == len(_WEIGHED) else 0.0
    return int((1 - deviation) * BEST)
