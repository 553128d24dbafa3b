"""NodeName: a pod that names its node."""

from __future__ import annotations

from typing import Final

from hami_operator.scheduling import pod as pods
from hami_operator.scheduling import rejection, surroundings
from hami_operator.scheduling.filters import check

NAME: Final = "NodeName"
_REJECTION: Final = rejection.Rejection(
    plugin=NAME, texts=("node(s) didn't match the requested node name",), resolvable=False
)


def plan(
    pod: pods.Pod, options: check.Options, around: surroundings.Surroundings
) -> check.Check | None:
    """Rejects all other nodes; no check for a pod that names none."""
    del options, around
    wanted = pod.node_name
    if not wanted:
        return None
    return lambda view: None if view.node.name == wanted else _REJECTION
