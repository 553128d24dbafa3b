"""What our scheduler says to a scenario: the pure core, asked for every node."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from hami_operator import settings
from hami_operator.devices import registry as registries
from hami_operator.protocol import instant
from hami_operator.scheduling import (
    affinityscore,
    balance,
    cycle,
    effects,
    imagescore,
    ledger,
    neighbours,
    objects,
    offline,
    preferences,
    ranking,
    rejection,
    rules,
    snapshot,
    spreadscore,
    surroundings,
    world,
)
from hami_operator.scheduling import demand as demands
from hami_operator.scheduling import node as nodes
from hami_operator.scheduling import nodes as registered
from hami_operator.scheduling import pod as pods
from tests.differential import oracle

NOW: Final = instant.Instant(monotonic_s=0.0, wall=offline.EPOCH)
KINDS: Final = {kind.value: kind for kind in objects.Kind}


def judge(scenario: oracle.Scenario) -> oracle.Verdict:
    """Ask the core about the pod of a scenario.

    Raises:
        AssertionError: the whole scheduler (`world.World`) does not do what the core says.
    """
    board = _Board(scenario["kinds"])
    pod = pods.read(scenario["pod"])
    outcome = board.run(pod)
    _check(scenario, outcome)
    refusals = {name: _refusal(one) for name, one in outcome.rejections.items()}
    if isinstance(outcome, cycle.Placed):
        feasible = tuple(one.name for one in board.views() if one.name not in refusals)
        scores = board.scores(pod, feasible)
        return oracle.Verdict(
            id=scenario["id"], feasible=feasible, refusals=refusals, scores=scores
        )
    refusal = outcome.refusal
    return oracle.Verdict(
        id=scenario["id"],
        refusals=refusals,
        prefilter=_refusal(refusal) if refusal is not None else None,
        message=outcome.message,
    )


@functools.cache
def _rules() -> rules.Rules:
    given = settings.load({})
    return rules.Rules.of(registries.configured(given).registry, given)


class _Board:
    """The cluster of one scenario, without a queue."""

    def __init__(self, kinds: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        terms = _rules()
        self._nodes = registered.Nodes(terms.registry, terms.settings.device_timeout_s)
        self._ledger = ledger.Ledger(terms.registry)
        self._snapshot = snapshot.Snapshot(self._nodes, self._ledger)
        others = neighbours.Neighbours(self._labels)
        known = objects.Objects()
        for raw in kinds.get("nodes", ()):
            self._nodes.seen(nodes.read(raw), NOW, at_start=True)
        for pod in map(pods.read, kinds.get("pods", ())):
            if not pod.terminal:
                self._ledger.observe(pod, ours=True)
                others.add(pod, pod.node_name)
        for name, kind in KINDS.items():
            for raw in kinds.get(name, ()):
                known.seen(kind, raw)
            known.complete(kind)
        self._around = surroundings.Surroundings(nodes=self.views(), pods=others, objects=known)

    def views(self) -> tuple[snapshot.NodeView, ...]:
        return self._snapshot.views()

    def run(self, pod: pods.Pod) -> cycle.Placed | cycle.Unplaced:
        demand = demands.read(pod, _rules().registry)
        return cycle.run(pod, demand, self.views(), rules=_rules(), now=NOW, around=self._around)

    def scores(self, pod: pods.Pod, feasible: Iterable[str]) -> dict[str, dict[str, int]]:
        """What each of kube-scheduler's plugins would add, as our modules have it."""
        taking = [view for view in self.views() if view.name in set(feasible)]
        found = [view.node for view in taking]
        options = _rules().options
        held = imagescore.scorer(pod, self._around.nodes)
        parts: dict[str, Mapping[str, int]] = {
            "TaintToleration": _times(3, preferences.taint_scores(pod, found, options)),
            "NodeAffinity": _times(2, preferences.affinity_scores(pod, found, options)),
            "PodTopologySpread": _times(2, spreadscore.scores(pod, found, self._around, options)),
            "InterPodAffinity": _times(2, affinityscore.scores(pod, found, self._around)),
            "ImageLocality": {node.name: held(node) if held else 0 for node in found},
            "NodeResourcesBalancedAllocation": {
                view.name: balance.score(pod, view.node, view.requested) for view in taking
            },
            "NodeResourcesFit": {view.name: self._fullness(pod, view) for view in taking},
        }
        return {
            node.name: {plugin: each[node.name] for plugin, each in parts.items()}
            for node in found
        }

    def _fullness(self, pod: pods.Pod, view: snapshot.NodeView) -> int:
        rank = ranking.Ranking(pod, self._around.pods.load)
        return rank.of(view) - balance.score(pod, view.node, view.requested)

    def _labels(self, name: str) -> Mapping[str, str]:
        node = self._nodes.get(name)
        return node.labels if node is not None else {}


def _times(weight: int, scores: Mapping[str, int]) -> dict[str, int]:
    return {name: weight * score for name, score in scores.items()}


def _refusal(found: rejection.Rejection) -> oracle.Refusal:
    code = "Unschedulable" if found.resolvable else "UnschedulableAndUnresolvable"
    return oracle.Refusal(plugin=found.plugin, code=code, reasons=found.texts)


def _check(scenario: oracle.Scenario, outcome: cycle.Placed | cycle.Unplaced) -> None:
    """The scheduler that is fed with events does what the core says."""
    pod = pods.read(scenario["pod"])
    if pod.node_name or pod.gates:
        return  # never queued, or not tried
    told = _attempt(scenario, pod)
    if isinstance(outcome, cycle.Placed):
        bind = next(one for one in told if isinstance(one, effects.Bind))
        assert bind.node == outcome.node, (bind.node, outcome.node)
    else:
        condition = next(one for one in told if isinstance(one, effects.Condition))
        assert condition.message.startswith(outcome.message), (condition, outcome.message)


def _attempt(scenario: oracle.Scenario, pod: pods.Pod) -> tuple[effects.Effect, ...]:
    terms, kinds = _rules(), scenario["kinds"]
    made = world.World(terms.registry, terms.settings)
    made.take_over(NOW)
    for raw in kinds.get("nodes", ()):
        made.node_seen(nodes.read(raw), NOW)
    for raw in kinds.get("pods", ()):
        made.pod_seen(pods.read(raw), NOW)
    for name, kind in KINDS.items():
        for raw in kinds.get(name, ()):
            made.object_seen(kind, raw, NOW)
        made.objects_listed(kind, NOW)
    for source in sorted(world.SOURCES):
        made.synced(source, NOW)
    ours = dataclasses.replace(pod, scheduler_name=terms.settings.scheduler_name)
    made.pending_seen(ours, NOW)
    return made.attempt(NOW)
