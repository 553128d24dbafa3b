"""The simulated nodes of `end_to_end`, as a process of their own.

``plugins`` creates the nodes and serves pods with the whole contract of a device plugin: eight
requests for each container with cards, and one for the status. ``kubelets`` finds the nodes there
and has no plugins: it writes the status alone.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import signal
import sys
from typing import Final

from benchmarks import objects
from hami_operator.cluster.kubernetes import admin
from hami_operator.simulator import fleet, machine

READY: Final = "serving"
QUIET: Final = machine.Behaviour(period_s=30.0, grace_s=0.0, heartbeat_s=0.0)
"""No heartbeats: nobody here calls a node dead."""


async def serve(args: argparse.Namespace) -> None:
    """Serve until SIGTERM."""
    hosts = objects.hosts(args.nodes, args.cards)
    if args.mode == "kubelets":
        hosts = [dataclasses.replace(host, equipment=()) for host in hosts]
    client = await admin.Admin.connect(kubeconfig=args.kubeconfig)
    simulated = fleet.Fleet(hosts, client, behaviour=QUIET)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    try:
        await simulated.install()
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(simulated.serve())
            await simulated.started.wait()
            print(READY, flush=True)
            await stop.wait()
            serving.cancel()
    finally:
        await client.close()


def main(arguments: list[str]) -> None:
    """Read the options and serve."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet", description=__doc__)
    parser.add_argument("mode", choices=("plugins", "kubelets"))
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--cards", type=int, default=8)
    asyncio.run(serve(parser.parse_args(arguments)))


if __name__ == "__main__":
    main(sys.argv[1:])
