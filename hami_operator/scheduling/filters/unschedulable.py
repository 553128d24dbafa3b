"""NodeUnschedulable: cordoned nodes, by the field and not by the taint of the same name."""

from __future__ import annotations

from typing import Final

from hami_operator.scheduling import pod as pods
from hami_operator.scheduling import rejection, surroundings, tolerations
from hami_operator.scheduling.filters import check

NAME: Final = "NodeUnschedulable"
_TAINT: Final = tolerations.Taint(key="node.kubernetes.io/unschedulable")
_REJECTION: Final = rejection.Rejection(
    plugin=NAME, texts=("node(s) were unschedulable",), resolvable=False
)


def plan(
    pod: pods.Pod, options: check.Options, around: surroundings.Surroundings
) -> check.Check | None:
    """Rejects cordoned nodes; no check at all for a pod that tolerates being there."""
    del around
    if tolerates(pod, options):
        return None
    return _check


def tolerates(pod: pods.Pod, options: check.Options) -> bool:
    """Whether a cordon does not stop the pod."""
    comparison = options.comparison_operators
    return any(one.covers(_TAINT, comparison=comparison) for one in pod.tolerations)


def _check(view: check.View) -> rejection.Rejection | None:
    return _REJECTION if view.node.unschedulable else None
