"""Gauges of cards, and of what pods hold of them: one part per node, told by the leader alone.

Names and labels are HAMi's. Cores are told as users count them, which for most cards is percent.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from hami_operator import errors
from hami_operator.cli import holdings
from hami_operator.devices import registry
from hami_operator.protocol import decision, miglist, register
from hami_operator.scheduling import claim, containers, ledger, world
from hami_operator.scheduling import pod as pods
from hami_operator.server import blocks, families

_MIB: Final = 2**20
_ZONE: Final = families.ZONE

_Samples = dict[str, dict[tuple[str, ...], float]]


class CardGauges:
    """Reads the samples of nodes.

    Args:
        state: where cards and usage come from.
        rows: the vendor rows.
        per_pod: also tell what each pod and each container has.
        legacy: also under the names of HAMi before 2.10.
    """

    def __init__(
        self,
        state: world.World,
        rows: registry.Registry,
        *,
        per_pod: bool = True,
        legacy: bool = False,
    ) -> None:
        self._state = state
        self._books = holdings.Books(rows, state.nodes, state.ledger)
        self._raw = dataclasses.replace(self._books, raw=True) if legacy else None
        self._per_pod = per_pod

    def parts(self) -> Iterable[blocks.Part]:
        """One per node; none where another process leads."""
        if not self._state.active:
            return ()
        return (
            blocks.Part(view.name, view.version, functools.partial(self.of_node, view.name))
            for view in self._state.snapshot.views()
        )

    def of_node(self, node: str) -> blocks.Samples:
        """All samples of a node."""
        found = self._of_cards(self._books, node)
        if self._per_pod:
            self._tell_containers(found, node)
        if self._raw is not None:
            raw = self._of_cards(self._raw, node)
            for one in families.LEGACY:
                if one.source in raw:
                    found[one.family.name] = one.renamed(raw[one.source])
        return found

    def _of_cards(self, books: holdings.Books, node: str) -> _Samples:
        found: _Samples = defaultdict(dict)
        for word in books.words(node):
            for card in books.cards(node, word):
                _tell_card(found, card)
                if self._per_pod:
                    _tell_owners(found, card)
            for stray in books.strays(node, word) if self._per_pod else ():
                _tell_owners(found, stray)
        return found

    def instances(self) -> Mapping[tuple[str, ...], float]:
        """1 for each instance of a partitioned card that its plugin has made for a pod."""
        if not self._state.active:
            return {}
        return {
            (
                *(pod.node_name, one.card, self._index(pod.node_name, one.card)),
                *(one.made.mig_uuid, one.profile),
                *(str(one.made.gpu_instance), str(one.made.compute_instance)),
                *(str(one.place.start), str(one.place.size), _ZONE),
            ): 1.0
            for pod in self._on_partitioned()
            for one in _listed(pod.annotations.get(claim.MIG_LIST))
            if one.made is not None
        }

    def _on_partitioned(self) -> Iterator[pods.Pod]:
        """The pods of nodes with partitioned cards, as last seen: plugins write to them."""
        state = self._state
        for node in state.nodes:
            if any(card.mig_profiles for card in self._cards(node)):
                found = (state.pod(entry.uid) for entry in state.ledger.on(node))
                yield from (pod for pod in found if pod is not None and pod.node_name)

    def legacy_instances(self) -> Mapping[tuple[str, ...], float]:
        """The same under the name of before; an instance is named by profile and number."""
        return {
            (*one[:3], f"{one[4]}-{one[5]}", one[-1]): value
            for one, value in self.instances().items()
        }

    def _cards(self, node: str) -> Iterator[register.Card]:
        """The registered cards of a node, of all types."""
        standings = self._state.nodes.standings(node).values()
        return (card for standing in standings for card in standing.inventory.cards)

    def _index(self, node: str, id: str) -> str:
        return next((str(card.index) for card in self._cards(node) if card.id == id), "-1")

    def _tell_containers(self, found: _Samples, node: str) -> None:
        for entry in self._state.ledger.on(node):
            pod = self._state.pod(entry.uid)
            names = [one.name for one in pod.containers] if pod is not None else []
            for word, slots in entry.slots.items():
                cards = {one.id: one for one in self._state.nodes.cards_of(node, word)}
                for place, picks in _running(entry, slots):
                    name = names[place] if place < len(names) else str(place)
                    kind = entry.kinds[place].value if place < len(entry.kinds) else "app"
                    head = (entry.namespace, entry.name, name, kind, node)
                    self._tell_picks(found, head, word, picks, cards)

    def _tell_picks(
        self,
        found: _Samples,
        head: tuple[str, ...],
        word: str,
        picks: Iterable[decision.Pick],
        cards: Mapping[str, register.Card],
    ) -> None:
        row = self._books.rows.by_word[word]
        memory, ratio = found["hami_allocation_memory_bytes"], found["hami_allocation_core_ratio"]
        for pick in picks:
            card = cards.get(pick.id)
            labels = (*head, pick.id, card.model if card else "")
            total = holdings.cores(row, card.cores, card) if card else 0
            cores = holdings.cores(row, pick.cores, card)
            memory[labels] = memory.get(labels, 0.0) + pick.memory_mib * _MIB
            ratio[labels] = ratio.get(labels, 0.0) + cores / (total or 100)


def _running(
    entry: ledger.Entry, slots: decision.Slots
) -> Iterator[tuple[int, tuple[decision.Pick, ...]]]:
    """The slots of a pod that still count, with their places."""
    for place, picks in enumerate(slots):
        is_init = place < len(entry.kinds) and entry.kinds[place] is containers.Kind.INIT
        if not (entry.released and is_init):
            yield place, picks


def _listed(text: str | None) -> tuple[miglist.Reservation, ...]:
    """The reservations of a list; an unreadable one has none, and closes its cards anyway."""
    try:
        return miglist.decode(text, key=claim.MIG_LIST)
    except errors.DecodeError:
        return ()


def _tell_card(found: _Samples, card: holdings.Holding) -> None:
    """What is registered of a card, and what is taken of it in all."""
    place = (card.node, card.id, str(card.index))
    cores, used_bytes = str(card.cores), float(card.memory_used_mib * _MIB)
    labels = (*place, card.model, _ZONE)
    found["hami_gpu_memory_limit_bytes"][labels] = card.memory_mib * _MIB
    found["hami_gpu_core_limit_ratio"][labels] = card.cores
    found["hami_gpu_shared_count"][labels] = card.slots_used
    found["hami_gpu_core_allocated_ratio"][labels] = card.cores_used
    found["hami_gpu_memory_allocated_bytes"][(*place, card.model, cores, _ZONE)] = used_bytes
    overview = (*place, cores, str(card.memory_mib), card.model, _ZONE)
    found["hami_node_gpu_overview"][overview] = used_bytes
    if card.memory_mib:
        share = card.memory_used_mib / card.memory_mib
        found["hami_node_gpu_memory_allocated_ratio"][labels] = share


def _tell_owners(found: _Samples, card: holdings.Holding) -> None:
    """What each pod takes of a card; HAMi tells it of the pod as a whole."""
    for owner in card.owners:
        namespace, _, pod = owner.pod.partition("/")
        labels = (namespace, card.node, pod, "0", card.id, _ZONE)
        found["hami_vgpu_memory_allocated_bytes"][labels] = owner.memory_mib * _MIB
        found["hami_vgpu_core_allocated_ratio"][labels] = owner.cores
