"""Pods on nodes, as other pods see them: labels, terms, ports, disks and claims.

Kept by the events that change it, so that no question looks at every pod. A pod is added when it
is assumed or seen on a node, and removed when it is gone or its assumption is forgotten; both may
come twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from hami_operator.scheduling import fields, fitscore, owners, podaffinity, ports, tallies, volumes
from hami_operator.scheduling import pod as pods


class Neighbours:
    """All pods on nodes.

    Args:
        node_labels: labels of a node by its name; empty for one that is not known.

    Attributes:
        tallies: how many of a kind are where.
        repelling: those that do not want others near.
        wishing: those that would like others near, or rather not.
    """

    def __init__(self, node_labels: Callable[[str], Mapping[str, str]]) -> None:
        self.node_labels = node_labels
        self.tallies = tallies.Tallies()
        self.repelling = owners.Owners(owners.repelling)
        self.wishing = owners.Owners(owners.wishing)
        self._placed: dict[str, tuple[pods.Pod, str]] = {}
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
        self.tallies.add(pod, node)
        if pod.pod_affinity is not podaffinity.NONE:
            self.repelling.add(pod, node)
            self.wishing.add(pod, node)
        if pod.ports or pod.volumes is not volumes.NONE:
            self._on.setdefault(node, {})[pod.uid] = pod
            for claim in pod.volumes.claims:
                self._users.setdefault((pod.namespace, claim.name), set()).add(pod.uid)
        if self._loads is not None:
            _load(self._loads.setdefault(node, {}), pod, 1)

    def remove(self, uid: str) -> tuple[pods.Pod, str] | None:
        """Forget a pod; what to add again to undo it, None if it was not known."""
        known = self._placed.pop(uid, None)
        if known is None:
            return None
        pod, node = known
        self.tallies.drop(pod, node)
        if pod.pod_affinity is not podaffinity.NONE:
            self.repelling.drop(pod, node)
            self.wishing.drop(pod, node)
        if pod.ports or pod.volumes is not volumes.NONE:
            self._leave(pod, node)
        if self._loads is not None:
            _load(self._loads[node], pod, -1)
        return known

    def ports(self, node: str) -> Iterable[ports.Port]:
        """Ports that are taken on a node."""
        return (port for pod in self.holding(node) for port in pod.ports)

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


def _is_alike(old: pods.Pod, new: pods.Pod) -> bool:
    """Whether nothing changed of what can change on a pod that has a node."""
    return (
        old.labels == new.labels
        and old.terminating == new.terminating
        and old.containers == new.containers
        and old.pod_level == new.pod_level
    )


def _load(sums: dict[str, int], pod: pods.Pod, sign: int) -> None:
    for name, amount in fitscore.assumed(pod).items():
        sums[name] = sums.get(name, 0) + sign * amount
