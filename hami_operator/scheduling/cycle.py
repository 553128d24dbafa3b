"""One scheduling cycle: a pod, a snapshot and the rules in; a decision or the reasons out.

Nothing is changed and nothing is remembered but answers that would come out the same again
(`Memo`). Reserving what was decided, and everything that is written, is the caller's part.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from hami_operator import errors
from hami_operator.devices import fit
from hami_operator.protocol import decision, instant
from hami_operator.scheduling import (
    affinityscore,
    filters,
    fiterror,
    imagescore,
    nodeorder,
    outcomes,
    policy,
    preferences,
    quota,
    ranking,
    rejection,
    snapshot,
    surroundings,
    written,
)
from hami_operator.scheduling import demand as demands
from hami_operator.scheduling import node as nodes
from hami_operator.scheduling import pod as pods
from hami_operator.scheduling import rules as rule_sets

Rules = rule_sets.Rules
Memo = outcomes.Memo

NO_NODES: Final = "no nodes available to schedule pods"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Placed:
    """A node, with cards for every container that wants some.

    Attributes:
        node: the choice.
        slots: word to picks per container; empty for a pod without devices.
        decision: what is to be written on the pod.
        scores: device score of every node that fits, as far as they were asked.
        rejections: why the others do not.
        warnings: what of the pod's wishes was not understood, or not fully weighed.
    """

    node: str
    slots: Mapping[str, decision.Slots]
    decision: written.Decision
    scores: Mapping[str, float]
    rejections: Mapping[str, rejection.Rejection]
    warnings: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Unplaced:
    """No node takes the pod.

    Attributes:
        message: ``0/N nodes are available: …``, for the condition and the event.
        rejections: by node; empty where the pod itself is refused.
        refusal: what is wrong with the pod, whatever the node; None where nodes refused it.
        warnings: what of the pod's wishes was not understood.
    """

    message: str
    rejections: Mapping[str, rejection.Rejection]
    refusal: rejection.Rejection | None = None
    warnings: tuple[str, ...] = ()

    @property
    def plugins(self) -> frozenset[str]:
        """Filters that said no; an event wakes the pod if it may help with one of them."""
        every = [self.refusal] if self.refusal else list(self.rejections.values())
        return frozenset(one.plugin for one in every)

    @property
    def reasons(self) -> tuple[errors.Reason, ...]:
        """Typed reasons, one entry per node and reason, for metrics."""
        every = [self.refusal] if self.refusal else list(self.rejections.values())
        return tuple(reason for one in every for reason in one.reasons)


def run(
    pod: pods.Pod,
    demand: demands.Demand,
    nodes: snapshot.Snapshot | Iterable[snapshot.NodeView],
    *,
    rules: Rules,
    now: instant.Instant,
    accounts: quota.Accounts | None = None,
    around: surroundings.Surroundings | None = None,
    memo: outcomes.Memo | None = None,
    order: nodeorder.Order | None = None,
) -> Placed | Unplaced:
    """Place one pod.

    Args:
        pod: pending, not terminating.
        demand: its device requests, as `demand.read` gives them.
        nodes: every node that is known, in the order of names.
        rules: what holds for every pod.
        now: time of the decision.
        accounts: quota of the pod's namespace; None where it has none.
        around: other pods and objects; none, if it is left out.
        memo: answers of earlier cycles under the same rules.
        order: of all ``nodes``; with it no more of them are asked than the choice needs.
    """
    views = tuple(nodes)
    wishes = _wishes(pod, rules)
    # 1. What is wrong with the pod itself is wrong on every node.
    around = around or surroundings.alone(views)
    plan = filters.plan(pod, rules.options, around)
    refusal = _refusal(demand, wishes) or plan.prefilter
    if refusal is not None:
        return _refused(refusal, len(views), wishes)
    # 2. Each node: ordinary filters, then cards for every container, then its device score.
    rank = None if demand.asks else ranking.Ranking(pod, around.pods.load)
    judge = outcomes.Judge(
        pod, demand, wishes=wishes, plan=plan, rules=rules, accounts=accounts, rank=rank
    )
    fitting, rejections = _ask(pod, judge, views, order=order, rules=rules, memo=memo)
    # 3. Nobody: say why, node by node.
    if not fitting:
        message = fiterror.message(len(views), rejections) if views else NO_NODES
        return Unplaced(message=message, rejections=rejections, warnings=wishes.warnings)
    # 4. What the pod prefers, then the score by the node policy, then the name (D14).
    feasible = [view.node for view in views if view.node.name in fitting]
    if demand.asks:
        node = _choose(pod, fitting, feasible, around, rules.options, node_policy=wishes.node)
    else:
        node = _rank(pod, fitting, feasible, around, rules.options)
    # 5. All that is to be written; what cannot be written is not decided.
    slots = fitting[node].slots
    result = written.write(pod, node=node, slots=slots, registry=rules.registry, now=now)
    if isinstance(result, written.Unwritable):
        return _refused(_unwritable(result), len(views), wishes)
    return Placed(
        node=node,
        slots=slots,
        decision=result,
        scores={name: one.score for name, one in fitting.items()},
        rejections=rejections,
        warnings=(*wishes.warnings, *_notes(slots)),
    )


def _ask(
    pod: pods.Pod,
    judge: outcomes.Judge,
    views: tuple[snapshot.NodeView, ...],
    *,
    order: nodeorder.Order | None,
    rules: Rules,
    memo: outcomes.Memo | None,
) -> tuple[Mapping[str, outcomes.Fitting], Mapping[str, rejection.Rejection]]:
    """What the nodes say, up to the first that takes the pod if that one is sure to be chosen."""
    if order is None or not judge.scores_by_load or preferences.looks_at_pods(pod):
        return judge.all(views, memo)
    order.show(views)
    if order.deters:
        return judge.all(views, memo)
    preferred = preferences.by_liking(pod, order.by(judge.node_policy), rules.options)
    return judge.first(preferred, views, memo)


def judge(
    pod: pods.Pod,
    demand: demands.Demand,
    *,
    rules: Rules,
    accounts: quota.Accounts | None = None,
    around: surroundings.Surroundings,
) -> outcomes.Judge:
    """Who answers for single nodes, as `run` would ask them; arguments as there."""
    return outcomes.Judge(
        pod,
        demand,
        wishes=_wishes(pod, rules),
        plan=filters.plan(pod, rules.options, around),
        rules=rules,
        accounts=accounts,
    )


def _notes(slots: Mapping[str, decision.Slots]) -> list[str]:
    """What the fit has to say about how the cards were chosen."""
    picks = (pick for each in slots.values() for slot in each for pick in slot)
    return [pick.custom[fit.NOTE] for pick in picks if fit.NOTE in pick.custom]


def _wishes(pod: pods.Pod, rules: Rules) -> policy.Preferences:
    given = rules.settings
    found = policy.read(
        pod.annotations,
        node_setting=given.node_scheduler_policy,
        card_setting=given.gpu_scheduler_policy,
    )
    vain = rules.registry.vain(pod.annotations)
    return dataclasses.replace(found, warnings=(*found.warnings, *vain)) if vain else found


def _refusal(demand: demands.Demand, wishes: policy.Preferences) -> rejection.Rejection | None:
    """An error of the pod: its devices can be had nowhere until it is another pod."""
    problems = [str(bad) for bad in demand.invalid]
    if demand.asks and demand.privileged:
        problems.append(f"container {demand.privileged} is privileged")
    if demand.asks and wishes.error:
        problems.append(wishes.error)
    return _error(errors.Reason.INVALID_REQUEST, problems) if problems else None


def _unwritable(found: written.Unwritable) -> rejection.Rejection:
    return _error(found.reason, [found.problem])


def _error(reason: errors.Reason, problems: list[str]) -> rejection.Rejection:
    text = f"{'; '.join(problems)} ({reason.word})"
    return rejection.Rejection(
        plugin=filters.INVALID, texts=(text,), resolvable=False, reasons=(reason,), detail=text
    )


def _refused(found: rejection.Rejection, nodes: int, wishes: policy.Preferences) -> Unplaced:
    message = fiterror.message(nodes, {}, prefilter="; ".join(found.texts))
    return Unplaced(message=message, rejections={}, refusal=found, warnings=wishes.warnings)


def _choose(
    pod: pods.Pod,
    fitting: Mapping[str, outcomes.Fitting],
    feasible: Sequence[nodes.Node],
    around: surroundings.Surroundings,
    options: filters.Options,
    *,
    node_policy: str,
) -> str:
    sign = -1 if node_policy == policy.BINPACK else 1
    if not preferences.says_something(pod, feasible, options):
        return min(fitting, key=lambda name: (sign * fitting[name].score, name))
    liked = preferences.totals(pod, feasible, options, around)
    return min(fitting, key=lambda name: (-liked[name], sign * fitting[name].score, name))


def _rank(
    pod: pods.Pod,
    fitting: Mapping[str, outcomes.Fitting],
    feasible: Sequence[nodes.Node],
    around: surroundings.Surroundings,
    options: filters.Options,
) -> str:
    """A pod without devices goes where kube-scheduler would put it; ties by name."""
    if len(feasible) == 1:
        return feasible[0].name
    held = imagescore.scorer(pod, around.nodes)
    spoken = preferences.says_something(pod, feasible, options)
    if held is None and not spoken and not affinityscore.matters(pod, around):
        return min(fitting, key=lambda name: (-fitting[name].rank, name))
    liked = preferences.totals(pod, feasible, options, around, heeds_others=True)
    if held is not None:
        liked = {node.name: liked[node.name] + held(node) for node in feasible}
    return min(fitting, key=lambda name: (-liked[name] - fitting[name].rank, name))
