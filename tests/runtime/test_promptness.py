"""What follows from an event follows at once: no timer lies between the event and the binds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from hami_operator.protocol import keys
from hami_operator.scheduling import queue
from tests import builders
from tests.runtime import bench

WHOLE = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 32768, "nvidia.com/gpucores": 100}
PARKED = 990
HELPED = 10
TURNS = 200
ATTEMPTS = "hami_scheduling_attempts_total"


def tries(on: bench.Bench) -> float:
    return sum(count for name, count in on.metrics.counts.items() if name.startswith(ATTEMPTS))


async def standing_still(on: bench.Bench, wanted: Iterable[str]) -> float:
    """Let everything happen until these pods are bound, in no time; the real seconds taken."""
    began_s, moment_s = time.monotonic(), on.clock.monotonic()
    await serve(on, list(wanted))
    assert on.clock.monotonic() == moment_s
    return time.monotonic() - began_s


def crowd(on: bench.Bench) -> None:
    """Pods parked for want of a label, of a device type, of cpu; and ten that want a card."""
    third = PARKED // 3
    for number in range(third):
        on.add(on.ask(f"label{number}").node_selector({"zone": "none"}))
        on.add(on.ask(f"mlu{number}", **{"cambricon.com/vmlu": 1}))
        on.add(on.ask(f"cpu{number}", cpu="1000"))
    for number in range(HELPED):
        on.add(on.ask(f"card{number}", **WHOLE))


async def test_an_event_tries_the_ten_of_a_thousand_that_it_helps_and_binds_them_at_once(
    record_property: Callable[[str, object], None],
) -> None:
    async with bench.running(node_lock="memory", node_scheduler_policy="spread") as on:
        on.add_node("small", cards=0)
        crowd(on)
        await on.run()
        while any(item.place is queue.Place.ACTIVE for item in on.world.queue.items()):
            await on.run(1.0)
        assert len(on.world.queue) == PARKED + HELPED
        await on.run(30)
        before = tries(on)
        for number in range(HELPED):
            on.add_node(f"big{number}")
        took_s = await standing_still(on, [f"card{number}" for number in range(HELPED)])
        record_property("seconds_from_ten_nodes_to_ten_binds", round(took_s, 3))
        assert tries(on) - before == HELPED


def gang(on: bench.Bench, name: str, size: int) -> list[builders.PodBuilder]:
    values = {keys.GANG_NAME: name, keys.GANG_MIN_MEMBER: str(size)}
    return [on.ask(member, **WHOLE).annotate(values) for member in names(name, size)]


def names(name: str, size: int = 16) -> list[str]:
    return [f"{name}-{number:02}" for number in range(size)]


async def test_a_gang_that_waits_starts_whole_in_the_moment_in_which_the_other_ends(
    record_property: Callable[[str, object], None],
) -> None:
    async with bench.running(node_lock="memory", node_scheduler_policy="spread") as on:
        for number in range(5):
            on.add_node(f"n{number}", cards=4)
        pairs = zip(gang(on, "first", 16), gang(on, "second", 16), strict=True)
        for pod in (pod for pair in pairs for pod in pair):
            on.add(pod)
        await serve(on, names("first"))
        assert [name for name in names("second") if on.node_of(name)] == []
        await on.run(30)
        before = tries(on)
        for name in names("first"):
            on.delete_pod(name)
        took_s = await standing_still(on, names("second"))
        record_property("seconds_from_the_end_of_a_gang_to_the_next", round(took_s, 3))
        assert tries(on) - before == 16


async def serve(on: bench.Bench, wanted: list[str]) -> None:
    """Play the plugins of what is bound, until all of these are."""
    for _ in range(TURNS):
        await on.run()
        for name in wanted:
            if (node := on.node_of(name)) and on.annotations(name)[bench.TO_ALLOCATE] != ";;":
                on.serve(name, node)
        if all(on.node_of(name) for name in wanted):
            return
    raise AssertionError([name for name in wanted if not on.node_of(name)])
