"""The operator and a simulated node: no plugin ever takes the devices of another pod.

A plugin that finds no lock takes the first pod by name that is pending and under way. So in each
case here the wrong pod has the earlier name, and would be taken were it not for the lock rules;
its plugin then has nothing to hand out, and both pods fail.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from hami_operator import settings
from hami_operator.cli import demo
from hami_operator.cluster import ports
from hami_operator.cluster.kubernetes import admin
from hami_operator.cluster.memory import server, store
from hami_operator.protocol import keys
from hami_operator.simulator import catalogue, fleet, machine
from tests import fakes

NVIDIA = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1000", "nvidia.com/gpucores": "5"}
HCU = {"hygon.com/hcunum": "1", "hygon.com/hcumem": "1000", "hygon.com/hcucores": "5"}
DCU = {"hygon.com/dcunum": "1", "hygon.com/dcumem": "1000", "hygon.com/dcucores": "5"}
MTHREADS = {"mthreads.com/vgpu": "1", "mthreads.com/sgpu-memory": "4"}
INIT_S = 1.5


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """Two pods, one after the other, on one node.

    Attributes:
        mode: the setting ``node_lock``.
        equipment: families of the node's cards.
        first: name and limits of the pod that comes first.
        is_slow: the first one is served, and then stays pending for a while.
        slow_plugin: the plugin that takes its time to serve the first pod.
        second: the same of the pod that follows once the first is served, or bound.
    """

    mode: str
    equipment: tuple[str, ...]
    first: tuple[str, Mapping[str, str]]
    is_slow: bool = False
    slow_plugin: str = ""
    second: tuple[str, Mapping[str, str]]


class Node:
    """One simulated node with the operator beside it."""

    def __init__(self, api: server.ApiServer, client: admin.Admin) -> None:
        self._api = api
        self._client = client

    async def create(self, name: str, limits: Mapping[str, str], *, is_slow: bool) -> None:
        container = {"name": "app", "image": "i", "resources": {"limits": dict(limits)}}
        spec: dict[str, Any] = {"schedulerName": "hami-scheduler", "containers": [container]}
        if is_slow:
            spec["initContainers"] = [{"name": "init", "image": "i"}]
        body = {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
        await self._client.create(ports.PODS, body, namespace="default")

    def pod(self, name: str) -> Any:
        return self._api.call(self._api.store.get, "pods", ("default", name)).obj

    def phase(self, name: str) -> str:
        return str(self.pod(name)["status"]["phase"])

    def is_served(self, name: str) -> bool:
        written = self.pod(name)["metadata"].get("annotations") or {}
        return written.get(keys.BIND_PHASE) == "success"

    def is_bound(self, name: str) -> bool:
        return bool(self.pod(name)["spec"].get("nodeName"))


@contextlib.asynccontextmanager
async def playing(case: Case) -> AsyncIterator[Node]:
    """A fleet of one node, and the operator, until the block ends."""
    models = (catalogue.MODELS[family] for family in case.equipment)
    equipment = tuple(catalogue.Equipment(model=model, number=2) for model in models)
    behaviour = machine.Behaviour(period_s=3600.0, init_s=INIT_S, heartbeat_s=0.0)
    chosen = settings.load(demo.SETTINGS | {"node_lock": case.mode})
    stop = asyncio.Event()
    with server.ApiServer(store.Store()) as api:
        client = await admin.Admin.connect(server=api.url)
        host = catalogue.Host(name="n1", equipment=equipment)
        simulated = fleet.Fleet((host,), client, behaviour=behaviour)
        async with asyncio.TaskGroup() as tasks:
            stage = tasks.create_task(simulated.run())
            await asyncio.wait_for(simulated.started.wait(), 10)
            if case.slow_plugin:
                await simulated.slow("n1", case.slow_plugin, 0.3)
            operator = tasks.create_task(demo.operate(chosen, api.url, stop))
            yield Node(api, client)
            stop.set()
            await operator
            stage.cancel()
        await client.close()


BOTH_MODES = ("annotation", "memory")


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            Case(
                mode="memory",
                equipment=("nvidia",),
                first=("a", NVIDIA),
                is_slow=True,
                second=("b", NVIDIA),
            ),
            id="no lock is written, and a pod that was served is still pending",
        ),
        pytest.param(
            Case(
                mode="memory",
                equipment=("nvidia", "mthreads"),
                first=("a", MTHREADS),
                is_slow=True,
                second=("b", NVIDIA),
            ),
            id="no lock is written, and a pod of a type without a lock is still pending",
        ),
        pytest.param(
            Case(
                mode="memory",
                equipment=("nvidia", "mthreads"),
                first=("b", NVIDIA),
                slow_plugin="NVIDIA",
                second=("a", MTHREADS),
            ),
            id="no lock is written, and a pod of a type without a lock comes meanwhile",
        ),
        *(
            pytest.param(
                Case(
                    mode=mode,
                    equipment=("nvidia", "hcu"),
                    first=("a", NVIDIA),
                    is_slow=True,
                    second=("b", NVIDIA | HCU),
                ),
                id=f"two types share a lock, and a pod that was served is still pending: {mode}",
            )
            for mode in BOTH_MODES
        ),
        *(
            pytest.param(
                Case(
                    mode=mode,
                    equipment=("dcu", "hcu"),
                    first=("b", DCU | HCU),
                    slow_plugin="HCU",
                    second=("a", HCU),
                ),
                id=f"two types share a lock, and the next pod comes between them: {mode}",
            )
            for mode in BOTH_MODES
        ),
    ],
)
async def test_every_pod_gets_its_own_devices(case: Case) -> None:
    async with playing(case) as node:
        name, limits = case.first
        await node.create(name, limits, is_slow=case.is_slow)
        ready = node.is_served if case.is_slow else node.is_bound
        await fakes.eventually(lambda: ready(name))
        assert node.phase(name) == "Pending"
        await node.create(*case.second, is_slow=False)
        await fakes.eventually(lambda: not {"Pending"} & {node.phase("a"), node.phase("b")})
        ends = {each: node.pod(each)["status"].get("message", "runs") for each in ("a", "b")}
        assert ends == {"a": "runs", "b": "runs"}
