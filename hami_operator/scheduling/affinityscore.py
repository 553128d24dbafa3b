"""The score of InterPodAffinity: what a pod would like of others, and they of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from hami_operator.scheduling import node as nodes
from hami_operator.scheduling import pod as pods
from hami_operator.scheduling import surroundings
from hami_operator.scheduling.filters import interpod

BEST: Final = 100


def matters(pod: pods.Pod, around: surroundings.Surroundings) -> bool:
    """Whether any node may score higher than another."""
    said = around.pods.wishing(pod, around.objects.namespaces)
    return bool(pod.pod_affinity.wishes) or next(said, None) is not None


def scores(
    pod: pods.Pod, feasible: Sequence[nodes.Node], around: surroundings.Surroundings
) -> dict[str, int]:
    """100 for the node in whose places most is liked, 0 for the one where least is."""
    weights = _weights(pod, around)
    sums = {
        node.name: sum(
            places.get(node.labels[key], 0)
            for key, places in weights.items()
            if key in node.labels
        )
        for node in feasible
    }
    least, most = min(sums.values(), default=0), max(sums.values(), default=0)
    if most == least:
        return dict.fromkeys(sums, 0)
    return {name: int(BEST * ((own - least) / (most - least))) for name, own in sums.items()}


def _weights(pod: pods.Pod, around: surroundings.Surroundings) -> Mapping[str, Mapping[str, int]]:
    """Topology key to value to weight."""
    found: dict[str, dict[str, int]] = {}
    others, namespaces = around.pods, around.objects.namespaces
    for wish in pod.pod_affinity.wishes:
        counts = others.counts(interpod.question((wish.term,), namespaces))
        places = found.setdefault(wish.term.topology_key, {})
        _add(places, wish.term.topology_key, counts, around, wish.weight)
    for key, weights in others.wishing(pod, namespaces):
        _add(found.setdefault(key, {}), key, weights, around, 1)
    return found


def _add(
    places: dict[str, int],
    key: str,
    weights: Mapping[str, int],
    around: surroundings.Surroundings,
    by: int,
) -> None:
    for name, weight in weights.items():
        value = around.pods.node_labels(name).get(key)
        if value is not None:
            places[value] = places.get(value, 0) + by * weight
