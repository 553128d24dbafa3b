"""One run of `end_to_end`: a burst of pods, and pods that wait until others end."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks import actors, api, figures, meter, objects
from hami_operator.protocol import keys
from hami_operator.simulator import audit

EXTENDED: Final = "example.com/gpu"
"""What kube-scheduler counts instead of cards."""
SLOTS: Final = 10
"""Pods that may share a card; so the extended resource has as many units per card."""
REST_S: Final = 3.0
"""Pods that wait for capacity wait so long at least: their first back-off is over."""
SETTLE_S: Final = 0.5
"""For what a scheduler writes after its last bind."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How large a run is.

    Attributes:
        nodes: in the cluster.
        cards: per node.
        pods: in the burst.
        waiting: pods that wait while as many others end; 0 leaves that part out.
        deadline_s: for each part of a run.
    """

    nodes: int
    cards: int
    pods: int
    waiting: int
    deadline_s: float


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """What a run needs.

    Attributes:
        scheduler: runs and is ready.
        variant: what is measured.
        size: how much of it.
        pids: name to id of each process whose CPU time is measured.
        audit_log: of the API server.
    """

    scheduler: actors.Scheduler
    variant: actors.Variant
    size: Size
    pids: Mapping[str, int]
    audit_log: Path

    def pods(self, prefix: str, number: int, *, whole: bool = False) -> list[objects.Raw]:
        """Pods that want a part of a card, or with ``whole`` all cards of a node."""
        made = [objects.pod(f"{prefix}-{at}", self._limits(whole=whole)) for at in range(number)]
        for pod in made:
            if self.variant.name == actors.FLOOR:
                pod["spec"]["schedulerName"] = "default-scheduler"
        return made

    def _limits(self, *, whole: bool) -> dict[str, int]:
        if self.variant.name == actors.FLOOR:
            return {EXTENDED: self.size.cards * SLOTS if whole else 1}
        return objects.whole(self.size.cards) if whole else objects.gpu()


async def prepare(client: api.Api, nodes: Iterable[str], cards: int) -> None:
    """Let the nodes offer the extended resource as well, and carry no lock of an earlier run."""
    amount = {EXTENDED: str(cards * SLOTS)}
    status = {"status": {"capacity": amount, "allocatable": amount}}
    unlocked = {"metadata": {"annotations": {keys.NODE_LOCK: None}}}
    for name in nodes:
        path = f"/api/v1/nodes/{name}"
        await client.call("PATCH", f"{path}/status", status, kind=api.MERGE)
        await client.call("PATCH", path, unlocked, kind=api.MERGE)


async def burst(client: api.Api, eyes: api.Eyes, run: Run) -> dict[str, Any]:
    """Create the pods at once and wait until all are bound and run."""
    pods = run.pods("burst", run.size.pods)
    names = [pod["metadata"]["name"] for pod in pods]
    log, cpu = meter.Audit(run.audit_log, run.scheduler.user), _cpu(run.pids)
    deadline = time.monotonic() + run.size.deadline_s
    sent = await client.create(pods)
    await eyes.until(lambda: eyes.count(names, "bound_s") == len(names), deadline)
    await eyes.until(lambda: eyes.count(names, "running_s") == len(names), deadline)
    await asyncio.sleep(SETTLE_S)
    spent, asked = _cpu(run.pids), log.take()
    bound = eyes.times(names, "bound_s")
    return {
        "variant": run.variant.name,
        "bound": len(bound),
        "of": len(names),
        "watch_interruptions": eyes.interruptions,
        "load_average": round(os.getloadavg()[0], 2),
        **_speed(sent, bound),
        **{f"{who}_ms_per_pod": (spent[who] - cpu[who]) * 1000 / len(names) for who in cpu},
        "reads_per_pod": asked.reads / len(names),
        "writes_per_pod": asked.writes / len(names),
        "requests": asked.counts,
        "faults": await _faults(client),
    }


async def _faults(client: api.Api) -> list[str]:
    """What must not be, by the simulator's own check: over-booked cards, misplaced devices."""
    nodes = await client.call("GET", "/api/v1/nodes")
    pods = await client.call("GET", api.POD_PATH)
    return list(audit.findings(nodes["items"], pods["items"]))


def _speed(sent: Mapping[str, float], bound: Mapping[str, float]) -> dict[str, Any]:
    """Pods a second from the first creation to the last bind; waits of what was bound."""
    if not bound:
        return {"pods_per_s": 0.0}
    elapsed_s = max(bound.values()) - min(sent.values())
    waits = [at - sent[name] for name, at in bound.items()]
    return {"pods_per_s": len(bound) / elapsed_s, **figures.spread(waits, "s")}


async def waiting(client: api.Api, eyes: api.Eyes, run: Run) -> dict[str, Any]:
    """Fill every node with one pod, let more wait, end as many, and time their binds.

    The i-th bind is timed from the i-th end, both as the watch shows them: any of the waiting
    pods may take any of the nodes.
    """
    number = run.size.waiting
    holders, waiters = (
        run.pods("holder", run.size.nodes, whole=True),
        run.pods("waiter", number, whole=True),
    )
    held, waited = _names(holders), _names(waiters)
    deadline = time.monotonic() + run.size.deadline_s
    await client.create(holders)
    full = await eyes.until(lambda: eyes.count(held, "running_s") == len(held), deadline)
    await client.create(waiters)
    parked = await eyes.until(lambda: eyes.count(waited, "refused_s") == number, deadline)
    if not (full and parked):
        return {"waiting_p99_s": None}
    await asyncio.sleep(REST_S)
    await client.delete(held[:number])
    deadline = time.monotonic() + run.size.deadline_s
    await eyes.until(lambda: eyes.count(waited, "bound_s") == number, deadline)
    ends = sorted(eyes.times(held[:number], "gone_s").values())
    binds = sorted(eyes.times(waited, "bound_s").values())
    if len(binds) < number:
        return {"waiting_p99_s": None}
    waits = [bind - end for end, bind in zip(ends, binds, strict=True)]
    return {f"waiting_{key}": value for key, value in figures.spread(waits, "s").items()}


def _names(pods: Sequence[objects.Raw]) -> list[str]:
    return [pod["metadata"]["name"] for pod in pods]


def _cpu(pids: Mapping[str, int]) -> dict[str, float]:
    return {who: meter.cpu_s(pid) for who, pid in pids.items()}
