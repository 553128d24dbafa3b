"""Scenarios from builders, and the answers that tests expect."""

import dataclasses
from typing import Any

from tests import builders
from tests.differential import oracle

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"


def asked(pending: Any, /, **kinds: list[Any]) -> oracle.Scenario:
    """A scenario from builders and raw objects."""
    made = {
        kind: [one.raw() if isinstance(one, builders.Object) else one for one in objects]
        for kind, objects in kinds.items()
    }
    return {"id": "s", "kinds": made, "pod": pending.raw()}


def _refused(code: str, plugin: str, *reasons: str) -> oracle.Refusal:
    return oracle.Refusal(plugin=plugin, code=code, reasons=reasons)


def final(plugin: str, *reasons: str) -> oracle.Refusal:
    """Preemption would not help."""
    return _refused("UnschedulableAndUnresolvable", plugin, *reasons)


def for_now(plugin: str, *reasons: str) -> oracle.Refusal:
    """Preemption may help."""
    return _refused("Unschedulable", plugin, *reasons)


def zoned(name: str, zone: str) -> builders.NodeBuilder:
    """A node with plenty of room in a zone."""
    return builders.roomy(name).label(ZONE, zone).label(HOST, name)


def filtered(verdict: oracle.Verdict) -> oracle.Verdict:
    """The verdict as far as the filters say it; whether a message and scores belong is checked."""
    if bool(verdict.message) is bool(verdict.feasible):
        raise AssertionError(f"feasible nodes or a message, not both or neither: {verdict}")
    if sorted(verdict.scores) != list(verdict.feasible):
        raise AssertionError(f"scores of other nodes than the feasible: {verdict}")
    return dataclasses.replace(verdict, scores={}, message="")


def passed(*nodes: str, **refusals: oracle.Refusal) -> oracle.Verdict:
    """What the filters are to say: the feasible nodes, and who refuses the others."""
    return oracle.Verdict(id="s", feasible=nodes, refusals=refusals)
