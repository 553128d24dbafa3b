"""NVIDIA GPUs, shared by slots, memory and cores."""

from __future__ import annotations

from typing import Final

from hami_operator import errors
from hami_operator.devices import admit, checks, fit, request, usage, vendor
from hami_operator.protocol import keys, register

_MODE: Final = "nvidia.com/vgpu-mode"
_MIG: Final = "mig"
_MIG_ALLOCATIONS: Final = "hami.io/vgpu-mig-allocations"


def _type(walk: fit.Walk, card: register.Card, used: usage.Usage) -> errors.Reason | None:
    """Beside the model, the way of sharing that the pod allows; a card may leave it open."""
    allowed = walk.context.pod_annotations.get(_MODE)
    if allowed is not None and card.mode not in allowed:
        return errors.Reason.CARD_TYPE_MISMATCH
    return checks.by_type(walk, card, used)


def _no_instances(walk: fit.Walk, card: register.Card, used: usage.Usage) -> errors.Reason | None:
    """A partitioned card is only given away instance by instance, and never by this rule."""
    return errors.Reason.CARD_MIG_INFEASIBLE if card.mode == _MIG else None


def _may_repeat(walk: fit.Walk) -> bool:
    """A partitioned card can serve several devices of one container."""
    allowed = walk.context.pod_annotations.get(_MODE, _MIG)
    return _MIG in allowed and any(card.card.mode == _MIG for card in walk.candidates)


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
    ),
    pod=vendor.PodKeys(
        to_allocate="hami.io/vgpu-devices-to-allocate",
        allocated="hami.io/vgpu-devices-allocated",
        plugin=(_MIG_ALLOCATIONS,),
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
    hooks=vendor.Hooks(
        admit=_admit,
        checks={vendor.Check.TYPE: _type},
        rule=_no_instances,
        enough=_may_repeat,
    ),
)
