"""One simulated node at work: its kubelet, one pod after the other, and its device plugins."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

import structlog

from hami_operator import clock, errors
from hami_operator.cluster import ports
from hami_operator.cluster.kubernetes import admin
from hami_operator.devices import registry, vendor
from hami_operator.protocol import bindphase
from hami_operator.simulator import allocation, catalogue, kubelet, patience, plugin

Raw = ports.Raw
Spawn = Callable[[Coroutine[Any, Any, None]], object]
"""Starts a task that ends with the fleet."""

UNLOCK_ATTEMPTS: Final = 5
_TAINTS: Final = "node.kubernetes.io/not-ready"

_log = structlog.get_logger(__name__)


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
        self._rows = rows
        self._behaviour = behaviour
        self._time = time
        self._pods: dict[str, Raw] = {}
        self._done: set[str] = set()
        self._leaving: set[str] = set()
        self._served: dict[tuple[str, str], int] = {}
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._queued: set[str] = set()
        self._offered: tuple[Mapping[str, int], Mapping[str, int]] | None = None
        self._answering = False

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
        for key in [key for key in self._served if key[0] == uid]:
            del self._served[key]

    async def work(self, spawn: Spawn) -> None:
        """Admit pods, one after the other as kubelet does, until cancelled."""
        while True:
            pod = self._pods.get(await self._queue.get())
            if pod is not None and kubelet.is_new(pod):
                await self._admit(pod, spawn)

    async def _admit(self, pod: Raw, spawn: Spawn) -> None:
        for call in kubelet.calls(pod, self.plugins.values()):
            answer = await self._allocate(call)
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

        await patience.insist(delete, time=self._time, what=f"deletion of {_words(pod)}")

    async def _set_status(self, pod: Raw, status: Mapping[str, Any]) -> None:
        meta = pod["metadata"]
        body = {"metadata": {"uid": meta["uid"]}, "status": status}
        await patience.insist(
            lambda: self._client.patch_pod_status(meta["namespace"], meta["name"], body),
            time=self._time,
            what=f"status of {_words(pod)}",
        )

    # ---- allocation

    async def _allocate(self, call: kubelet.Call) -> allocation.Granted | allocation.Refused:
        """One ``Allocate``."""
        if self.plugins[call.word].delay_s:
            await self._time.sleep(self.plugins[call.word].delay_s)
        one = self.plugins[call.word]  # it may have died meanwhile
        if not one.alive:
            return allocation.Refused(why="rpc error: code = Unavailable", marks=False)
        node = await self._get_node()
        pod = await self._find(one.row, node)
        if isinstance(pod, allocation.Refused):
            return pod
        answer = await self._create(one.row, pod, self._serve(one, pod, call))
        await self._record(one.row, node, pod, answer)
        return answer

    def _serve(
        self, one: plugin.Plugin, pod: Raw, call: kubelet.Call
    ) -> allocation.Granted | allocation.Refused:
        if one.failing:
            self.plugins[call.word] = dataclasses.replace(one, failing=one.failing - 1)
            return allocation.Refused(why="rpc error: code = Unknown desc = told to fail")
        answer = allocation.allocate(one, self._rows, pod, self._served, call)
        if isinstance(answer, allocation.Granted):
            key = (pod["metadata"]["uid"], one.row.keyword)
            self._served[key] = self._served.get(key, 0) + 1
        return answer

    async def _create(
        self, row: vendor.Vendor, pod: Raw, answer: allocation.Granted | allocation.Refused
    ) -> allocation.Granted | allocation.Refused:
        """Write the instances that were made, if the pod is still the one that was read."""
        if isinstance(answer, allocation.Refused) or answer.made is None:
            return answer
        meta = pod["metadata"]
        given = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
        annotations = dict.fromkeys(row.pod.plugin, answer.made)
        body = {"metadata": {**given, "annotations": annotations}}
        written = await patience.insist(
            lambda: self._client.patch_pod(meta["namespace"], meta["name"], body),
            time=self._time,
            what=f"instances of {_words(pod)}",
        )
        why = f"{_words(pod)} was changed while its instances were made"
        return answer if written is not None else allocation.Refused(why=why)

    async def _find(self, row: vendor.Vendor, node: Raw | None) -> Raw | allocation.Refused:
        gone = allocation.Refused(why=f"node {self.host.name} cannot be read", marks=False)
        holder = allocation.holder(row, node) if node is not None else gone
        if isinstance(holder, allocation.Refused):
            return holder
        if holder is None:
            found = await self._listed(row)
            if isinstance(found, allocation.Refused):
                return found
            holder = found["metadata"]["namespace"], found["metadata"]["name"]
        pod = await patience.insist(
            lambda: self._client.get_pod(*holder), time=self._time, what=f"pod {holder}"
        )
        return pod or allocation.Refused(why=f"pod {'/'.join(holder)} is gone", marks=False)

    async def _listed(self, row: vendor.Vendor) -> Mapping[str, Any] | allocation.Refused:
        if not allocation.shares_lock(row):
            new = [pod for uid, pod in self._pods.items() if uid not in self._done]
            return allocation.oldest_unserved(row, new, self._served)
        here = ports.Selector(fields=f"spec.nodeName={self.host.name}")
        try:
            page = await self._client.list_page(ports.PODS, selector=here)
        except errors.ApiError as error:
            return allocation.Refused(why=str(error), marks=False)
        return allocation.first_waiting(self.host.name, page.items)

    async def _record(
        self,
        row: vendor.Vendor,
        node: Raw | None,
        pod: Raw,
        answer: allocation.Granted | allocation.Refused,
    ) -> None:
        """Write what a plugin writes after a call: what is left, the phase, the lock."""
        if isinstance(answer, allocation.Granted):
            if answer.remaining is not None:
                await self._annotate(pod, {row.pod.to_allocate: answer.remaining})
            phase = bindphase.Phase.SUCCESS if answer.finished else None
        else:
            phase = bindphase.Phase.FAILED if answer.marks else None
        if phase is not None:
            await self._annotate(pod, allocation.marks(row, pod, phase))
            await self._unlock(row, node, pod)

    async def _annotate(self, pod: Raw, annotations: Mapping[str, str]) -> None:
        meta = pod["metadata"]
        body = {"metadata": {"uid": meta["uid"], "annotations": annotations}}
        await patience.insist(
            lambda: self._client.patch_pod(meta["namespace"], meta["name"], body),
            time=self._time,
            what=f"annotations of {_words(pod)}",
        )

    async def _unlock(self, row: vendor.Vendor, node: Raw | None, pod: Raw) -> None:
        """Remove the lock if it is still the pod's."""
        for _ in range(UNLOCK_ATTEMPTS):
            key = allocation.releasable(row, node, pod) if node is not None else None
            if node is None or key is None:
                return
            version = node["metadata"]["resourceVersion"]
            body = {"metadata": {"resourceVersion": version, "annotations": {key: None}}}
            try:
                await self._client.patch_node(self.host.name, body)
            except errors.ApiError as error:
                _log.debug("lock not released yet", node=self.host.name, error=str(error))
                node = await self._get_node()
            else:
                return
        _log.warning("lock not released", node=self.host.name, pod=_words(pod))

    async def _get_node(self) -> Raw | None:
        return await patience.insist(
            lambda: self._client.get_node(self.host.name),
            time=self._time,
            what=f"node {self.host.name}",
        )


def _texts(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


def _words(pod: Raw) -> str:
    return f"pod {pod['metadata']['namespace']}/{pod['metadata']['name']}"
