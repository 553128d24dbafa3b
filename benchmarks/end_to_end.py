"""Pods per second on a real API server, our operator and kube-scheduler in turn.

Every run of a round creates the same burst of pods and waits until all are bound and run; then
nodes are filled, more pods wait, and as many end. All processes share this machine.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks import actors, api, burst, figures, objects
from tests.conformance import servers
from tests.controlplane import build, cluster, commands

NAME: Final = "end_to_end"
VARIANTS: Final = "kube-scheduler,shipped,memory,memory+spread,bare"
COLUMNS: Final = {
    "variant": "variant",
    "bound": "bound",
    "pods/s": "pods_per_s",
    "of floor": "share",
    "p50 s": "p50_s",
    "p99 s": "p99_s",
    "scheduler ms/pod": "scheduler_ms_per_pod",
    "API server": "kube-apiserver_ms_per_pod",
    "etcd": "etcd_ms_per_pod",
    "nodes": "nodes_ms_per_pod",
    "load": "load_ms_per_pod",
    "reads/pod": "reads_per_pod",
    "writes/pod": "writes_per_pod",
    "waiting p99 s": "waiting_p99_s",
}
WARM_UPS: Final = 2
LIFTED: Final = commands.Options(
    max_requests_inflight=3000,
    max_mutating_requests_inflight=1000,
)


def main(arguments: Sequence[str]) -> int:
    """Measure every variant; 1 where pods were left without a node, or cards over-booked."""
    args = _parser().parse_args(arguments)
    try:
        variants = [actors.Variant.parse(name) for name in args.variants.split(",")]
    except actors.VariantError as error:
        print(error, file=sys.stderr)
        return 2
    build.ensure(("etcd", "kube-apiserver", "kube-scheduler"))
    rows = asyncio.run(_measure(args, variants))
    result = summary(rows)
    print(figures.table(result, COLUMNS))
    facts = {"nodes": args.nodes, "cards": args.cards, "pods": args.pods, "rounds": args.rounds}
    kept = {"machine": figures.machine(), **facts, "medians": result, "runs": rows}
    figures.keep(NAME, kept, args.output)
    return 0 if all(row["bound"] == row["of"] and not row["faults"] for row in rows) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks {NAME}",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--nodes", type=int, default=100, help="(%(default)s)")
    parser.add_argument("--cards", type=int, default=8, help="per node (%(default)s)")
    parser.add_argument("--pods", type=int, default=500, help="in the burst (%(default)s)")
    parser.add_argument(
        "--waiting", type=int, default=50, help="pods that wait for others; 0: none (%(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=1, help="medians of so many (%(default)s)")
    parser.add_argument(
        "--deadline", type=float, default=60.0, help="seconds for a part of a run (%(default)s)"
    )
    parser.add_argument(
        "--variants",
        default=VARIANTS,
        metavar="LIST",
        help="kube-scheduler, or words with + between them: annotation|memory, kopf|reflector, "
        "auto|patch, binpack|spread, bare (no lock, no device plugins), shipped (%(default)s)",
    )
    parser.add_argument("--profile", default="", metavar="FILE", help="cProfile of the operator")
    parser.add_argument("--output", metavar="FILE", help="JSON (default: build/benchmarks)")
    return parser


def summary(rows: Sequence[figures.Row]) -> list[dict[str, Any]]:
    """Medians per variant, with the speed as a share of the floor's of the same rounds."""
    names = list(dict.fromkeys(row["variant"] for row in rows))
    medians = [figures.median([row for row in rows if row["variant"] == name]) for name in names]
    floor = next((row["pods_per_s"] for row in medians if row["variant"] == actors.FLOOR), None)
    return [{**row, "share": row["pods_per_s"] / floor if floor else None} for row in medians]


async def _measure(
    args: argparse.Namespace, variants: Sequence[actors.Variant]
) -> list[dict[str, Any]]:
    with cluster.ControlPlane(options=LIFTED) as plane:
        server = servers.Real(plane)
        kubeconfig = server.write_kubeconfig(plane.directory / "operator.kubeconfig")
        plane.kubectl("create", "namespace", objects.NAMESPACE)
        nodes = actors.Fleet(plane, nodes=args.nodes, cards=args.cards)
        rows = []
        try:
            async with api.Api(plane) as client:
                bench = _Bench(plane, kubeconfig, nodes, client, args)
                await bench.warm_up()
                for variant in [*variants] * args.rounds:
                    rows.append(await bench.run(variant))
                    print(_progress(rows[-1]), file=sys.stderr, flush=True)
        finally:
            nodes.stop()
        return rows


def _progress(row: figures.Row) -> str:
    shown = ("pods_per_s", "p50_s", "p99_s", "waiting_p99_s")
    said = ", ".join(f"{key} {figures.text(row.get(key))}" for key in shown)
    faults = "".join(f"\n  {fault}" for fault in row["faults"])
    return f"{row['variant']}: {row['bound']} of {row['of']} bound, {said}{faults}"


class _Bench:
    """Runs one variant on the control plane."""

    def __init__(
        self,
        plane: cluster.ControlPlane,
        kubeconfig: Path,
        nodes: actors.Fleet,
        client: api.Api,
        args: argparse.Namespace,
    ) -> None:
        self._plane = plane
        self._kubeconfig = kubeconfig
        self._nodes = nodes
        self._client = client
        self._profile = args.profile
        self._size = burst.Size(
            nodes=args.nodes,
            cards=args.cards,
            pods=args.pods,
            waiting=min(args.waiting, args.nodes),
            deadline_s=args.deadline,
        )

    async def warm_up(self) -> None:
        """Let the API server's cache of pods grow: with a small one it cuts watches in a burst."""
        for _ in range(WARM_UPS):
            await self.run(actors.Variant.parse(actors.FLOOR), waits=False)

    async def run(self, variant: actors.Variant, *, waits: bool = True) -> dict[str, Any]:
        """Measure one variant.

        Args:
            variant: what is measured.
            waits: also the part in which pods wait for others.
        """
        await self._nodes.serve("plugins")
        if variant.bare:
            await self._nodes.serve("kubelets")
        await self._clean()
        scheduler = self._scheduler(variant)
        try:
            await scheduler.ready()
            run = self._with(scheduler, variant)
            async with api.Eyes(self._client) as eyes:
                row = await burst.burst(self._client, eyes, run)
            if waits and self._size.waiting:
                await self._client.delete_all()
                async with api.Eyes(self._client) as eyes:
                    row |= await burst.waiting(self._client, eyes, run)
        finally:
            scheduler.stop()
        return row

    async def _clean(self) -> None:
        await self._client.delete_all()
        hosts = objects.hosts(self._size.nodes, self._size.cards)
        await burst.prepare(self._client, [host.name for host in hosts], self._size.cards)

    def _scheduler(self, variant: actors.Variant) -> actors.Operator | actors.KubeScheduler:
        folder = self._plane.directory
        if variant.name == actors.FLOOR:
            return actors.KubeScheduler(self._plane, folder)
        return actors.Operator(self._kubeconfig, folder, variant, self._profile)

    def _with(self, scheduler: actors.Scheduler, variant: actors.Variant) -> burst.Run:
        servers_ = {name: self._plane.pid(name) for name in ("kube-apiserver", "etcd")}
        pids = {
            "scheduler": scheduler.pid,
            **servers_,
            "nodes": self._nodes.pid,
            "load": os.getpid(),
        }
        return burst.Run(
            scheduler=scheduler,
            variant=variant,
            size=self._size,
            pids=pids,
            audit_log=self._plane.audit_log,
        )
