"""What the API server holds, as against what a world has seen of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hami_operator.scheduling import cycle, effects, queue
from tests import builders
from tests.transitions.stage import AL, Stage, placed

PROMISED = "status.nominatedNodeName"


class Truth:
    """Nodes, pods and quotas; each change gets a version of its own."""

    def __init__(self) -> None:
        self.version = 10
        self.nodes: dict[str, builders.NodeBuilder] = {}
        self.pods: dict[str, builders.PodBuilder] = {}
        self.ended: dict[str, builders.PodBuilder] = {}
        self.quotas: dict[str, dict[str, Any]] = {}

    def put(self, name: str, pod: builders.PodBuilder) -> builders.PodBuilder:
        self.version += 1
        self.pods[name] = pod.version(self.version)
        return self.pods[name]

    def put_node(self, name: str, node: builders.NodeBuilder) -> builders.NodeBuilder:
        self.version += 1
        self.nodes[name] = node.version(self.version)
        return self.nodes[name]

    def put_quota(self, name: str, **hard: int) -> dict[str, Any]:
        self.version += 1
        meta = {"namespace": "default", "name": name, "uid": f"uid-{name}"}
        limits = {f"limits.nvidia.com/{key}": str(amount) for key, amount in hard.items()}
        meta["resourceVersion"] = str(self.version)
        self.quotas[name] = {"metadata": meta, "spec": {"hard": limits}}
        return self.quotas[name]

    def end(self, name: str) -> str:
        """A pod is gone; its UID."""
        pod = self.pods.pop(name)
        self.ended[uid_of(pod)] = pod
        return uid_of(pod)

    def node_of(self, name: str) -> str:
        return str(self.pods[name].raw()["spec"].get("nodeName") or "")

    def is_ending(self, name: str) -> bool:
        return "deletionTimestamp" in self.pods[name].raw()["metadata"]

    def land(self, order: effects.Bind) -> builders.PodBuilder:
        """A Binding, as the API server takes it."""
        name = order.pod.name
        bound = placed(self.pods[name], order.node, order.decision.annotations.get(AL, ""))
        return self.put(name, bound.put(PROMISED, ""))

    def write(self, order: effects.Condition) -> None:
        """What a condition leaves on its pod, if that is still there and waits."""
        name = order.pod.name
        if name not in self.pods or uid_of(self.pods[name]) != order.pod.uid or self.node_of(name):
            return
        fields = {"type": "PodScheduled", "status": order.status, "reason": order.reason}
        pod = self.pods[name].put("status.conditions", [{**fields, "message": order.message}])
        nominated = order.nominated
        self.put(name, pod if nominated is None else pod.put(PROMISED, nominated))

    def show(self, stage: Stage) -> None:
        """All that is there, and what is gone, as a list shows it after a gap of the watch."""
        now, world = stage.now, stage.world
        stage.node(*self.nodes.values())
        for name in tuple(world.nodes):
            if name not in self.nodes:
                world.node_gone(name, now)
        stage.quota(*self.quotas.values())
        for one in tuple(world.quotas):
            if one.name not in self.quotas:
                world.quota_gone(one.namespace, one.name, one.uid, now)
        stage.pod(*self.pods.values())
        alive = {uid_of(pod) for pod in self.pods.values()}
        for known in world.known_pods():
            if known.uid not in alive:
                world.pod_gone(known.uid, now)

    def tried_afresh(self, names: Iterable[str], **settings: Any) -> tuple[effects.Effect, ...]:
        """What a world that is new decides about these pods; all others that wait are gated."""
        stage, wanted = Stage(active=False, **settings), set(names)
        stage.node(*self.nodes.values())
        stage.quota(*self.quotas.values())
        for name, pod in self.pods.items():
            open_now = name in wanted or self.node_of(name)
            stage.pod(pod if open_now else pod.gate("not-asked-for"))
        stage.lead()
        return stage.attempts()


def uid_of(pod: builders.PodBuilder) -> str:
    return str(pod.raw()["metadata"]["uid"])


def fitting_but_parked(stage: Stage) -> list[str]:
    """Single pods for which nobody looks although, by what is known, they would find a node."""
    world = stage.world
    if not world.active:
        return []
    return [
        item.pod.name
        for item in world.queue.items()
        if item.place is queue.Place.UNSCHEDULABLE
        and not (item.pod.terminating or item.pod.gang.name)
        and isinstance(world._attempts.decide(item.pod, stage.now), cycle.Placed)
    ]
