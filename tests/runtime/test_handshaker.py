"""Asking for signs of life: spread over the interval, one PATCH per node, never twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hami_operator import errors
from hami_operator.protocol import instant
from hami_operator.protocol import register as registers
from hami_operator.runtime import handshaker
from hami_operator.scheduling import node as nodes
from tests import builders
from tests.runtime import bench

HCU = "hami.io/node-handshake-hcu"
MLU = "hami.io/node-handshake-mlu"


def shaker(on: bench.Bench, *, leads: bool = True, interval_s: float = 30.0) -> Any:
    return handshaker.Handshaker(
        on.world.nodes,
        on.api,
        time=on.clock,
        metrics=on.metrics,
        interval_s=interval_s,
        is_leading=lambda: leads,
        gone=on.intake.node_is_gone,
    )


def add(on: bench.Bench, name: str, *words: str, answer: str | None = "Reported x") -> None:
    made = builders.roomy(name)
    for word in words or ("HCU",):
        form = registers.Form.JSON if word == "NVIDIA" else registers.Form.TEXT
        made = made.register(word, builders.cards(1, word=word), form=form, handshake=answer)
        made = made.allocatable({on.registry.by_word[word].resources.count: "10"})
    on.add(made)


def asked(on: bench.Bench, name: str = "n1") -> dict[str, str]:
    """Handshake annotations of a node."""
    found = on.node(name)["metadata"]["annotations"]
    return {key: value for key, value in found.items() if "handshake" in key}


def patches(on: bench.Bench) -> list[str]:
    return [call for call in on.api.calls if call.startswith("PATCH nodes/")]


async def test_every_node_is_asked_once_per_interval_and_not_all_at_once() -> None:
    async with bench.running() as on:
        names = [f"n{number}" for number in range(60)]
        for name in names:
            add(on, name)
        await on.run()
        on.spawn("handshaker", shaker(on).run())
        moments = []
        for _ in range(30):
            await on.run(1.0)
            moments.append(len(patches(on)))
        assert moments[-1] == 60
        assert sorted(set(patches(on))) == sorted(f"PATCH nodes/{name}" for name in names)
        steps = zip([0, *moments[:-1]], moments, strict=True)
        assert max(after - before for before, after in steps) <= 8
        await on.run(60.0)
        assert len(patches(on)) == 60, "a readable question is never asked again"


async def test_one_patch_serves_all_types_of_a_node_and_carries_its_version() -> None:
    async with bench.running() as on:
        add(on, "n1", "HCU", "MLU", "NVIDIA")
        await on.run()
        version = on.node()["metadata"]["resourceVersion"]
        await shaker(on).tick(handshaker.step_of("n1", 30))
        (body,) = [body for call, body in on.api.bodies if call == "PATCH nodes/n1"]
        want = "Requesting_2026.03.01 12:00:00"
        assert body == {
            "metadata": {"resourceVersion": version, "annotations": {HCU: want, MLU: want}}
        }


async def test_an_answer_is_followed_by_one_new_question_at_the_nodes_next_turn() -> None:
    async with bench.running() as on:
        add(on, "n1")
        await on.run()
        on.spawn("handshaker", shaker(on).run())
        await on.run(31.0)
        first = asked(on)[HCU]
        await on.run(60.0)
        assert asked(on)[HCU] == first, "the age of an unanswered question is left alone"
        on.patch_node({"metadata": {"annotations": {HCU: "Reported 2026-03-01 …"}}})
        await on.run(31.0)
        assert asked(on)[HCU].startswith("Requesting_")
        assert asked(on)[HCU] != first
        assert len(patches(on)) == 2


async def test_a_follower_asks_nobody() -> None:
    async with bench.running() as on:
        add(on, "n1")
        await on.run()
        on.spawn("handshaker", shaker(on, leads=False).run())
        await on.run(90.0)
        assert patches(on) == []


@pytest.mark.parametrize(
    ("error", "want_failures"),
    [
        pytest.param(errors.Conflict("409", status=409), "Conflict", id="409: the node changed"),
        pytest.param(errors.Unclear("500", status=500), "Unclear", id="500: nobody knows"),
        pytest.param(errors.Retryable("429", status=429), "Retryable", id="429: too busy"),
        pytest.param(errors.Forbidden("403", status=403), "Forbidden", id="403: not allowed"),
        pytest.param(errors.Fenced("late"), "Fenced", id="leadership ends"),
    ],
)
async def test_a_question_that_was_not_written_waits_for_the_next_turn(
    error: Exception, want_failures: str
) -> None:
    async with bench.running() as on:
        add(on, "n1")
        await on.run()
        on.api.fail("PATCH nodes/n1", error)
        on.spawn("handshaker", shaker(on).run())
        await on.run(30.5)
        assert len(patches(on)) == 1
        await on.run(30.0)
        assert len(patches(on)) == 2
        assert asked(on)[HCU].startswith("Requesting_")
        key = f"hami_handshake_failures_total{{reason={want_failures}}}"
        assert on.metrics.counts[key] == 1


async def test_a_node_that_is_gone_is_forgotten_and_the_others_are_asked() -> None:
    async with bench.running() as on:
        for name in ("n1", "n2"):
            add(on, name)
        await on.run()
        on.lagging = True
        on.delete_node()
        on.spawn("handshaker", shaker(on).run())
        await on.run(30.5)
        assert "n1" not in on.world.nodes
        assert asked(on, "n2")[HCU].startswith("Requesting_")


async def test_an_answer_that_no_watch_has_shown_yet_is_not_overwritten() -> None:
    async with bench.running() as on:
        add(on, "n1", answer="Reported before")
        await on.run()
        on.lagging = True
        on.patch_node({"metadata": {"annotations": {HCU: "Reported after"}}})
        await shaker(on).tick(handshaker.step_of("n1", 30))
        assert asked(on)[HCU] == "Reported after"


async def test_a_node_that_changes_during_a_tick_is_judged_when_its_turn_comes() -> None:
    async with bench.running() as on:
        names = [f"n{number}" for number in range(12)]
        for name in names:
            add(on, name)
        await on.run()
        asking = shaker(on, interval_s=0.1)
        gates = [on.api.hold(f"PATCH nodes/{name}") for name in names]
        task = asyncio.ensure_future(asking.tick(0))
        await on.run()
        assert len(patches(on)) == handshaker.WRITERS
        now = instant.Instant(monotonic_s=on.clock.monotonic(), wall=on.clock.wall())
        on.world.nodes.gone(names[-1])
        record = on.world.nodes.get(names[-2])
        assert record is not None
        raw = on.node(names[-2])
        raw["metadata"]["annotations"][HCU] = "Requesting_2026.03.01 12:00:00"
        raw["metadata"]["resourceVersion"] = "999999"
        on.world.node_seen(nodes.read(raw), now)
        for gate in gates:
            gate.set()
        await task
        assert len(patches(on)) == 10


async def test_a_slow_tick_delays_the_next_and_never_doubles_it() -> None:
    async with bench.running() as on:
        add(on, "n1")
        await on.run()
        gate = on.api.hold("PATCH nodes/n1")
        on.spawn("handshaker", shaker(on, interval_s=0.1).run())
        await on.run()
        on.clock.forward(100.0)
        gate.set()
        before = len(on.clock.slept)
        await on.run(0.35)
        ticks = [delay for delay in on.clock.slept[before:] if delay <= 0.1]
        assert len(ticks) <= 6


@pytest.mark.parametrize("steps", [1, 7, 30])
def test_steps_share_the_nodes_evenly(steps: int) -> None:
    names = [f"node-{number}.example" for number in range(3000)]
    counts = [0] * steps
    for name in names:
        counts[handshaker.step_of(name, steps)] += 1
    assert min(counts) > 0.6 * len(names) / steps
    assert max(counts) < 1.4 * len(names) / steps
