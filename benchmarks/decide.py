"""Lines per second that ``hami-operator decide`` answers on one core.

A line is a small cluster as ``kubectl get -o json`` shows it, and a pod. ``alike`` lines show one
cluster over and over with another pod each time; ``another pod`` replaces one running pod from
line to line; in ``different`` lines nothing is as it was before: not a node, a card or a pod.
"""

from __future__ import annotations

import argparse
import gc
import io
import random
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import orjson

from benchmarks import objects, offline
from hami_operator.cli import decide
from hami_operator.simulator import catalogue

NAME: Final = "decide"
COLUMNS: Final = {
    "lines": "workload",
    "number": "number",
    "KB per line": "kb_per_line",
    "lines/s": "lines_per_s",
    "ms per line": "ms_per_line",
    "placed": "placed",
}

Line = dict[str, Any]


def main(arguments: Sequence[str]) -> int:
    """Measure every kind of line."""
    args = _parser().parse_args(arguments)
    decide.settle()  # as the command does
    made: dict[str, Callable[[argparse.Namespace], list[bytes]]] = {
        "alike": _alike,
        "another pod": _moving,
        "different": _different,
    }
    rows = [_measured(kind, make(args), args) for kind, make in made.items()]
    offline.report(NAME, rows, COLUMNS, args)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = offline.parser(NAME, __doc__, nodes=10, cards=8, pods=40)
    parser.add_argument("--lines", type=int, default=300, help="per kind (%(default)s)")
    return parser


def _alike(args: argparse.Namespace) -> list[bytes]:
    cluster = _cluster(args, 0)
    return [orjson.dumps({**cluster, "pod": _pending(at)}) for at in range(args.lines)]


def _moving(args: argparse.Namespace) -> list[bytes]:
    cluster, lines = _cluster(args, 0), []
    for at in range(args.lines):
        running = dict(cluster["pods"][at % args.pods])
        running["metadata"] = {**running["metadata"], "resourceVersion": str(1_000_000 + at)}
        cluster["pods"][at % args.pods] = running
        lines.append(orjson.dumps({**cluster, "pod": _pending(at)}))
    return lines


def _different(args: argparse.Namespace) -> list[bytes]:
    numbers = range(args.lines)
    return [orjson.dumps({**_cluster(args, at + 1), "pod": _pending(at)}) for at in numbers]


def _cluster(args: argparse.Namespace, number: int) -> Line:
    """Nodes and running pods of which no name, identity or version is in another cluster."""
    generator = random.Random(number)
    prefix = f"c{number}-node-"
    hosts = catalogue.hosts(args.nodes, ("nvidia",), cards=args.cards, prefix=prefix)
    running = objects.residents(hosts, args.pods, generator)
    generator.shuffle(running)
    for at, pod in enumerate(running):
        name = f"c{number}-{at}-{generator.randrange(1 << 32):08x}"
        pod["metadata"] |= {"name": name, "uid": f"uid-{name}", "resourceVersion": str(at + 1)}
    return {
        "nodes": [objects.node(host, version=number * 100 + 1) for host in hosts],
        "pods": running,
    }


def _pending(at: int) -> objects.Raw:
    shape = objects.gpu(1 + at % 2, 1000 + 10 * at, 5 * (at % 7))
    return objects.stored(objects.pod(f"waiting-{at}", shape))


def _measured(kind: str, lines: Sequence[bytes], args: argparse.Namespace) -> dict[str, Any]:
    warm, *timed = lines
    source, sink = io.BytesIO(b"\n".join(timed)), io.BytesIO()
    decide.answer_all(io.BytesIO(warm), io.BytesIO())
    gc.collect()
    if args.profile == kind:
        with offline.profiled():
            decide.answer_all(source, sink)
        return {"workload": kind}
    began = time.thread_time()
    decide.answer_all(source, sink)
    taken_s = time.thread_time() - began
    answers = [orjson.loads(line) for line in sink.getvalue().splitlines()]
    return {
        "workload": kind,
        "number": len(timed),
        "kb_per_line": sum(map(len, timed)) / len(timed) / 1000,
        "lines_per_s": len(timed) / taken_s,
        "ms_per_line": taken_s * 1000 / len(timed),
        "placed": sum("node" in answer for answer in answers),
    }
