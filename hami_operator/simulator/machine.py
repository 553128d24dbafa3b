"""One simulated node at work: its kubelet, one pod after the other, and its device plugins."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from hami_operator import clock, errors
from hami_operator.cluster import ports
from hami_operator.cluster.kubernetes import admin
from hami_operator.devices import registry
from hami_operator.simulator import allocation, catalogue, kubelet, patience, plugin, service

Raw = ports.Raw
Spawn = Callable[[Coroutine[Any, Any, None]], object]
"""Starts a task that ends with the fleet."""

_TAINTS: Final = "node.kubernetes.io/not-ready"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Behaviour:
    """How simulated nodes behave.

    Attributes:
        period_s: pause between two registrations of a plugin that answers the handshake.
        answers_at_once: such a plugin also answers when it sees a question.
        grace_s: how long a deleted pod takes to end, at most its own grace period.
        init_s: how long init containers run.
        delay_s: how long an allocation takes, until a switch says otherwise.
        heartbeat_s: pause between two heartbeats of a node; 0 for none, where no controller looks.
    """

    period_s: float = 30.0
    answers_at_once: bool = True
    grace_s: float = 0.2
    init_s: float = 0.0
    delay_s: float = 0.0
    heartbeat_s: float = 10.0


class Machine:
    """A node.

    Args:
        host: what it is.
        client: talks to the API server as this node's kubelet and plugins.
        rows: the vendor rows.
        behaviour: how it behaves.
        time: the clock.
    """

    def __init__(
        self,
        host: catalogue.Host,
        client: admin.Admin,
        rows: registry.Registry,
        behaviour: Behaviour,
        time: clock.Clock,
    ) -> None:
        self.host = host
        self.plugins = {
            equipment.model.word: plugin.install(
                rows.by_word[equipment.model.word],
                equipment,
                host.name,
                delay_s=behaviour.delay_s,
            )
            for equipment in host.equipment
        }
        self._client = client
        self._behaviour = behaviour
        self._time = time
        self._pods: dict[str, Raw] = {}
        self._done: set[str] = set()
        self._leaving: set[str] = set()
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._queued: set[str] = set()
        self._offered: tuple[Mapping[str, int], Mapping[str, int]] | None = None
        self._answering = False
        self._service = service.Service(
            host.name, self.plugins, client, rows, waiting=self._waiting, time=time
        )

    # ---- the Node

    async def install(self) -> None:
        """Create the Node, or take over one of that name, and let pods in."""
        try:
            made = await self._client.create(ports.NODES, self._node())
        except errors.Conflict:
            made = await self._client.get_node(self.host.name)
            await self.publish()
        self._offered = self._resources()
        taints = [one for one in made["spec"].get("taints") or () if one["key"] != _TAINTS]
        if taints != (made["spec"].get("taints") or []):
            await self._client.patch_node(self.host.name, {"spec": {"taints": taints or None}})

    def _node(self) -> Raw:
        host = self.host
        labels = {"kubernetes.io/hostname": host.name, "kubernetes.io/os": "linux"}
        for equipment in host.equipment:
            labels |= equipment.model.labels
        labels |= host.labels
        ordinary = {"cpu": host.cpu, "memory": host.memory, "pods": host.pods}
        capacity, allocatable = self._resources()
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": host.name,
                "labels": labels,
                "annotations": self._annotations(self.plugins.values()),
            },
            "spec": {},
            "status": {
                "capacity": ordinary | _texts(capacity),
                "allocatable": ordinary | _texts(allocatable),
                "conditions": [kubelet.node_ready(self._time.wall())],
            },
        }

    def _annotations(self, plugins: Any) -> dict[str, str]:
        written: dict[str, str] = {}
        for one in plugins:
            written |= plugin.registration(one, self._time.wall()) if one.alive else {}
        return written

    def _resources(self) -> tuple[Mapping[str, int], Mapping[str, int]]:
        capacity: dict[str, int] = {}
        allocatable: dict[str, int] = {}
        for one in self.plugins.values():
            capacity |= plugin.capacity(one)
            allocatable |= plugin.allocatable(one)
        return capacity, allocatable

    async def publish(self) -> None:
        """Write what changed: registers of living plugins, and what kubelet offers."""
        await self._write_annotations(self._annotations(self.plugins.values()))
        resources = self._resources()
        if resources != self._offered:
            self._offered = resources
            capacity, allocatable = map(_texts, resources)
            await self._patch_status({"capacity": capacity, "allocatable": allocatable})

    async def register(self) -> None:
        """What the plugins that answer the handshake do every period, in one PATCH."""
        speaking = [one for one in self.plugins.values() if one.handshake_key]
        await self._write_annotations(self._annotations(speaking))

    async def beat(self) -> None:
        """A heartbeat, for a controller that would else call the node dead."""
        await self._patch_status({"conditions": [kubelet.node_ready(self._time.wall())]})

    async def _write_annotations(self, annotations: Mapping[str, str]) -> None:
        if annotations:
            await self._patch_node({"metadata": {"annotations": annotations}})

    async def _patch_node(self, body: Raw) -> None:
        await patience.insist(
            lambda: self._client.patch_node(self.host.name, body),
            time=self._time,
            what=f"node {self.host.name}",
        )

    async def _patch_status(self, status: Raw) -> None:
        await patience.insist(
            lambda: self._client.patch_node_status(self.host.name, {"status": status}),
            time=self._time,
            what=f"status of node {self.host.name}",
        )

    def node_seen(self, found: Raw, spawn: Spawn) -> None:
        """Answer a question, if the node carries one."""
        annotations = found["metadata"].get("annotations") or {}
        asked = any(
            one.alive and plugin.is_asked(one, annotations) for one in self.plugins.values()
        )
        if asked and self._behaviour.answers_at_once and not self._answering:
            self._answering = True
            spawn(self._answer())

    async def _answer(self) -> None:
        self._answering = False  # what is asked from now on is a new question
        await self.register()

    # ---- pods

    def pod_seen(self, pod: Raw, spawn: Spawn) -> None:
        """Take up a pod that is bound to this node."""
        uid = pod["metadata"]["uid"]
        self._pods[uid] = pod
        if "deletionTimestamp" in pod["metadata"] and uid not in self._leaving:
            self._leaving.add(uid)
            spawn(self._remove(pod))
        elif kubelet.is_new(pod) and uid not in self._queued:
            self._queued.add(uid)
            self._queue.put_nowait(uid)

    def pod_gone(self, pod: Raw) -> None:
        """Forget a pod."""
        uid = pod["metadata"]["uid"]
        for known in (self._done, self._leaving, self._queued):
            known.discard(uid)
        self._pods.pop(uid, None)
        self._service.forget(uid)

    async def work(self, spawn: Spawn) -> None:
        """Admit pods, one after the other as kubelet does, until cancelled."""
        while True:
            pod = self._pods.get(await self._queue.get())
            if pod is not None and kubelet.is_new(pod):
                await self._admit(pod, spawn)

    def _waiting(self) -> list[Raw]:
        return [pod for uid, pod in self._pods.items() if uid not in self._done]

    async def _admit(self, pod: Raw, spawn: Spawn) -> None:
        for call in kubelet.calls(pod, self.plugins.values()):
            answer = await self._service.allocate(call.word, (call,))
            if isinstance(answer, allocation.Refused):
                self._done.add(pod["metadata"]["uid"])
                await self._set_status(pod, kubelet.refused(answer.why))
                return
        self._done.add(pod["metadata"]["uid"])
        spawn(self._live(pod))

    async def _live(self, pod: Raw) -> None:
        """Run the pod's containers, and end them if the pod says when."""
        if self._behaviour.init_s and pod["spec"].get("initContainers"):
            await self._set_status(pod, kubelet.initializing(pod, self._time.wall()))
            await self._time.sleep(self._behaviour.init_s)
        await self._set_status(pod, kubelet.running(pod, self._time.wall()))
        seconds = kubelet.runs_for_s(pod)
        if seconds is not None:
            await self._time.sleep(seconds)
            await self._set_status(pod, kubelet.succeeded(pod, self._time.wall()))

    async def _remove(self, pod: Raw) -> None:
        meta = pod["metadata"]
        asked_s = float(meta.get("deletionGracePeriodSeconds") or 0)
        await self._time.sleep(min(self._behaviour.grace_s, asked_s))

        async def delete() -> Raw:
            await self._client.delete(
                ports.PODS, meta["name"], namespace=meta["namespace"], uid=meta["uid"], grace_s=0
            )
            return {}

        await patience.insist(delete, time=self._time, what=f"deletion of {patience.words(pod)}")

    async def _set_status(self, pod: Raw, status: Mapping[str, Any]) -> None:
        meta = pod["metadata"]
        body = {"metadata": {"uid": meta["uid"]}, "status": status}
        await patience.insist(
            lambda: self._client.patch_pod_status(meta["namespace"], meta["name"], body),
            time=self._time,
            what=f"status of {patience.words(pod)}",
        )


def _texts(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}
