"""NVIDIA GPUs: shared by slots, memory and cores, or partitioned; chosen by their links."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from hami_operator import errors
from hami_operator.devices import (
    admit,
    annotate,
    checks,
    fit,
    groups,
    links,
    partition,
    request,
    selection,
    usage,
    vendor,
)
from hami_operator.protocol import decision, keys, miglist, register

_MODE: Final = "nvidia.com/vgpu-mode"
_MIG_LIST: Final = "hami.io/vgpu-mig-allocations"
_PAIR_SCORES: Final = "hami.io/node-nvidia-score"
_PROFILE: Final = re.compile(r"[0-9]+g\..+")
_LINKED: Final = "topology-aware"
_UNFINISHED: Final = f"{_LINKED}: only the first {links.MOST_SETS} sets of cards were compared"


def _type(walk: fit.Walk, card: register.Card, used: usage.Usage) -> errors.Reason | None:
    """Beside the model, the way of sharing that the pod allows; a card may leave it open."""
    allowed = walk.context.pod_annotations.get(_MODE)
    if allowed is not None and card.mode not in allowed:
        return errors.Reason.CARD_TYPE_MISMATCH
    return checks.by_type(walk, card, used)


def _quota(walk: fit.Walk, card: register.Card, used: usage.Usage) -> errors.Reason | None:
    """A partitioned card gives a whole instance, whatever less was asked for."""
    found = None
    if card.mode == partition.MODE:
        found = partition.choose(card, walk.memory_mib, used.places)
    if found is None:
        return checks.quota(walk, card, used)
    return checks.quota_of(walk, card, found.profile.memory_mib, found.profile.cores)


def _instance(walk: fit.Walk, card: register.Card, used: usage.Usage) -> errors.Reason | None:
    """A partitioned card is only given away instance by instance."""
    if card.mode != partition.MODE:
        return None
    found = partition.choose(card, walk.memory_mib, used.places)
    if found is None:
        return errors.Reason.CARD_MIG_INFEASIBLE
    walk.memory_mib, walk.cores = found.profile.memory_mib, found.profile.cores
    walk.custom = {partition.CUSTOM: found.instance}
    return None


def _may_repeat(walk: fit.Walk) -> bool:
    """A partitioned card can serve several devices of one container."""
    allowed = walk.context.pod_annotations.get(_MODE, partition.MODE)
    cards = (each.card for each in walk.candidates)
    return partition.MODE in allowed and any(card.mode == partition.MODE for card in cards)


def _collect(walk: fit.Walk) -> bool:
    return _LINKED in walk.context.policy


def _choose(walk: fit.Walk) -> fit.Fit | fit.NoFit:
    """By links, under NUMA binding among the cards of the first node that has enough."""
    pools = [tuple(walk.picks)]
    if selection.numa_bound(walk.row, walk.context.pod_annotations):
        numa = {each.card.id: each.card.numa for each in walk.candidates}
        pools = groups.of(walk.picks, lambda pick: numa[pick.id])
    count = walk.request.count
    pool = next((pool for pool in pools if len(pool) >= count), None)
    if pool is None:
        return _scattered(walk, pools)
    if len(pool) == count:
        return fit.Fit(picks=pool)
    scores = links.read(walk.context.node_annotations.get(_PAIR_SCORES)) or {}
    if count == 1:
        return fit.Fit(picks=(links.loneliest(pool, scores),))
    first, *others = links.best(pool, count, scores)
    if not links.exhaustive(len(pool), count):
        first = dataclasses.replace(first, custom={**first.custom, fit.NOTE: _UNFINISHED})
    return fit.Fit(picks=(first, *others))


def _scattered(walk: fit.Walk, pools: list[groups.Picks]) -> fit.NoFit:
    """No NUMA node has enough: as if the cards of all but the last had been given back."""
    *others, last = pools or [()]
    discarded = sum(map(len, others))
    if discarded:
        walk.refuse(errors.Reason.NUMA_NOT_FIT, discarded)
    walk.picks[:] = last
    return fit.too_few(walk)


def _annotate(
    row: vendor.Vendor, slots: decision.Slots, facts: annotate.Facts
) -> Mapping[str, str]:
    reserved = partition.reservations(slots)
    return {_MIG_LIST: miglist.encode(reserved)} if reserved else {}


def _partitioned(card: register.Card) -> bool:
    """The plugin creates all instances of a pod at once, so none may take another's place."""
    return card.mode == partition.MODE


def _notes(node: vendor.NodeFacts) -> tuple[register.Finding, ...]:
    """Links that cannot be read count as none, and the cards stay."""
    readable = links.read(node.annotations.get(_PAIR_SCORES)) is not None
    return () if readable else (register.Finding(entry=0, field=_PAIR_SCORES),)


def _admit(
    row: vendor.Vendor, container: admit.Container, pod: admit.Pod
) -> admit.Admitted | admit.Denied:
    percent = admit.asked(row, container).amount(row.resources.percent, most=100)
    if isinstance(percent, request.Invalid):
        return admit.Denied(container=container.name, problem=percent)
    container = _with_count(row, _with_priority(row, container))
    wanted = admit.read(row, container)
    if isinstance(wanted, request.Invalid):
        return admit.Denied(container=container.name, problem=wanted)
    if wanted is None:
        return admit.Admitted(container=_blind(row, container), pod=pod)
    container = _with_policy(row, _with_cores(row, container, wanted))
    return admit.Admitted(container=container, pod=pod.with_runtime_class(row.runtime_class))


def _with_priority(row: vendor.Vendor, container: admit.Container) -> admit.Container:
    value = container.limits.get(row.resources.priority)
    return container if value is None else container.with_env("CUDA_TASK_PRIORITY", str(value))


def _with_count(row: vendor.Vendor, container: admit.Container) -> admit.Container:
    """Whoever names only a size means so many cards of that size."""
    names, limits = row.resources, container.limits
    sized = any(name in limits for name in (names.memory, names.percent, names.cores) if name)
    if names.count in limits or not sized or row.default_count == 0:
        return container
    return container.with_limit(names.count, str(row.default_count))


def _with_cores(
    row: vendor.Vendor, container: admit.Container, wanted: request.Request
) -> admit.Container:
    """Whoever takes all the memory of a card and names no cores takes all of them."""
    named = admit.asked(row, container).raw(row.resources.cores) is not None
    if named or not row.resources.cores or wanted.percent != 100:
        return container
    return container.with_limit(row.resources.cores, "100")


def _with_policy(row: vendor.Vendor, container: admit.Container) -> admit.Container:
    if row.core_policy == "default":
        return container
    return container.with_env("GPU_CORE_UTILIZATION_POLICY", row.core_policy)


def _blind(row: vendor.Vendor, container: admit.Container) -> admit.Container:
    return container.with_env("NVIDIA_VISIBLE_DEVICES", "none") if row.overwrite_env else container


_FOR_THE_PLUGIN: Final = (
    *("deviceSplitCount", "deviceMemoryScaling", "deviceCoreScaling", "disableCoreLimit"),
    *("preConfiguredDeviceMemory", "enableNumaTopology", "libCudaLogLevel"),
    "knownMigGeometries",  # retired, and still in many files
)


def _allowlist_problems(value: Any) -> Iterator[tuple[str, str]]:
    """Where the profiles that the plugin is to publish are wrong, and how."""
    if not isinstance(value, list):
        yield "", "is not a list"
        return
    for position, entry in enumerate(value):
        parts = entry if isinstance(entry, Mapping) else {}
        models, profiles = parts.get("models"), parts.get("profiles")
        if not (isinstance(models, list) and models and isinstance(profiles, list) and profiles):
            yield f"[{position}]", "has not both models and profiles"
            continue
        for place, one in enumerate(profiles):
            if not _PROFILE.fullmatch(str(one)):
                yield f"[{position}].profiles[{place}]", f"{one!r} is no profile such as 1g.10gb"


NVIDIA: Final = vendor.Vendor(
    keyword="NVIDIA",
    resources=vendor.Resources(
        count="nvidia.com/gpu",
        memory="nvidia.com/gpumem",
        cores="nvidia.com/gpucores",
        percent="nvidia.com/gpumem-percentage",
        priority="nvidia.com/priority",
    ),
    node=vendor.NodeKeys(
        register="hami.io/node-nvidia-register",
        handshake="hami.io/node-handshake-nvidia",
        legacy_handshake="hami.io/node-handshake",
        extra=(_PAIR_SCORES,),
    ),
    pod=vendor.PodKeys(
        to_allocate="hami.io/vgpu-devices-to-allocate",
        allocated="hami.io/vgpu-devices-allocated",
        plugin=(_MIG_LIST,),
    ),
    selection=vendor.Selection(
        use_type="nvidia.com/use-gputype",
        skip_type="nvidia.com/nouse-gputype",
        use_uuid=("nvidia.com/use-gpuuuid",),
        skip_uuid=("nvidia.com/nouse-gpuuuid",),
        numa_bind="nvidia.com/numa-bind",
    ),
    default_count=1,
    silent=True,
    lock=keys.NODE_LOCK,
    consumes=True,
    checks=frozenset(vendor.Check),
    guide=vendor.Guide(
        notes=(
            "With neither memory nor cores a container gets the card alone: admission adds 100 % "
            "of the cores.",
            f"`{_MODE}` (`hami-core`, `mig`, `mps`) admits only cards that are shared so.",
            f"`{keys.DEVICE_CORDON}` on a Node is a comma list of cards that take no new pods.",
            "On a card in MIG mode each device is an instance: the smallest profile with enough "
            "memory.",
            f"The card policy `{_LINKED}` chooses by `{_PAIR_SCORES}`.",
        ),
    ),
    file=vendor.Section(
        path=("nvidia",),
        names={
            **vendor.PLAIN,
            "resourceMemoryPercentageName": "percent",
            "resourcePriorityName": "priority",
            "defaultMemory": "default_memory_mib",
            "defaultCores": "default_cores",
            "defaultGPUNum": "default_count",
            "gpuCorePolicy": "core_policy",
            "overwriteEnv": "overwrite_env",
            "runtimeClassName": "runtime_class",
        },
        plugin={
            **dict.fromkeys(_FOR_THE_PLUGIN),
            "migProfileAllowlist": _allowlist_problems,
        },
    ),
    hooks=vendor.Hooks(
        notes=_notes,
        admit=_admit,
        checks={vendor.Check.TYPE: _type, vendor.Check.QUOTA: _quota},
        rule=_instance,
        enough=_may_repeat,
        again=partition.again,
        collect=_collect,
        choose=_choose,
        charge=partition.charge,
        note=functools.partial(partition.note, _MIG_LIST),
        settle=partition.settle,
        lasts=_partitioned,
        remark=functools.partial(partition.remark, _MIG_LIST),
        annotate=_annotate,
    ),
)
