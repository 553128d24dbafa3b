"""``hami-operator devices``: every card of a cluster, with what is taken of it and by whom."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import os
from collections.abc import Sequence
from typing import Final

import yaml

from hami_operator import clock, settings
from hami_operator.cli import holdings, options, table
from hami_operator.cluster import kubernetes, pages, ports
from hami_operator.devices import registry
from hami_operator.protocol import instant

_HEADS: Final = (
    "NODE", "TYPE", "#", "ID", "MODEL", "SLOTS", "MEMORY", "", "CORES", "HEALTH", "TAKES PODS",
    "OWNERS",
)  # fmt: skip


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    connect(parser)
    parser.add_argument("--node", metavar="NAME", help="only the cards of this node")
    parser.add_argument(
        "-o", "--output", choices=("table", "json", "yaml"), default="table", help="(%(default)s)"
    )
    options.configure_files(parser)


def connect(parser: argparse.ArgumentParser) -> None:
    """Add the flags that say which cluster is meant."""
    parser.add_argument(
        "--kubeconfig", metavar="FILE", help="kubeconfig (default: in the pod, else the usual)"
    )
    parser.add_argument("--context", metavar="NAME", help="context of the kubeconfig")
    parser.add_argument("--server", metavar="URL", help="server that asks for no credentials")


def run(args: argparse.Namespace) -> int:
    """Print the cards."""
    chosen = options.load(args, os.environ)
    found = asyncio.run(_read(args, chosen, clock.SystemClock()))
    shown = [one for one in found if args.node in (None, one.node)]
    print(_FORMS[args.output](shown))
    return 0


async def _read(
    args: argparse.Namespace, chosen: settings.Settings, time: clock.Clock
) -> Sequence[holdings.Holding]:
    client = await kubernetes.Client.connect(
        kubeconfig=args.kubeconfig, context=args.context, server=args.server
    )
    try:
        return await cluster(client, chosen, time)
    finally:
        await client.close()


async def cluster(
    client: ports.Lister, chosen: settings.Settings, time: clock.Clock
) -> Sequence[holdings.Holding]:
    """The cards of a cluster as they are now.

    Raises:
        errors.ApiError: the cluster cannot be read.
    """
    nodes = await pages.whole(client, ports.NODES)
    pods = await pages.whole(client, ports.PODS, selector=ports.LIVE_PODS)
    return holdings.read(
        nodes.items,
        pods.items,
        registry.configured(chosen).registry,
        device_timeout_s=chosen.device_timeout_s,
        now=instant.Instant(monotonic_s=time.monotonic(), wall=time.wall()),
    )


def as_table(found: Sequence[holdings.Holding]) -> str:
    """One line per card."""
    if not found:
        return "no devices: no node carries a register or a capacity of a known type"
    return "\n".join(table.columns(map(_row, found), heads=_HEADS))


def _row(one: holdings.Holding) -> Sequence[str]:
    return (
        one.node,
        one.type,
        str(one.index) if one.index >= 0 else "?",
        table.middle_cut(one.id, 18),
        one.model or "-",
        f"{one.slots_used}/{one.slots}",
        f"{one.memory_used_mib}/{one.memory_mib} MiB",
        table.bar(one.memory_used_mib, one.memory_mib),
        f"{one.cores_used}/{one.cores}",
        "ok" if one.healthy else "bad",
        "yes" if one.available else f"no: {one.because}",
        ", ".join(map(_owner, one.owners)) or "-",
    )


def _owner(one: holdings.Owner) -> str:
    return f"{one.pod} (foreign)" if one.foreign else one.pod


def as_json(found: Sequence[holdings.Holding]) -> str:
    """A list of objects, one per card."""
    return json.dumps([dataclasses.asdict(one) for one in found], indent=2)


def as_yaml(found: Sequence[holdings.Holding]) -> str:
    """The same in YAML."""
    plain = json.loads(as_json(found))
    return str(yaml.safe_dump(plain, sort_keys=False)).rstrip()


_FORMS: Final = {"table": as_table, "json": as_json, "yaml": as_yaml}
