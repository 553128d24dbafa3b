"""From an event to the binds that follow, on a real API server: a node opens, a gang ends.

``queue``: so many pods are parked for other reasons, ten wait for the label of a node; timed from
the write of the label to the tenth bind. ``gang``: of two gangs of sixteen on twenty cards one
runs; timed from its last pod's end to the last bind of the other. Binds and ends as a watch of
our own shows them.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from benchmarks import actors, api, end_to_end, figures, objects
from hami_operator.protocol import keys
from tests.conformance import servers
from tests.controlplane import build, cluster

NAME: Final = "latency"
COLUMNS: Final = {
    "case": "case",
    "rounds": "rounds",
    "binds": "binds",
    "p50 s": "p50_s",
    "max s": "max_s",
}
NODES: Final = 5
CARDS: Final = 4
GANG: Final = 16
HELPED: Final = 10
OPEN: Final = "example.com/open"
REST_S: Final = 11.0
"""After so long whoever was refused has rested, however often that was."""


def main(arguments: Sequence[str]) -> int:
    """Measure both; 1 where pods were left without a node."""
    args = _parser().parse_args(arguments)
    build.ensure(("etcd", "kube-apiserver"))
    taken = asyncio.run(_measure(args))
    rows = [_row(case, binds, taken[case]) for case, binds in (("queue", HELPED), ("gang", GANG))]
    print(figures.table(rows, COLUMNS))
    kept = {"machine": figures.machine(), "parked": args.parked, "rows": rows, "taken_s": taken}
    figures.keep(NAME, kept, args.output)
    return 0 if all(one is not None for each in taken.values() for one in each) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks {NAME}",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--parked", type=int, default=990, help="beside the ten (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="of each (%(default)s)")
    parser.add_argument(
        "--deadline", type=float, default=60.0, help="seconds for a step (%(default)s)"
    )
    parser.add_argument("--output", metavar="FILE", help="JSON (default: build/benchmarks)")
    return parser


def _row(case: str, binds: int, taken: Sequence[float | None]) -> dict[str, Any]:
    seconds = [one for one in taken if one is not None]
    spread = figures.spread(seconds, "s") if seconds else {}
    return {"case": case, "rounds": len(taken), "binds": binds, **spread}


async def _measure(args: argparse.Namespace) -> dict[str, list[float | None]]:
    """Seconds per case and round; None where it did not come about in time."""
    with cluster.ControlPlane(options=end_to_end.LIFTED) as plane:
        server = servers.Real(plane)
        kubeconfig = server.write_kubeconfig(plane.directory / "operator.kubeconfig")
        plane.kubectl("create", "namespace", objects.NAMESPACE)
        nodes = actors.Fleet(plane, nodes=NODES, cards=CARDS)
        shipped = actors.Variant.parse("shipped")
        operator = actors.Operator(kubeconfig, plane.directory, shipped, "")
        try:
            await nodes.serve("plugins")
            await operator.ready()
            async with api.Api(plane) as client:
                bench = _Bench(client, args)
                queue = [await bench.queue() for _ in range(args.rounds)]
                gang = [await bench.gang() for _ in range(args.rounds)]
        finally:
            operator.stop()
            nodes.stop()
    return {"queue": queue, "gang": gang}


class _Bench:
    """Both cases, each from an empty cluster."""

    def __init__(self, client: api.Api, args: argparse.Namespace) -> None:
        self._client = client
        self._parked = args.parked
        self._deadline_s = args.deadline

    async def queue(self) -> float | None:
        """A node is labelled, which helps ten of many that wait."""
        await self._client.delete_all()
        await self._label(None)
        pods = [*_parked(self._parked), *_waiting_for_label()]
        async with api.Eyes(self._client) as eyes:
            await self._client.create(pods)
            if not await self._seen(eyes, _names(pods), "refused_s"):
                return None
            await asyncio.sleep(REST_S)
            began_s = time.monotonic()
            await self._label("yes")
            return await self._last(eyes, _names(_waiting_for_label()), began_s)

    async def gang(self) -> float | None:
        """One gang ends, and another one waits for its cards."""
        await self._client.delete_all()
        first, second = _gang("first"), _gang("second")
        async with api.Eyes(self._client) as eyes:
            await self._client.create(first)
            started = await self._seen(eyes, _names(first), "running_s")
            await self._client.create(second)
            if not (started and await self._seen(eyes, _names(second), "refused_s")):
                return None
            await asyncio.sleep(REST_S)
            await self._client.delete(_names(first))
            if not await self._seen(eyes, _names(first), "gone_s"):
                return None
            ended_s = max(eyes.times(_names(first), "gone_s").values())
            return await self._last(eyes, _names(second), ended_s)

    async def _label(self, value: str | None) -> None:
        name = objects.hosts(NODES, CARDS)[0].name
        body = {"metadata": {"labels": {OPEN: value}}}
        await self._client.call("PATCH", f"/api/v1/nodes/{name}", body, kind=api.MERGE)

    async def _seen(self, eyes: api.Eyes, names: Sequence[str], what: str) -> bool:
        deadline_s = time.monotonic() + self._deadline_s
        return await eyes.until(lambda: eyes.count(names, what) == len(names), deadline_s)

    async def _last(self, eyes: api.Eyes, names: Sequence[str], began_s: float) -> float | None:
        if not await self._seen(eyes, names, "bound_s"):
            return None
        return max(eyes.times(names, "bound_s").values()) - began_s


def _parked(number: int) -> list[objects.Raw]:
    """Pods that lack a label, a device type or cpu, in turn."""
    shapes: Sequence[tuple[Mapping[str, int], Mapping[str, Any]]] = (
        (objects.gpu(), {"nodeSelector": {"example.com/never": ""}}),
        ({"cambricon.com/vmlu": 1}, {}),
        ({"cpu": 5000}, {}),
    )
    return [
        objects.pod(f"parked-{at}", limits, spec=spec)
        for at in range(number)
        for limits, spec in (shapes[at % len(shapes)],)
    ]


def _waiting_for_label() -> list[objects.Raw]:
    selector = {"nodeSelector": {OPEN: "yes"}}
    return [objects.pod(f"helped-{at}", objects.gpu(), spec=selector) for at in range(HELPED)]


def _gang(name: str) -> list[objects.Raw]:
    """Sixteen pods of one whole card each."""
    pods = [objects.pod(f"{name}-{at:02}", objects.whole(1)) for at in range(GANG)]
    for pod in pods:
        pod["metadata"]["annotations"] = {
            keys.GANG_NAME: name,
            keys.GANG_MIN_MEMBER: str(GANG),
        }
    return pods


def _names(pods: Iterable[objects.Raw]) -> list[str]:
    return [pod["metadata"]["name"] for pod in pods]
