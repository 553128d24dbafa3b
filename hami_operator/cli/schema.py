"""JSON Schema of the configuration file, made from what reads it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from hami_operator import settings
from hami_operator.devices import overrides, registry, vendor

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_NEEDED: Final = ("count", "register", "allocated")


def text() -> str:
    """The schema as it is published in ``docs/configuration.schema.json``."""
    return json.dumps(build(), indent=2)


def build() -> dict[str, Any]:
    """The schema: every setting, every row, and HAMi's file where it is embedded."""
    flat = {key: dict(settings.shape(key)) for key in settings.KEYS}
    flat["vendors"] = _vendors()
    flat["device_config"] = _hamis(registry.BUILT_IN)
    top: dict[str, Any] = {}
    for key, shape in flat.items():
        section, dot, name = key.partition(".")
        if dot:
            top.setdefault(section, _object({}))["properties"][name] = shape
        else:
            top[key] = shape
    head = {"$schema": _DIALECT, "title": "Configuration of hami-operator"}
    return {**head, **_object(top), "$defs": _rows()}


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties), "additionalProperties": False}


def _rows() -> dict[str, Any]:
    """What may be said of rows, once for all rows that are alike in that."""
    return {_like(row): _object(overrides.fields(row)) for row in registry.default()}


def _like(row: vendor.Vendor) -> str:
    """The first row of which the same may be said."""
    fields = overrides.fields(row)
    return next(one.keyword for one in registry.default() if overrides.fields(one) == fields)


def _vendors() -> dict[str, Any]:
    """Rows that are known by their keywords; any other one is new, and must say all it needs."""
    known = {row.keyword: {"$ref": f"#/$defs/{_like(row)}"} for row in registry.default()}
    aliases = {ours: theirs for theirs, ours in vendor.PLAIN.items()}
    said = [
        {"anyOf": [{"required": [name]} for name in (need, aliases.get(need)) if name]}
        for need in _NEEDED
    ]
    off = {"properties": {"enabled": {"const": False}}, "required": ["enabled"]}
    new = {**_object(overrides.fields(None)), "anyOf": [{"allOf": said}, off]}
    return {"type": "object", "properties": known, "additionalProperties": new}


def _hamis(rows: Iterable[vendor.Vendor]) -> dict[str, Any]:
    """HAMi's sections; what nobody knows in them is ignored with a warning, so it may stand."""
    top: dict[str, Any] = {}
    for row in (row for row in rows if row.file.path):
        fields = overrides.fields(row)
        names = {name: _absent(fields[ours]) for name, ours in row.file.names.items()}
        names |= {name: {} for name in row.file.plugin}
        *outer, last = row.file.path
        place = top
        for section in outer:
            place = place.setdefault(section, {"type": ["object", "null"], "properties": names})
            place = place["properties"] = dict(place["properties"])
        if row.file.word_key:
            word = {row.file.word_key: {"type": "string", "minLength": 1}}
            entry = {"type": "object", "properties": names | word, "required": [*word]}
            place[last] = {"type": ["array", "null"], "items": entry}
        else:
            known = place.get(last, {}).get("properties", {})
            place[last] = {"type": ["object", "null"], "properties": known | names}
    return {"type": "object", "minProperties": 1, "properties": top}


def _absent(shape: Mapping[str, Any]) -> dict[str, Any]:
    return {"anyOf": [shape, {"type": "null"}]}
