"""All active rows, built once: the explicit list of vendors, look-ups, and no duplicates."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from hami_operator import errors, settings
from hami_operator.devices import hamifile, vendor
from hami_operator.devices import overrides as row_overrides
from hami_operator.devices.vendors import (
    amd,
    ascend,
    aws,
    biren,
    cambricon,
    enflame,
    hygon,
    iluvatar,
    kunlun,
    metax,
    mthreads,
    nvidia,
    vastai,
)
from hami_operator.protocol import keys

BUILT_IN: Final = (
    nvidia.NVIDIA,
    cambricon.MLU,
    *(hygon.HCU, hygon.DCU),
    *iluvatar.ROWS,
    mthreads.MTHREADS,
    *(metax.GPU, metax.SGPU),
    *ascend.ROWS,
    *(enflame.GCU, enflame.ENFLAME),
    *(kunlun.KUNLUN, kunlun.XPU),
    aws.AWS_NEURON,
    amd.AMD,
    vastai.VASTAI,
    biren.BIREN,
)
"""A new vendor is one file and one entry here."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Registry:
    """The active rows, in the order of their keywords.

    Attributes:
        rows: the rows.
        by_word: the rows by keyword.
        resource_names: every resource that containers ask with.
        counted_by_kubelet: those of them that kubelet counts on nodes that offer them.
        owned_pod_keys: every pod annotation that a decision of ours may set, and therefore
            removes where an earlier attempt has left it.
        recorded: the pod annotation that usage of a row is read from, with the row.
        words_by_resource: resource to the keywords of the rows that are asked with it.
    """

    rows: tuple[vendor.Vendor, ...]
    by_word: Mapping[str, vendor.Vendor]
    resource_names: frozenset[str]
    counted_by_kubelet: frozenset[str]
    owned_pod_keys: frozenset[str]
    recorded: tuple[tuple[str, vendor.Vendor], ...]
    words_by_resource: Mapping[str, tuple[str, ...]]

    def __iter__(self) -> Iterator[vendor.Vendor]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def asked(self, *resources: Mapping[str, Any]) -> set[str]:
        """Keywords of the rows of which these maps of resources name any."""
        found: set[str] = set()
        for each in resources:
            for name in each.keys() & self.resource_names:
                found.update(self.words_by_resource[name])
        return found

    def vain(self, annotations: Mapping[str, Any]) -> tuple[str, ...]:
        """Sentences about resources that a pod names as annotations, where they ask for nothing.

        Their author gets whole cards, or none, and would never know why.
        """
        return tuple(
            f"annotation {name} asks for nothing; write it under resources.limits of a container"
            for name in sorted(self.resource_names.intersection(annotations))
        )

    def lock_keys(self, words: Iterable[str]) -> tuple[str, ...]:
        """Locks that a pod with these types needs: the shared one first, then own ones by key."""
        needed = {self.by_word[word].lock for word in words} - {""}
        return tuple(sorted(needed, key=lambda key: (key != keys.NODE_LOCK, key)))


def default() -> Registry:
    """The built-in rows, unchanged."""
    return build()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Configured:
    """The registry that settings ask for, and what in them nobody knows, as sentences."""

    registry: Registry
    warnings: tuple[str, ...] = ()


def configured(given: settings.Settings) -> Configured:
    """Build the registry with HAMi's file and with our own overrides, which win.

    Raises:
        errors.SettingsError: one of them cannot be used; the field is that of the settings, in
            the file's own names.
    """
    if given.device_config is None:
        return Configured(registry=build(overrides=given.vendors))
    read = hamifile.read(given.device_config, BUILT_IN)
    overrides = {**read.overrides, **given.vendors}
    for word in read.overrides.keys() & given.vendors.keys():
        overrides[word] = {**read.overrides[word], **given.vendors[word]}
    found = errors.Gathered()
    found.faults += read.faults
    registry = _built(read.rows, overrides, found)
    found.faults = [_as_written(fault, read, given.vendors) for fault in found.faults]
    found.tell()
    return Configured(registry=registry, warnings=read.warnings)


def _as_written(
    fault: errors.SettingsError, read: hamifile.Read, own: Mapping[str, Mapping[str, Any]]
) -> errors.SettingsError:
    """The fault with its place in the settings: in HAMi's file, unless our own rows say it."""
    if fault in read.faults:
        field = ".".join(filter(None, ("device_config", fault.field)))
        return errors.SettingsError(field, fault.problem)
    for (word, name), theirs in read.places.items():
        field = f"vendors.{word}.{name}"
        rest = fault.field.removeprefix(field)
        if fault.field.startswith(field) and rest[:1] in {"", ".", "["}:
            if name in own.get(word, {}):
                return fault
            return errors.SettingsError(f"device_config.{theirs}{rest}", fault.problem)
    return fault


def build(
    rows: Iterable[vendor.Vendor] = BUILT_IN,
    *,
    overrides: Mapping[str, Mapping[str, Any]] | None = None,
) -> Registry:
    """Build the registry.

    Args:
        rows: the rows to begin with.
        overrides: per keyword what the configuration says: changes of a row, ``enabled: false``,
            or all of a new row.

    Raises:
        errors.SettingsError: an override cannot be used, or two active rows claim the same name;
            it holds all that was found.
    """
    found = errors.Gathered()
    registry = _built(rows, overrides or {}, found)
    found.tell()
    return registry


def _built(
    rows: Iterable[vendor.Vendor],
    overrides: Mapping[str, Mapping[str, Any]],
    found: errors.Gathered,
) -> Registry:
    """The registry, as far as the overrides can be used."""
    known = {row.keyword: row for row in rows}
    for word, values in overrides.items():
        old = known.get(word)
        changed = row_overrides.apply(old, word, values, words=known, found=found)
        known.pop(word, None)
        if changed is not None:
            known[word] = changed
    ordered = tuple(known[word] for word in sorted(known))
    # Where a row of the configuration takes a name of another, it is the one to be blamed.
    found.faults += _duplicates(sorted(ordered, key=lambda row: row.keyword in overrides))
    return Registry(
        rows=ordered,
        by_word={row.keyword: row for row in ordered},
        resource_names=frozenset(name for row in ordered for name in row.resources.names),
        counted_by_kubelet=frozenset(name for row in ordered for name in row.kubelet_resources),
        owned_pod_keys=frozenset(key for row in ordered for key in row.pod.names)
        | frozenset(keys.DECISION),
        recorded=tuple((row.pod.recorded, row) for row in ordered),
        words_by_resource=_words_by_resource(ordered),
    )


def _words_by_resource(rows: Iterable[vendor.Vendor]) -> Mapping[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for row in rows:
        for name in row.resources.names:
            found[name] = (*found.get(name, ()), row.keyword)
    return found


_UNIQUE: Final[Mapping[str, Callable[[vendor.Vendor], str]]] = {
    "count": lambda row: row.resources.count,
    "register": lambda row: row.node.register,
    "allocated": lambda row: row.pod.allocated,
    "to_allocate": lambda row: row.pod.to_allocate,
}


def _duplicates(rows: Iterable[vendor.Vendor]) -> Iterator[errors.SettingsError]:
    for field, read in _UNIQUE.items():
        owners: dict[str, str] = {}
        for row in rows:
            name = read(row)
            if name and name in owners:
                yield errors.SettingsError(
                    f"vendors.{row.keyword}.{field}", f"{name} is already that of {owners[name]}"
                )
            else:
                owners[name] = row.keyword
