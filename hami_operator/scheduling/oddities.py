"""What is amiss with bound pods and their cards, kept so that it can be told and counted."""

from __future__ import annotations

from collections.abc import Mapping

from hami_operator.devices import registry as registries
from hami_operator.scheduling import claim, effects, ledger, nodes, reports
from hami_operator.scheduling import pod as pods

Effects = tuple[effects.Effect, ...]


class Oddities:
    """Findings by pod, and cards that are held and not registered.

    Args:
        nodes: which cards there are.
        ledger: which cards are held.
        registry: the device types whose decisions count.
    """

    def __init__(
        self, nodes: nodes.Nodes, ledger: ledger.Ledger, registry: registries.Registry
    ) -> None:
        self._registry = registry
        self._nodes = nodes
        self._ledger = ledger
        self._findings: dict[str, tuple[effects.PodRef, str, tuple[claim.Finding, ...]]] = {}
        self._told: dict[str, dict[str, frozenset[str]]] = {}

    def found(self, pod: pods.Pod, findings: tuple[claim.Finding, ...]) -> Effects:
        """Note what is odd about a pod that has just been counted."""
        if not findings:
            return ()
        ref = effects.PodRef.of(pod)
        self._findings[pod.uid] = (ref, pod.node_name, findings)
        return tuple(reports.oddities(ref, pod.node_name, findings))

    def changed(self, before: pods.Pod, pod: pods.Pod) -> Effects:
        """Note the latest change of a bound pod's decision, beside what else is odd about it."""
        findings = claim.edited(before, pod, self._registry)
        if not findings:
            return ()
        ref = effects.PodRef.of(pod)
        _, _, known = self._findings.get(pod.uid, (ref, "", ()))
        kept = tuple(one for one in known if one.oddity is not claim.Oddity.EDITED)
        self._findings[pod.uid] = (ref, pod.node_name, (*kept, *findings))
        return tuple(reports.oddities(ref, pod.node_name, findings))

    def gone(self, uid: str, transition: ledger.Transition) -> Effects:
        """A pod has ended; the types that it alone kept closed open again."""
        self._findings.pop(uid, None)
        before = transition.before
        if before is None or not before.unreadable:
            return ()
        closed = self._ledger.closed(before.node)
        words = [word for word in before.unreadable if word not in closed]
        return tuple(reports.reopened(before.node, word) for word in words)

    def node_changed(self, node: str) -> Effects:
        """Tell of cards that pods hold on a node and that it does not register (any more)."""
        told: list[effects.Effect] = []
        now_unknown = self._unregistered(node)
        for word, cards in now_unknown.items():
            if cards - self._told.get(node, {}).get(word, frozenset()):
                told += reports.unknown_cards(node, word, sorted(cards))
        if now_unknown:
            self._told[node] = now_unknown
        else:
            self._told.pop(node, None)
        return tuple(told)

    def node_gone(self, node: str) -> None:
        """The node is gone: what it does not register is no news any more."""
        self._told.pop(node, None)

    def report(self) -> Effects:
        """Everything that is amiss now, told again: for a leader that has just begun."""
        told: list[effects.Effect] = []
        for ref, node, findings in self._findings.values():
            told += reports.oddities(ref, node, findings)
        self._told.clear()
        for name in self._nodes:
            told += self.node_changed(name)
        return tuple(told)

    def findings(self) -> Mapping[str, tuple[claim.Finding, ...]]:
        """Pod UID to what is odd about it; for metrics."""
        return {uid: found for uid, (_, _, found) in self._findings.items()}

    def unknown(self) -> Mapping[tuple[str, str], frozenset[str]]:
        """Node and word to cards that pods hold and the node does not register; for metrics."""
        return {
            (node, word): cards
            for node in self._nodes
            for word, cards in self._unregistered(node).items()
        }

    def _unregistered(self, node: str) -> dict[str, frozenset[str]]:
        """Word to such cards; nothing for a node that is not known."""
        if node not in self._nodes:
            return {}
        standings = self._nodes.standings(node)
        found = {}
        for word in self._ledger.words(node):
            cards = standings[word].inventory.cards if word in standings else ()
            held = self._ledger.card_usage(node, word).keys()
            found[word] = frozenset(held - {card.id for card in cards})
        return {word: cards for word, cards in found.items() if cards}
