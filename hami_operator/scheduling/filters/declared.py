"""NodeDeclaredFeatures: what a kubelet must have said that it can do."""

from __future__ import annotations

from typing import Final

from hami_operator.scheduling import pod as pods
from hami_operator.scheduling import rejection, surroundings
from hami_operator.scheduling.filters import check

NAME: Final = "NodeDeclaredFeatures"
_REJECTION: Final = rejection.final(NAME, "node(s) didn't match Pod's required features")


def plan(
    pod: pods.Pod, options: check.Options, around: surroundings.Surroundings
) -> check.Planned:
    """Rejects nodes that do not declare all that the pod needs; most pods need nothing."""
    del options, around
    needed = pod.features
    if not needed:
        return None
    return lambda view: None if needed <= view.node.features else _REJECTION
