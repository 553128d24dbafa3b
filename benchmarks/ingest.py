"""What events cost on their way in, and how long a start takes, without any API.

Objects come as JSON text, as a watch brings them: parsing, reading, and what the world makes of
them are all counted. kopf's own share is not: its Nodes and pending pods cost more, see the docs.
"""

from __future__ import annotations

import argparse
import gc
import random
import resource
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, cast

import orjson

from benchmarks import figures, objects
from hami_operator import clock, settings
from hami_operator.devices import registry
from hami_operator.protocol import bindphase, decision, instant, keys
from hami_operator.runtime import intake
from hami_operator.scheduling import world
from hami_operator.server import metrics

NAME: Final = "ingest"
COLUMNS: Final = {
    "event": "event",
    "events": "events",
    "bytes": "bytes",
    "p50 µs": "p50_us",
    "p99 µs": "p99_us",
    "max µs": "max_us",
}
START_COLUMNS: Final = {"start": "start", "seconds": "seconds", "µs per object": "us_per_object"}

Change = Callable[[objects.Raw], None]


def main(arguments: Sequence[str]) -> int:
    """Measure a start and every kind of event."""
    args = _parser().parse_args(arguments)
    bench = Bench(args)
    started = bench.start()
    print(figures.table(started, START_COLUMNS), end="\n\n")
    rows = [*bench.node_events(), *bench.pod_events()]
    print(figures.table(rows, COLUMNS))
    facts = {"nodes": args.nodes, "cards": args.cards, "pods": args.pods}
    kept = {"machine": figures.machine(), **facts, "start": started, "rows": rows}
    figures.keep(NAME, kept, args.output)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks {NAME}",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--nodes", type=int, default=1000, help="(%(default)s)")
    parser.add_argument("--cards", type=int, default=8, help="per node (%(default)s)")
    parser.add_argument("--pods", type=int, default=8000, help="running pods (%(default)s)")
    parser.add_argument("--events", type=int, default=1000, help="per kind (%(default)s)")
    parser.add_argument("--output", metavar="FILE", help="JSON (default: build/benchmarks)")
    return parser


class Nobody:
    """Stands where orders are carried out and conditions are noted, and does neither."""

    def perform(self, orders: Iterable[object]) -> None:
        """Orders of the world."""

    def tell_pod(self, event: object) -> None:
        """An Event."""

    def tell_node(self, event: object) -> None:
        """An Event."""

    def seen(self, *_: object) -> None:
        """A condition that stands on a pod."""


class Bench:
    """A world behind its doors, and the objects that come in.

    Args:
        args: sizes.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        hosts = objects.hosts(args.nodes, args.cards)
        self._version = 1
        self._number = args.events
        self._nodes = [objects.node(host) for host in hosts]
        self._pods = objects.residents(hosts, args.pods, random.Random(1))
        self._cards = {host.name: host.equipment[0].model.cards(host.name, 1) for host in hosts}
        self._state = world.World(registry.build(), settings.Settings())
        nobody = cast(Any, Nobody())
        self._doors = intake.Intake(
            self._state,
            nobody,
            conditions=nobody,
            again=lambda: None,
            time=clock.SystemClock(),
            metrics=metrics.Metrics(),
        )

    # ---- the start

    def start(self) -> list[dict[str, Any]]:
        """Take over: everything is listed, then the first pod is tried."""
        texts = [[orjson.dumps(each) for each in every] for every in (self._nodes, self._pods)]
        gc.collect()
        self._state.take_over(_now())
        doors = (self._doors.nodes.upsert, self._doors.pods.upsert)
        rows = []
        for name, some, door in zip(("nodes", "pods"), texts, doors, strict=True):
            began = time.thread_time()
            for text in some:
                door(orjson.loads(text))
            rows.append(_phase(f"{len(some)} {name}", time.thread_time() - began, len(some)))
        for source in world.SOURCES:
            self._doors.source_synced(source)
        self._pending(objects.pod("first", objects.gpu()))
        began = time.thread_time()
        self._state.attempt(_now())
        rows.append(_phase("first decision", time.thread_time() - began, 1))
        peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return [*rows, {"start": "peak memory of this benchmark, MiB", "seconds": peak_mib}]

    # ---- events

    def node_events(self) -> list[dict[str, Any]]:
        """What happens to Nodes all the time."""
        kinds: dict[str, Change] = {
            "node: nothing that matters (heartbeat)": _beat,
            "node: locked": lambda raw: _annotate(raw, {keys.NODE_LOCK: _lock(raw)}),
            "node: unlocked": lambda raw: _annotate(raw, {keys.NODE_LOCK: None}),
            "node: a card turns unhealthy": _sicken,
        }
        return [
            self._measure(kind, self._changed(self._nodes, change), self._doors.nodes.upsert)
            for kind, change in kinds.items()
        ]

    def pod_events(self) -> list[dict[str, Any]]:
        """The life of pods: ours from creation to deletion, and another scheduler's creation."""
        made = [
            objects.stored(objects.pod(f"new-{at}", objects.gpu())) for at in range(self._number)
        ]
        others = [_foreign(at) for at in range(self._number)]
        names = list(self._cards)
        homes = {f"new-{at}": names[at % len(names)] for at in range(self._number)}
        doors = self._doors.pods
        steps: list[tuple[str, Sequence[objects.Raw], Change, Callable[[Any], None]]] = [
            ("pod: created", made, lambda _: None, doors.upsert),
            ("pod: bound", made, lambda raw: self._bind(raw, homes), doors.upsert),
            ("pod: served by its plugin", made, _serve, doors.upsert),
            ("pod: running", made, _run, doors.upsert),
            ("pod: deleted", made, lambda _: None, doors.delete),
            ("pod: of another scheduler, created", others, lambda _: None, doors.upsert),
        ]
        return [
            self._measure(kind, self._changed(pods, change), door)
            for kind, pods, change, door in steps
        ]

    def _bind(self, raw: objects.Raw, homes: dict[str, str]) -> None:
        row = objects.ROWS["NVIDIA"]
        name = homes[raw["metadata"]["name"]]
        pick = decision.Pick(id=self._cards[name][0].id, memory_mib=4000, cores=10)
        value = decision.encode(((pick,),), row.keyword)
        raw["spec"]["nodeName"] = name
        decided = {
            row.pod.allocated: value,
            row.pod.to_allocate: value,
            keys.VGPU_NODE: name,
            keys.VGPU_TIME: "1772366400",
            keys.BIND_TIME: "1772366400",
            keys.BIND_PHASE: bindphase.Phase.ALLOCATING.value,
        }
        _annotate(raw, decided)

    def _changed(self, raws: Sequence[objects.Raw], change: Change) -> list[bytes]:
        """The objects after a change, each with a new version, as JSON text."""
        texts = []
        for raw in raws[: self._number]:
            change(raw)
            self._version += 1
            raw["metadata"]["resourceVersion"] = str(self._version)
            texts.append(orjson.dumps(raw))
        return texts

    def _pending(self, made: objects.Raw) -> None:
        self._doors.pods.upsert(objects.stored(made))

    def _measure(
        self, kind: str, texts: Sequence[bytes], door: Callable[[Any], None]
    ) -> dict[str, Any]:
        gc.collect()
        taken = []
        for text in texts:
            began = time.thread_time()
            door(orjson.loads(text))
            taken.append((time.thread_time() - began) * 1e6)
        size = sum(map(len, texts)) // len(texts)
        row = {"event": kind, "events": len(texts), "bytes": size}
        return {**row, **figures.spread(taken, "us")}


def _phase(name: str, seconds: float, number: int) -> dict[str, Any]:
    return {"start": name, "seconds": seconds, "us_per_object": seconds * 1e6 / number}


def _beat(raw: objects.Raw) -> None:
    raw["status"]["conditions"] = [{"type": "Ready", "lastHeartbeatTime": time.monotonic()}]


def _lock(raw: objects.Raw) -> str:
    return f"{objects.CREATED},{objects.NAMESPACE},holder-{raw['metadata']['name']}"


def _sicken(raw: objects.Raw) -> None:
    register = objects.ROWS["NVIDIA"].node.register
    text = raw["metadata"]["annotations"][register]
    _annotate(raw, {register: text.replace('"health":true', '"health":false', 1)})


def _serve(raw: objects.Raw) -> None:
    row = objects.ROWS["NVIDIA"]
    _annotate(raw, {row.pod.to_allocate: ";", keys.BIND_PHASE: bindphase.Phase.SUCCESS.value})


def _run(raw: objects.Raw) -> None:
    raw["status"] = {"phase": "Running", "podIP": "192.0.2.1"}


def _foreign(at: int) -> objects.Raw:
    made = objects.stored(objects.pod(f"foreign-{at}", {}))
    made["spec"]["schedulerName"] = "default-scheduler"
    return made


def _annotate(raw: objects.Raw, annotations: dict[str, Any]) -> None:
    present = raw["metadata"].setdefault("annotations", {})
    for key, value in annotations.items():
        if value is None:
            present.pop(key, None)
        else:
            present[key] = value


def _now() -> instant.Instant:
    return instant.Instant(monotonic_s=time.monotonic(), wall=objects.STARTED)
