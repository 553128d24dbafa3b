"""Moore Threads: cards from capacity, totals per container, one card list per pod."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from hami_operator import errors
from hami_operator.devices import admit, annotate, capacity, fit, request, usage, vendor
from hami_operator.protocol import decision, register

_CARD_CORES: Final = 16
_CARD_MEMORY: Final = 96  # units of a whole card, as its plugin counts them
_MEMORY_UNIT_MIB: Final = 512
_SLICES: Final = (2, 4, 8, 16, 32, 64, _CARD_MEMORY)
_INDEX: Final = "mthreads.com/gpu-index"
_TIME: Final = "mthreads.com/predicate-time"
_NODE: Final = "mthreads.com/predicate-node"
_NUMBER: Final = "mthreads.com/request-gpu-num"
_SHAPE: Final = capacity.Shape(
    infix="mthreads",
    model="Mthreads",
    units=_CARD_CORES,
    cores=_CARD_CORES,
    count=100,
)


def _devices(row: vendor.Vendor, node: vendor.NodeFacts) -> vendor.Found | None:
    memory = row.resources.memory
    return capacity.found(
        node, row.resources.cores, _SHAPE, memory=memory, unit_mib=_MEMORY_UNIT_MIB
    )


def _request(
    row: vendor.Vendor, found: request.Request, asked: request.Asked
) -> request.Request | request.Invalid:
    """Memory and cores are totals of the container."""
    memory_mib = found.memory_mib // found.count
    if found.memory_mib and not memory_mib:
        name = row.resources.memory
        why = f"is less than 1 MiB for each of {found.count} cards"
        return request.Invalid(resource=name, value=str(asked.raw(name)), why=why)
    return dataclasses.replace(found, memory_mib=memory_mib, cores=found.cores // found.count)


def _admit(
    row: vendor.Vendor, container: admit.Container, pod: admit.Pod
) -> admit.Admitted | admit.Denied:
    asked = admit.asked(row, container)
    count = asked.amount(row.resources.count)
    if asked.raw(row.resources.count) is None or isinstance(count, request.Invalid):
        return admit.Admitted(container=container, pod=pod)  # the quantities are checked next
    problem = _problem(row, asked, count)
    if problem is not None:
        return admit.Denied(container=container.name, problem=problem)
    if count > 1:
        pod = pod.with_annotation(_NUMBER, str(count))
    elif row.resources.memory in container.limits:
        return admit.Admitted(container=container, pod=pod)
    whole = container.with_limit(row.resources.cores, str(_CARD_CORES * count))
    whole = whole.with_limit(row.resources.memory, str(_CARD_MEMORY * count))
    return admit.Admitted(container=whole, pod=pod)


def _problem(row: vendor.Vendor, asked: request.Asked, count: int) -> request.Invalid | None:
    """What the plugin could not serve."""
    names = row.resources
    if count == 0:
        value = str(asked.raw(names.count))
        return request.Invalid(resource=names.count, value=value, why="asks for no card")
    if count > 1 or names.memory not in asked.limits:
        return None
    limits = dataclasses.replace(asked, requests={})
    memory = limits.amount(names.memory)
    if isinstance(memory, request.Invalid) or memory in _SLICES:
        return None
    value = str(asked.limits[names.memory])
    why = f"is none of {', '.join(map(str, _SLICES))}"
    return request.Invalid(resource=names.memory, value=value, why=why)


def _one_card_per_pod(
    walk: fit.Walk, card: register.Card, used: usage.Usage
) -> errors.Reason | None:
    """The plugin knows one card list for all containers of a pod."""
    if all(id == card.id for container in walk.context.earlier for id in container):
        return None
    return errors.Reason.CARD_CUSTOM_RULE


def _annotate(
    row: vendor.Vendor, slots: decision.Slots, facts: annotate.Facts
) -> Mapping[str, str]:
    last = next(slot for slot in reversed(slots) if slot)
    return {
        _INDEX: ",".join(str(pick.index) for pick in last),
        _TIME: str(facts.now.unix_ns),
        _NODE: facts.node_name,
    }


MTHREADS: Final = vendor.Vendor(
    keyword="Mthreads",
    resources=vendor.Resources(
        count="mthreads.com/vgpu",
        memory="mthreads.com/sgpu-memory",
        cores="mthreads.com/sgpu-core",
    ),
    pod=vendor.PodKeys(
        to_allocate="hami.io/mthreads-vgpu-devices-to-allocate",
        allocated="hami.io/mthreads-vgpu-devices-allocated",
        plugin=(_INDEX, _TIME, _NODE),
    ),
    selection=vendor.Selection(
        use_uuid=("mthreads.ai/use-gpuuuid",), skip_uuid=("mthreads.ai/nouse-gpuuuid",)
    ),
    memory_unit_mib=_MEMORY_UNIT_MIB,
    counted_by_kubelet=("cores", "memory"),
    guide=vendor.Guide(
        example={"memory": 32, "cores": 8},
        memory="in 512 MiB, of all devices of the container together; "
        "2, 4, 8, 16, 32, 64 or 96 of one device",
        cores="in sixteenths, of all devices of the container together",
        notes=("Several devices are whole ones.", "A pod has its devices on one card only."),
    ),
    file=vendor.Section(path=("mthreads",)),
    hooks=vendor.Hooks(
        devices=_devices,
        request=_request,
        admit=_admit,
        rule=_one_card_per_pod,
        annotate=_annotate,
    ),
)
