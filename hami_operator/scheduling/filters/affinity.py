"""NodeAffinity: ``nodeSelector`` and required node affinity, ``matchFields`` included."""

from __future__ import annotations

from typing import Final

from hami_operator.scheduling import node as nodes
from hami_operator.scheduling import pod as pods
from hami_operator.scheduling import rejection, surroundings
from hami_operator.scheduling.filters import check

NAME: Final = "NodeAffinity"
_REJECTION: Final = rejection.Rejection(
    plugin=NAME, texts=("node(s) didn't match Pod's node affinity/selector",), resolvable=False
)
_ENFORCED: Final = rejection.Rejection(
    plugin=NAME,
    texts=("node(s) didn't match scheduler-enforced node affinity",),
    resolvable=False,
)
_CONFLICT: Final = rejection.Rejection(
    plugin=NAME, texts=("pod affinity terms conflict",), resolvable=False
)
NARROWED: Final = rejection.Rejection(
    plugin=NAME, texts=(f"node(s) didn't satisfy plugin(s) [{NAME}]",), resolvable=False
)
"""Counts for every node that is not looked at since the pod names others."""


def prefilter(pod: pods.Pod) -> rejection.Rejection | None:
    """Rejects a pod whose terms all name nodes, but together none."""
    left = names(pod)
    return _CONFLICT if left is not None and not left else None


def names(pod: pods.Pod) -> frozenset[str] | None:
    """The only nodes that can match, where every term names nodes; None for all nodes."""
    required = pod.affinity.required
    return None if required is None else required.names()


def plan(
    pod: pods.Pod, options: check.Options, around: surroundings.Surroundings
) -> check.Check | None:
    """Rejects nodes whose labels or name do not match; no check where nothing is asked."""
    del around
    added = options.added_affinity.required
    if added is None and not constrains(pod):
        return None

    def judge(view: check.View) -> rejection.Rejection | None:
        node = view.node
        if added is not None and not added.matches(node.name, node.labels):
            return _ENFORCED
        return None if matches(pod, node) else _REJECTION

    return judge


def constrains(pod: pods.Pod) -> bool:
    """Whether the pod cares at all where it goes."""
    return bool(pod.node_selector) or pod.affinity.required is not None


def matches(pod: pods.Pod, node: nodes.Node) -> bool:
    """Whether a node satisfies the pod's selector and its required affinity."""
    labels = node.labels
    for key, value in pod.node_selector.items():
        if labels.get(key) != value:
            return False
    required = pod.affinity.required
    return required is None or required.matches(node.name, labels)
