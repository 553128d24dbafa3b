"""Figures from measurements, and how they are shown: a table for people, JSON for machines."""

from __future__ import annotations

import datetime
import json
import math
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import hami_operator

FOLDER: Final = Path("build") / "benchmarks"
"""Where results are kept, unless said otherwise."""

Row = Mapping[str, Any]


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that so many percent of all values do not exceed (nearest rank)."""
    ordered = sorted(values)
    rank = max(1, math.ceil(percent / 100 * len(ordered)))
    return ordered[rank - 1]


def spread(values: Sequence[float], unit: str) -> dict[str, float]:
    """Median, 99th percentile and maximum, with the unit in their names."""
    return {
        f"p50_{unit}": percentile(values, 50),
        f"p99_{unit}": percentile(values, 99),
        f"max_{unit}": max(values),
    }


def median(rows: Sequence[Row]) -> dict[str, Any]:
    """One row of several: medians of numbers, the first of everything else."""
    first = rows[0]
    return {key: _middle([row.get(key) for row in rows]) for key in first}


def _middle(values: Sequence[Any]) -> Any:
    numbers = [one for one in values if isinstance(one, int | float) and type(one) is not bool]
    return statistics.median(numbers) if numbers else values[0]


def text(value: Any) -> str:
    """A cell: three significant digits are more than any of these figures is good for."""
    if value is None:
        return "-"
    if not isinstance(value, float):
        return str(value)
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:.{digits}f}"


def table(rows: Sequence[Row], columns: Mapping[str, str]) -> str:
    """A table in Markdown; ``columns`` is heading to key."""
    cells = [list(columns), *([text(row.get(key)) for key in columns.values()] for row in rows)]
    widths = [max(len(line[at]) for line in cells) for at in range(len(columns))]
    lines = [_line(line, widths) for line in cells]
    rule = "|".join(["", *("-" * (width + 1) + ":" for width in widths), ""])
    return "\n".join([lines[0], rule, *lines[1:]])


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(c.rjust(w) for c, w in zip(cells, widths, strict=True)) + " |"


def machine() -> dict[str, Any]:
    """Where and when this was measured; the load says whether the machine was busy already."""
    return {
        "version": hami_operator.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 2),
        "at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def keep(name: str, result: Mapping[str, Any], path: str | None) -> None:
    """Write a result to its file and say where that is."""
    file = Path(path) if path else FOLDER / f"{name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"\n{file}")
