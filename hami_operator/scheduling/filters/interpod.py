"""InterPodAffinity: pods that want each other near, and pods that do not.

A required anti-affinity term of a pod on a node keeps the pods that it selects out of the whole
topology domain, whether or not those have any affinity of their own; affinity is not mutual.

Where a term selects namespaces by label, the API and kube-scheduler 1.36 differ about which ones
(`podaffinity.Term.widened`). A node has to be right by both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from hami_operator.scheduling import neighbours, podaffinity, rejection, surroundings, tallies
from hami_operator.scheduling import pod as pods
from hami_operator.scheduling.filters import check

NAME: Final = "InterPodAffinity"
_ALONE: Final = rejection.final(NAME, "node(s) didn't match pod affinity rules")
_REPELLED: Final = rejection.Rejection(
    plugin=NAME, texts=("node(s) didn't match pod anti-affinity rules",), resolvable=True
)
_UNWANTED: Final = rejection.Rejection(
    plugin=NAME,
    texts=("node(s) didn't satisfy existing pods anti-affinity rules",),
    resolvable=True,
)

Place = tuple[str, str]
"""Topology key and value: a label that all nodes of the place carry."""
_Ask = Callable[[Mapping[str, str]], bool]
"""Whether something holds of a node with these labels."""


def plan(
    pod: pods.Pod, options: check.Options, around: surroundings.Surroundings
) -> check.Planned:
    """Rejects nodes without the pods that are wanted near, and places of unwanted ones."""
    del options
    own, namespaces = pod.pod_affinity, around.objects.namespaces
    unwanted = _places(around.pods, around.pods.repelling(pod, namespaces))
    if not own.required and not own.repelled:
        return _plan_unwanted(unwanted) if unwanted else None
    near = _near(pod, around)
    repelled = frozenset().union(*(_of_term(term, around) for term in own.repelled))
    is_repelled, is_unwanted = _inside(repelled), _inside(unwanted)

    def judge(view: check.View) -> rejection.Rejection | None:
        labels = view.node.labels
        if near is not None and not near(labels):
            return _ALONE
        if is_repelled(labels):
            return _REPELLED
        return _UNWANTED if is_unwanted(labels) else None

    return judge


def question(
    terms: Iterable[podaffinity.Term], namespaces: Mapping[str, Mapping[str, str]]
) -> tallies.Question:
    """Which pods on nodes all these terms are about; those that are on their way out count."""
    scopes = (tallies.Scope(term.places(namespaces), term.selector) for term in terms)
    return tallies.Question(scopes=tuple(scopes))


def _plan_unwanted(unwanted: frozenset[Place]) -> check.Check:
    """What nearly every pod needs at most."""
    is_unwanted = _inside(unwanted)
    return lambda view: _UNWANTED if is_unwanted(view.node.labels) else None


def _near(pod: pods.Pod, around: surroundings.Surroundings) -> _Ask | None:
    """Whether the pods that are wanted are there; one pod must be what all terms are about."""
    terms = pod.pod_affinity.required
    if not terms:
        return None
    asked = question(terms, around.objects.namespaces)
    keys = tuple(dict.fromkeys(term.topology_key for term in terms))
    said = ((key, around.pods.counts(asked)) for key in keys)
    places = _places(around.pods, said)
    if not places and asked.counts(pod) and not _places(around.pods, _widely(terms, around)):
        # Nobody is there yet: the first of a group that wants to be together goes anywhere.
        return lambda labels: all(key in labels for key in keys)
    return lambda labels: all((key, labels.get(key)) in places for key in keys)


def _widely(
    terms: Sequence[podaffinity.Term], around: surroundings.Surroundings
) -> neighbours.Said:
    """Where pods are that all terms are about, as kube-scheduler reads them."""
    widened = question((one.widened for one in terms), around.objects.namespaces)
    counts = around.pods.counts(widened)
    return ((term.topology_key, counts) for term in terms)


def _of_term(term: podaffinity.Term, around: surroundings.Surroundings) -> frozenset[Place]:
    counts = around.pods.counts(question((term.widened,), around.objects.namespaces))
    return _places(around.pods, ((term.topology_key, counts),))


def _places(
    others: neighbours.Around, said: Iterable[tuple[str, Mapping[str, int]]]
) -> frozenset[Place]:
    found = set()
    for key, nodes in said:
        for name in nodes:
            value = others.node_labels(name).get(key)
            if value is not None:
                found.add((key, value))
    return frozenset(found)


def _inside(places: frozenset[Place]) -> _Ask:
    """Whether a node is in one of the places."""
    keys = tuple({key for key, _ in places})
    return lambda labels: any((key, labels.get(key)) in places for key in keys)
