"""The half of InterPodAffinity that concerns every pod: others may not want it near.

A required anti-affinity term of a pod on a node keeps the pods that it selects out of the whole
topology domain, whether or not those have any affinity of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from hami_operator.scheduling import fields, podaffinity, rejection
from hami_operator.scheduling import pod as pods
from hami_operator.scheduling.filters import check

NAME: Final = "InterPodAffinity"
_REJECTION: Final = rejection.Rejection(
    plugin=NAME,
    texts=("node(s) didn't satisfy existing pods anti-affinity rules",),
    resolvable=True,
)

Place = tuple[str, str]
"""Topology key and value: a label that all nodes of the place carry."""


class Owners:
    """The pods on nodes that have required anti-affinity terms; equal terms are kept once."""

    def __init__(self) -> None:
        self._nodes: dict[podaffinity.Term, dict[str, int]] = {}
        self._owners: dict[str, tuple[tuple[podaffinity.Term, ...], str]] = {}

    def __len__(self) -> int:
        return len(self._owners)

    def add(self, pod: pods.Pod, node_name: str) -> None:
        """Take up a pod on a node; what was known of it before is replaced."""
        self.remove(pod.uid)
        if not pod.pod_affinity.repelled:
            return
        self._owners[pod.uid] = (pod.pod_affinity.repelled, node_name)
        for term in pod.pod_affinity.repelled:
            counts = self._nodes.setdefault(term, {})
            counts[node_name] = counts.get(node_name, 0) + 1

    def remove(self, uid: str) -> None:
        """Forget a pod; harmless if it is not known."""
        terms, node_name = self._owners.pop(uid, ((), ""))
        for term in terms:
            counts = self._nodes[term]
            counts[node_name] -= 1
            if not counts[node_name]:
                del counts[node_name]
            if not counts:
                del self._nodes[term]

    def places(
        self,
        pod: pods.Pod,
        node_labels: Callable[[str], Mapping[str, str]],
        namespace_labels: Mapping[str, Mapping[str, str]] = fields.EMPTY,
    ) -> frozenset[Place]:
        """Where the pod is not wanted.

        Args:
            pod: the pod to be placed.
            node_labels: labels of a node by its name; empty for one that is not known.
            namespace_labels: labels of namespaces as far as they are known.
        """
        found = set()
        for term, names in self._nodes.items():
            if not term.selects(pod.labels, pod.namespace, namespace_labels):
                continue
            for name in names:
                value = node_labels(name).get(term.topology_key)
                if value is not None:
                    found.add((term.topology_key, value))
        return frozenset(found)


def plan(repelled: frozenset[Place]) -> check.Check | None:
    """Rejects the nodes of these places; no check where there are none."""
    if not repelled:
        return None
    keys = tuple({key for key, _ in repelled})

    def judge(view: check.View) -> rejection.Rejection | None:
        labels = view.node.labels
        for key in keys:
            if (key, labels.get(key)) in repelled:
                return _REJECTION
        return None

    return judge
