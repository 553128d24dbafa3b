"""NodeResourcesFit: cpu, memory, storage, extended resources and the number of pods.

Free is what kubelet offers (allocatable, never capacity) less what all pods on the node hold.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Final

from hami_operator.scheduling import pod as pods
from hami_operator.scheduling import rejection, resources, surroundings
from hami_operator.scheduling.filters import check

NAME: Final = "NodeResourcesFit"
TOO_MANY_PODS: Final = "Too many pods"

Amounts = tuple[tuple[str, int], ...]


def plan(
    pod: pods.Pod, options: check.Options, around: surroundings.Surroundings
) -> check.Check | None:
    """Rejects nodes without room; names every resource that is short."""
    del around
    always = compared(pod, options)
    # What only some nodes offer is compared there; kubelet drops the name on all others.
    sometimes = options.where_offered.intersection(name for name, _ in always)

    def judge(view: check.View) -> rejection.Rejection | None:
        offered, booked = view.node.amounts, view.requested
        wanted = always if not sometimes else _offered(always, sometimes, offered)
        if view.pod_count >= offered.get(resources.PODS, 0):
            return _explain(view, wanted)
        for name, amount in wanted:
            if amount > offered.get(name, 0) - booked.get(name, 0):
                return _explain(view, wanted)
        return None

    return judge


def compared(pod: pods.Pod, options: check.Options) -> Amounts:
    """What of a pod's request is compared with nodes, in the order of reporting."""
    plain = [name for name in resources.PLAIN if name in pod.requests]
    scalars = sorted(name for name in pod.requests if _counts(name, options))
    return tuple((name, pod.requests[name]) for name in (*plain, *scalars))


def _counts(name: str, options: check.Options) -> bool:
    if resources.is_extended(name):
        group = name.partition("/")[0]
        return name not in options.ignored and group not in options.ignored_groups
    return resources.is_scalar(name)


def _offered(wanted: Amounts, sometimes: frozenset[str], offered: Mapping[str, int]) -> Amounts:
    return tuple(pair for pair in wanted if pair[0] not in sometimes or pair[0] in offered)


def _explain(view: check.View, wanted: Amounts) -> rejection.Rejection:
    offered = view.node.amounts
    texts = tuple(_shortages(view, wanted))
    # More than the empty node has: no other pod's end would help.
    beyond = any(amount > offered.get(name, 0) for name, amount in wanted)
    return _rejection(texts, not beyond)


def _shortages(view: check.View, wanted: Amounts) -> Iterator[str]:
    offered, booked = view.node.amounts, view.requested
    if view.pod_count >= offered.get(resources.PODS, 0):
        yield TOO_MANY_PODS
    for name, amount in wanted:
        if amount > offered.get(name, 0) - booked.get(name, 0):
            yield f"Insufficient {name}"


@functools.lru_cache(maxsize=1024)
def _rejection(texts: tuple[str, ...], resolvable: bool) -> rejection.Rejection:
    return rejection.Rejection(plugin=NAME, texts=texts, resolvable=resolvable)
