"""Which pods have to go so that a more important one finds room: the choice alone, on one what-if.

As kube-scheduler does it: take all less important pods off a node, put back as many as can stay,
the most important first, and prefer the node where least is lost. Beyond that, whoever shares one
card is looked at together, since taking one card's pods may cost less than what the order of
importance leaves over.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from typing import Final, Protocol

from hami_operator.scheduling import disruption, fiterror, rank, rejection
from hami_operator.scheduling import pod as pods

PLUGIN: Final = "DefaultPreemption"
NEVER: Final = "preemption: not eligible due to preemptionPolicy=Never."
WAITING: Final = "preemption: not eligible due to a terminating pod on the nominated node."

REFINED: Final = 32
"""On no more nodes is it looked at cards one by one."""

_NO_VICTIMS: Final = rejection.Rejection(
    plugin=PLUGIN, texts=("No preemption victims found for incoming pod",), resolvable=False
)
_NOT_HELPFUL: Final = rejection.Rejection(
    plugin=PLUGIN, texts=("Preemption is not helpful for scheduling",), resolvable=False
)
_LOWEST: Final = -(2**31)
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class Bench(Protocol):
    """One node, from which pods can be taken to see what would be."""

    @property
    def node(self) -> str:
        """Its name."""
        ...

    @property
    def movable(self) -> Sequence[pods.Pod]:
        """The pods that may be taken, the most important first."""
        ...

    @property
    def empties(self) -> bool:
        """Whether other pods are leaving it anyway, so that it may be enough to wait."""
        ...

    @property
    def groups(self) -> Iterable[frozenset[str]]:
        """UIDs of those that share a card."""
        ...

    def share(self, uid: str) -> Hashable:
        """What a movable pod holds; pods with the same are alike."""
        ...

    def fits(self, gone: frozenset[str]) -> bool:
        """Whether the incoming pod would fit if these were gone and all others there."""
        ...


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Victims:
    """What one node would cost.

    Attributes:
        node: its name.
        pods: who would have to go, the most important first; none where it is enough to wait.
        violations: how many of them a PodDisruptionBudget protects.
    """

    node: str
    pods: tuple[pods.Pod, ...]
    violations: int

    @property
    def uids(self) -> frozenset[str]:
        """Their UIDs."""
        return frozenset(pod.uid for pod in self.pods)

    @property
    def cost(self) -> Cost:
        """Less is better: budgets, highest priority, sum of priorities, number, age.

        Priorities are summed from the lowest possible one, so that a pod more always costs more.
        """
        priorities = [pod.priority for pod in self.pods]
        highest = max(priorities, default=_LOWEST - 1)
        total = sum(priority - _LOWEST for priority in priorities)
        return self.violations, highest, total, len(self.pods), -self._started_s(highest)

    def _started_s(self, highest: int) -> float:
        """When the longest-running of the most important ones was started."""
        seconds = (_started_s(one) for one in self.pods if one.priority == highest)
        return min(seconds, default=float("inf"))


def choose(
    benches: Iterable[Bench], budgets: disruption.Budgets, *, enough: int
) -> tuple[Victims | None, frozenset[str]]:
    """The node where least is lost; among equals the first.

    Args:
        benches: the nodes where it may help, in the order in which they are tried.
        budgets: whom to spare.
        enough: no more nodes are tried once so many were found.

    Returns:
        The choice, None where it helps nowhere; and the nodes where it was found not to help.
    """
    found: list[tuple[Bench, Victims]] = []
    helpless: set[str] = set()
    best = _WORST
    number = 0
    for bench in benches:
        if not bench.fits(_everyone(bench)):
            helpless.add(bench.node)
            continue
        number += 1
        if bench.empties or _least(bench) < best:
            victims = _spared(bench, _everyone(bench), budgets)
            found.append((bench, victims))
            best = min(best, victims.cost)
            if not victims.pods:
                break
        if number >= enough:
            break
    if not found:
        return None, frozenset(helpless)
    return _cheapest(found, budgets), frozenset(helpless)


Cost = tuple[int, int, int, int, float]
_WORST: Final[Cost] = (2**63, 0, 0, 0, 0.0)


def _least(bench: Bench) -> Cost:
    """No victims of a node cost less than the least of its pods would; here the first is taken."""
    lowest = min((pod.priority for pod in bench.movable), default=_LOWEST)
    return 0, lowest, lowest - _LOWEST, 1, -max(map(_started_s, bench.movable), default=0.0)


def _started_s(pod: pods.Pod) -> float:
    started = pod.rank.started
    return (started - _EPOCH).total_seconds() if started is not None else float("inf")


def _everyone(bench: Bench) -> frozenset[str]:
    return frozenset(pod.uid for pod in bench.movable)


def spare(bench: Bench, budgets: disruption.Budgets) -> Victims | None:
    """The least important that have to go from one node; None where not all are enough."""
    everyone = _everyone(bench)
    return _spared(bench, everyone, budgets) if bench.fits(everyone) else None


def refine(bench: Bench, known: Victims, budgets: disruption.Budgets) -> Victims:
    """What costs less than ``known``, among those that share a card; else ``known`` itself.

    Cards on which pods alike hold alike amounts are looked at once.
    """
    if len(known.pods) < 2:  # a single one is the least important that is enough
        return known
    by_uid = {pod.uid: pod for pod in bench.movable}
    cards = [group & by_uid.keys() for group in bench.groups]
    different: dict[Hashable, frozenset[str]] = {}
    for card in sorted(cards, key=lambda card: not known.uids <= card):
        alike = Counter((by_uid[uid].priority, bench.share(uid)) for uid in card)
        protected = Counter(budgets.protect(by_uid[uid]) for uid in card)
        different.setdefault((frozenset(alike.items()), protected[True]), card)
    others = (card for card in different.values() if card and not known.uids <= card)
    found = (_spared(bench, card, budgets) for card in others if bench.fits(card))
    return min((known, *found), key=lambda one: one.cost)


def _cheapest(found: list[tuple[Bench, Victims]], budgets: disruption.Budgets) -> Victims:
    """Cards are looked at only where they can make the difference, and on a bounded number."""
    limit = min(victims.cost for _, victims in found)[:2]
    ranked = sorted(found, key=lambda pair: pair[1].cost)
    close = [pair for pair in ranked if pair[1].cost[:2] == limit][:REFINED]
    finer = {bench.node: refine(bench, victims, budgets) for bench, victims in close}
    return min((finer.get(one.node, one) for _, one in found), key=lambda one: one.cost)


def _spared(bench: Bench, taken: frozenset[str], budgets: disruption.Budgets) -> Victims:
    """Who of those taken cannot be put back; the pod fits without all of them."""
    order = [pod for pod in bench.movable if pod.uid in taken]
    breaking, harmless = budgets.split(order)
    protected, gone = _put_back(bench, breaking, taken)
    unprotected, _ = _put_back(bench, harmless, gone)
    victims = sorted((*protected, *unprotected), key=rank.importance)
    return Victims(node=bench.node, pods=tuple(victims), violations=len(protected))


def _put_back(
    bench: Bench, order: Sequence[pods.Pod], gone: frozenset[str]
) -> tuple[list[pods.Pod], frozenset[str]]:
    """Put pods back in their order, each if the incoming pod still fits.

    Returns:
        Those that cannot be put back, and all that are gone afterwards.
    """
    victims: list[pods.Pod] = []
    at = 0
    while at < len(order):
        staying = _longest(bench, order[at:], gone)
        gone = gone.difference(_uids(order[at : at + staying]))
        at += staying
        victims += order[at : at + 1]
        at += 1
    return victims, gone


def _longest(bench: Bench, order: Sequence[pods.Pod], gone: frozenset[str]) -> int:
    """How many from the start can be put back together; more never fit where fewer do not."""
    low, high = 0, 1
    while _can_stay(bench, order[:high], gone):  # in growing steps, then in shrinking ones
        if high == len(order):
            return high
        low, high = high, min(2 * high, len(order))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _can_stay(bench, order[:middle], gone) else (low, middle)
    return low


def _can_stay(bench: Bench, some: Sequence[pods.Pod], gone: frozenset[str]) -> bool:
    return bench.fits(gone.difference(_uids(some)))


def _uids(some: Iterable[pods.Pod]) -> Iterator[str]:
    return (pod.uid for pod in some)


def explain(nodes: Iterable[str], helpless: Collection[str]) -> str:
    """Why preemption helps nowhere, in kube-scheduler's words.

    Args:
        nodes: all that are known.
        helpless: those where it was tried.
    """
    answers = {name: _NO_VICTIMS if name in helpless else _NOT_HELPFUL for name in nodes}
    return f"preemption: {fiterror.message(len(answers), answers)}"
