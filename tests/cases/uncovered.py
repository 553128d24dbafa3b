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
        "NodePorts is not built: a pod that needs it waits with a reason",
        "ports-01",
        "ports-02",
        "ports-03",
        "ports-04",
        "ports-05",
        "ports-06",
        "ports-08",
        "ports-09",
        "ports-12",
        "ports-14",
    ),
    **_rows(
        "a pod's own pod affinity is not built: such a pod waits with a reason",
        "ipa-02",
        "ipa-03",
        "ipa-05",
        "ipa-06",
        "ipa-08",
        "ipa-09",
        "ipa-10",
        "ipa-15",
        "ipa-16",
        "ipa-17",
        "ipa-20",
        "ipa-21",
        "ipa-22",
        "ipa-23",
        "ipa-30",
        "ipa-31",
        "ipa-33",
        "ipa-34",
        "ipa-35",
        "ipa-36",
        "ipa-38",
        "ipa-41",
        "ipa-47",
        "ipa-49",
        "ipa-51",
    ),
    **_rows(
        "PodTopologySpread is not built: a pod that needs it waits with a reason",
        "pts-01",
        "pts-02",
        "pts-04",
        "pts-05",
        "pts-06",
        "pts-08",
        "pts-10",
        "pts-11",
        "pts-12",
        "pts-14",
        "pts-15",
        "pts-17",
        "pts-18",
        "pts-19",
        "pts-20",
        "pts-21",
        "pts-23",
        "pts-25",
        "pts-26",
        "pts-28",
        "pts-29",
        "pts-31",
        "pts-32",
        "pts-33",
        "pts-34",
        "pts-37",
        "pts-40",
        "pts-41",
        "pts-42",
    ),
    **_rows(
        "VolumeBinding is not built: a pod that needs it waits with a reason",
        "volbind-01",
        "volbind-02",
        "volbind-03",
        "volbind-04",
        "volbind-06",
        "volbind-08",
        "volbind-10",
        "volbind-11",
        "volbind-13",
        "volbind-14",
        "volbind-16",
        "volbind-17",
    ),
    **_rows(
        "VolumeRestrictions is not built: a pod that needs it waits with a reason",
        "volrestr-01",
        "volrestr-02",
        "volrestr-04",
        "volrestr-05",
        "volrestr-07",
        "volrestr-08",
        "volrestr-10",
        "volrestr-11",
        "volrestr-12",
        "volrestr-14",
    ),
    **_rows(
        "VolumeZone is not built: a pod that needs it waits with a reason",
        "volzone-01",
        "volzone-02",
        "volzone-03",
        "volzone-05",
        "volzone-06",
        "volzone-07",
        "volzone-08",
        "volzone-11",
        "volzone-12",
        "volzone-14",
        "volzone-15",
        "volzone-16",
    ),
    **_rows(
        "NodeVolumeLimits is not built: a pod that needs it waits with a reason",
        "vollimit-01",
        "vollimit-02",
        "vollimit-04",
        "vollimit-05",
        "vollimit-07",
        "vollimit-09",
        "vollimit-10",
    ),
    **_rows(
        "DynamicResources is not built: a pod that needs it waits with a reason",
        "dra-01",
        "dra-02",
        "dra-04",
        "dra-05",
        "dra-08",
        "dra-09",
    ),
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
    **_rows(
        "NodePorts is not built, so no pod is parked by it",
        "hint-18",
        "hint-19",
    ),
    **_rows(
        "InterPodAffinity is not built, so no pod is parked by it",
        "hint-21",
        "hint-22",
    ),
    **_rows(
        "PodTopologySpread is not built, so no pod is parked by it",
        "hint-24",
        "hint-26",
        "hint-27",
    ),
}
"""Rows of kube-semantics.yaml by id, with the reason why none of our code runs them yet."""

SCHEDULER: Final[dict[str, str]] = {
    **_rows(
        "the extender mode is not built",
        *("A11", "A12", "A14", "A15"),
        *("H7.1", "H8.1", "H8.2", "H9.1", "H10", "H12.1", "H13", "H15.1", "H20.1", "H20.3", "H22"),
    ),
    **_rows("the variables of other schedulers are not read", "C28.1", "C28.3"),
    **_rows("the leader is not marked by a label", "H19.1"),
    **_rows("gauges of cards are not exported yet", "H21.1"),
    **_rows("readiness is tested with the server that answers", "H11.1", "H11.2"),
}
"""Rows of ``scheduler.yaml`` for which none of our code is there yet."""

SCHEDULER_BIND: Final[dict[str, str]] = _rows(
    "binds by the extender are not built",
    *("C1", "C3", "C4", "C6"),
)
"""Rows of ``scheduler.yaml`` about binds and node locks."""

SCHEDULER_PLUGIN: Final[dict[str, str]] = _rows(
    "the plugin's side: the tests of the simulated plugin have to run it",
    *("I1.1", "I2", "I3", "I4", "I5", "I7.1", "I7.3", "I9", "I10"),
)
"""Rows of ``scheduler.yaml`` about what a device plugin does."""
