"""What benchmarks without an API server have in common: size of the cluster, profile, report."""

from __future__ import annotations

import argparse
import contextlib
import cProfile
import pstats
from collections.abc import Iterator, Mapping, Sequence

from benchmarks import figures


def parser(
    name: str, about: str | None, *, nodes: int, cards: int, pods: int
) -> argparse.ArgumentParser:
    """The arguments of all; the numbers are defaults."""
    made = argparse.ArgumentParser(prog=f"python -m benchmarks {name}", description=about)
    made.add_argument("--nodes", type=int, default=nodes, help="(%(default)s)")
    made.add_argument("--cards", type=int, default=cards, help="per node (%(default)s)")
    made.add_argument("--pods", type=int, default=pods, help="running pods (%(default)s)")
    made.add_argument("--profile", metavar="WORKLOAD", help="also show where its time goes")
    made.add_argument("--output", metavar="FILE", help="JSON (default: build/benchmarks)")
    return made


@contextlib.contextmanager
def profiled() -> Iterator[None]:
    """Print where the time of the block went."""
    with cProfile.Profile() as profile:
        yield
    pstats.Stats(profile).sort_stats("tottime").print_stats(30)


def report(
    name: str, rows: Sequence[figures.Row], columns: Mapping[str, str], args: argparse.Namespace
) -> None:
    """Print the table, and keep all figures with the size of the cluster."""
    print(figures.table(rows, columns))
    facts = {"nodes": args.nodes, "cards": args.cards, "pods": args.pods}
    figures.keep(name, {"machine": figures.machine(), **facts, "rows": rows}, args.output)
