"""Every metric that is exported: name, kind, labels, help. Names of HAMi's are kept exactly."""

from __future__ import annotations

import dataclasses
import enum
from typing import Final


class Kind(enum.Enum):
    """Who holds the value."""

    COUNTER = "counter"
    HISTOGRAM = "histogram"
    GAUGE = "gauge"
    """Set by the code that knows."""
    READ = "read"
    """A gauge that is read from its owner when somebody asks."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Family:
    """One metric.

    Attributes:
        name: as exported, counters with ``_total``.
        kind: who holds the value.
        labels: their names, in order.
        help: for people.
        buckets: upper bounds, for histograms.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str
    buckets: tuple[float, ...] = ()


SECONDS: Final = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0
)  # fmt: skip


def _counter(name: str, labels: str, text: str) -> Family:
    return Family(name=name, kind=Kind.COUNTER, labels=tuple(labels.split()), help=text)


def _histogram(name: str, labels: str, text: str) -> Family:
    kind = Kind.HISTOGRAM
    return Family(name=name, kind=kind, labels=tuple(labels.split()), help=text, buckets=SECONDS)


def _gauge(name: str, labels: str, text: str) -> Family:
    return Family(name=name, kind=Kind.GAUGE, labels=tuple(labels.split()), help=text)


def _read(name: str, labels: str, text: str) -> Family:
    return Family(name=name, kind=Kind.READ, labels=tuple(labels.split()), help=text)


_POD: Final = "namespace pod container class node device_uuid device_type"

FAMILIES: Final = (
    _counter("hami_scheduling_attempts_total", "mode result", "Attempts to place a pod."),
    _histogram("hami_scheduling_duration_seconds", "phase", "Duration of a phase."),
    _counter("hami_fit_rejections_total", "reason", "Refusals of nodes by reason."),
    _histogram("hami_node_lock_wait_seconds", "", "Time that a bind waited for a node lock."),
    _counter("hami_node_lock_contention_total", "", "Binds that found a node locked."),
    _counter("hami_node_lock_takeovers_total", "reason", "Locks taken over from others."),
    _counter("hami_node_locks_removed_total", "", "Dead locks that were removed."),
    _counter("hami_node_lock_release_failures_total", "", "Locks that could not be given back."),
    _counter("hami_binds_total", "result", "Binds by how they ended."),
    _counter(
        "hami_preemption_victims_total",
        "result",
        "Pods that had to make room, by what came of it.",
    ),
    _counter(
        "hami_bind_undo_failures_total", "reason", "Failed binds whose writes were not undone."
    ),
    _counter("hami_bind_unclear_reads_total", "reason", "Reads of pods whose bind was unclear."),
    _counter("hami_handshake_failures_total", "reason", "Handshakes that were not written."),
    _counter("hami_events_dropped_total", "reason", "Events that were not written."),
    _counter("hami_conditions_dropped_total", "reason", "Conditions that were not written."),
    _counter("hami_labels_dropped_total", "reason", "Labels that were not written."),
    _counter("hami_intake_errors_total", "kind", "Objects that could not be taken in."),
    _counter("hami_ledger_corrections_total", "kind", "Differences found and repaired."),
    _counter("hami_webhook_requests_total", "result", "Admission reviews by their answers."),
    _counter("hami_api_requests_total", "verb resource code", "Requests to the API server."),
    _histogram(
        "hami_api_request_duration_seconds", "verb resource code", "Their duration, no watches."
    ),
    _gauge("hami_leader", "", "1 while this process leads."),
    _gauge("hami_operator_build_info", "version revision python_version", "Always 1."),
    _read("hami_pending_pods", "queue", "Pods that wait, by the part of the queue."),
    _read("hami_node_device_available", "node type", "1 where the type takes new pods."),
    _read("hami_handshake_age_seconds", "node type", "Time since the last sign of life."),
    _read("hami_register_malformed_entries", "node type", "Register entries that were skipped."),
    _read("hami_unreadable_decisions", "node type", "Bound pods that close the type."),
    _read("hami_unknown_device_entries", "node type", "Decided devices that are not registered."),
    _read("hami_foreign_usage_pods", "node type", "Bound pods with a decision of others."),
    _read("hami_allocation_stuck_pods", "node", "Pods that allocate for longer than they may."),
    _read("hami_reservations", "", "Pods placed and not yet bound."),
    _read("hami_allocation_memory_bytes", _POD, "Device memory of a container on a card."),
    _read("hami_allocation_core_ratio", _POD, "Device cores of a container on a card, 0 to 1."),
    _read(
        "hami_resource_quota_used",
        "namespace quota_name limit zone",
        "Held by a namespace's pods, reservations included; memory in MiB.",
    ),
    _read(
        "hami_resource_quota_limit",
        "namespace quota_name zone",
        "The most that a namespace's pods may hold; memory in MiB.",
    ),
    _read("hami_watch_age_seconds", "resource", "Time since the watch last said anything."),
)
