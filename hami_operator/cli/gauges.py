"""Gauges that are read from the scheduler's state whenever somebody asks for the metrics."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

import hami_operator
from hami_operator import clock
from hami_operator import settings as all_settings
from hami_operator.cli import cardgauges
from hami_operator.devices import registry
from hami_operator.runtime import present, reflector
from hami_operator.scheduling import ledger, queue, quota, world
from hami_operator.server import families, metrics

_Values = Mapping[tuple[str, ...], float]
_ZONE: Final = families.ZONE

_QUEUES = {
    "active": (queue.Place.ACTIVE, queue.Place.IN_FLIGHT),
    "backoff": (queue.Place.BACKOFF,),
    "unschedulable": (queue.Place.UNSCHEDULABLE,),
    "gated": (queue.Place.GATED,),
}


def connect(
    measured: metrics.Metrics,
    state: world.World,
    *,
    rows: registry.Registry,
    settings: all_settings.Settings,
    time: clock.Clock,
    watches: Mapping[str, reflector.Reflector],
) -> None:
    """Let every gauge that has an owner be read from it.

    Args:
        measured: the metrics.
        state: owns most of what is measured.
        rows: the vendor rows.
        settings: say whether pods are told apart, and whether old names are told too.
        time: for ages.
        watches: resource to what watches it.
    """
    readers = Readers(state, time)
    cards = cardgauges.CardGauges(
        state, rows, per_pod=settings.pod_metrics, legacy=settings.legacy_metrics
    )
    measured.read_parts(cards.parts)
    measured.read("hami_node_gpu_mig_instance_info", cards.instances)
    measured.read("hami_build_info", readers.build_info)
    if settings.legacy_metrics:
        measured.read("nodeGPUMigInstance", cards.legacy_instances)
        measured.read("QuotaUsed", readers.quota_used)
    measured.read("hami_pending_pods", readers.pending_pods)
    measured.read("hami_node_device_available", readers.device_available)
    measured.read("hami_handshake_age_seconds", readers.handshake_age_s)
    measured.read("hami_register_malformed_entries", readers.malformed_entries)
    measured.read("hami_unreadable_decisions", readers.unreadable_decisions)
    measured.read("hami_unknown_device_entries", readers.unknown_devices)
    measured.read("hami_foreign_usage_pods", readers.foreign_pods)
    measured.read("hami_allocation_stuck_pods", readers.stuck_pods)
    measured.read("hami_reservations", readers.reservations)
    measured.read("hami_resource_quota_used", readers.quota_used)
    measured.read("hami_resource_quota_limit", readers.quota_limit)
    measured.read(
        "hami_watch_age_seconds", lambda: {(name,): each.age_s() for name, each in watches.items()}
    )


class Readers:
    """One method per gauge; each gives label values, in the family's order, to the value."""

    def __init__(self, state: world.World, time: clock.Clock) -> None:
        self._state = state
        self._time = time

    def pending_pods(self) -> _Values:
        """Pods by place in the queue."""
        counts = self._state.queue.counts()
        return {
            (name,): sum(counts[place] for place in places) for name, places in _QUEUES.items()
        }

    def device_available(self) -> _Values:
        """1 where new pods may get devices of the type."""
        return {
            (view.name, word): float(word in view.cards)
            for view in self._state.snapshot
            for word in (*view.cards, *view.unavailable)
        }

    def handshake_age_s(self) -> _Values:
        """Seconds since a plugin that was asked last answered."""
        now = present.read(self._time)
        nodes = self._state.nodes
        ages = {
            (name, word): nodes.age_s(name, word, now)
            for name in nodes
            for word in nodes.standings(name)
        }
        return {labels: age_s for labels, age_s in ages.items() if age_s is not None}

    def malformed_entries(self) -> _Values:
        """Register entries that could not be read."""
        nodes = self._state.nodes
        return {
            (name, word): len(standing.inventory.findings)
            for name in nodes
            for word, standing in nodes.standings(name).items()
        }

    def unreadable_decisions(self) -> _Values:
        """Bound pods that close a type on their node."""
        return {
            (name, word): len(uids)
            for name in self._state.nodes
            for word, uids in self._state.ledger.closed(name).items()
        }

    def unknown_devices(self) -> _Values:
        """Cards that pods hold and that no register names."""
        found: Counter[tuple[str, ...]] = Counter()
        for name in self._state.nodes:
            for word in self._state.ledger.words(name):
                known = {card.id for card in self._state.nodes.cards_of(name, word)}
                found[name, word] += len({*self._state.ledger.held(name, word)} - known)
        return dict(found)

    def foreign_pods(self) -> _Values:
        """Bound pods whose decision is not ours."""
        return Counter(
            (entry.node, word)
            for entry in self._state.ledger
            if entry.foreign
            for word in entry.slots
        )

    def stuck_pods(self) -> _Values:
        """Bound pods that their plugin has not served in time."""
        now = present.read(self._time)
        return Counter((service.node,) for service in self._state.stuck(now))

    def reservations(self) -> _Values:
        """Pods that are placed and not yet bound."""
        reserved = ledger.State.RESERVED
        return {(): sum(entry.state is reserved for entry in self._state.ledger)}

    def build_info(self) -> _Values:
        """What runs; a program without Go has no version of it."""
        where = f"{platform.system()}/{platform.machine()}".lower()
        version = (hami_operator.__version__, "", "", "", platform.python_implementation(), where)
        return {version: 1.0} if self._state.active else {}

    def quota_used(self) -> _Values:
        """What namespaces hold of the resources that quotas may limit."""
        return {
            (one.namespace, one.name, "" if one.limit is None else str(one.limit), _ZONE): one.used
            for one in self._quotas()
        }

    def quota_limit(self) -> _Values:
        """What namespaces may hold."""
        return {
            (one.namespace, one.name, _ZONE): one.limit
            for one in self._quotas()
            if one.limit is not None
        }

    def _quotas(self) -> Iterator[quota.Standing]:
        """Told by the leader alone: others do not see its reservations."""
        state = self._state
        return state.quotas.standings(state.ledger, state.nodes) if state.active else iter(())
