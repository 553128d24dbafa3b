"""``hami-operator simulate``: simulated nodes and device plugins on a real cluster."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import sys
import textwrap
from collections.abc import Callable
from typing import Final

from hami_operator import clock, errors, settings
from hami_operator.cli import devices, switches
from hami_operator.cluster.kubernetes import admin
from hami_operator.simulator import catalogue, fleet, machine

_CHUNK_BYTES: Final = 4096
FAMILIES: Final = ("nvidia", "nvidia-text", "mlu", "hcu", "dcu", "mthreads")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = (
        f"while it runs it takes these lines:\n{textwrap.indent(switches.usage(), '  ')}"
    )
    devices.connect(parser)
    parser.add_argument("--nodes", type=int, default=8, help="how many nodes (%(default)s)")
    parser.add_argument("--cards", type=int, default=4, help="cards per node (%(default)s)")
    parser.add_argument(
        "--families",
        default=",".join(FAMILIES),
        metavar="LIST",
        help=f"comma list, taken in turn, of {', '.join(catalogue.MODELS)}; "
        "with + between them for nodes that have both (%(default)s)",
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
    for name, number in (("nodes", args.nodes), ("cards", args.cards)):
        if number < 1:
            raise errors.SettingsError(name, f"{number} is less than 1")
    families = tuple(map(str.strip, args.families.split(",")))
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
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    try:
        await simulated.install()
        print(
            f"{len(simulated.machines)} simulated nodes serve pods; interrupt to end", flush=True
        )
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(simulated.serve(), name="simulated nodes")
            _listen(loop, lambda line: tasks.create_task(_turn(simulated, line)))
            await stop.wait()
            loop.remove_reader(sys.stdin.fileno())
            serving.cancel()
    finally:
        if not keep:
            await simulated.clean_up()


def _listen(loop: asyncio.AbstractEventLoop, take: Callable[[str], object]) -> None:
    """Pass on each line of standard input, if that can be waited for."""
    # Not sys.stdin.readline(): a line that Python has read ahead makes nothing readable again.
    pending = bytearray()
    descriptor = sys.stdin.fileno()

    def read() -> None:
        chunk = os.read(descriptor, _CHUNK_BYTES)
        if not chunk:
            loop.remove_reader(descriptor)
        *lines, pending[:] = (pending + chunk).split(b"\n")
        for line in lines:
            if line.strip():
                take(line.decode("utf-8", "replace"))

    with contextlib.suppress(OSError):  # a file: nobody types there
        loop.add_reader(descriptor, read)


async def _turn(simulated: fleet.Fleet, line: str) -> None:
    try:
        await switches.turn(simulated, line)
    except errors.OperatorError as error:
        print(error, flush=True)
    else:
        print(f"done: {line.strip()}", flush=True)
