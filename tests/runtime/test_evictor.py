"""Victims of preemption: told why, then ended; and the whole of it over the runtime."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import orjson
import pytest

from hami_operator import errors
from hami_operator.runtime import evictor
from hami_operator.scheduling import effects
from tests import fakes
from tests.runtime import bench

VICTIM = effects.PodRef(uid="u1", namespace="team", name="low")
ORDER = effects.Evict(
    pod=VICTIM,
    node="n1",
    reason="PreemptionByScheduler",
    message="hami-scheduler: preempting to accommodate a higher priority pod",
    tell=effects.PodEvent(
        pod=VICTIM, type=effects.EventType.NORMAL, reason="Preempted", message="m"
    ),
)
STATUS = "PATCH low/status"
DELETE = "DELETE low"


class Api:
    """Answers each call with what was prepared for it."""

    def __init__(self, **answers: Exception) -> None:
        given = {key: [answer] for key, answer in answers.items()}
        self.answers: dict[str, list[Exception]] = {"status": [], "delete": [], **given}
        self.calls: list[tuple[str, Any]] = []
        self.running = self.most = 0

    async def patch_pod_status(self, namespace: str, name: str, body: Any) -> dict:
        await self._call("status", (f"PATCH {name}/status", body))
        return {}

    async def delete_pod(self, namespace: str, name: str, *, uid: str) -> None:
        await self._call("delete", (f"DELETE {name}", uid))

    async def _call(self, key: str, call: tuple[str, Any]) -> None:
        self.calls.append(call)
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0)
        self.running -= 1
        if self.answers[key]:
            raise self.answers[key].pop()

    async def patch_pod(self, namespace: str, name: str, body: Any) -> dict:
        raise AssertionError("only the status tells why")

    async def bind(self, namespace: str, name: str, binding: Any) -> None:
        raise AssertionError("an end binds nothing")


def made(api: Api, clock: fakes.FakeClock, metrics: bench.Metrics) -> evictor.Evictor:
    return evictor.Evictor(api, time=clock, metrics=metrics, generator=random.Random(1), workers=3)


async def test_the_condition_says_why_before_the_pod_is_deleted_by_its_uid() -> None:
    api, metrics = Api(), bench.Metrics()
    assert await made(api, fakes.FakeClock(), metrics).evict(ORDER) == ""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": "hami-scheduler: preempting to accommodate a higher priority pod",
        "lastProbeTime": None,
        "lastTransitionTime": "2026-03-01T12:00:00Z",
    }
    assert api.calls == [
        (STATUS, {"metadata": {"uid": "u1"}, "status": {"conditions": [condition]}}),
        (DELETE, "u1"),
    ]
    assert metrics.counts == {"hami_preemption_victims_total{result=deleted}": 1}


@pytest.mark.parametrize(
    ("answers", "calls", "why", "result"),
    [
        pytest.param(
            {"status": errors.NotFound("x", status=404)}, [STATUS], "", "gone", id="it is gone"
        ),
        pytest.param(
            {"status": errors.Invalid("metadata.uid", status=422)},
            [STATUS],
            "",
            "gone",
            id="another pod of its name has come",
        ),
        pytest.param(
            {"delete": errors.Conflict("uid", status=409)},
            [STATUS, DELETE],
            "",
            "gone",
            id="another pod of its name has come in between",
        ),
        pytest.param(
            {"delete": errors.Forbidden("no right", status=403)},
            [STATUS, DELETE],
            "no right",
            "Forbidden",
            id="we may not",
        ),
        pytest.param(
            {"status": errors.Fenced("late")}, [STATUS], "late", "Fenced", id="we lead no more"
        ),
    ],
)
async def test_what_comes_of_an_order(
    answers: dict[str, Exception], calls: list[str], why: str, result: str
) -> None:
    api, metrics = Api(**answers), bench.Metrics()
    assert await made(api, fakes.FakeClock(), metrics).evict(ORDER) == why
    assert [call for call, _ in api.calls] == calls
    assert metrics.counts == {f"hami_preemption_victims_total{{result={result}}}": 1}


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(errors.Unclear("lost"), id="nobody knows whether it took effect"),
        pytest.param(errors.Retryable("busy", status=429), id="the server is busy"),
    ],
)
async def test_what_may_be_sent_again_is_sent_again(answer: Exception) -> None:
    api, clock = Api(status=answer, delete=answer), fakes.FakeClock()
    async with asyncio.TaskGroup() as group:
        end = group.create_task(made(api, clock, bench.Metrics()).evict(ORDER))
        await clock.advance(1.0)
    assert end.result() == ""
    assert [call for call, _ in api.calls] == [STATUS, STATUS, DELETE, DELETE]


async def test_only_so_many_are_ended_at_once() -> None:
    api = Api()
    ending = made(api, fakes.FakeClock(), bench.Metrics())
    async with asyncio.TaskGroup() as group:
        for _ in range(10):
            group.create_task(ending.evict(ORDER))
    assert (api.most, len(api.calls)) == (3, 20)


# ---- over the whole runtime


def runs(on: bench.Bench, name: str, mem: int, **labels: str) -> None:
    """A pod of no priority that runs on ``n1``."""
    pod = on.ask(name, **{"nvidia.com/gpu": 1, "nvidia.com/gpumem": mem})
    for key, value in labels.items():
        pod = pod.label(key, value)
    on.add(pod)


def classes(on: bench.Bench) -> None:
    for name, value in (("high", 100), ("middle", 50)):
        body = {"metadata": {"name": name}, "value": value}
        on.store.create("priorityclasses", orjson.dumps(body))


def ask(on: bench.Bench, name: str, mem: int, kind: str) -> None:
    pod = on.ask(name, **{"nvidia.com/gpu": 1, "nvidia.com/gpumem": mem})
    on.add(pod.put("spec.priorityClassName", kind))


async def started(on: bench.Bench, *names: str) -> None:
    await on.run()
    for name in names:
        on.serve(name)
        on.admit(name, "Running")
    await on.run()


async def test_a_victim_ends_and_the_pod_is_bound_to_its_card() -> None:
    async with bench.running(node_lock="memory") as on:
        on.add_node()
        classes(on)
        runs(on, "low", 30000)
        await started(on, "low")
        ask(on, "top", 20000, "high")
        await on.run()
        low = on.pod("low")
        assert low["metadata"]["deletionTimestamp"]
        told = {one["type"]: one.get("reason") for one in low["status"]["conditions"]}
        assert told["DisruptionTarget"] == "PreemptionByScheduler"
        assert on.pod("top")["status"]["nominatedNodeName"] == "n1"
        uid = on.pod("top")["metadata"]["uid"]
        assert on.notes("Preempted") == [f"Preempted by pod {uid} on node n1"]
        ask(on, "thief", 25000, "middle")
        await on.run(15)
        assert not on.node_of("top")
        on.delete_pod("low")
        await on.run(15)
        assert (on.node_of("top"), on.node_of("thief")) == ("n1", "")
        assert on.writes.count("DELETE pods/low") == 1


async def test_a_protected_pod_is_spared() -> None:
    async with bench.running(node_lock="memory") as on:
        on.add_node(cards=2)
        classes(on)
        runs(on, "a", 30000)
        await started(on, "a")
        runs(on, "b", 30000, app="db")
        await started(on, "b")
        body = {
            "metadata": {"name": "db", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "db"}}},
        }
        on.store.create("poddisruptionbudgets", orjson.dumps(body))
        await on.run()
        ask(on, "top", 20000, "high")
        await on.run()
        deleted = [name for name in ("a", "b") if "deletionTimestamp" in on.pod(name)["metadata"]]
        assert deleted == ["a"]


async def test_where_deleting_is_refused_it_is_tried_again_and_told_loudly_enough() -> None:
    async with bench.running(node_lock="memory") as on:
        on.add_node()
        classes(on)
        runs(on, "low", 30000)
        await started(on, "low")
        on.api.fail("DELETE pods/low", errors.Forbidden("no right", status=403), times=2)
        ask(on, "top", 20000, "high")
        await on.run(10)
        assert "deletionTimestamp" in on.pod("low")["metadata"]
        assert on.metrics.counts["hami_preemption_victims_total{result=Forbidden}"] == 2
        assert on.metrics.counts["hami_preemption_victims_total{result=deleted}"] == 1
        on.delete_pod("low")
        await on.run(1)
        assert on.node_of("top") == "n1"


async def test_nothing_is_written_while_victims_take_their_time() -> None:
    async with bench.running(node_lock="memory") as on:
        on.add_node()
        classes(on)
        runs(on, "low", 30000)
        await started(on, "low")
        ask(on, "top", 20000, "high")
        await on.run(5)
        before = len(on.api.calls)
        await on.run(60)
        assert on.api.calls[before:] == []


async def test_a_budget_as_the_watch_shows_it_comes_and_goes() -> None:
    async with bench.running() as on:
        body = {"metadata": {"name": "db", "namespace": "default"}, "spec": {"selector": {}}}
        on.store.create("poddisruptionbudgets", orjson.dumps(body))
        await on.run()
        budgets = on.world._attempts.preemptor.budgets
        assert [one.name for one in budgets] == ["db"]
        on.store.delete("poddisruptionbudgets", ("default", "db"))
        await on.run()
        assert list(budgets) == []
