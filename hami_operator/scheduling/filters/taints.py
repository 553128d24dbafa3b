"""TaintToleration: node readiness arrives here, as taints of the node controller.

The conditions of a node are never read: a pod that tolerates their taints may go there.
"""

from __future__ import annotations

from typing import Final

from hami_operator.scheduling import pod as pods
from hami_operator.scheduling import rejection, surroundings, tolerations
from hami_operator.scheduling.filters import check

NAME: Final = "TaintToleration"
_REJECTION: Final = rejection.Rejection(
    plugin=NAME, texts=("node(s) had untolerated taint(s)",), resolvable=False
)


def plan(
    pod: pods.Pod, options: check.Options, around: surroundings.Surroundings
) -> check.Check | None:
    """Rejects nodes with a NoSchedule or NoExecute taint that no toleration covers."""
    del around
    own, comparison = pod.tolerations, options.comparison_operators

    def judge(view: check.View) -> rejection.Rejection | None:
        taints = view.node.repelling
        if not taints or tolerations.untolerated(taints, own, comparison=comparison) is None:
            return None
        return _REJECTION

    return judge
