"""Case rows that are not covered yet, each with its reason; everything else must pass.

One dict per case file, from the id of a row to why it is not run. A test fails where an id does
not exist in the shipped file, so the table cannot outlive its rows.
"""

from __future__ import annotations

from typing import Final

DEVICES: Final[dict[str, str]] = {}
"""Rows of ``devices.yaml``."""


def _rows(reason: str, *ids: str) -> dict[str, str]:
    return dict.fromkeys(ids, reason)


KUBE_SEMANTICS: Final[dict[str, str]] = {
    **_rows(
        "the extender mode is not built",
        "ext-01",
        "ext-02",
        "ext-04",
        "ext-05",
        "ext-07",
        "ext-08",
        "ext-09",
    ),
}
"""Rows of kube-semantics.yaml by id, with the reason why none of our code runs them yet."""

SCHEDULER: Final[dict[str, str]] = {
    **_rows(
        "the extender mode is not built",
        *("A11", "A12", "A14", "A15"),
        *("H7.1", "H8.1", "H8.2", "H9.1", "H10", "H12.1", "H13", "H15.1", "H20.1", "H20.3", "H22"),
    ),
}
"""Rows of ``scheduler.yaml`` for which none of our code is there yet."""

SCHEDULER_BIND: Final[dict[str, str]] = _rows(
    "binds by the extender are not built",
    *("C1", "C3", "C4", "C6"),
)
"""Rows of ``scheduler.yaml`` about binds and node locks."""
