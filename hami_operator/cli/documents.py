"""Configuration files in YAML, with the line of everything that they say."""

from __future__ import annotations

import dataclasses
import pathlib
import re
from collections.abc import Mapping
from typing import Any, Final

import yaml

from hami_operator import errors

Path = tuple[Any, ...]
"""Keys and positions that lead to a place of a document."""

_POSITION: Final = re.compile(r"\[(\d+)\]", re.ASCII)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """A file that was read.

    Attributes:
        name: its path, as it was given.
        content: the mapping that it holds; empty for an empty file.
        lines: the line, from 1, of every place of it that is written out there.
        repeated: lines and fields that stand in their mapping a second time.
    """

    name: str
    content: Mapping[str, Any]
    lines: Mapping[Path, int]
    repeated: tuple[tuple[int, str], ...] = ()

    def line(self, field: str) -> int:
        """The line of a field such as ``vendors.Acme.count``, or of what comes closest to it."""
        path = find(self.content, field)
        while path not in self.lines and path:  # it came by an alias
            path = path[:-1]
        return self.lines.get(path, 1)

    def located(self, error: errors.SettingsError) -> errors.SettingsError:
        """The error with file and line before its field, and a word on those found with it."""
        place = f"{self.name}:{self.line(error.field)}"
        field = f"{place}: {error.field}" if error.field else place
        more = len(error.every) - 1
        told = f"; {more} more: hami-operator vendors check {self.name}" if more else ""
        return errors.SettingsError(field, f"{error.problem}{told}")


def read(name: str) -> Document:
    """Read a file.

    Raises:
        errors.SettingsError: it cannot be read, or is no mapping in YAML.
    """
    try:
        text = pathlib.Path(name).read_text(encoding="utf-8")
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        content = yaml.safe_load(text)
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{name}:{mark.line + 1}" if mark is not None else name
        problem = getattr(error, "problem", None) or error
        raise errors.SettingsError(place, f"cannot be read: {problem}") from error
    if content is None:
        return Document(name=name, content={}, lines={})
    if not isinstance(content, Mapping) or root is None:
        raise errors.SettingsError(name, "is not a mapping of settings")
    places = _Places()
    places.add(root, ())
    repeated = tuple(places.repeated)
    return Document(name=name, content=content, lines=places.lines, repeated=repeated)


def find(content: Any, field: str) -> Path:
    """The path of a field, as far as it is there; keys may hold dots themselves."""
    found: list[Any] = []
    place, rest = content, field
    while rest:
        step = _step(place, rest)
        if step is None:
            break
        key, text = step
        place, rest = place[key], rest[len(text) :].removeprefix(".")
        found.append(key)
    return tuple(found)


def written(path: Path) -> str:
    """The field that leads to a path, as `find` reads it."""
    steps = (f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)
    return "".join(steps).removeprefix(".")


def _step(place: Any, rest: str) -> tuple[Any, str] | None:
    """The next key and how the field writes it; the longest of those that fit."""
    if isinstance(place, list):
        position = _POSITION.match(rest)
        inside = position is not None and int(position[1]) < len(place)
        return (int(position[1]), position[0]) if position and inside else None
    if not isinstance(place, Mapping):
        return None
    fitting = [key for key in place if _begins(rest, str(key))]
    key = max(fitting, key=lambda key: len(str(key)), default=None)
    return None if key is None else (key, str(key))


def _begins(rest: str, key: str) -> bool:
    return bool(key) and rest.startswith(key) and rest[len(key) : len(key) + 1] in {"", ".", "["}


class _Places:
    """Where everything stands; a key's place is its own line, not that of its value."""

    def __init__(self) -> None:
        self.lines: dict[Path, int] = {}
        self.repeated: list[tuple[int, str]] = []
        self._seen: set[int] = set()  # an alias may stand below what it means

    def add(self, node: yaml.Node, path: Path) -> None:
        if id(node) in self._seen:
            return
        self._seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            self._mapping(node, path)
        elif isinstance(node, yaml.SequenceNode):
            for position, value in enumerate(node.value):
                self.lines[*path, position] = value.start_mark.line + 1
                self.add(value, (*path, position))

    def _mapping(self, node: yaml.MappingNode, path: Path) -> None:
        own = set()
        for key, value in node.value:
            name, line = _named(key), key.start_mark.line + 1
            if name in own:
                self.repeated.append((line, written((*path, name))))
            own.add(name)
            self.lines[*path, name] = line
            self.add(value, (*path, name))


def _named(key: yaml.Node) -> Any:
    """The key as the parsed content has it; the merge key is none."""
    if key.tag == "tag:yaml.org,2002:merge":
        return "<<"
    return yaml.SafeLoader("").construct_object(key, deep=True)
