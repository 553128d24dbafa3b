"""How long an attempt takes that has to choose victims: 100 full nodes, 8 cards, 80 pods each.

Every node is a candidate. The pod is more important than all others, and none of the nodes has
room for it. After each attempt everything is as before: the pod goes, and its promise with it.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from benchmarks import decisions, figures, objects, offline
from hami_operator.runtime import heap
from hami_operator.scheduling import effects, world
from hami_operator.scheduling import pod as pods

NAME: Final = "preemption"
COLUMNS: Final = {
    "pod": "workload",
    "attempts": "attempts",
    "victims": "victims",
    "p50 ms": "p50_ms",
    "p99 ms": "p99_ms",
    "max ms": "max_ms",
}
_HIGH: Final = {"priority": 1000}


def main(arguments: Sequence[str]) -> int:
    """Measure every kind of pod."""
    args = _parser().parse_args(arguments)
    state = decisions.Cluster(args).world()
    heap.settle()
    rows = [_measured(kind, limits, state, args) for kind, limits in _kinds().items()]
    offline.report(NAME, rows, COLUMNS, args)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = offline.parser(NAME, __doc__, nodes=100, cards=8, pods=8000)
    parser.add_argument("--attempts", type=int, default=10, help="per kind (%(default)s)")
    return parser


def _kinds() -> Mapping[str, Mapping[str, int]]:
    return {
        "a slice": objects.gpu(1, 1000, 0),
        "half a card": objects.gpu(1, 20_000, 50),
        "a whole card": objects.whole(1),
        "all cards of a node": objects.whole(8),
        "two containers, half a card each": objects.gpu(1, 20_000, 50),
        "more than any node has": objects.whole(9),
    }


def _measured(
    kind: str, limits: Mapping[str, int], state: world.World, args: argparse.Namespace
) -> dict[str, Any]:
    containers = [limits, limits] if kind.startswith("two") else [limits]
    made = [
        objects.pod(f"high-{kind[:3]}-{at}".replace(" ", "-"), *containers, spec=_HIGH)
        for at in range(args.attempts + 1)
    ]
    _attempt(state, made[0])
    gc.collect()
    if args.profile == kind:
        with offline.profiled():
            for raw in made[1:]:
                _attempt(state, raw)
        return {"workload": kind}
    done = [_attempt(state, raw) for raw in made[1:]]
    return {
        "workload": kind,
        "attempts": len(done),
        "victims": max(victims for _, victims in done),
        **figures.spread([elapsed_ms for elapsed_ms, _ in done], "ms"),
    }


def _attempt(state: world.World, raw: objects.Raw) -> tuple[float, int]:
    """Milliseconds of one attempt, and how many pods were to go for it; all of them stay."""
    pod = pods.read(objects.stored(raw))
    state.pod_seen(pod, decisions.now())
    moment = decisions.now()
    began = time.thread_time()
    orders = state.attempt(moment)
    elapsed_ms = (time.thread_time() - began) * 1000
    victims = [order for order in orders if isinstance(order, effects.Evict)]
    for victim in victims:
        state.evict_failed(victim.pod.uid, decisions.now())
    state.pod_gone(pod.uid, decisions.now())
    return elapsed_ms, len(victims)
