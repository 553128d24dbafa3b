"""The pods on nodes that say something about other pods, by what they say; equal terms once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from hami_operator.scheduling import pod as pods
from hami_operator.scheduling import podaffinity

Weighed = tuple[podaffinity.Term, int]
Namespaces = Mapping[str, Mapping[str, str]]
"""Labels of namespaces by name, as far as they are known."""


class Owners:
    """Terms of pods on nodes, found by the pod that is to be placed.

    Args:
        terms: what counts of a pod, with its weight.
    """

    def __init__(self, terms: Callable[[pods.Pod], Iterator[Weighed]]) -> None:
        self._terms = terms
        self._weights: dict[podaffinity.Term, dict[str, int]] = {}
        self._held: dict[podaffinity.Term, int] = {}
        self._about: dict[str | None, dict[podaffinity.Term, None]] = {}

    def __len__(self) -> int:
        """How many different terms there are."""
        return len(self._weights)

    @property
    def reads_namespaces(self) -> bool:
        """Whether labels of namespaces decide about any term."""
        return any(term.reads_namespaces for term in self._about.get(None, ()))

    def add(self, pod: pods.Pod, node: str) -> None:
        """A pod is on a node."""
        for term, weight in self._terms(pod):
            if term not in self._weights:
                self._weights[term] = {}
                for namespace in _concerned(term):
                    self._about.setdefault(namespace, {})[term] = None
            weights = self._weights[term]
            weights[node] = weights.get(node, 0) + weight
            self._held[term] = self._held.get(term, 0) + 1

    def drop(self, pod: pods.Pod, node: str) -> None:
        """It is there no more; to be called with what was added."""
        for term, weight in self._terms(pod):
            weights = self._weights[term]
            left = weights.get(node, 0) - weight
            if left:
                weights[node] = left
            else:
                weights.pop(node, None)
            self._held[term] -= 1
            if not self._held[term]:
                self._forget(term)

    def about(
        self, pod: pods.Pod, namespaces: Namespaces
    ) -> Iterator[tuple[str, Mapping[str, int]]]:
        """Topology key, and node to weight, of each term that selects the pod."""
        if not self._weights:
            return
        for place in (pod.namespace, None):
            for term in self._about.get(place, ()):
                if term.selects(pod.labels, pod.namespace, namespaces):
                    yield term.topology_key, self._weights[term]

    def _forget(self, term: podaffinity.Term) -> None:
        del self._weights[term], self._held[term]
        for namespace in _concerned(term):
            terms = self._about[namespace]
            del terms[term]
            if not terms:
                del self._about[namespace]


def repelling(pod: pods.Pod) -> Iterator[Weighed]:
    """Required anti-affinity: whom it does not want near."""
    return ((term, 1) for term in pod.pod_affinity.repelled)


def wishing(pod: pods.Pod) -> Iterator[Weighed]:
    """What it would like; a required term counts as a wish for more of the same, of weight 1."""
    if pod.pod_affinity is podaffinity.NONE:
        return
    for term in pod.pod_affinity.required:
        yield term, 1
    for wish in pod.pod_affinity.wishes:
        yield wish.term, wish.weight


def _concerned(term: podaffinity.Term) -> frozenset[str | None]:
    """The namespaces whose pods it may select; None stands for all."""
    if not term.namespace_selector.absent:
        return frozenset({None})
    return frozenset(term.namespaces)
