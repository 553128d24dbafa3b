"""One test per row of the scheduler's cases about node locks and the binds that take them."""

from __future__ import annotations

import asyncio
import dataclasses
import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import pytest

from hami_operator import errors
from hami_operator.cluster import ports
from hami_operator.devices import registry as registries
from hami_operator.devices import vendor
from hami_operator.protocol import instant, keys, nodelock
from hami_operator.runtime import binder, carrier, locker, outcome
from hami_operator.scheduling import effects, locks, written
from tests import builders, fakes
from tests.cases import loader, scheduler_cluster, uncovered
from tests.runtime import bench

Case = Mapping[str, Any]
OPERATIONS: Final = ("lock", "unlock", "bind")
ROWS: Final = [
    row
    for row in (loader.rows(scheduler_cluster.FILE) if scheduler_cluster.DOCUMENT["cases"] else [])
    if row["when"]["op"] in OPERATIONS
]


class Scene:
    """A node with a lock, the pods that matter, and an API server that does as it is told."""

    def __init__(self, on: bench.Bench, stated: Case, when: Case) -> None:
        self.on = on
        self.node = when["node"]
        self.call = f"PATCH nodes/{self.node}"
        pod = when["pod"]
        self.claim = nodelock.Claim(
            namespace=pod["ns"], name=pod["name"], uid="uid-claim", created=fakes.START
        )
        if stated.get("nodes", {self.node: []}):
            on.add_node(self.node)
            on.set_lock(scheduler_cluster.lock_value(stated.get("lock")), self.node)
        for raw in stated.get("pods", ()):
            self._add_pod(raw)
        for step in stated.get("api", {}).get("patch", ()):
            self._plan(step)

    def _add_pod(self, raw: Case) -> None:
        made = builders.pod(raw["name"], raw["ns"]).container("c").on(raw["node"])
        made = made.phase(raw.get("phase", "Running"))
        if "bind_phase" in raw:
            made = made.annotate({keys.BIND_PHASE: raw["bind_phase"]})
        with_namespace = {"metadata": {"name": raw["ns"]}}
        if self.on.store.find("namespaces", ("", raw["ns"])) is None:
            self.on.store.create("namespaces", with_namespace)
        self.on.add(made)

    def _plan(self, step: Case) -> None:
        """What happens to the next PATCH of the node."""
        fault = bench.Fault(call=self.call)
        if step.get("answer") == "lost":
            fault.error, fault.after_write = errors.Unclear("lost"), step["applied"]
        elif step.get("status", 200) != 200:
            kinds = {409: errors.Conflict, 403: errors.Forbidden, 500: errors.Unclear}
            fault.error = kinds[step["status"]]("refused", status=step["status"])
        if "meanwhile" in step:
            taken = scheduler_cluster.lock_value(step["meanwhile"]["lock"])
            fault.before = lambda: self.on.set_lock(taken, self.node)
        self.on.api.faults.append(fault)

    @property
    def patches(self) -> int:
        """How many PATCHes of the node were answered by the API server.

        A request that was sent again as its first answer was lost counts once.
        """
        return self.on.api.calls.count(self.call)


async def _within(on: bench.Bench, work: Any, seconds: float = 5.0) -> Any:
    task = asyncio.ensure_future(work)
    await on.run(seconds)
    return await task


async def _attempt(scene: Scene, times: int) -> list[tuple[str, str]]:
    """The lock, taken so many times in a row: results with their texts."""
    results = []
    for _ in range(times):
        try:
            taken = await _within(
                scene.on, scene.on.latch.take(scene.claim, scene.node, keys.NODE_LOCK)
            )
        except errors.ApiError as error:
            results.append(("error", str(error)))
            continue
        text = "" if taken else scene.on.latch.contention(scene.node, keys.NODE_LOCK)
        results.append(("ok" if taken else "contention", text))
    return results


async def _lock(stated: Case, when: Case, want: Case) -> None:
    configured = {name: value for name, value in stated.get("settings", {}).items()}
    async with bench.running(**configured) as on:
        scene = Scene(on, stated, when)
        if "busy_in_process" in stated:
            await _occupy(on, stated["busy_in_process"])
        await on.run()
        results = await _attempt(scene, when.get("times", 1))
        expected = want["result"] if isinstance(want["result"], list) else [want["result"]]
        assert [result for result, _ in results] == expected
        assert want.get("error_contains", "") in results[-1][1]
        _check_lock(scene, want)


async def _occupy(on: bench.Bench, node: str) -> None:
    """A bind of ours that is in the middle of its writes on another node."""
    on.add_node(node)
    on.api.hold("POST pods/busy/binding")
    pinned = on.ask("busy").requires(builders.pin(node))
    on.add(pinned)
    await on.run()
    assert on.locker.waiting == 1


def _check_lock(scene: Scene, want: Case) -> None:
    on = scene.on
    if "lock" in want:
        assert scheduler_cluster.lock_matches(on.lock(scene.node), want["lock"])
    if "lock_time" in want:
        assert re.match(scheduler_cluster.RFC_3339, on.lock(scene.node) or "")
    if "patches" in want:
        assert scene.patches == want["patches"]
    for path in want.get("patch_has", ()):
        body = on.api.body(scene.call)
        for part in path.split("."):
            body = body[part]
        assert body
    for event in want.get("events", ()):
        assert f"{event['reason']} {event['object']}" in on.reasons


async def _unlock(stated: Case, when: Case, want: Case) -> None:
    async with bench.running() as on:
        scene = Scene(on, stated, when)
        await on.run()
        await _within(on, on.latch.release(scene.claim, scene.node, keys.NODE_LOCK))
        assert want["result"] == "ok"
        _check_lock(scene, want)


# ---- several locks


@dataclasses.dataclass
class Latch:
    """Stands in for single locks, and does with each what a row says."""

    plans: Mapping[str, Sequence[Any]]
    calls: list[str] = dataclasses.field(default_factory=list)

    def judge(self, *_: object) -> nodelock.Judgement:
        return nodelock.Judgement(verdict=nodelock.Verdict.SET, row=1)

    def is_leaving(self, *_: object) -> bool:
        return False

    async def take(self, claim: nodelock.Claim, node: str, key: str) -> bool:
        return self._do(f"lock {key}", key) != "contention"

    async def release(self, claim: nodelock.Claim, node: str, key: str) -> bool:
        self._do(f"unlock {key}", f"unlock {key}")
        return True

    def contention(self, node: str, key: str) -> str:
        return nodelock.contention(node, None, 300.0)

    def now(self) -> instant.Instant:
        return instant.Instant(monotonic_s=0.0, wall=fakes.START)

    def _do(self, call: str, plan: str) -> Any:
        self.calls.append(call)
        steps = self.plans.get(plan) or ["ok"]
        step = steps[min(self.calls.count(call), len(steps)) - 1]
        if isinstance(step, Mapping):
            raise errors.ApiError(step["error"])
        return step


@dataclasses.dataclass
class Nobody:
    """A watch that has seen no lock and no pod."""

    def lock_facts(self, node: str) -> locks.Facts:
        return locks.Facts(node=node, known=True)

    def is_binding(self, uid: str) -> bool:
        return False

    def pod(self, uid: str) -> None:
        return None

    def known_pods(self) -> tuple[()]:
        return ()


def _row(lock: str) -> vendor.Vendor:
    return vendor.Vendor(
        keyword=lock,
        resources=vendor.Resources(count=f"example.com/{lock}"),
        pod=vendor.PodKeys(allocated=f"example.com/{lock}-allocated"),
        lock=lock,
    )


async def _bind(stated: Case, when: Case, want: Case) -> None:
    registry = registries.build([_row(lock) for lock in stated["locks_needed"]])
    latch = Latch(stated["api"])
    async with bench.running() as on:
        held = locker.Locker(
            cast("Any", latch),
            Nobody(),
            is_wanted=lambda _: True,
            metrics=ports.NoRecorder(),
            in_memory=False,
            timeout_s=300.0,
        )
        binding = binder.Binder(
            on.api,
            held,
            registry=registry,
            carrier=carrier.Carrier(),
            node_exists=lambda _: True,
            time=on.clock,
            metrics=ports.NoRecorder(),
            generator=random.Random(1),
        )
        on.add(builders.pod(when["pod"]).container("c"))
        result = await binding.bind(_order(on, registry, when))
        _check_bind(result, latch, want)


def _order(on: bench.Bench, registry: registries.Registry, when: Case) -> effects.Bind:
    pod = builders.PodBuilder(on.pod(when["pod"])).read()
    decision = written.Decision(
        node=when["node"],
        annotations={row.pod.allocated: "x;" for row in registry},
        labels={},
    )
    return effects.Bind(pod=pod, node=when["node"], decision=decision)


def _check_bind(result: outcome.Outcome, latch: Latch, want: Case) -> None:
    assert ("bound" if result.is_bound else "error") == want["result"]
    assert want.get("error_contains", "") in result.message
    assert latch.calls == want["calls"]


_RUN: Final[Mapping[str, Callable[..., Any]]] = {"lock": _lock, "unlock": _unlock, "bind": _bind}


@pytest.mark.parametrize("case", loader.params(ROWS, uncovered.SCHEDULER_BIND))
async def test_row(case: Case) -> None:
    stated = scheduler_cluster.given(case)
    await _RUN[case["when"]["op"]](stated, case["when"], case["expect"])


def test_rows_are_there_unless_another_folder_is_run() -> None:
    assert ROWS or loader.OTHER
