"""Rows from the configuration: changes of a known row, or a backend that is new."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from hami_operator import errors, settings
from hami_operator.devices import vendor
from hami_operator.protocol import decision, keys

_LOCKS: Final = {"shared": keys.NODE_LOCK, "none": ""}
_POLICIES: Final = ("default", "force", "disable")
_CHECKS: Final = {check.value: check for check in vendor.Check}

Reader = Callable[[Any, str], Any]


def _text(value: Any, field: str) -> str:
    if not isinstance(value, str):
        raise errors.SettingsError(field, f"{value!r} is not a text")
    return value.strip()


def _texts(value: Any, field: str) -> tuple[str, ...]:
    """A text or a list of texts."""
    return _each(value, field, _text)


def _each(value: Any, field: str, read: Reader) -> tuple[Any, ...]:
    """One or several, each of which is read, and named where it cannot be."""
    if not isinstance(value, list | tuple):
        return (read(value, field),)
    found = errors.Gathered()
    items = []
    for place, item in enumerate(value):
        with found.gathering():
            items.append(read(item, f"{field}[{place}]"))
    found.tell()
    return tuple(items)


def _whole(value: Any, field: str) -> int:
    if type(value) is not int or not 0 <= value <= decision.INT32_MAX:
        raise errors.SettingsError(field, f"{value!r} is not a whole number from 0 to 2147483647")
    return value


def _boolean(value: Any, field: str) -> bool:
    if not isinstance(value, bool):
        raise errors.SettingsError(field, f"{value!r} is neither true nor false")
    return value


def _lock(value: Any, field: str) -> str:
    text = _text(value, field)
    return _LOCKS.get(text, text)


def _policy(value: Any, field: str) -> str:
    if value not in _POLICIES:
        problem = f"{value!r} is none of {', '.join(_POLICIES)}"
        raise errors.SettingsError(field, problem + settings.closest(value, _POLICIES))
    return str(value)


def _checks(value: Any, field: str) -> frozenset[vendor.Check]:
    return frozenset(_each(value, field, _check))


def _check(value: Any, field: str) -> vendor.Check:
    name = _text(value, field)
    if name not in _CHECKS:
        raise errors.SettingsError(field, f"{name} is no check from F1 to F13")
    return _CHECKS[name]


def _sizes(value: Any, field: str) -> Mapping[str, int]:
    """Name to size: a mapping, or a list of entries that have both."""
    if isinstance(value, list):
        return dict(_each(value, field, _entry))
    if not isinstance(value, Mapping):
        raise errors.SettingsError(field, "is neither a mapping nor a list of name and memory")
    found = errors.Gathered()
    sizes: dict[str, int] = {}
    for name, size in value.items():
        with found.gathering():
            sizes[_text(name, field)] = _whole(size, f"{field}.{name}")
    found.tell()
    return sizes


def _entry(value: Any, field: str) -> tuple[str, int]:
    if not isinstance(value, Mapping):
        raise errors.SettingsError(field, "is not a mapping of name and memory")
    for needed in ("name", "memory"):
        if needed not in value:
            meant = (key for key in value if settings.closest(key, [needed]))
            raise errors.SettingsError(field, f"has no {needed}{_instead(next(meant, None))}")
    return _text(value["name"], f"{field}.name"), _whole(value["memory"], f"{field}.memory")


def _instead(key: object) -> str:
    return "" if key is None else f", but {key}"


_FIELDS: Final[Mapping[str, tuple[str, Reader]]] = {
    "count": ("resources.count", _text),
    "memory": ("resources.memory", _text),
    "cores": ("resources.cores", _text),
    "percent": ("resources.percent", _text),
    "priority": ("resources.priority", _text),
    "register": ("node.register", _text),
    "handshake": ("node.handshake", _text),
    "listed": ("node.listed", _text),
    "to_allocate": ("pod.to_allocate", _text),
    "allocated": ("pod.allocated", _text),
    "use_type": ("selection.use_type", _text),
    "skip_type": ("selection.skip_type", _text),
    "use_uuid": ("selection.use_uuid", _texts),
    "skip_uuid": ("selection.skip_uuid", _texts),
    "numa_bind": ("selection.numa_bind", _text),
    "memory_unit_mib": ("memory_unit_mib", _whole),
    "memory_factor": ("memory_factor", _whole),
    "default_cores": ("default_cores", _whole),
    "default_memory_mib": ("default_memory_mib", _whole),
    "default_count": ("default_count", _whole),
    "read_requests": ("read_requests", _boolean),
    "silent": ("silent", _boolean),
    "lock": ("lock", _lock),
    "consumes": ("consumes", _boolean),
    "checks": ("checks", _checks),
    "core_policy": ("core_policy", _policy),
    "overwrite_env": ("overwrite_env", _boolean),
    "runtime_class": ("runtime_class", _text),
}

_OPTIONS: Final[Mapping[type, Reader]] = {bool: _boolean, int: _whole, str: _text, dict: _sizes}
"""Readers of a row's own options, by the type of the default."""

_TEXT_SHAPE: Final = {"type": "string"}
_WHOLE_SHAPE: Final = {"type": "integer", "minimum": 0, "maximum": decision.INT32_MAX}
_CHECK_SHAPE: Final = {"enum": list(_CHECKS)}
_SHAPES: Final[Mapping[Reader, Mapping[str, Any]]] = {
    _text: _TEXT_SHAPE,
    _texts: {"anyOf": [_TEXT_SHAPE, {"type": "array", "items": _TEXT_SHAPE}]},
    _whole: _WHOLE_SHAPE,
    _boolean: {"type": "boolean"},
    _lock: _TEXT_SHAPE,
    _policy: {"enum": list(_POLICIES)},
    _checks: {"anyOf": [_CHECK_SHAPE, {"type": "array", "items": _CHECK_SHAPE}]},
    _sizes: {
        "anyOf": [
            {"type": "object", "additionalProperties": _WHOLE_SHAPE},
            {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["name", "memory"],
                    "properties": {"name": _TEXT_SHAPE, "memory": _WHOLE_SHAPE},
                },
            },
        ]
    },
}


def apply(
    row: vendor.Vendor | None,
    word: str,
    values: Mapping[str, Any],
    *,
    words: Iterable[str],
    found: errors.Gathered,
) -> vendor.Vendor | None:
    """The row with what the configuration says; None where it is switched off.

    Args:
        row: the row of that keyword, None where the keyword is new.
        word: the keyword.
        values: field → value, in our names or in HAMi's.
        words: keywords of other rows, one of which may have been meant.
        found: takes what cannot be used: an unknown field, a value of the wrong type, a new row
            without the keys that every backend needs; the answer then lacks it.
    """
    told = len(found.faults)
    options = dict(row.options) if row else {}
    changes: dict[str, Any] = {}
    enabled = True
    for given, value in values.items():
        with found.gathering():
            name, path, reader = _meant(row, word, given)
            read = reader(value, f"vendors.{word}.{given}")
            if name == "enabled":
                enabled = read
            elif name in options:
                options[name] = read
            else:
                changes[path] = read
    if not enabled:
        return None
    if row is None:
        # What was written wrongly need not be missed as well.
        row = _new(word, changes, words, found) if len(found.faults) == told else None
    return row and _changed(dataclasses.replace(row, options=options), changes)


def _meant(row: vendor.Vendor | None, word: str, given: str) -> tuple[str, str, Reader]:
    """Our name of a field, where a row has it, and what reads it."""
    names = row.file.names if row else vendor.PLAIN
    name = names.get(given, given)
    if name == "enabled":
        return name, "", _boolean
    if row and name in row.options:
        return name, "", _OPTIONS[type(row.options[name])]
    if name not in _FIELDS:
        problem = f"unknown field of a device backend{settings.closest(given, fields(row))}"
        raise errors.SettingsError(f"vendors.{word}.{given}", problem)
    return name, *_FIELDS[name]


def fields(row: vendor.Vendor | None) -> Mapping[str, Mapping[str, Any]]:
    """What may be said of a row, and what it looks like, as JSON Schema.

    Args:
        row: the row; None for one with a new keyword.

    Returns:
        Our names, then the row's own options, then the names of HAMi's file.
    """
    known = {name: _SHAPES[reader] for name, (_, reader) in _FIELDS.items()}
    known["enabled"] = _SHAPES[_boolean]
    for name, value in (row.options if row else {}).items():
        known[name] = _SHAPES[_OPTIONS[type(value)]]
    names = row.file.names if row else vendor.PLAIN
    return known | {theirs: known[ours] for theirs, ours in names.items()}


def plain(row: vendor.Vendor) -> dict[str, Any]:
    """All that a configuration may say of a row, as the row says it; what is empty left out."""
    said: dict[str, Any] = {}
    for name, (path, _) in _FIELDS.items():
        part, _, field = path.rpartition(".")
        said[name] = _plain(getattr(getattr(row, part) if part else row, field))
    said["lock"] = next((word for word, key in _LOCKS.items() if key == row.lock), row.lock)
    said |= {name: _plain(value) for name, value in row.options.items()}
    return {name: value for name, value in said.items() if value not in ("", [])}


def _plain(value: Any) -> Any:
    if isinstance(value, frozenset):
        return [name for name, check in _CHECKS.items() if check in value]
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value


def _new(
    word: str, changes: Mapping[str, Any], words: Iterable[str], found: errors.Gathered
) -> vendor.Vendor | None:
    told = len(found.faults)
    if not word or decision.FORBIDDEN.search(word):
        problem = "cannot be written into a decision"
        found.faults.append(errors.SettingsError(f"vendors.{word}", problem))
    for path in ("resources.count", "node.register", "pod.allocated"):
        if not changes.get(path):
            field = f"vendors.{word}.{path.rpartition('.')[2]}"
            problem = f"is needed by a new device backend{settings.closest(word, words)}"
            found.faults.append(errors.SettingsError(field, problem))
    if len(found.faults) > told:
        return None
    return vendor.Vendor(
        keyword=word,
        resources=vendor.Resources(count=changes["resources.count"]),
        pod=vendor.PodKeys(allocated=changes["pod.allocated"]),
    )


def _changed(row: vendor.Vendor, changes: Mapping[str, Any]) -> vendor.Vendor:
    # A plugin key that bears the name of the count resource is that resource's, whatever it is.
    renamed = changes.get("resources.count", row.resources.count)
    plugin = (renamed if key == row.resources.count else key for key in row.pod.plugin)
    row = dataclasses.replace(row, pod=dataclasses.replace(row.pod, plugin=tuple(plugin)))
    for path, value in changes.items():
        part, dot, field = path.rpartition(".")
        if dot:
            inner = dataclasses.replace(getattr(row, part), **{field: value})
            row = dataclasses.replace(row, **{part: inner})
        else:
            row = dataclasses.replace(row, **{field: value})
    return row
