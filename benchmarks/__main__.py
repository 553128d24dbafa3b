"""Run benchmarks: ``python -m benchmarks [name …] [options of these]``.

A benchmark is a module of this package with ``NAME``, its name on the command line, and
``main(arguments)``, which reads its own options and returns the exit code. The first line of its
docstring describes it.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Mapping, Sequence
from typing import Final, Protocol, cast

import benchmarks

DEFAULT: Final = "end_to_end"


class Benchmark(Protocol):
    """A module that follows the convention."""

    NAME: str

    def main(self, arguments: Sequence[str]) -> int:
        """Measure, print and return the exit code."""
        ...


def main(arguments: Sequence[str]) -> int:
    """Run the named benchmarks one after the other; the worst exit code is the result."""
    names, options = _split(arguments)
    known = discover()
    if not names and set(options) & {"-h", "--help"}:
        print(_help(known))
        return 0
    if unknown := [name for name in names if name not in known]:
        print(f"no benchmark {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    return max(known[name].main(options) for name in names or [DEFAULT])


def discover() -> Mapping[str, Benchmark]:
    """Name to module, for every module of this package that is a benchmark."""
    found = {}
    for each in pkgutil.iter_modules(benchmarks.__path__):
        if each.name == "__main__":
            continue
        module = importlib.import_module(f"{benchmarks.__name__}.{each.name}")
        if hasattr(module, "NAME") and hasattr(module, "main"):
            found[module.NAME] = cast(Benchmark, module)
    return found


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The names come first; everything from the first option on belongs to the benchmarks."""
    options = [at for at, text in enumerate(arguments) if text.startswith("-")]
    end = options[0] if options else len(arguments)
    return list(arguments[:end]), list(arguments[end:])


def _help(known: Mapping[str, Benchmark]) -> str:
    lines = ["usage: python -m benchmarks [name …] [options of these]", ""]
    for name, module in known.items():
        lines.append(f"  {name:<12} {(module.__doc__ or '').strip().splitlines()[0]}")
    return "\n".join([*lines, "", f"Without a name: {DEFAULT}. Options of one: NAME --help."])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
