"""While nothing changes, nothing is written, whoever waits for whatever."""

from __future__ import annotations

import orjson

from hami_operator.protocol import keys
from tests.runtime import bench


def park(on: bench.Bench) -> None:
    """Pods that wait: for room, for a promised place, for their gang, for a gate."""
    for name, value in (("high", 100), ("low", 1)):
        on.store.create(
            "priorityclasses", orjson.dumps({"metadata": {"name": name}, "value": value})
        )
    large = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 30_000}
    on.add(on.ask("holder", **large).put("spec.priorityClassName", "low"))
    for number in range(5):
        on.add(on.ask(f"large{number}", **{"nvidia.com/gpu": 3}))
    gang = {keys.GANG_NAME: "g", keys.GANG_MIN_MEMBER: "4"}
    for number in range(3):
        on.add(on.ask(f"member{number}").annotate(gang))
    on.add(on.ask("gated").gate("later"))


async def test_no_request_is_sent_in_a_minute_in_which_nothing_changes() -> None:
    async with bench.running(node_lock="memory") as on:
        on.add_node()
        park(on)
        await on.run()
        on.serve("holder")
        on.admit("holder", "Running")
        large = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 20_000}
        on.add(on.ask("urgent", **large).put("spec.priorityClassName", "high"))
        await on.run(30)
        assert "deletionTimestamp" in on.pod("holder")["metadata"]
        before = len(on.api.calls)
        await on.run(60)
        assert on.api.calls[before:] == []
        on.delete_pod("holder")
        await on.run(1)
        assert on.node_of("urgent") == "n1"
