"""``hami-operator vendors``: the device backends as they are in effect, and checks of files."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import yaml

from hami_operator import errors, settings
from hami_operator.cli import documents, options, policies, reference, schema, table
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
    made = commands.add_parser("manifest", help="what names every type, with yours: for kubectl")
    made.add_argument("manifest", choices=policies.MANIFESTS, help="(%(choices)s)")
    made.add_argument(
        "--account",
        default=policies.ACCOUNT,
        metavar="NAMESPACE/NAME",
        help="the operator's ServiceAccount (%(default)s)",
    )
    options.configure_files(made)


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
    print(_said(found, args))
    return 0


# ---- rows


def _said(found: registry.Configured, args: argparse.Namespace) -> str:
    if args.what == "manifest":
        return policies.text(args.manifest, found.registry, args.account).rstrip()
    return _list(found.registry, args.output) if args.what == "list" else _show(found, args)


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
    """Something in a file that cannot be used, or is of no use.

    Attributes:
        line: where it is.
        row: keyword of the device type that it is about; empty for none.
        field: the setting, or the row's field; empty where it is all of it.
        text: what is wrong.
        fatal: whether the file cannot be used.
    """

    line: int
    row: str = ""
    field: str
    text: str
    fatal: bool = True

    def words(self, name: str) -> str:
        """``FILE:LINE: row WORD, field FIELD: what is wrong``."""
        field = f"field {self.field}" if self.row and self.field else self.field
        where = ", ".join(filter(None, (f"row {self.row}" if self.row else "", field)))
        said = f"{where}: {self.text}" if where else self.text
        return f"{name}:{self.line}: {'' if self.fatal else 'warning: '}{said}"


def _check(name: str) -> int:
    found = sorted(check(documents.read(name)), key=lambda one: (one.line, one.field))
    for problem in found:
        print(problem.words(name))
    bad = sum(problem.fatal for problem in found)
    print(f"{name}: {bad} problems" if bad > 1 else f"{name}: {'1 problem' if bad else 'good'}")
    return 1 if bad else 0


def check(file: documents.Document) -> Iterator[Problem]:
    """Everything that is wrong with a configuration file, ours or HAMi's."""
    hamis = _is_hamis(file.content)
    for line, field in file.repeated:
        text = "is there twice; only the last one counts"
        yield _problem(file, field, text, line=line)
    for fault in _faults({"device_config": file.content} if hamis else file.content):
        # Of HAMi's own file, the field is what follows.
        field = fault.field.partition(".")[2] if hamis else fault.field
        yield _problem(file, field, fault.problem)
    theirs = file.content if hamis else file.content.get("device_config")
    if isinstance(theirs, Mapping):
        for place, meant in hamifile.read(theirs, registry.BUILT_IN).unknown.items():
            field = place if hamis else f"device_config.{place}"
            yield _problem(file, field, f"is not known, and ignored{meant}", fatal=False)


def _problem(
    file: documents.Document, field: str, text: str, *, fatal: bool = True, line: int = 0
) -> Problem:
    """The problem with its line, and with its row where it is one of ours."""
    path = documents.find(file.content, field)
    line = line or file.line(field)
    section, _, rest = field.partition(".")
    if section != "vendors" or not rest:
        return Problem(line=line, field=field, text=text, fatal=fatal)
    row = str(path[1]) if path[1:] else rest
    name = rest.removeprefix(row).removeprefix(".")
    return Problem(line=line, row=row, field=name, text=text, fatal=fatal)


def _is_hamis(content: Mapping[str, Any]) -> bool:
    """Whether it is HAMi's file: its sections outnumber our settings."""
    sections = {row.file.path[0] for row in registry.default() if row.file.path}
    ours = {key.partition(".")[0] for key in settings.KEYS}
    return len(content.keys() & sections) > len(content.keys() & ours)


def _faults(content: Mapping[str, Any]) -> list[errors.SettingsError]:
    """What is wrong with settings: with each of them, then with the rows that can be read."""
    found = errors.Gathered()
    with found.gathering():
        settings.load(content)
    theirs, own = content.get("device_config"), content.get("vendors")
    rows = own if isinstance(own, Mapping) else {}
    rows = {word: row for word, row in rows.items() if _is_row(word, row)}
    theirs = theirs if isinstance(theirs, Mapping) else None
    with found.gathering():
        registry.configured(settings.Settings(device_config=theirs, vendors=rows))
    return found.faults


def _is_row(word: Any, row: Any) -> bool:
    return isinstance(word, str) and isinstance(row, Mapping)
