"""The texts of the demo: its board while it runs, its tables and verdict at the end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from hami_operator.cli import holdings, table
from hami_operator.simulator import audit, machine, stock, story

Raw = Mapping[str, Any]

_PHASES: Final = ("Pending", "Bound", "Running", "Succeeded", "Failed")
_HEADS: Final = ("NODE", "TYPE", "CARD", "MEMORY MiB", "", "CORES", "", "SLOTS", "OWNERS")


def board(
    nodes: Sequence[Raw], pods: Sequence[Raw], machines: Mapping[str, machine.Machine]
) -> list[str]:
    """One line per node with how full it is, and one with the pods by phase."""
    rows = [_node_row(node, pods, machines) for node in nodes]
    return [*table.columns(rows), summary(pods)]


def _node_row(
    node: Raw, pods: Sequence[Raw], machines: Mapping[str, machine.Machine]
) -> tuple[str, ...]:
    name = node["metadata"]["name"]
    here = [pod for pod in pods if pod["spec"].get("nodeName") == name]
    loads = audit.loads([node], here).values()
    slots, memory, cores = (_sums(loads, place) for place in range(3))
    words = [
        word if one.alive else f"{word} (dead)" for word, one in machines[name].plugins.items()
    ]
    return (
        name,
        " ".join(words),
        f"memory {table.bar(*memory)}",
        f"cores {table.bar(*cores)}",
        f"slots {table.bar(*slots)}",
        f"{len(here)} pods",
    )


def _sums(loads: Iterable[audit.Load], place: int) -> tuple[int, int]:
    """What is taken of one amount, and what there is of it, where it has a bound."""
    bounded = [one for one in loads if one.total[place] < stock.ANY]
    return sum(one.taken[place] for one in bounded), sum(one.total[place] for one in bounded)


def summary(pods: Iterable[Raw]) -> str:
    """``pods: 3 Pending, 90 Running``."""
    counts = audit.phases(pods)
    parts = [f"{counts[phase]} {phase.lower()}" for phase in _PHASES if counts[phase]]
    return f"pods: {', '.join(parts) or 'none'}"


def cards(found: Iterable[holdings.Holding], *, width: int = 0) -> list[str]:
    """Node, card, bars, owners: a line per card; ``width`` 0 lets lines be as long as they are."""
    rows = []
    node = ""
    for one in found:
        owners = " ".join(owner.pod.rpartition("/")[2] for owner in one.owners)
        rows.append(
            (
                "" if one.node == node else one.node,
                one.type,
                table.middle_cut(one.id, 14),
                f"{one.memory_used_mib}/{one.memory_mib}",
                table.bar(one.memory_used_mib, one.memory_mib),
                f"{one.cores_used}/{one.cores}",
                table.bar(one.cores_used, one.cores, width=5),
                f"{one.slots_used}/{one.slots}",
                owners or "-",
            )
        )
        node = one.node
    lines = table.columns(rows, heads=_HEADS)
    return [table.shortened(line, width) for line in lines] if width else lines


def waiting(pods: Iterable[Raw]) -> list[str]:
    """The pods that wait, and why."""
    rows = [
        (pod["metadata"]["name"], story.waiting_for(pod) or "not looked at yet")
        for pod in pods
        if not pod["spec"].get("nodeName")
    ]
    return table.columns(rows)


def verdict(checks: Iterable[story.Check]) -> Iterator[str]:
    """A line per check, and its problems."""
    for check in checks:
        yield f"{'FAILED' if check.problems else 'ok':6}  {check.name}"
        for problem in check.problems:
            yield f"        {problem}"
