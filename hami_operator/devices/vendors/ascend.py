"""Huawei Ascend: one row per chip; cards are split by templates, or by percent (soft split)."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, Final

from hami_operator import errors
from hami_operator.devices import (
    admit,
    annotate,
    checks,
    fit,
    groups,
    request,
    score,
    usage,
    vendor,
)
from hami_operator.protocol import decision, fields, keys, register

_MODE: Final = "huawei.com/vnpu-mode"
_SOFT: Final = "hami-core"
_ALLOWS_SOFT: Final = "hami-vnpu-core"
_TIME: Final = "predicate-time"
_VISIBLE: Final = "ASCEND_VISIBLE_DEVICES"
_NETWORK: Final = "NetworkID"
_NETWORKED: Final = "Ascend910"
_SUPER_POD: Final = "Ascend910C"

_LARGE: Final = {"vir05_1c_16g": 16384, "vir10_3c_32g": 32768}
_TEMPLATES: Final[Mapping[str, Mapping[str, int]]] = {
    "Ascend910A": {"vir02": 2184, "vir04": 4369, "vir08": 8738, "vir16": 17476},
    "Ascend910B2": {"vir03_1c_8g": 8192, "vir06_1c_16g": 16384, "vir12_3c_32g": 32768},
    "Ascend910B3": _LARGE,
    "Ascend910B4-1": _LARGE,
    "Ascend910B4": {"vir05_1c_8g": 8192, "vir10_3c_16g": 16384},
    "Ascend310P": {"vir01": 3072, "vir02": 6144, "vir04": 12288},
    _SUPER_POD: _LARGE,
}
_MEMORY_MIB: Final = {  # allocatable and capacity, where it is not 65536
    "Ascend910A": (32768, 32768),
    "Ascend910B4": (32768, 32768),
    "Ascend310P": (21527, 24576),
}


def _soft(annotations: Mapping[str, str]) -> bool:
    return annotations.get(_MODE) == _SOFT


def _template(row: vendor.Vendor, memory: int) -> tuple[str, int] | None:
    """Name and memory of the smallest part that will do; the whole card has no name."""
    options = row.options
    by_memory = sorted((size, name) for name, size in options["templates"].items())
    for size, name in by_memory:
        if size >= memory:
            return name, size
    return ("", options["allocatable_mib"]) if memory <= options["capacity_mib"] else None


# --- admission


def _admit(
    row: vendor.Vendor, container: admit.Container, pod: admit.Pod
) -> admit.Admitted | admit.Denied:
    count = row.resources.count
    if count not in container.limits:
        return admit.Admitted(container=_blind(row, container), pod=pod)
    number = admit.limited(row, container).amount(count)
    if isinstance(number, request.Invalid) or number == 0:
        return admit.Admitted(container=container, pod=pod)  # the quantities are checked next
    if row.keyword == _SUPER_POD and row.options["super_pod"]:
        if number > 1 and number % 2:
            return admit.denied(container, count, "is odd, and cards are given in pairs")
        container = container.with_limit(count, str(max(number, 2)))
        number = max(number, 2)
    sized = _sized(row, container, number, soft=_soft(pod.annotations))
    if isinstance(sized, admit.Denied):
        return sized
    return admit.Admitted(container=sized, pod=pod.with_runtime_class(row.runtime_class))


def _sized(
    row: vendor.Vendor, container: admit.Container, number: int, *, soft: bool
) -> admit.Container | admit.Denied:
    """The container with the memory that its devices will have."""
    names, asked = row.resources, admit.asked(row, container)
    if not soft and asked.amount(names.cores):
        return admit.denied(container, names.cores, f"needs {_MODE}: {_SOFT}")
    memory = whole = row.options["allocatable_mib"]
    if names.memory in container.limits:
        memory = asked.amount(names.memory)
        if isinstance(memory, request.Invalid):
            return admit.Denied(container=container.name, problem=memory)
        part = _template(row, memory)
        if not soft and part is None:
            return admit.denied(container, names.memory, "is more than a card has")
        memory = memory if soft or part is None else part[1]
    if not soft and number > 1 and memory != whole:
        return admit.denied(container, names.memory, f"is part of a card, for {number} cards")
    return container.with_amount(names.memory, str(memory))


def _blind(row: vendor.Vendor, container: admit.Container) -> admit.Container:
    """A container that takes no chip at all sees none, if the row says so."""
    names = {row.resources.count, *(f"huawei.com/{chip}" for chip in _TEMPLATES)}
    takes = names & {*container.limits, *container.requests}
    return container.with_env(_VISIBLE, "") if row.overwrite_env and not takes else container


# --- fit


def _prepare(walk: fit.Walk) -> Mapping[str, Any]:
    word = walk.row.keyword
    networked = word.startswith(_NETWORKED) and all(
        _NETWORK in each.card.custom for each in walk.candidates
    )
    return {
        "soft": _soft(walk.context.pod_annotations),
        "pairs": word == _SUPER_POD and walk.request.count > 1,
        "networked": networked,
    }


def _before(walk: fit.Walk) -> fit.NoFit | None:
    said = walk.context.node_annotations.get(_ALLOWS_SOFT)
    allows = walk.row.options["soft_split"] if said is None else said in fields.TRUE_WORDS
    if allows or not walk.facts["soft"]:
        return None
    walk.refuse(errors.Reason.MODE_NOT_FIT)
    return walk.no_fit()


def _of_percent(check: vendor.CheckFunction) -> vendor.CheckFunction:
    """Under soft split cores are percent; under hard split they are the cores of the chip."""

    def judge(walk: fit.Walk, card: register.Card, used: usage.Usage) -> errors.Reason | None:
        if walk.facts["soft"]:
            card = dataclasses.replace(card, cores=100)
        return check(walk, card, used)

    return judge


def _amounts(walk: fit.Walk, card: register.Card) -> tuple[int, int, Mapping[str, Any]]:
    return walk.memory_mib, fit.clamped_cores(walk.row, walk.request), card.custom


def _collect(walk: fit.Walk) -> bool:
    return bool(walk.facts["pairs"] or walk.facts["networked"])


def _choose(walk: fit.Walk) -> fit.Fit | fit.NoFit:
    return _modules(walk) if walk.facts["pairs"] else groups.choose(walk, _network)


def _modules(walk: fit.Walk) -> fit.Fit | fit.NoFit:
    """Devices 2k and 2k + 1 are one module, and only whole modules are given."""
    known = (pick for pick in walk.picks if pick.index >= 0)
    modules = [each for each in groups.of(known, lambda pick: pick.index // 2) if len(each) == 2]
    picks = tuple(pick for module in modules for pick in module)
    if len(picks) >= walk.request.count:
        return fit.Fit(picks=picks[: walk.request.count])
    walk.refuse(errors.Reason.TOO_FEW_CARDS_FIT, len(picks))
    return walk.no_fit()


def _network(pick: decision.Pick) -> int | None:
    """The network of a card, None where it is not a number."""
    found = pick.custom.get(_NETWORK)
    return found if type(found) is int else None


def _score(row: vendor.Vendor, facts: score.Facts) -> float:
    """How much of each container lies in one network."""
    picks = [pick for slot in facts.slots for pick in slot]
    known = all(_NETWORK in pick.custom for pick in picks)
    if not known or not row.keyword.startswith(_NETWORKED):
        return 0.0
    numbered = (tuple(pick for pick in slot if _network(pick) is not None) for slot in facts.slots)
    return 10 * sum(groups.together(slot, _network) for slot in numbered)


# --- decision


def _annotate(
    row: vendor.Vendor, slots: decision.Slots, facts: annotate.Facts
) -> Mapping[str, str]:
    soft = _soft(facts.pod_annotations)
    shown = [_shown(row, pick, soft=soft) for slot in slots for pick in slot]
    return {
        row.resources.count: json.dumps(shown, separators=(",", ":")),
        _TIME: str(facts.now.unix_s),
    }


def _shown(row: vendor.Vendor, pick: decision.Pick, *, soft: bool) -> Mapping[str, Any]:
    part = None if soft else _template(row, pick.memory_mib // max(row.memory_factor, 1))
    shown = {
        "UUID": pick.id,
        "temp": part[0] if part else "",
        "memory": pick.memory_mib,
        "core": pick.cores,
    }
    return {name: value for name, value in shown.items() if value}


_HOOKS: Final = vendor.Hooks(
    admit=_admit,
    prepare=_prepare,
    before=_before,
    checks={
        vendor.Check.CORES: _of_percent(checks.cores),
        vendor.Check.EXCLUSIVE: _of_percent(checks.exclusive),
        vendor.Check.EXHAUSTED: _of_percent(checks.exhausted),
    },
    amounts=_amounts,
    collect=_collect,
    choose=_choose,
    annotate=_annotate,
    score=_score,
)
_NAMES: Final = {
    "resourceName": "count",
    "resourceMemoryName": "memory",
    "resourceCoreName": "cores",
    "memoryAllocatable": "allocatable_mib",
    "memoryCapacity": "capacity_mib",
    "memoryFactor": "memory_factor",
    "templates": "templates",
    "hamiVnpuCore": "soft_split",
    "superPod": "super_pod",
    "overwriteEnv": "overwrite_env",
    "runtimeClassName": "runtime_class",
}


def _row(chip: str) -> vendor.Vendor:
    """The row of a chip, also of one that only a configuration knows."""
    resource = f"huawei.com/{chip}"
    allocatable_mib, capacity_mib = _MEMORY_MIB.get(chip, (65536, 65536))
    return vendor.Vendor(
        keyword=chip,
        resources=vendor.Resources(
            count=resource, memory=f"{resource}-memory", cores=f"{resource}-core"
        ),
        node=vendor.NodeKeys(
            register=f"hami.io/node-register-{chip}",
            handshake=f"hami.io/node-handshake-{chip}",
            extra=(_ALLOWS_SOFT,),
        ),
        pod=vendor.PodKeys(
            to_allocate=f"hami.io/{chip}-devices-to-allocate",
            allocated=f"hami.io/{chip}-devices-allocated",
            plugin=(resource, _TIME),
        ),
        selection=vendor.Selection(
            use_uuid=(f"hami.io/use-{chip}-uuid",), skip_uuid=(f"hami.io/no-use-{chip}-uuid",)
        ),
        lock=keys.NODE_LOCK,
        consumes=True,
        guide=vendor.Guide(
            example={"count": 2, "memory": 0, "cores": 0} if chip == _SUPER_POD else {"cores": 0},
            cores="in percent of each device, for soft split only",
            notes=(
                "Memory is rounded up to a template, and beyond the largest to the whole card.",
                f"`{_MODE}: {_SOFT}` splits softly instead, on nodes that allow it.",
                "Cards of a super pod are given in pairs.",
            ),
        ),
        options={
            "soft_split": False,
            "super_pod": chip == _SUPER_POD,
            "allocatable_mib": allocatable_mib,
            "capacity_mib": capacity_mib,
            "templates": _TEMPLATES.get(chip, {}),
        },
        file=vendor.Section(
            path=("vnpus", "configs"),
            word_key="commonWord",
            names=_NAMES,
            plugin=dict.fromkeys(("chipName", "aiCore", "aiCPU")),
            make=_row,
        ),
        hooks=_HOOKS,
    )


ROWS: Final = tuple(map(_row, _TEMPLATES))
