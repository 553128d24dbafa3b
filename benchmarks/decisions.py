"""How long one decision takes, without any API: 1,000 nodes, 8 cards each, 8,000 running pods.

Each workload is a list of waiting pods; one attempt reads usage, decides and reserves. ``first``
has its own world for every attempt, so nothing was computed before.
"""

from __future__ import annotations

import argparse
import gc
import random
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from benchmarks import figures, objects, offline
from hami_operator import settings
from hami_operator.devices import registry
from hami_operator.protocol import instant
from hami_operator.runtime import heap
from hami_operator.scheduling import effects, node, world
from hami_operator.scheduling import pod as pods

NAME: Final = "decisions"
COLUMNS: Final = {
    "workload": "workload",
    "attempts": "attempts",
    "placed": "placed",
    "p50 ms": "p50_ms",
    "p99 ms": "p99_ms",
    "max ms": "max_ms",
    "allocated KiB": "allocated_kib",
}
FIRST_WORLDS: Final = 3
"""How many worlds are built for the workload that needs a new one each time."""


def main(arguments: Sequence[str]) -> int:
    """Measure every workload."""
    args = _parser().parse_args(arguments)
    raw = Cluster(args)
    rows = [_first(raw)]
    state = raw.world()
    heap.settle()  # as the operator does when it has seen all
    next(attempts(state, [objects.pod("warm-up", objects.gpu())]))
    for workload, made in workloads(args.attempts, random.Random(7)).items():
        rows.append(_measured(workload, state, made, profile=workload == args.profile))
    offline.report(NAME, rows, COLUMNS, args)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = offline.parser(NAME, __doc__, nodes=1000, cards=8, pods=8000)
    parser.add_argument("--attempts", type=int, default=200, help="per workload (%(default)s)")
    return parser


class Cluster:
    """Nodes and running pods, read once, from which worlds are made."""

    def __init__(self, args: argparse.Namespace) -> None:
        hosts = objects.hosts(args.nodes, args.cards)
        self._nodes = [node.read(objects.node(host)) for host in hosts]
        running = objects.residents(hosts, args.pods, random.Random(1))
        self._pods = [pods.read(each) for each in running]

    def world(self) -> world.World:
        """A world that leads and has seen everything."""
        state = world.World(registry.build(), settings.Settings())
        state.take_over(now())
        for each in self._nodes:
            state.node_seen(each, now())
        for one in self._pods:
            state.pod_seen(one, now())
        for source in world.SOURCES:
            state.synced(source, now())
        return state


def workloads(number: int, generator: random.Random) -> dict[str, list[objects.Raw]]:
    """Waiting pods by what they have in common."""
    varied = [
        objects.gpu(1, 1000 + 10 * at, generator.choice((0, 5, 10, 20))) for at in range(number)
    ]
    return {
        "alike": [objects.pod(f"alike-{at}", objects.gpu()) for at in range(number)],
        "mixed": [_mixed(f"mixed-{at}", at) for at in range(number)],
        "varied": [objects.pod(f"varied-{at}", each) for at, each in enumerate(varied)],
        "varied, two containers": [
            objects.pod(f"double-{at}", each, each) for at, each in enumerate(varied)
        ],
        "varied, two cards": [
            objects.pod(f"pair-{at}", {**each, "nvidia.com/gpu": 2})
            for at, each in enumerate(varied)
        ],
        "varied, preferred zone": [
            objects.pod(f"zoned-{at}", each, spec=_prefers(f"zone-{at % 3}"))
            for at, each in enumerate(varied)
        ],
        "varied, too large": [
            objects.pod(f"large-{at}", objects.gpu(1, 50_000 + at)) for at in range(number)
        ],
    }


def _mixed(name: str, at: int) -> objects.Raw:
    """Eight shapes in turn."""
    small, large = objects.gpu(1, 2000, 10), objects.gpu(1, 12_000, 30)
    initial = {"initContainers": [objects.container("i0", small)]}
    shapes: Sequence[Callable[[], objects.Raw]] = (
        lambda: objects.pod(name, small),
        lambda: objects.pod(name, large),
        lambda: objects.pod(name, objects.gpu(2)),
        lambda: objects.pod(name, small, large),
        lambda: objects.pod(name, large, spec=initial),
        lambda: objects.pod(name, {"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 25}),
        lambda: objects.pod(name, small, spec={"nodeSelector": {objects.ZONE: "zone-1"}}),
        lambda: objects.pod(name, small, spec=_prefers("zone-2")),
    )
    return shapes[at % len(shapes)]()


def _prefers(zone: str) -> dict[str, Any]:
    wish = {"key": objects.ZONE, "operator": "In", "values": [zone]}
    preferred = [{"weight": 10, "preference": {"matchExpressions": [wish]}}]
    return {
        "affinity": {
            "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
        }
    }


def attempts(state: world.World, waiting: Sequence[objects.Raw]) -> Iterator[tuple[float, bool]]:
    """Let each pod arrive and be tried: milliseconds of the attempt, and whether it found a node.

    A pod that found one is bound at once; one that did not goes away again.
    """
    for raw in waiting:
        pod = pods.read(objects.stored(raw))
        state.pod_seen(pod, now())
        moment = now()
        began = time.thread_time()  # nothing waits here, so CPU time is all that counts
        orders = state.attempt(moment)
        elapsed_ms = (time.thread_time() - began) * 1000
        placed = any(isinstance(order, effects.Bind) for order in orders)
        if placed:
            state.bind_done(pod.uid)
        else:
            state.pod_gone(pod.uid, now())
        yield elapsed_ms, placed


def _first(raw: Cluster) -> figures.Row:
    """The first decision after the start, when every node's view is still to be made."""
    gc.collect()
    one = [objects.pod("first", objects.gpu())]
    done = [next(attempts(raw.world(), one)) for _ in range(FIRST_WORLDS)]
    return _row("first", done)


def _measured(
    workload: str, state: world.World, made: Sequence[objects.Raw], *, profile: bool
) -> figures.Row:
    *timed, last = made
    gc.collect()
    if profile:
        with offline.profiled():
            for _ in attempts(state, timed):
                pass
        return {"workload": workload}
    done = list(attempts(state, timed))
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    next(attempts(state, [last]))
    allocated_kib = (tracemalloc.get_traced_memory()[1] - before) / 1024
    tracemalloc.stop()
    return {**_row(workload, done), "allocated_kib": allocated_kib}


def _row(workload: str, done: Sequence[tuple[float, bool]]) -> dict[str, Any]:
    return {
        "workload": workload,
        "attempts": len(done),
        "placed": sum(placed for _, placed in done),
        **figures.spread([elapsed for elapsed, _ in done], "ms"),
    }


def now() -> instant.Instant:
    """The present; decisions carry a fixed time of day."""
    return instant.Instant(monotonic_s=time.monotonic(), wall=objects.STARTED)
