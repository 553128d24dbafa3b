"""SchedulingGates: a gated pod is not tried at all."""

from __future__ import annotations

from typing import Final

from hami_operator.scheduling import pod as pods
from hami_operator.scheduling import rejection

NAME: Final = "SchedulingGates"


def prefilter(pod: pods.Pod) -> rejection.Rejection | None:
    """Rejects a pod that has a gate left, on all nodes at once."""
    if not pod.gates:
        return None
    text = f"waiting for scheduling gates: [{' '.join(pod.gates)}]"
    return rejection.Rejection(plugin=NAME, texts=(text,), resolvable=False)
