"""Case files as pytest parameters: one per row, named by its id."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

import pytest
import yaml
from _pytest.mark.structures import ParameterSet

FOLDER: Final = pathlib.Path(__file__).parent
OTHER: Final = os.environ.get("HAMI_CASES", "")
"""Another folder with rows of the same format, instead of the shipped ones."""


def document(name: str) -> Any:
    """The content of a case file; None where the other folder has no such file."""
    path = pathlib.Path(OTHER or FOLDER) / name
    if OTHER and not path.exists():
        return None
    return yaml.load(path.read_text(encoding="utf-8"), Loader=_LOADER)


_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def rows(name: str) -> list[dict[str, Any]]:
    """The rows of a case file: the file itself, or what it holds under ``cases``."""
    found = document(name)
    return (found["cases"] if isinstance(found, dict) else found) or []


def params(found: Iterable[Mapping[str, Any]], uncovered: Mapping[str, str]) -> list[ParameterSet]:
    """The rows to run, without those that are listed as not covered."""
    return [pytest.param(row, id=row["id"]) for row in found if row["id"] not in uncovered]


def unknown(name: str, uncovered: Mapping[str, str]) -> set[str]:
    """Listed ids that the shipped file does not have; empty where another folder is run."""
    return set() if OTHER else set(uncovered) - {row["id"] for row in rows(name)}
