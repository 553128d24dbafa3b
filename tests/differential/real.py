"""The real kube-scheduler and the real operator on one API server, offered node after node.

Each node has a resource of its own name. A copy of the pod that asks for that resource can go to
this node or nowhere, so where it lands tells what the scheduler thinks of the node, and no other
rule sees a difference.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import dataclasses
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Final

from hami_operator import clock
from hami_operator.cluster import ports
from hami_operator.simulator import feed, mirror
from tests.conformance import cluster as clusters
from tests.conformance import servers
from tests.controlplane import cluster as controlplane
from tests.differential import chance, compare, generate, oracle, ours, stage

THEIRS: Final = "default-scheduler"
OURS: Final = clusters.SCHEDULER
DEADLINE_S: Final = 60.0
"""For one decision; nothing takes so long unless something is wrong."""
AGAIN: Final = 2
"""So often a node is offered again that the two judge differently: an answer that was given before
the scheduler had seen all objects does not come twice."""
_UNLISTED: Final = "waiting for the first list"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """Which nodes of one scenario take the pod, by kube-scheduler and by ours."""

    scenario: oracle.Scenario
    theirs: tuple[str, ...]
    ours: tuple[str, ...]


@dataclasses.dataclass(kw_only=True)
class Played:
    """Figures of a run.

    Attributes:
        scenarios: how many were played.
        offers: how many nodes were offered to each.
        placed: in how many scenarios kube-scheduler takes a node.
        mixed: in how many of them it refuses another.
        meant: in how many scenarios ours is stricter, and that is explained.
        faults: what is not as it should be.
    """

    scenarios: int = 0
    offers: int = 0
    placed: int = 0
    mixed: int = 0
    meant: int = 0
    faults: list[str] = dataclasses.field(default_factory=list)

    def add(self, played: Verdict, judge: oracle.Oracle) -> None:
        """Compare what both did with each other, and with what kube-scheduler's code says."""
        (said,) = judge.ask([played.scenario])
        nodes = len(played.scenario["kinds"]["nodes"])
        self.scenarios += 1
        self.offers += nodes
        self.placed += bool(played.theirs)
        self.mixed += 0 < len(played.theirs) < nodes
        name = played.scenario["id"]
        if said.feasible != played.theirs:
            self.faults.append(f"{name}: oracle {said.feasible}, kube-scheduler {played.theirs}")
        if played.ours == played.theirs:
            return
        if self._is_meant(played, said):
            self.meant += 1
        else:
            self.faults.append(f"{name}: kube-scheduler {played.theirs}, ours {played.ours}")

    def lines(self) -> Iterator[str]:
        """The table."""
        yield f"scenarios played {self.scenarios}, nodes offered to each scheduler {self.offers}"
        yield f"  kube-scheduler takes a node: {self.placed}; refuses another: {self.mixed}"
        yield f"scenarios in which ours is stricter as explained: {self.meant}"
        yield f"differences that are not explained: {len(self.faults)}"
        yield from (f"  {one}" for one in self.faults)

    def _is_meant(self, played: Verdict, said: oracle.Verdict) -> bool:
        """Whether ours is stricter, and the comparison of answers explains it."""
        found = compare.find(played.scenario, said, ours.judge(played.scenario))
        refused = {one.node for one in found if one.about is compare.About.REFUSES and one.meant}
        return set(played.theirs) - refused == set(played.ours)


class Arena:
    """Both schedulers on one API server.

    Args:
        cluster: where they run.
    """

    def __init__(self, cluster: clusters.Cluster) -> None:
        self._stage = stage.Stage(cluster.api)
        self._bell = asyncio.Event()
        self._pods = mirror.Mirror(self._bell)
        self._admin = cluster.admin
        self._numbers = 0

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[Arena]:
        """Watch the pods inside the block."""
        own = ports.Selector(fields=f"metadata.namespace={chance.OWN}")
        time = clock.SystemClock()
        eyes = feed.Feed(self._admin, ports.PODS, self._pods, selector=own, time=time)
        async with clusters.background(eyes.run(), "pods"):
            await self._stage.prepare()
            yield self

    async def judge(self, scenario: oracle.Scenario) -> Verdict:
        """Offer every node of a scenario to both."""
        await self._stage.put(scenario)
        taken: dict[str, list[str]] = {THEIRS: [], OURS: []}
        try:
            for node in scenario["kinds"]["nodes"]:
                name = node["metadata"]["name"]
                for scheduler in await self._takers(scenario, name):
                    taken[scheduler].append(name)
        finally:
            await self._stage.clear()
        return Verdict(
            scenario=scenario,
            theirs=tuple(sorted(taken[THEIRS])),
            ours=tuple(sorted(taken[OURS])),
        )

    async def _takers(self, scenario: oracle.Scenario, node: str) -> list[str]:
        takers: list[str] = []
        for _ in range(1 + AGAIN):
            takers = [one for one in (THEIRS, OURS) if await self._takes(scenario, node, one)]
            if len(takers) != 1:
                break
        return takers

    async def _takes(self, scenario: oracle.Scenario, node: str, scheduler: str) -> bool:
        self._numbers += 1
        name = f"p-{self._numbers}"
        await self._stage.create_pod(_copy(scenario["pod"], name, node, scheduler))
        nodes = len(scenario["kinds"]["nodes"])
        await self._until(lambda: self._is_decided(name, nodes), f"{scheduler} decides {name}")
        found = self._pods.get(name)
        landed = found["spec"].get("nodeName", "") if found else ""
        assert landed in {"", node}, f"{scenario['id']}: {scheduler} put {name} on {landed}"
        await self._stage.delete_pod(name)
        await self._until(lambda: self._pods.get(name) is None, f"{name} is gone")
        return bool(landed)

    def _is_decided(self, name: str, nodes: int) -> bool:
        """Whether a pod is bound, or was refused by a scheduler that has seen all nodes."""
        found = self._pods.get(name)
        if found is None:
            return False
        if found["spec"].get("nodeName"):
            return True
        told = [one for one in found["status"].get("conditions", ()) if _is_refusal(one)]
        return any(
            one["message"].startswith(f"0/{nodes} nodes are") and _UNLISTED not in one["message"]
            for one in told
        )

    async def _until(self, holds: object, what: str) -> None:
        assert callable(holds)
        assert await mirror.until(holds, self._bell, timeout_s=DEADLINE_S), (
            f"not within {DEADLINE_S:.0f} s: {what}: {self._pods.all()[-1:]}"
        )


@contextlib.asynccontextmanager
async def arena(folder: Path) -> AsyncIterator[Arena]:
    """Servers, kube-scheduler and the operator, all of their own; gone after the block."""
    with controlplane.ControlPlane() as running:
        running.start_scheduler()
        async with clusters.opened(servers.Real(running), folder) as cluster:
            # One watch for all pods, as kube-scheduler has it: what is gone is seen to be gone.
            await cluster.deciding(node_source="reflector")
            async with Arena(cluster).open() as made:
                yield made


async def judged(seeds: Iterable[int], folder: Path) -> AsyncIterator[Verdict]:
    """Verdicts on the scenarios of these seeds that can be played."""
    async with arena(folder) as both:
        for scenario in playable(seeds):
            yield await both.judge(scenario)


def playable(seeds: Iterable[int]) -> Iterator[oracle.Scenario]:
    """Those scenarios in which a pod is tried, and changes nothing but where it is."""
    return (one for one in map(generate.scenario, seeds) if _is_playable(one))


def _is_playable(scenario: oracle.Scenario) -> bool:
    spec = scenario["pod"]["spec"]
    if spec.keys() & {"nodeName", "schedulingGates"} or not _has_devices(scenario):
        return False
    volumes = spec.get("volumes", ())
    if any("ephemeral" in one for one in volumes):
        return False
    names = {one.get("persistentVolumeClaim", {}).get("claimName") for one in volumes}
    return not any(
        claim["metadata"]["name"] in names and not claim["spec"].get("volumeName")
        for claim in scenario["kinds"].get("persistentvolumeclaims", ())
        if claim["metadata"]["namespace"] == chance.OWN
    )


def _has_devices(scenario: oracle.Scenario) -> bool:
    """Whether a pod's claims of devices let it be tried, and stay as they are."""
    wanted = scenario["pod"]["spec"].get("resourceClaims", ())
    kinds = scenario["kinds"]
    known = {one["metadata"]["name"]: one for one in kinds.get("resourceclaims", ())}
    claims = [known.get(one.get("resourceClaimName", "")) for one in wanted]
    return all(
        claim is not None
        and "deletionTimestamp" not in claim["metadata"]
        and ("allocation" in claim["status"] or not kinds.get("resourceslices"))
        for claim in claims
    )


def _is_refusal(condition: chance.Raw) -> bool:
    return (condition["type"], condition["status"], condition.get("reason")) == (
        "PodScheduled",
        "False",
        "Unschedulable",
    )


def _copy(pod: chance.Raw, name: str, node: str, scheduler: str) -> chance.Raw:
    made = copy.deepcopy(pod)
    made["metadata"]["name"] = name
    made["spec"]["schedulerName"] = scheduler
    resources = made["spec"]["containers"][0].setdefault("resources", {})
    for field in ("requests", "limits"):
        resources.setdefault(field, {})[f"{stage.TOKEN}{node}"] = "1"
    return made
