"""``hami-operator simulate``: simulated nodes and device plugins on a real cluster."""

from __future__ import annotations

import argparse
import asyncio
import signal
from typing import Final

from hami_operator import clock, settings
from hami_operator.cli import devices
from hami_operator.cluster.kubernetes import admin
from hami_operator.simulator import catalogue, fleet, machine

FAMILIES: Final = ("nvidia", "nvidia-text", "mlu", "hcu", "dcu", "mthreads")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    devices.connect(parser)
    parser.add_argument("--nodes", type=int, default=8, help="how many nodes (%(default)s)")
    parser.add_argument("--cards", type=int, default=4, help="cards per node (%(default)s)")
    parser.add_argument(
        "--families",
        default=",".join(FAMILIES),
        metavar="LIST",
        help=f"comma list, taken in turn, of {', '.join(catalogue.MODELS)} (%(default)s)",
    )
    parser.add_argument("--prefix", default="sim-", help="begin of the nodes' names (%(default)s)")
    parser.add_argument(
        "--period", default="30s", help="plugins that answer register this often (%(default)s)"
    )
    parser.add_argument("--delay", default="0s", help="how long an allocation takes (%(default)s)")
    parser.add_argument(
        "--keep", action="store_true", help="leave nodes and their pods behind at the end"
    )


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted."""
    asyncio.run(_simulate(args))
    return 0


async def _simulate(args: argparse.Namespace) -> None:
    families = tuple(filter(None, map(str.strip, args.families.split(","))))
    hosts = catalogue.hosts(args.nodes, families, cards=args.cards, prefix=args.prefix)
    behaviour = machine.Behaviour(
        period_s=settings.duration_s(args.period, field="period"), delay_s=_delay_s(args.delay)
    )
    client = await admin.Admin.connect(
        kubeconfig=args.kubeconfig, context=args.context, server=args.server
    )
    try:
        simulated = fleet.Fleet(hosts, client, behaviour=behaviour, time=clock.SystemClock())
        await _serve(simulated, keep=args.keep)
    finally:
        await client.close()


def _delay_s(text: str) -> float:
    return 0.0 if text in ("0", "0s") else settings.duration_s(text, field="delay")


async def _serve(simulated: fleet.Fleet, *, keep: bool) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        await simulated.install()
        print(
            f"{len(simulated.machines)} simulated nodes serve pods; interrupt to end", flush=True
        )
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(simulated.serve(), name="simulated nodes")
            await stop.wait()
            serving.cancel()
    finally:
        if not keep:
            await simulated.clean_up()
