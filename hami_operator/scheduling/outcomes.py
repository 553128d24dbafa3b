"""What every node answers to one pod: cards and a score, or why not.

An answer stays right as long as the node's view is the same object and the namespace's quota
would say the same, so equal questions are not asked twice (`Memo`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from hami_operator.devices import score
from hami_operator.protocol import decision
from hami_operator.scheduling import (
    allocator,
    filters,
    policy,
    quota,
    ranking,
    rejection,
    room,
    scores,
    snapshot,
)
from hami_operator.scheduling import demand as demands
from hami_operator.scheduling import pod as pods
from hami_operator.scheduling import rules as rule_sets


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Fitting:
    """A node that takes the pod: cards and device score, or the rank for a pod without any."""

    slots: Mapping[str, decision.Slots]
    score: float
    rank: int = 0


Outcome = Fitting | rejection.Rejection

_OF_CARDS: Final = frozenset({allocator.PLUGIN, allocator.QUOTA})
"""Cards come after all filters of kube-scheduler."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Remembered:
    """An outcome, and what it holds for.

    Attributes:
        view: the node as it was.
        outcome: its answer.
        reaches: word to the quotas under which it would answer the same.
    """

    view: snapshot.NodeView
    outcome: Outcome
    reaches: tuple[tuple[str, room.Reach], ...] = ()


class Memo:
    """Outcomes per pod shape and node.

    Many pods ask for the same, and a decision changes one node; so most of the nodes need not
    be asked again. Bounded: the shape that was used longest ago goes first.

    Args:
        shapes: how many shapes are kept.
    """

    def __init__(self, shapes: int = 32) -> None:
        self._limit = shapes
        self._shapes: dict[Hashable, dict[str, Remembered]] = {}

    def outcomes(self, shape: Hashable, nodes: int) -> dict[str, Remembered]:
        """Known outcomes of a shape, to be read and added to; ``nodes`` bounds their number."""
        known = self._shapes.pop(shape, {})
        if len(known) > 2 * nodes:
            known.clear()  # most of them are of nodes that are gone
        self._shapes[shape] = known
        if len(self._shapes) > self._limit:
            del self._shapes[next(iter(self._shapes))]
        return known


class Judge:
    """Asks all nodes for one pod.

    Args:
        pod: the pod.
        demand: its device requests.
        wishes: its policies.
        plan: its ordinary filters.
        rules: what holds for every pod.
        accounts: quota of its namespace; None where it has none.
        rank: rates nodes for a pod without devices.
    """

    def __init__(
        self,
        pod: pods.Pod,
        demand: demands.Demand,
        *,
        wishes: policy.Preferences,
        plan: filters.Plan,
        rules: rule_sets.Rules,
        accounts: quota.Accounts | None,
        rank: ranking.Ranking | None = None,
    ) -> None:
        self._pod = pod
        self._rank = rank
        self._wishes = wishes
        self._plan = plan
        self._rules = rules
        self._order = allocator.prepare(
            pod,
            demand,
            wishes,
            registry=rules.registry,
            accounts=accounts,
            counts_request=not rules.settings.hami_scores,
        )

    @property
    def node_policy(self) -> str:
        """The pod's, or else that of the settings."""
        return self._wishes.node

    @property
    def scores_by_load(self) -> bool:
        """Whether a node's score is its load alone, whatever cards the pod would get there."""
        rows = self._rules.registry.by_word
        words = self._order.demand.words
        return self._rank is None and not any(
            word in rows and rows[word].hooks.score for word in words
        )

    @property
    def looks_around(self) -> bool:
        """Whether answers depend on more than the node itself."""
        return bool(self._plan.wide)

    def all(
        self, views: Sequence[snapshot.NodeView], memo: Memo | None = None
    ) -> tuple[dict[str, Fitting], dict[str, rejection.Rejection]]:
        """The nodes that take the pod, and those that do not, by name.

        Args:
            views: the nodes.
            memo: where answers are looked up and kept.
        """
        fitting: dict[str, Fitting] = {}
        rejections: dict[str, rejection.Rejection] = {}
        for name, answer in self._answers(views, len(views), memo):
            if isinstance(answer, Fitting):
                fitting[name] = answer
            else:
                rejections[name] = answer
        return fitting, rejections

    def first(
        self,
        preferred: Iterable[snapshot.NodeView],
        views: Sequence[snapshot.NodeView],
        memo: Memo | None = None,
    ) -> tuple[dict[str, Fitting], dict[str, rejection.Rejection]]:
        """The first node that takes the pod, and those asked before it; else as `all`.

        Args:
            preferred: the nodes, the most wanted first.
            views: the same in the order of the answer.
            memo: where answers are looked up and kept.
        """
        rejections: dict[str, rejection.Rejection] = {}
        for name, answer in self._answers(preferred, len(views), memo):
            if isinstance(answer, Fitting):
                return {name: answer}, rejections
            rejections[name] = answer
        return {}, {view.name: rejections[view.name] for view in views}

    def _answers(
        self, views: Iterable[snapshot.NodeView], nodes: int, memo: Memo | None
    ) -> Iterator[tuple[str, Outcome]]:
        known: dict[str, Remembered] = {}
        if memo is not None:
            known = memo.outcomes(self._shape(), nodes)
        wide = bool(self._plan.wide)
        for view in views:
            name = view.node.name
            seen = known.get(name)
            if seen is None or seen.view is not view or (seen.reaches and not self._holds(seen)):
                seen = known[name] = self._judged(view)
            yield name, self._looked_around(view, seen.outcome) if wide else seen.outcome

    def _looked_around(self, view: snapshot.NodeView, answer: Outcome) -> Outcome:
        """What lies beyond the node is asked each time, after the node's own filters."""
        if isinstance(answer, rejection.Rejection) and answer.plugin not in _OF_CARDS:
            return answer
        return self._plan.run_wide(view) or answer

    def _holds(self, seen: Remembered) -> bool:
        """Whether the quotas as they are now would not change the answer."""
        tallies = self._order.tallies
        return all(reach.includes(tallies[word].account) for word, reach in seen.reaches)

    def _judged(self, view: snapshot.NodeView) -> Remembered:
        tallies = self._order.tallies
        for tally in tallies.values():
            tally.clear()
        outcome = self._one(view)
        asked = ((word, tally.reach) for word, tally in tallies.items())
        reaches = tuple((word, reach) for word, reach in asked if reach is not None)
        return Remembered(view=view, outcome=outcome, reaches=reaches)

    def _one(self, view: snapshot.NodeView) -> Outcome:
        refused = self._plan.run_local(view)
        if refused is not None:
            return refused
        found = allocator.allocate(self._order, view)
        if isinstance(found, rejection.Rejection):
            return found
        rank = self._rank.of(view) if self._rank is not None else 0
        return Fitting(slots=found, score=self._score(view, found), rank=rank)

    def _score(self, view: snapshot.NodeView, slots: Mapping[str, decision.Slots]) -> float:
        load = scores.node(view.base)
        terms = sum(self._term(view, word, each) for word, each in slots.items())
        return scores.rounded(load + terms) if terms else load

    def _term(self, view: snapshot.NodeView, word: str, slots: decision.Slots) -> float:
        row = self._rules.registry.by_word[word]
        if row.hooks.score is None:
            return 0
        facts = score.Facts(
            node_policy=self._wishes.node,
            slots=slots,
            before=view.cards[word],
            pod_annotations=self._pod.annotations,
            node_annotations=view.node.annotations,
        )
        return score.term(row, facts)

    def _shape(self) -> Hashable:
        """All of a pod that an answer may depend on; pods of one owner mostly share it."""
        pod, demand = self._pod, self._order.demand
        owned = self._rules.registry.owned_pod_keys
        return (
            frozenset((key, text) for key, text in pod.annotations.items() if key not in owned),
            pod.node_name,
            pod.ports,
            pod.tolerations,
            pod.affinity,
            frozenset(pod.node_selector.items()),
            frozenset(pod.requests.items()),
            demand.kinds,
            tuple(demand.words.items()),
            tuple(self._order.tallies),
            self._rank.shape if self._rank is not None else None,
        )
