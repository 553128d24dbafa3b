"""HAMi's ``device-config.yaml``, as it is: which rows it changes, and what in it is not known.

Sections and names are data of the rows. A section that is absent or empty leaves its rows as
they are, and active.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from hami_operator import errors, settings
from hami_operator.devices import vendor
from hami_operator.protocol import register

Values = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Read:
    """What the file says.

    Attributes:
        rows: the rows to begin with, those of new chips included.
        overrides: keyword to changes of its row, in our names.
        places: keyword and our name of a change to where the file says it.
        unknown: places of keys that nobody knows, each with what may have been meant.
        faults: what is not a mapping where it should be, sections that are all empty, and values
            that would mislead the device plugins; the field is the place in the file.
    """

    rows: tuple[vendor.Vendor, ...]
    overrides: Mapping[str, Values]
    places: Mapping[tuple[str, str], str]
    unknown: Mapping[str, str]
    faults: tuple[errors.SettingsError, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """The unknown keys as sentences."""
        return tuple(
            f"device-config: {place} is not known, and ignored{meant}"
            for place, meant in self.unknown.items()
        )


def read(document: Any, rows: Iterable[vendor.Vendor]) -> Read:
    """Read the parsed file.

    Args:
        document: what the YAML parser gives.
        rows: the built-in rows.
    """
    problem = ""
    if not isinstance(document, Mapping):
        problem = "is not a mapping of sections"
    elif not any(document.values()):
        problem = "all configurations are empty"
    if problem:
        faults = (errors.SettingsError("", problem),)
        return Read(rows=tuple(rows), overrides={}, places={}, unknown={}, faults=faults)
    return _File(document, tuple(rows)).read()


class _File:
    """One file, section by section."""

    def __init__(self, document: Values, rows: tuple[vendor.Vendor, ...]) -> None:
        self._document = document
        self._rows = list(rows)
        self._overrides: dict[str, Values] = {}
        self._places: dict[tuple[str, str], str] = {}
        self._unknown_keys: dict[str, str] = {}
        self._found = errors.Gathered()

    def read(self) -> Read:
        by_path: dict[tuple[str, ...], list[vendor.Vendor]] = {}
        for row in self._rows:
            if row.file.path:
                by_path.setdefault(row.file.path, []).append(row)
        for path, rows in by_path.items():
            with self._found.gathering():
                self._section(path, rows)
        self._unknown("", self._document, {path[0] for path in by_path})
        return Read(
            rows=tuple(self._rows),
            overrides={word: values for word, values in self._overrides.items() if values},
            places=self._places,
            unknown=self._unknown_keys,
            faults=tuple(self._found.faults),
        )

    def _section(self, path: tuple[str, ...], rows: list[vendor.Vendor]) -> None:
        outer = _mapping(self._document.get(path[0]), path[0]) if path[1:] else self._document
        found, name = outer.get(path[-1]), ".".join(path)
        with self._found.gathering():
            if rows[0].file.word_key:
                self._list(found, name, rows)
            else:
                self._mapped(_mapping(found, name), name, rows)
        if path[1:]:  # what stands beside the list is said of all its rows
            known = rows[0].file.names
            self._unknown(path[0], outer, {path[-1], *known})
            shared = {key: value for key, value in outer.items() if key in known}
            for row in [row for row in self._rows if row.file.path == path]:
                own = self._overrides.get(row.keyword, {})
                said = self._named(row, shared, path[0], known=own)
                self._overrides[row.keyword] = {**said, **own}

    def _mapped(self, section: Values, name: str, rows: list[vendor.Vendor]) -> None:
        """A section of one vendor, whose rows mostly have names of their own in it."""
        for row in _meant(section, rows):
            self._overrides[row.keyword] = self._named(row, section, name)
            self._found.faults += _misleading(row, section, name)
        known = (key for row in rows for key in (*row.file.names, *row.file.plugin))
        self._unknown(name, section, set(known))

    def _list(self, found: Any, name: str, rows: list[vendor.Vendor]) -> None:
        """A list with one entry per chip."""
        if found is not None and not isinstance(found, list):
            raise errors.SettingsError(name, "is not a list of chips")
        file, by_word = rows[0].file, {row.keyword: row for row in rows}
        for position, raw in enumerate(found or ()):
            place = f"{name}[{position}]"
            with self._found.gathering():
                entry = _mapping(raw, place)
                self._unknown(place, entry, {file.word_key, *file.names, *file.plugin})
                word = str(entry.get(file.word_key) or "")
                if not word:
                    raise errors.SettingsError(place, f"has no {file.word_key}")
                row = by_word.get(word) or self._new(word, file, place)
                if row.keyword in self._overrides:
                    raise errors.SettingsError(place, f"{word} is there twice")
                self._overrides[row.keyword] = self._named(row, entry, place)

    def _new(self, word: str, file: vendor.Section, place: str) -> vendor.Vendor:
        if file.make is None:
            raise errors.SettingsError(place, f"{word!r} is no known chip")
        row = file.make(word)
        self._rows.append(row)
        return row

    def _unknown(self, place: str, found: Values, known: set[str]) -> None:
        for key in found:
            if key not in known:
                where = f"{place}.{key}" if place else str(key)
                self._unknown_keys[where] = settings.closest(key, known)

    def _named(
        self, row: vendor.Vendor, section: Values, place: str, known: Values = register.NOTHING
    ) -> Values:
        """The values of a row under our names; places of those that are ``known`` stay."""
        said: dict[str, Any] = {}
        for theirs, ours in row.file.names.items():
            if section.get(theirs) is not None:
                said[ours] = section[theirs]
                if ours not in known:
                    self._places[row.keyword, ours] = f"{place}.{theirs}"
        return said


def _mapping(value: Any, name: str) -> Values:
    """The section; an absent or empty one has no keys."""
    if not value:
        return {}
    if not isinstance(value, Mapping):
        raise errors.SettingsError(name, "is not a mapping")
    return value


def _meant(section: Values, rows: Sequence[vendor.Vendor]) -> Iterator[vendor.Vendor]:
    """The rows that a section speaks of.

    Where several rows have the same names in it, the one whose resource it names is meant, else
    the first.
    """
    alike: dict[tuple[str, ...], list[vendor.Vendor]] = {}
    for row in rows:
        alike.setdefault(tuple(row.file.names), []).append(row)
    for group in alike.values():
        named = {str(value) for value in section.values()}
        yield next((row for row in group if row.resources.count in named), group[0])


def _misleading(row: vendor.Vendor, section: Values, name: str) -> Iterator[errors.SettingsError]:
    """What would be handed on to device plugins and misunderstood there."""
    for key, check in row.file.plugin.items():
        if check and section.get(key) is not None:
            for place, problem in check(section[key]):
                yield errors.SettingsError(f"{name}.{key}{place}", problem)
