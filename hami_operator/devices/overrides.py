"""Rows from the configuration: changes of a known row, or a backend that is new."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from hami_operator import errors
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
    listed = value if isinstance(value, list | tuple) else [value]
    return tuple(_text(item, field) for item in listed)


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
        raise errors.SettingsError(field, f"{value!r} is none of {', '.join(_POLICIES)}")
    return str(value)


def _checks(value: Any, field: str) -> frozenset[vendor.Check]:
    names = _texts(value, field)
    unknown = sorted(set(names) - set(_CHECKS))
    if unknown:
        raise errors.SettingsError(field, f"{', '.join(unknown)} is no check from F1 to F13")
    return frozenset(_CHECKS[name] for name in names)


def _sizes(value: Any, field: str) -> Mapping[str, int]:
    """Name to size: a mapping, or a list of entries that have both."""
    listed = value
    if isinstance(value, list) and all(isinstance(item, Mapping) for item in value):
        listed = {item.get("name"): item.get("memory") for item in value}
    if not isinstance(listed, Mapping):
        raise errors.SettingsError(field, "is neither a mapping nor a list of name and memory")
    return {_text(name, field): _whole(size, f"{field}.{name}") for name, size in listed.items()}


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


def apply(
    row: vendor.Vendor | None, word: str, values: Mapping[str, Any], words: Iterable[str] = ()
) -> vendor.Vendor | None:
    """The row with what the configuration says; None where it is switched off.

    Args:
        row: the row of that keyword, None where the keyword is new.
        word: the keyword.
        values: field → value, in our names or in HAMi's.
        words: keywords of other rows, one of which may have been meant.

    Raises:
        errors.SettingsError: an unknown field, a value of the wrong type, or a new row without
            the keys that every backend needs.
    """
    prefix = f"vendors.{word}"
    changes: dict[str, Any] = {}
    options = dict(row.options) if row else {}
    names = row.file.names if row else vendor.PLAIN
    for given, value in values.items():
        name, field = names.get(given, given), f"{prefix}.{given}"
        if name == "enabled":
            if not _boolean(value, field):
                return None
        elif name in options:
            options[name] = _OPTIONS[type(options[name])](value, field)
        elif name in _FIELDS:
            path, reader = _FIELDS[name]
            changes[path] = reader(value, field)
        else:
            known = [*names, *options, *_FIELDS, "enabled"]
            problem = f"unknown field of a device backend{_closest(given, known)}"
            raise errors.SettingsError(field, problem)
    base = row or _new(word, changes, words)
    return _changed(dataclasses.replace(base, options=options), changes)


def _closest(given: str, known: Iterable[str]) -> str:
    """The known word that is meant, where one is misspelt."""
    found = difflib.get_close_matches(given, tuple(known), n=1)
    return f"; did you mean {found[0]}?" if found else ""


def _new(word: str, changes: Mapping[str, Any], words: Iterable[str]) -> vendor.Vendor:
    for path in ("resources.count", "node.register", "pod.allocated"):
        if not changes.get(path):
            field = f"vendors.{word}.{path.rpartition('.')[2]}"
            problem = f"is needed by a new device backend{_closest(word, words)}"
            raise errors.SettingsError(field, problem)
    if not word or decision.FORBIDDEN.search(word):
        raise errors.SettingsError(f"vendors.{word}", "cannot be written into a decision")
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
