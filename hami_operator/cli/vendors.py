"""``hami-operator vendors``: the device backends as they are in effect, and checks of files."""

from __future__ import annotations

import argparse
import copy
import dataclasses
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import yaml

from hami_operator import errors, settings
from hami_operator.cli import documents, options, reference, schema, table
from hami_operator.devices import hamifile, overrides, registry, vendor

_HEADS: Final = ("WORD", "CARDS", "MEMORY", "CORES", "FOUND BY", "LOCK", "ROW")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the sub-commands."""
    commands = parser.add_subparsers(dest="what", metavar="WHAT", required=True)
    listed = commands.add_parser("list", help="all rows, with everything that is configured")
    options.configure_files(listed)
    _output(listed, ("table", "json", "yaml", "markdown"))
    shown = commands.add_parser("show", help="one row, in the words of the configuration file")
    shown.add_argument("word", metavar="WORD", help="keyword of the row, as list prints it")
    options.configure_files(shown)
    _output(shown, ("table", "json", "yaml"))
    checked = commands.add_parser("check", help="validate a configuration file, ours or HAMi's")
    checked.add_argument("file", metavar="FILE")
    commands.add_parser("schema", help="JSON Schema of the configuration file")


def _output(parser: argparse.ArgumentParser, forms: Sequence[str]) -> None:
    parser.add_argument("-o", "--output", choices=forms, default="table", help="(%(default)s)")


def run(args: argparse.Namespace) -> int:
    """Print what was asked for; 1 where a file does not pass."""
    if args.what == "check":
        return _check(args.file)
    if args.what == "schema":
        print(schema.text())
        return 0
    found = registry.configured(options.load(args, os.environ))
    for warning in found.warnings:
        print(warning, file=sys.stderr)
    print(_list(found.registry, args.output) if args.what == "list" else _show(found, args))
    return 0


# ---- rows


def _list(rows: registry.Registry, form: str) -> str:
    if form == "markdown":
        return reference.page(rows)
    if form == "table":
        return "\n".join(table.columns(map(_cells, rows), heads=_HEADS))
    return _written({row.keyword: overrides.plain(row) for row in rows}, form)


def _cells(row: vendor.Vendor) -> Sequence[str]:
    names = row.resources
    unit = row.mib_per_unit
    lock = overrides.plain(row).get("lock", "none")
    memory = f"{names.memory} x {unit} MiB" if names.memory and unit > 1 else names.memory
    return (
        row.keyword,
        names.count,
        memory or "-",
        names.cores or "-",
        ", ".join(reference.sources(row)) or "-",
        lock,
        _origin(row),
    )


def _origin(row: vendor.Vendor) -> str:
    built_in = registry.default().by_word.get(row.keyword)
    return "new" if built_in is None else "built-in" if row == built_in else "changed"


def _show(found: registry.Configured, args: argparse.Namespace) -> str:
    row = found.registry.by_word.get(args.word)
    if row is None:
        problem = f"no such row{settings.closest(args.word, found.registry.by_word)}"
        raise errors.SettingsError(args.word, problem)
    said = overrides.plain(row)
    if args.output != "table":
        return _written({row.keyword: said}, args.output)
    return "\n".join(table.columns((name, _cell(value)) for name, value in said.items()))


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {size}" for name, size in value.items()) or "-"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _written(values: Mapping[str, Any], form: str) -> str:
    """As an override of the configuration file, which would change nothing."""
    whole = {"vendors": values}
    if form == "json":
        return json.dumps(whole, indent=2)
    return str(yaml.safe_dump(whole, sort_keys=False, width=99)).rstrip()


# ---- checks


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """Something in a file that cannot be used, or is of no use."""

    line: int
    field: str
    text: str
    fatal: bool = True

    def words(self, name: str) -> str:
        """``FILE:LINE: row WORD, field FIELD: what is wrong``."""
        section, _, place = self.field.partition(".")
        word, _, field = place.rpartition(".")
        where = f"row {word}, field {field}" if section == "vendors" and word else self.field
        if section == "vendors" and place and not word:
            where = f"row {place}"
        said = f"{where}: {self.text}" if where else self.text
        return f"{name}:{self.line}: {'' if self.fatal else 'warning: '}{said}"


def _check(name: str) -> int:
    file = documents.read(name)
    found = sorted(check(file), key=lambda one: (one.line, one.field))
    for problem in found:
        print(problem.words(name))
    bad = sum(problem.fatal for problem in found)
    print(f"{name}: {bad} problems" if bad > 1 else f"{name}: {'1 problem' if bad else 'good'}")
    return 1 if bad else 0


def check(file: documents.Document) -> Iterator[Problem]:
    """Everything that is wrong with a configuration file, ours or HAMi's."""
    for line, key in file.repeated:
        yield Problem(line=line, field=key, text="is there twice; only the last one counts")
    prefix = "device_config." if _is_hamis(file.content) else ""
    content: dict[str, Any] = copy.deepcopy(dict(file.content))
    told: set[str] = set()
    while (error := _first_error(content, hamis=bool(prefix))) is not None:
        field = error.field.removeprefix(prefix) if error.field != prefix.rstrip(".") else ""
        path = documents.find(content, field)
        if not _follows(field, path, told):
            yield Problem(line=file.line(field), field=field, text=error.problem)
        told.add(field)
        if not path:
            return
        _drop(content, path)
    yield from _warnings(file, content, hamis=bool(prefix))


def _is_hamis(content: Mapping[str, Any]) -> bool:
    """Whether it is HAMi's file: its sections outnumber our settings."""
    sections = {row.file.path[0] for row in registry.default() if row.file.path}
    ours = {key.partition(".")[0] for key in settings.KEYS}
    return len(content.keys() & sections) > len(content.keys() & ours)


def _first_error(content: Mapping[str, Any], *, hamis: bool) -> errors.SettingsError | None:
    try:
        given = settings.load({"device_config": content} if hamis else content)
        registry.configured(given)
    except errors.SettingsError as error:
        return error
    return None


def _follows(field: str, path: documents.Path, told: set[str]) -> bool:
    """Whether the problem is only that something wrong was left out before."""
    if not field:
        return bool(told)
    row = field.rpartition(".")[0]
    missing = str(path[-1]) != field.rpartition(".")[2] if path else False
    return field in told or (missing and any(one.startswith(f"{row}.") for one in told))


def _drop(content: Any, path: documents.Path) -> None:
    """Leave out what cannot be used, to find what else is wrong.

    A list goes as a whole, since the places of its other entries must stay what they are.
    """
    numbered = [at for at, key in enumerate(path) if isinstance(key, int) and at]
    *outer, last = path[: numbered[0]] if numbered else path
    for key in outer:
        content = content[key]
    del content[last]


def _warnings(
    file: documents.Document, content: Mapping[str, Any], *, hamis: bool
) -> Iterator[Problem]:
    theirs = content if hamis else content.get("device_config")
    if not theirs:
        return
    for place, meant in hamifile.read(theirs, registry.BUILT_IN).unknown.items():
        field = place if hamis else f"device_config.{place}"
        text = f"is not known, and ignored{meant}"
        yield Problem(line=file.line(field), field=field, text=text, fatal=False)
