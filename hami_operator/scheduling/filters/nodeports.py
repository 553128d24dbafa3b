"""NodePorts: ports of the node that other pods on it have taken."""

from __future__ import annotations

from typing import Final

from hami_operator.scheduling import pod as pods
from hami_operator.scheduling import ports, rejection, surroundings
from hami_operator.scheduling.filters import check

NAME: Final = "NodePorts"
_REJECTION: Final = rejection.Rejection(
    plugin=NAME,
    texts=("node(s) didn't have free ports for the requested pod ports",),
    resolvable=True,
)


def plan(
    pod: pods.Pod, options: check.Options, around: surroundings.Surroundings
) -> check.Planned:
    """Rejects nodes where a wanted port is taken; no check for a pod that wants none."""
    del options
    wanted, others = pod.ports, around.promised or around.pods
    if not wanted:
        return None

    def judge(view: check.View) -> rejection.Rejection | None:
        taken = (port for other in others.holding(view.node.name) for port in other.ports)
        return _REJECTION if ports.clash(wanted, taken) else None

    return judge


def frees(pod: pods.Pod, other: pods.Pod) -> bool:
    """Whether the end of another pod frees a port that this one wants."""
    return ports.clash(pod.ports, other.ports)
