"""Every metric that is exported: name, kind, labels, help. Names of HAMi's are kept exactly."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Final


class Kind(enum.Enum):
    """Who holds the value."""

    COUNTER = "counter"
    HISTOGRAM = "histogram"
    GAUGE = "gauge"
    """Set by the code that knows."""
    READ = "read"
    """A gauge that is read from its owner when somebody asks."""
    PART = "part"
    """The same, where the samples come part by part: those of a node, and of the next one."""


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


def _part(name: str, labels: str, text: str) -> Family:
    return Family(name=name, kind=Kind.PART, labels=tuple(labels.split()), help=text)


ZONE: Final = "vGPU"
"""Value of the label ``zone``, the same wherever HAMi has that label."""

_CONTAINER: Final = "namespace pod container class node device_uuid device_type"
_CARD: Final = "node device_uuid device_index device_type zone"
_SHARE: Final = "namespace node pod container_index device_uuid zone"

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
    _part("hami_allocation_memory_bytes", _CONTAINER, "Device memory of a container on a card."),
    _part("hami_allocation_core_ratio", _CONTAINER, "Its part of the card's cores, 0 to 1."),
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
    _read(
        "hami_build_info",
        "version revision build_date go_version compiler platform",
        "Always 1, told by the leader.",
    ),
    _part("hami_gpu_memory_limit_bytes", _CARD, "Memory of a card."),
    _part("hami_gpu_core_limit_ratio", _CARD, "Cores of a card, mostly in percent."),
    _part("hami_gpu_shared_count", _CARD, "Slots of a card that are taken."),
    _part("hami_gpu_core_allocated_ratio", _CARD, "Cores of a card that are taken."),
    _part(
        "hami_gpu_memory_allocated_bytes",
        "node device_uuid device_index device_type device_cores zone",
        "Memory of a card that is taken.",
    ),
    _part(
        "hami_node_gpu_overview",
        "node device_uuid device_index device_cores device_memory_limit device_type zone",
        "Memory of a card that is taken, beside what there is; the limit in MiB.",
    ),
    _part("hami_node_gpu_memory_allocated_ratio", _CARD, "The same as a part of it, 0 to 1."),
    _read(
        "hami_node_gpu_mig_instance_info",
        "node device_uuid device_index mig_uuid profile gpu_instance_id compute_instance_id"
        " placement_start placement_size zone",
        "Always 1, for each instance that a plugin has made.",
    ),
    _part("hami_vgpu_memory_allocated_bytes", _SHARE, "Memory of a card that a pod takes."),
    _part("hami_vgpu_core_allocated_ratio", _SHARE, "Cores of a card that a pod takes."),
)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Legacy:
    """A metric under its name of before HAMi 2.10.

    Attributes:
        source: the same under its name of today.
        family: what it was called.
        places: which of today's labels it has, in order; empty for all.
    """

    source: str
    family: Family
    places: tuple[int, ...] = ()

    def renamed(self, samples: Mapping[tuple[str, ...], float]) -> dict[tuple[str, ...], float]:
        """The samples with the labels that it has."""
        if not self.places:
            return dict(samples)
        return {
            tuple(labels[place] for place in self.places): value
            for labels, value in samples.items()
        }


_OLD_CARD: Final = "nodeid deviceuuid deviceidx"
_OLD_SHARE: Final = "podnamespace nodename podname containeridx deviceuuid zone"


def _legacy(name: str, labels: str, source: str, *places: int) -> Legacy:
    words = next(one.help for one in FAMILIES if one.name == source)
    return Legacy(source=source, family=_part(name, labels, words), places=places)


LEGACY: Final = (
    _legacy("GPUDeviceMemoryLimit", f"{_OLD_CARD} devicetype zone", "hami_gpu_memory_limit_bytes"),
    _legacy("GPUDeviceCoreLimit", f"{_OLD_CARD} devicetype zone", "hami_gpu_core_limit_ratio"),
    _legacy("GPUDeviceSharedNum", f"{_OLD_CARD} devicetype zone", "hami_gpu_shared_count"),
    _legacy(
        "GPUDeviceCoreAllocated", f"{_OLD_CARD} devicetype zone", "hami_gpu_core_allocated_ratio"
    ),
    _legacy(
        "GPUDeviceMemoryAllocated",
        f"{_OLD_CARD} devicetype devicecores zone",
        "hami_gpu_memory_allocated_bytes",
    ),
    _legacy(
        "nodeGPUOverview",
        f"{_OLD_CARD} devicecores devicememorylimit devicetype zone",
        "hami_node_gpu_overview",
    ),
    _legacy(
        "nodeGPUMemoryPercentage",
        f"{_OLD_CARD} zone",
        "hami_node_gpu_memory_allocated_ratio",
        *(0, 1, 2, 4),
    ),
    _legacy("vGPUMemoryAllocated", _OLD_SHARE, "hami_vgpu_memory_allocated_bytes"),
    _legacy("vGPUCoreAllocated", _OLD_SHARE, "hami_vgpu_core_allocated_ratio"),
)
"""Those that come part by part; cores in the unit of the row."""

LEGACY_READ: Final = (
    _read("nodeGPUMigInstance", f"{_OLD_CARD} migname zone", "Instances that plugins have made."),
    _read("QuotaUsed", "quotanamespace quotaName limit zone", "Held by a namespace's pods."),
)

EVERY: Final = (*FAMILIES, *(one.family for one in LEGACY), *LEGACY_READ)
"""All metrics that may ever be exported."""
