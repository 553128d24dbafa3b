"""The reference of all device backends, written from their rows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import yaml

from hami_operator.devices import overrides, registry, vendor

_WORD: Final = "<chip>"
_HEAD: Final = """\
# Device backends

Made by `hami-operator vendors list -o markdown` from the rows that the operator works with; run
it with your configuration to see the rows as you have changed them. How to add one:
[add-a-vendor.md](add-a-vendor.md).

Each backend has resources that containers ask for in their limits, node annotations in which its
device plugin registers the cards, pod annotations with which a user selects cards, and pod
annotations in which the operator writes its decision. An amount that is not named takes the
default; memory that is not named is the whole device. Everything here but the lines *found by*,
*alive when* and *beside the decision* can be changed in the configuration file under
`vendors.<word>`, by the names that `hami-operator vendors show WORD` prints.

Which checks a card must pass: {checks}.
"""
_TITLES: Final = {"count": "devices", "percent": "memory, in percent"}


def page(rows: registry.Registry) -> str:
    """All rows in Markdown; rows that differ in nothing but their word stand together."""
    alike: dict[str, list[vendor.Vendor]] = {}
    for row in rows:
        key = json.dumps([_facts(row), dict(_example(row))]).replace(row.keyword, _WORD)
        alike.setdefault(key, []).append(row)
    sections = (_section(group) for group in alike.values())
    checks = ", ".join(f"{one.value} {one.name.lower()}" for one in vendor.Check)
    return "\n".join([_HEAD.format(checks=checks), *sections]).rstrip()


def sources(row: vendor.Vendor) -> tuple[str, ...]:
    """Where devices of a row are found: annotations of the node, or resources of its capacity."""
    keys = (row.node.register, row.node.listed)
    return tuple(key for key in keys if key) or row.kubelet_resources


def example(row: vendor.Vendor) -> dict[str, Any]:
    """A pod that takes a part of a device, or a device where it is not divided."""
    name = re.sub("[^a-z0-9-]+", "-", row.keyword.lower()).strip("-")
    container = {
        "name": "main",
        "image": "ubuntu:24.04",
        "command": ["sleep", "infinity"],
        "resources": {"limits": dict(_example(row))},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{name}-example"},
        "spec": {"schedulerName": "hami-scheduler", "containers": [container]},
    }


def _example(row: vendor.Vendor) -> Iterator[tuple[str, int]]:
    for part, amount in {**_usual(row), **row.guide.example}.items():
        name = getattr(row.resources, part)
        if name and amount:
            yield name, amount


def _usual(row: vendor.Vendor) -> Mapping[str, int]:
    return {"count": 1, "memory": max(8192 // row.mib_per_unit, 1), "cores": 30}


def _section(group: list[vendor.Vendor]) -> str:
    row = group[0]
    facts = _facts(row)
    lines = [f"## {', '.join(each.keyword for each in group)}", ""]
    if len(group) > 1:
        lines += [f"One row per chip; below, `{_WORD}` is the chip's word.", ""]
        facts = json.loads(json.dumps(facts).replace(row.keyword, _WORD))
    lines += ["| | |", "|---|---|", *(f"| {name} | {text} |" for name, text in facts.items()), ""]
    if row.options:
        lines += [*_options(group), ""]
    if row.guide.notes:
        lines += [*(f"- {note}" for note in row.guide.notes), ""]
    shown = yaml.safe_dump(example(row), sort_keys=False)
    return "\n".join([*lines, "```yaml", shown.rstrip(), "```", ""])


def _facts(row: vendor.Vendor) -> dict[str, str]:
    picked, decided = row.selection, row.pod
    facts = {
        **_resources(row),
        "found by": _ticks(sources(row)) + ("" if _registers(row) else " in the node's capacity"),
        "alive when": _liveness(row),
        "choose by model": _ticks((picked.use_type, picked.skip_type)),
        "choose by id": _ticks((*picked.use_uuid, *picked.skip_uuid)),
        "keep on one NUMA node": _ticks((picked.numa_bind,)),
        "also read from the node": _ticks(row.node.extra),
        "to allocate": _ticks((decided.to_allocate,)),
        "allocated": _ticks((decided.allocated,)),
        "beside the decision": _ticks(decided.plugin),
        "lock": _ticks((row.lock,)) or "none",
        "checks": " ".join(overrides.plain(row)["checks"]),
        "runtime class": _ticks((row.runtime_class,)),
        "in HAMi's file": _section_of(row.file),
    }
    return {name: text for name, text in facts.items() if text}


def _section_of(file: vendor.Section) -> str:
    names = (f"`{name}`" for name in (file.word_key, *file.names) if name)
    return f"`{'.'.join(file.path)}`: {', '.join(names)}" if file.path else ""


def _registers(row: vendor.Vendor) -> bool:
    return bool(row.node.register or row.node.listed)


def _resources(row: vendor.Vendor) -> dict[str, str]:
    unit = "MiB" if row.mib_per_unit == 1 else f"{row.mib_per_unit} MiB"
    notes = {
        "count": [],
        "memory": [row.guide.memory or f"in {unit} of each device"],
        "percent": ["in percent of the memory of each device"],
        "cores": [row.guide.cores or "in percent of each device"],
        "priority": [],
    }
    defaults = {
        "count": row.default_count,
        "memory": row.default_memory_mib,
        "cores": row.default_cores,
    }
    for part, amount in defaults.items():
        if amount:
            notes[part].append(f"default {amount}{' MiB' if part == 'memory' else ''}")
    names = ((part, getattr(row.resources, part)) for part in notes)
    return {
        _TITLES.get(part, part): "; ".join([_ticks((name,)), *notes[part]])
        for part, name in names
        if name
    }


def _liveness(row: vendor.Vendor) -> str:
    offered = f"kubelet offers `{row.resources.count}`"
    if not row.node.handshake:
        return offered
    keys = _ticks((row.node.legacy_handshake, row.node.handshake), " or ")
    answers = f"its plugin answers in {keys}"
    if not row.silent:
        return f"{answers}, and {offered} (or does not say)"
    return f"{offered}; where kubelet does not say, or the register is text: {answers}"


def _options(group: Iterable[vendor.Vendor]) -> Iterator[str]:
    """A table of the rows' own options, a column per row."""
    rows = list(group)
    yield f"| option | {' | '.join(row.keyword for row in rows)} |"
    yield f"|---|{'---|' * len(rows)}"
    for name in rows[0].options:
        values = (_value(row.options[name]) for row in rows)
        yield f"| `{name}` | {' | '.join(values)} |"


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {size}" for name, size in value.items()) or "none"
    return json.dumps(value)


def _ticks(names: Iterable[str], separator: str = ", ") -> str:
    return separator.join(f"`{name}`" for name in names if name)
