"""Compare our scheduler with kube-scheduler.

``python -m tests.differential --count 2000 --seed 1`` asks kube-scheduler's own code;
with ``--real`` both schedulers run, and are offered one node after the other.
"""

from __future__ import annotations

import argparse
import asyncio
import pathlib
import sys
import tempfile
from collections.abc import Sequence
from typing import Final

from tests.differential import oracle, real, tally

SHOWN: Final = 20


def main(arguments: Sequence[str]) -> int:
    """Run and print the table; 1 if a difference is not explained."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="python -m tests.differential", description=__doc__, formatter_class=form
    )
    parser.add_argument("--count", type=int, default=2000, help="how many seeds")
    parser.add_argument("--seed", type=int, default=1, help="the first; one more for each")
    parser.add_argument("--real", action="store_true", help="run both schedulers")
    given = parser.parse_args(arguments)
    seeds = range(given.seed, given.seed + given.count)
    print(f"seeds {seeds.start} to {seeds.stop - 1}")
    with oracle.Oracle() as judge:
        return asyncio.run(_play(seeds, judge)) if given.real else _ask(seeds, judge)


def _ask(seeds: range, judge: oracle.Oracle) -> int:
    found = tally.run(seeds, judge)
    print("\n".join(found.lines()))
    for fault in found.faults[:SHOWN]:
        print(fault)
    return 1 if found.faults else 0


async def _play(seeds: range, judge: oracle.Oracle) -> int:
    played = real.Played()
    with tempfile.TemporaryDirectory() as folder:
        async for one in real.judged(seeds, pathlib.Path(folder)):
            played.add(one, judge)
    print("\n".join(played.lines()))
    return 1 if played.faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
