"""The published schema accepts what the operator reads, and refuses what is misspelt."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from hami_operator import settings
from hami_operator.cli import schema
from hami_operator.devices import registry
from tests.conformance import samples
from tests.unit.devices import test_hamifile

ROOT = pathlib.Path(__file__).parents[2]
SCHEMA = schema.build()
TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": int | float,
    "boolean": bool,
    "null": type(None),
}


def problems(value: Any, shape: Mapping[str, Any], place: str = "") -> Iterator[str]:
    """Where a value breaks a schema, by the keywords that ours uses; any other one is an error."""
    for word, limit in shape.items():
        yield from _WORDS[word](value, limit, place, shape)


def _ref(value: Any, limit: str, place: str, _: Any) -> Iterator[str]:
    yield from problems(value, SCHEMA["$defs"][limit.removeprefix("#/$defs/")], place)


def _type(value: Any, limit: str | list[str], place: str, _: Any) -> Iterator[str]:
    listed = [limit] if isinstance(limit, str) else limit
    fits = [isinstance(value, TYPES[name]) for name in listed]
    if not any(fits) or (isinstance(value, bool) and "boolean" not in listed):
        yield f"{place}: type"


def _properties(value: Any, limit: Mapping[str, Any], place: str, _: Any) -> Iterator[str]:
    for name in limit.keys() & value.keys() if isinstance(value, dict) else ():
        yield from problems(value[name], limit[name], f"{place}.{name}")


def _additional(value: Any, limit: Any, place: str, shape: Mapping[str, Any]) -> Iterator[str]:
    for name in value.keys() - shape.get("properties", {}).keys():
        if limit is False:
            yield f"{place}.{name}: unknown"
        else:
            yield from problems(value[name], limit, f"{place}.{name}")


def _any_of(value: Any, limit: list[Any], place: str, _: Any) -> Iterator[str]:
    if all(any(problems(value, one)) for one in limit):
        yield f"{place}: anyOf"


def _all_of(value: Any, limit: list[Any], place: str, _: Any) -> Iterator[str]:
    for one in limit:
        yield from problems(value, one, place)


def _items(value: Any, limit: Any, place: str, _: Any) -> Iterator[str]:
    for at, item in enumerate(value if isinstance(value, list) else ()):
        yield from problems(item, limit, f"{place}[{at}]")


def _unless(holds: Any) -> Any:
    def check(value: Any, limit: Any, place: str, _: Any) -> Iterator[str]:
        try:
            if not holds(value, limit):
                yield f"{place}: {limit}"
        except TypeError:
            return  # limits of numbers and texts say nothing about other types

    return check


_SAID = _unless(lambda value, limit: True)
_WORDS = {
    "$ref": _ref, "type": _type, "properties": _properties, "additionalProperties": _additional,
    "anyOf": _any_of, "allOf": _all_of, "items": _items, "$schema": _SAID, "title": _SAID,
    "$defs": _SAID, "enum": _unless(lambda value, limit: value in limit),
    "const": _unless(lambda value, limit: value is limit),
    "pattern": _unless(lambda value, limit: re.search(limit, value)),
    "minimum": _unless(lambda value, limit: value >= limit),
    "maximum": _unless(lambda value, limit: value <= limit),
    "exclusiveMinimum": _unless(lambda value, limit: value > limit),
    "minLength": _unless(lambda value, limit: len(value) >= limit),
    "minProperties": _unless(lambda value, limit: len(value) >= limit),
    "required": _unless(lambda value, limit: set(limit) <= value.keys()),
}  # fmt: skip


def shipped() -> Any:
    config = yaml.safe_load((ROOT / "manifests" / "configmap.yaml").read_text())
    return yaml.safe_load(config["data"]["config.yaml"])


def every_row() -> Any:
    """All rows in the words of the file, as ``vendors list -o yaml`` writes them."""
    return {"vendors": {row.keyword: dict(row_of(row)) for row in registry.default()}}


def row_of(row: Any) -> Any:
    from hami_operator.devices import overrides

    return overrides.plain(row)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param({}, id="nothing"),
        pytest.param(shipped(), id="the shipped ConfigMap"),
        pytest.param({"vendors": dict(samples.CONFIGURED)}, id="a new row"),
        pytest.param(every_row(), id="every row, said in full"),
        pytest.param({"vendors": {"Acme": {"enabled": False}}}, id="a row that is off"),
        pytest.param(
            {"vendors": {"A": {"resourceCountName": "a", "register": "b", "allocated": "c"}}},
            id="a new row in HAMi's names",
        ),
        pytest.param(
            {"device_config": yaml.safe_load(test_hamifile.SHIPPED)}, id="HAMi's shipped file"
        ),
        pytest.param({"device_config": {"nvidia": {"new": 1}}}, id="what nobody knows in it"),
        pytest.param({"device_timeout": "1h5m", "retry_period": 0.5}, id="durations"),
        pytest.param({"admission": {"excluded_namespaces": ["a", "b"]}}, id="a list of names"),
        pytest.param({"admission": {"excluded_namespaces": "a, b"}}, id="names in one text"),
    ],
)
def test_what_the_operator_reads_is_accepted(content: Any) -> None:
    assert list(problems(content, SCHEMA)) == []
    registry.configured(settings.load(content))


@pytest.mark.parametrize(
    "content",
    [
        pytest.param({"device_timout": "5m"}, id="a misspelt setting"),
        pytest.param({"admission": {"strct": True}}, id="a misspelt setting of a section"),
        pytest.param({"log_format": "jsn"}, id="a word that is none of the choice"),
        pytest.param({"device_timeout": "5 minutes"}, id="no duration"),
        pytest.param({"device_timeout": 0}, id="a duration of 0"),
        pytest.param({"bind_workers": 0}, id="a count of 0"),
        pytest.param({"namespace": "A B"}, id="no name"),
        pytest.param({"http_bind": "host"}, id="no port"),
        pytest.param({"leader_elect": "perhaps"}, id="neither true nor false"),
        pytest.param({"vendors": {"NVIDIA": {"cuont": "a/b"}}}, id="a misspelt field of a row"),
        pytest.param({"vendors": {"NVIDA": {"default_cores": 1}}}, id="a misspelt row"),
        pytest.param({"vendors": {"NVIDIA": {"topology_aware": True}}}, id="another row's option"),
        pytest.param({"vendors": {"NVIDIA": {"default_cores": -1}}}, id="a negative amount"),
        pytest.param({"vendors": {"NVIDIA": {"checks": ["F99"]}}}, id="a check of no such name"),
        pytest.param({"vendors": {"NVIDIA": {"core_policy": "f"}}}, id="no core policy"),
        pytest.param({"vendors": {"Acme": {"count": "a", "register": "b"}}}, id="half a new row"),
        pytest.param({"device_config": {}}, id="HAMi's file with nothing in it"),
        pytest.param({"device_config": {"iluvatars": [{}]}}, id="a chip without a word"),
        pytest.param({"device_config": {"nvidia": {"defaultMemory": "a"}}}, id="no amount"),
    ],
)
def test_what_the_operator_refuses_is_refused(content: Any) -> None:
    assert list(problems(content, SCHEMA)) != []
    with pytest.raises(Exception, match=r".+"):
        registry.configured(settings.load(content))


@pytest.mark.parametrize("key", settings.KEYS)
def test_every_setting_is_in_the_schema(key: str) -> None:
    place = SCHEMA
    for part in key.split("."):
        place = place["properties"][part]
    assert place
