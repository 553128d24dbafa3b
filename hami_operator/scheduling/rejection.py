"""Why one node, or all nodes at once, were refused for a pod."""

from __future__ import annotations

import dataclasses

from hami_operator import errors


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Rejection:
    """The answer of one filter that says no.

    Attributes:
        plugin: the filter by its kube-scheduler name; ``Devices`` for ours.
        texts: what is counted in ``0/N nodes are available: <count> <text>, …``.
        resolvable: True where the removal of other pods may help (kube-scheduler's code
            Unschedulable), False where it cannot (UnschedulableAndUnresolvable).
        reasons: our typed reasons, where the plain texts of kube-scheduler do not say it all.
        detail: the node's own words, e.g. ``3/4 CardInsufficientMemory``.
    """

    plugin: str
    texts: tuple[str, ...]
    resolvable: bool
    reasons: tuple[errors.Reason, ...] = ()
    detail: str = ""


def final(plugin: str, text: str) -> Rejection:
    """A refusal that no other pod's end would change."""
    return Rejection(plugin=plugin, texts=(text,), resolvable=False)
