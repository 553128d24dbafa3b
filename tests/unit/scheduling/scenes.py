"""Small clusters: nodes, pods on them, and the objects that they depend on."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from hami_operator.scheduling import (
    fields,
    filters,
    neighbours,
    objects,
    rejection,
    surroundings,
)
from hami_operator.scheduling import node as nodes
from hami_operator.scheduling import pod as pods
from hami_operator.scheduling.filters import check
from tests import builders

Answer = str | tuple[str, ...]
"""``fit``, or the texts of a node; of a pod that fits nowhere the texts alone."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class View:
    """A node with nothing booked on it."""

    node: nodes.Node
    requested: Mapping[str, int] = dataclasses.field(default_factory=fields.empty)
    pod_count: int = 0


def around(
    listed: Iterable[builders.NodeBuilder],
    others: Iterable[builders.PodBuilder] = (),
    things: Iterable[tuple[objects.Kind, Mapping[str, Any]]] = (),
    *,
    complete: bool = True,
) -> surroundings.Surroundings:
    """The cluster; pods are where their specification says."""
    views = [View(node=one.read()) for one in listed]
    labels = {view.node.name: view.node.labels for view in views}
    placed = neighbours.Neighbours(lambda name: labels.get(name, fields.EMPTY))
    for one in map(builders.PodBuilder.read, others):
        placed.add(one, one.node_name)
    known = objects.Objects()
    for kind, raw in things:
        known.seen(kind, raw)
    for kind in objects.Kind if complete else ():
        known.complete(kind)
    return surroundings.Surroundings(nodes=views, pods=placed, objects=known)


def answers(
    pod: builders.PodBuilder,
    cluster: surroundings.Surroundings,
    options: check.Options = check.DEFAULT,
) -> Mapping[str, Answer] | Answer:
    """What all filters that look around say of each node, or of the pod at once."""
    plan = filters.plan(pod.read(), options, cluster)
    if plan.prefilter is not None:
        return plan.prefilter.texts
    return {name: said(plan.run_wide(view)) for name, view in _views(cluster)}


def said(answer: rejection.Rejection | None) -> Answer:
    """The texts of an answer."""
    return "fit" if answer is None else answer.texts


def planned(
    name: str, pod: pods.Pod, cluster: surroundings.Surroundings
) -> Mapping[str, rejection.Rejection | None] | rejection.Rejection:
    """What one filter alone says of each node, or of the pod at once."""
    judge = dict(filters.FILTERS)[name](pod, check.DEFAULT, cluster)
    if isinstance(judge, rejection.Rejection):
        return judge
    return {name: None if judge is None else judge(view) for name, view in _views(cluster)}


def _views(cluster: surroundings.Surroundings) -> Iterable[tuple[str, View]]:
    return ((holder.node.name, View(node=holder.node)) for holder in cluster.nodes)
