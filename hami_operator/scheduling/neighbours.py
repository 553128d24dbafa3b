"""Pods on nodes, as other pods see them: labels, terms, ports, disks and claims.

Kept by the events that change it, so that no question looks at every pod. A pod is added when it
is assumed or seen on a node, and removed when it is gone or its assumption is forgotten; both may
come twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from hami_operator.scheduling import fields, fitscore, owners, podaffinity, tallies, volumes
from hami_operator.scheduling import pod as pods

Placed = tuple[pods.Pod, str]
"""A pod and the name of its node."""
Said = Iterator[tuple[str, Mapping[str, int]]]
"""Topology key, and node to weight, of each term that is about a pod."""


class Around(Protocol):
    """What filters and scores ask about the pods on nodes."""

    def node_labels(self, name: str) -> Mapping[str, str]:
        """Labels of a node; empty for one that is not known."""

    def counts(self, question: tallies.Question) -> Mapping[str, int]:
        """Node to the number of pods that count, where that is not 0; not to be changed."""

    def repelling(self, pod: pods.Pod, namespaces: owners.Namespaces) -> Said:
        """What required anti-affinity of pods on nodes says about this one."""

    def wishing(self, pod: pods.Pod, namespaces: owners.Namespaces) -> Said:
        """What pods on nodes would like about this one."""

    def holding(self, node: str) -> Iterable[pods.Pod]:
        """The pods on a node that hold ports or volumes."""

    def uses(self, namespace: str, claim: str) -> int:
        """How many pods on nodes mount a PersistentVolumeClaim."""

    def reads_namespaces(self) -> bool:
        """Whether labels of namespaces decide about what pods on nodes say."""

    def load(self, node: str) -> Mapping[str, int]:
        """Sum of what the pods on a node count with when nodes are compared."""


class Neighbours:
    """All pods on nodes.

    Args:
        node_labels: labels of a node by its name; empty for one that is not known.
    """

    def __init__(self, node_labels: Callable[[str], Mapping[str, str]]) -> None:
        self._node_labels = node_labels
        self._tallies = tallies.Tallies()
        self._repelling = owners.Owners(owners.repelling)
        self._wishing = owners.Owners(owners.wishing)
        self._placed: dict[str, Placed] = {}
        self._on: dict[str, dict[str, pods.Pod]] = {}
        self._users: dict[tuple[str, str], set[str]] = {}
        self._loads: dict[str, dict[str, int]] | None = None

    def __len__(self) -> int:
        return len(self._placed)

    def __contains__(self, uid: object) -> bool:
        return uid in self._placed

    def add(self, pod: pods.Pod, node: str) -> None:
        """A pod is on a node; what was known of it before is replaced."""
        known = self._placed.get(pod.uid)
        if known is not None:
            if known[1] == node and _is_alike(known[0], pod):
                return
            self.remove(pod.uid)
        self._placed[pod.uid] = (pod, node)
        self._tallies.add(pod, node)
        if pod.pod_affinity is not podaffinity.NONE:
            self._repelling.add(pod, node)
            self._wishing.add(pod, node)
        if pod.ports or pod.volumes is not volumes.NONE:
            self._on.setdefault(node, {})[pod.uid] = pod
            for claim in pod.volumes.claims:
                self._users.setdefault((pod.namespace, claim.name), set()).add(pod.uid)
        if self._loads is not None:
            _load(self._loads.setdefault(node, {}), pod, 1)

    def remove(self, uid: str) -> Placed | None:
        """Forget a pod; what to add again to undo it, None if it was not known."""
        known = self._placed.pop(uid, None)
        if known is None:
            return None
        pod, node = known
        self._tallies.drop(pod, node)
        if pod.pod_affinity is not podaffinity.NONE:
            self._repelling.drop(pod, node)
            self._wishing.drop(pod, node)
        if pod.ports or pod.volumes is not volumes.NONE:
            self._leave(pod, node)
        if self._loads is not None:
            _load(self._loads[node], pod, -1)
        return known

    def get(self, uid: str) -> Placed | None:
        """A pod on a node; None if it is not known."""
        return self._placed.get(uid)

    def node_labels(self, name: str) -> Mapping[str, str]:
        """Labels of a node; empty for one that is not known."""
        return self._node_labels(name)

    def counts(self, question: tallies.Question) -> Mapping[str, int]:
        """Node to the number of pods that count, where that is not 0; not to be changed."""
        return self._tallies.counts(question)

    def repelling(self, pod: pods.Pod, namespaces: owners.Namespaces) -> Said:
        """What required anti-affinity of pods on nodes says about this one."""
        return self._repelling.about(pod, namespaces)

    def wishing(self, pod: pods.Pod, namespaces: owners.Namespaces) -> Said:
        """What pods on nodes would like about this one."""
        return self._wishing.about(pod, namespaces)

    def reads_namespaces(self) -> bool:
        """Whether labels of namespaces decide about what pods on nodes say."""
        return self._repelling.reads_namespaces

    def holding(self, node: str) -> Iterable[pods.Pod]:
        """The pods on a node that hold ports or volumes."""
        return self._on.get(node, {}).values()

    def uses(self, namespace: str, claim: str) -> int:
        """How many pods on nodes mount a PersistentVolumeClaim."""
        return len(self._users.get((namespace, claim), ()))

    def load(self, node: str) -> Mapping[str, int]:
        """Sum of what the pods on a node count with when nodes are compared."""
        if self._loads is None:
            self._loads = {}
            for pod, place in self._placed.values():
                _load(self._loads.setdefault(place, {}), pod, 1)
        return self._loads.get(node, fields.EMPTY)

    def _leave(self, pod: pods.Pod, node: str) -> None:
        here = self._on[node]
        del here[pod.uid]
        if not here:
            del self._on[node]
        for name in pod.volumes.claim_names:
            users = self._users[pod.namespace, name]
            users.discard(pod.uid)
            if not users:
                del self._users[pod.namespace, name]


def looks_at_others(pod: pods.Pod) -> bool:
    """Whether a pod with devices cares about pods that say nothing about it themselves."""
    return bool(
        pod.ports
        or pod.spread
        or pod.volumes is not volumes.NONE
        or pod.pod_affinity is not podaffinity.NONE
    )


class Supposed:
    """The pods on nodes as they would be if some were gone and others there.

    Args:
        truth: the pods on nodes.
        gone: UIDs of those that would be gone.
        there: those that would be there as well.
    """

    def __init__(
        self, truth: Neighbours, gone: Iterable[str], there: Iterable[Placed] = ()
    ) -> None:
        self._truth = truth
        known = ((uid, truth.get(uid)) for uid in gone)
        self._gone = {uid: placed for uid, placed in known if placed is not None}
        self._there = tuple(there)

    def node_labels(self, name: str) -> Mapping[str, str]:
        """Labels of a node; empty for one that is not known."""
        return self._truth.node_labels(name)

    def counts(self, question: tallies.Question) -> Mapping[str, int]:
        """Node to the number of pods that count, where that is not 0."""
        changed = dict(self._truth.counts(question))
        for by, placed in ((-1, self._gone.values()), (1, self._there)):
            for pod, node in placed:
                if question.counts(pod):
                    changed[node] = changed.get(node, 0) + by
        return {node: count for node, count in changed.items() if count}

    def repelling(self, pod: pods.Pod, namespaces: owners.Namespaces) -> Said:
        """What required anti-affinity of the pods would say about this one."""
        yield from self._said(self._truth.repelling, owners.repelling, pod, namespaces)

    def wishing(self, pod: pods.Pod, namespaces: owners.Namespaces) -> Said:
        """What the pods would like about this one."""
        yield from self._said(self._truth.wishing, owners.wishing, pod, namespaces)

    def holding(self, node: str) -> Iterable[pods.Pod]:
        """The pods that would hold ports or volumes on a node."""
        stay = (pod for pod in self._truth.holding(node) if pod.uid not in self._gone)
        return (*stay, *(pod for pod, place in self._there if place == node))

    def uses(self, namespace: str, claim: str) -> int:
        """How many pods would mount a PersistentVolumeClaim."""
        users = self._truth.uses(namespace, claim)
        for by, placed in ((-1, self._gone.values()), (1, self._there)):
            users += by * sum(_mounts(pod, namespace, claim) for pod, _ in placed)
        return users

    def reads_namespaces(self) -> bool:
        """Whether labels of namespaces decide about what pods on nodes say."""
        return self._truth.reads_namespaces()

    def load(self, node: str) -> Mapping[str, int]:
        """Sum of what the pods on a node would count with when nodes are compared."""
        sums = dict(self._truth.load(node))
        for by, placed in ((-1, self._gone.values()), (1, self._there)):
            for pod, place in placed:
                if place == node:
                    _load(sums, pod, by)
        return sums

    def _said(
        self,
        truth: Callable[[pods.Pod, owners.Namespaces], Said],
        terms: Callable[[pods.Pod], Iterator[owners.Weighed]],
        pod: pods.Pod,
        namespaces: owners.Namespaces,
    ) -> Said:
        """Terms of those who are gone count with the opposite weight, on their own nodes."""
        weights: dict[str, dict[str, int]] = {}
        for key, known in truth(pod, namespaces):
            _merge(weights.setdefault(key, {}), known, 1)
        for by, placed in ((-1, self._gone.values()), (1, self._there)):
            for owner, node in placed:
                for term, weight in terms(owner):
                    if term.selects(pod.labels, pod.namespace, namespaces):
                        _merge(weights.setdefault(term.topology_key, {}), {node: weight}, by)
        for key, known in weights.items():
            yield key, {node: weight for node, weight in known.items() if weight}


def _merge(into: dict[str, int], weights: Mapping[str, int], by: int) -> None:
    for node, weight in weights.items():
        into[node] = into.get(node, 0) + by * weight


def _mounts(pod: pods.Pod, namespace: str, claim: str) -> bool:
    return pod.namespace == namespace and claim in pod.volumes.claim_names


def _is_alike(old: pods.Pod, new: pods.Pod) -> bool:
    """Whether nothing changed of what can change on a pod that has a node."""
    return (
        old.labels == new.labels
        and old.terminating == new.terminating
        and old.containers == new.containers
        and old.pod_level == new.pod_level
        and old.held == new.held
    )


def _load(sums: dict[str, int], pod: pods.Pod, sign: int) -> None:
    for name, amount in fitscore.assumed(pod).items():
        sums[name] = sums.get(name, 0) + sign * amount
