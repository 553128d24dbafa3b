"""A fleet of simulated nodes on any API server, with switches to make things go wrong."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from hami_operator import clock, errors
from hami_operator.cluster import pages, ports
from hami_operator.cluster.kubernetes import admin
from hami_operator.devices import registry
from hami_operator.simulator import catalogue, feed, machine, plugin

BOUND = ports.Selector(fields="spec.nodeName!=")
"""Pods that have a node."""


class Fleet:
    """Simulated nodes: kubelets and device plugins.

    Args:
        hosts: the nodes.
        client: may create nodes and write statuses.
        rows: the vendor rows.
        behaviour: how nodes behave.
        time: the clock.
    """

    def __init__(
        self,
        hosts: Iterable[catalogue.Host],
        client: admin.Admin,
        *,
        rows: registry.Registry | None = None,
        behaviour: machine.Behaviour | None = None,
        time: clock.Clock | None = None,
    ) -> None:
        self._client = client
        self._time = time or clock.SystemClock()
        self._behaviour = behaviour or machine.Behaviour()
        rows = rows or registry.default()
        self.machines = {
            host.name: machine.Machine(host, client, rows, self._behaviour, self._time)
            for host in hosts
        }
        self.started = asyncio.Event()

    async def run(self) -> None:
        """Create the nodes and serve their pods until cancelled."""
        await self.install()
        await self.serve()

    async def install(self) -> None:
        """Create the nodes, or take over those that are there.

        Raises:
            errors.ApiError: a node cannot be created.
        """
        for one in self.machines.values():
            await one.install()

    async def serve(self) -> None:
        """Serve the pods until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for name, one in self.machines.items():
                tasks.create_task(one.work(tasks.create_task), name=f"kubelet {name}")
            sources = self._feeds(tasks.create_task)
            for source in sources:
                tasks.create_task(source.run(), name="simulated nodes watch")
            self._repeat(tasks)
            for source in sources:
                await source.listed.wait()
            self.started.set()

    def _feeds(self, spawn: machine.Spawn) -> tuple[feed.Feed, ...]:
        nodes, pods = _NodeSink(self, spawn), _PodSink(self, spawn)
        return (
            feed.Feed(self._client, ports.NODES, nodes, time=self._time),
            feed.Feed(self._client, ports.PODS, pods, selector=BOUND, time=self._time),
        )

    def _repeat(self, tasks: asyncio.TaskGroup) -> None:
        tasks.create_task(
            self._every(self._behaviour.period_s, machine.Machine.register), name="plugins"
        )
        if self._behaviour.heartbeat_s:
            tasks.create_task(
                self._every(self._behaviour.heartbeat_s, machine.Machine.beat), name="heartbeats"
            )

    async def _every(self, pause_s: float, do: Callable[[machine.Machine], Any]) -> None:
        while True:
            await self._time.sleep(pause_s)
            for one in self.machines.values():
                await do(one)

    async def clean_up(self) -> None:
        """Delete the nodes, and the pods on them as pod garbage collection would."""
        page = await pages.whole(self._client, ports.PODS, selector=BOUND)
        for pod in page.items:
            if pod["spec"]["nodeName"] in self.machines:
                meta = pod["metadata"]
                await self._client.delete(
                    ports.PODS, meta["name"], namespace=meta["namespace"], grace_s=0
                )
        for name in self.machines:
            await self._client.delete(ports.NODES, name)

    # ---- switches

    async def die(self, node: str, word: str, *, noticed: bool = False) -> None:
        """Kill a plugin.

        Args:
            node: whose.
            word: of which row.
            noticed: kubelet offers none of its devices from now on.
        """
        await self._change(node, word, alive=False, missed=noticed)

    async def revive(self, node: str, word: str) -> None:
        """Start a plugin again; it registers at once."""
        await self._change(node, word, alive=True, missed=False)

    async def slow(self, node: str, word: str, delay_s: float) -> None:
        """Let each allocation take so long."""
        await self._change(node, word, delay_s=delay_s)

    async def fail_next(self, node: str, word: str, *, times: int = 1) -> None:
        """Let the next allocations fail."""
        await self._change(node, word, failing=times)

    async def lose(self, node: str, word: str, card: str) -> None:
        """Let a card vanish from the driver."""
        lost = self.plugin(node, word).lost | {card}
        await self._change(node, word, lost=lost)

    async def find(self, node: str, word: str, card: str) -> None:
        """Bring back a card that was lost."""
        lost = self.plugin(node, word).lost - {card}
        await self._change(node, word, lost=lost)

    async def sicken(self, node: str, word: str, card: str) -> None:
        """Turn a card unhealthy."""
        changed = self.plugin(node, word).with_health(card, healthy=False)
        await self._change(node, word, cards=changed.cards)

    async def heal(self, node: str, word: str, card: str) -> None:
        """Turn a card healthy."""
        changed = self.plugin(node, word).with_health(card, healthy=True)
        await self._change(node, word, cards=changed.cards)

    async def offer(self, node: str, word: str, amount: int | None) -> None:
        """Let kubelet offer another amount than the healthy slots; None ends that."""
        await self._change(node, word, allocatable=amount)

    def plugin(self, node: str, word: str) -> plugin.Plugin:
        """A plugin as it is now.

        Raises:
            errors.SettingsError: there is none.
        """
        plugins = self.machines[node].plugins if node in self.machines else {}
        if word not in plugins:
            raise errors.SettingsError(f"{node} {word}", "no such simulated plugin")
        return plugins[word]

    async def _change(self, node: str, word: str, **changes: Any) -> None:
        changed = dataclasses.replace(self.plugin(node, word), **changes)
        self.machines[node].plugins[word] = changed
        await self.machines[node].publish()


class _NodeSink:
    """Tells a machine what became of its Node."""

    def __init__(self, fleet: Fleet, spawn: machine.Spawn) -> None:
        self._machines = fleet.machines
        self._spawn = spawn

    def upsert(self, found: ports.Raw) -> None:
        one = self._machines.get(found["metadata"]["name"])
        if one is not None:
            one.node_seen(found, self._spawn)

    def delete(self, found: ports.Raw) -> None:
        """A Node that somebody deletes stays away, as a real one does until kubelet restarts."""


class _PodSink:
    """Tells a machine what became of its pods."""

    def __init__(self, fleet: Fleet, spawn: machine.Spawn) -> None:
        self._machines = fleet.machines
        self._spawn = spawn

    def upsert(self, found: ports.Raw) -> None:
        one = self._machines.get(found["spec"].get("nodeName", ""))
        if one is not None:
            one.pod_seen(found, self._spawn)

    def delete(self, found: ports.Raw) -> None:
        one = self._machines.get(found["spec"].get("nodeName", ""))
        if one is not None:
            one.pod_gone(found)
