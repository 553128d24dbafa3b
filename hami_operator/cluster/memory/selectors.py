"""Label and field selectors: from the text of a query to a test on an object."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from hami_operator.cluster.memory import refusals, resources

Labels = Mapping[str, str]

_TOKEN = re.compile(r"\s*(==|!=|=|!|,|\(|\)|<|>|[^\s=!,()<>]+)")
_FIELD_TERM = re.compile(r"([^=!,]+?)(==|!=|=)(.*)", re.DOTALL)
_END: Final = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on labels; ``operator`` is one of `OPERATORS`."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Labels) -> bool:
        """Whether the labels meet the condition."""
        return OPERATORS[self.operator](labels.get(self.key), self.values)


@dataclasses.dataclass(frozen=True, slots=True)
class FieldTerm:
    """One condition on a field of the object; a missing field counts as the empty text."""

    path: tuple[str, ...]
    value: str
    equal: bool

    def matches(self, obj: Mapping[str, Any]) -> bool:
        """Whether the object meets the condition."""
        return (_field_text(obj, self.path) == self.value) is self.equal


@dataclasses.dataclass(frozen=True, slots=True)
class Selector:
    """What a LIST, a WATCH or a collection DELETE is about; all conditions must hold."""

    namespace: str = ""
    labels: tuple[Requirement, ...] = ()
    fields: tuple[FieldTerm, ...] = ()

    def matches(self, obj: Mapping[str, Any]) -> bool:
        """Whether the object is selected."""
        metadata = obj["metadata"]
        if self.namespace and metadata.get("namespace") != self.namespace:
            return False
        if self.labels:
            labels = metadata.get("labels") or {}
            if not all(requirement.matches(labels) for requirement in self.labels):
                return False
        return all(term.matches(obj) for term in self.fields)


ALL: Final = Selector()


def _is_greater(value: str | None, operand: str) -> bool:
    return value is not None and value.isdecimal() and int(value) > int(operand)


def _is_less(value: str | None, operand: str) -> bool:
    return value is not None and value.isdecimal() and int(value) < int(operand)


OPERATORS: Final[Mapping[str, Callable[[str | None, tuple[str, ...]], bool]]] = {
    "In": lambda value, values: value is not None and value in values,
    "NotIn": lambda value, values: value is None or value not in values,
    "Exists": lambda value, values: value is not None,
    "DoesNotExist": lambda value, values: value is None,
    "Gt": lambda value, values: _is_greater(value, values[0]),
    "Lt": lambda value, values: _is_less(value, values[0]),
}


def parse(
    resource: resources.Resource, *, namespace: str = "", labels: str = "", fields: str = ""
) -> Selector:
    """The selector of a query.

    Raises:
        refusals.Refused: 400, the text cannot be read or names an unknown field.
    """
    if not (namespace or labels or fields):
        return ALL
    return Selector(namespace, parse_labels(labels), parse_fields(resource, fields))


def parse_fields(resource: resources.Resource, text: str) -> tuple[FieldTerm, ...]:
    """The conditions of a ``fieldSelector``.

    Raises:
        refusals.Refused: 400, the text cannot be read or names an unknown field.
    """
    return tuple(_field_term(resource, part) for part in text.split(",") if part)


def _field_term(resource: resources.Resource, text: str) -> FieldTerm:
    match = _FIELD_TERM.fullmatch(text)
    if match is None:
        raise refusals.bad_request(f"invalid selector: '{text}'; can't understand '{text}'")
    name, operator, value = match.groups()
    return FieldTerm(_field_path(resource, name), value, operator != "!=")


def _field_path(resource: resources.Resource, name: str) -> tuple[str, ...]:
    if name == "metadata.name" or (name == "metadata.namespace" and resource.namespaced):
        return tuple(name.split("."))
    if name in resource.fields:
        return resource.fields[name]
    if resource.fields:
        raise refusals.bad_request(f"field label not supported: {name}")
    known = '"metadata.name", "metadata.namespace"'
    raise refusals.bad_request(f'"{name}" is not a known field selector: only {known}')


def _field_text(obj: Mapping[str, Any], path: tuple[str, ...]) -> str:
    value: Any = obj
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    if isinstance(value, bool) or (value is None and path[-1] in ("unschedulable", "hostNetwork")):
        return "true" if value else "false"
    return "" if value is None else str(value)


def parse_labels(text: str) -> tuple[Requirement, ...]:
    """The conditions of a ``labelSelector``.

    Raises:
        refusals.Refused: 400, the text cannot be read.
    """
    return _LabelParser(text).requirements() if text.strip() else ()


class _LabelParser:
    """Reads ``a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1``."""

    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text.strip())
        self._next = 0

    def requirements(self) -> tuple[Requirement, ...]:
        found = [self._requirement()]
        while (mark := self._take()) != _END:
            if mark != ",":
                raise refusals.bad_request(f"found '{mark}', expected: ',' or 'end of string'")
            found.append(self._requirement())
        return tuple(found)

    def _peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else _END

    def _take(self) -> str:
        token = self._peek()
        self._next += 1
        return token

    def _word(self, *, may_be_empty: bool = False) -> str:
        token = self._peek()
        if _is_word(token):
            return self._take()
        if may_be_empty:
            return ""
        raise _unreadable(token, "identifier")

    def _requirement(self) -> Requirement:
        if self._peek() == "!":
            self._take()
            return Requirement(self._word(), "DoesNotExist")
        key = self._word()
        if self._peek() in (_END, ","):
            return Requirement(key, "Exists")
        return self._comparison(key, self._take())

    def _comparison(self, key: str, operator: str) -> Requirement:
        if operator in ("=", "=="):
            return Requirement(key, "In", (self._word(may_be_empty=True),))
        if operator == "!=":
            return Requirement(key, "NotIn", (self._word(may_be_empty=True),))
        if operator in ("in", "notin"):
            return Requirement(key, "In" if operator == "in" else "NotIn", self._values())
        if operator in ("<", ">"):
            return Requirement(key, "Gt" if operator == ">" else "Lt", (self._integer(),))
        raise _unreadable(operator, "in, notin, =, ==, !=, gt, lt")

    def _integer(self) -> str:
        word = self._word()
        if word.isdecimal():
            return word
        raise _unreadable(word, "an integer")

    def _values(self) -> tuple[str, ...]:
        if (mark := self._take()) != "(":
            raise _unreadable(mark, "'('")
        found = [self._word(may_be_empty=True)]
        while (mark := self._take()) == ",":
            found.append(self._word(may_be_empty=True))
        if mark != ")":
            raise _unreadable(mark, "',' or ')'")
        return tuple(found)


def _is_word(token: str) -> bool:
    return token not in (_END, "==", "!=", "=", "!", ",", "(", ")", "<", ">")


def _unreadable(found: str, expected: str) -> refusals.Refused:
    return refusals.bad_request(
        f"unable to parse requirement: found '{found}' expected: {expected}"
    )


def from_object(selector: Mapping[str, Any] | None) -> tuple[Requirement, ...]:
    """The conditions of a LabelSelector object; none (or an empty one) selects everything.

    That is the meaning of ``namespaceSelector`` and ``objectSelector`` of webhooks. A condition
    with an unknown operator matches nothing.
    """
    selector = selector or {}
    equal = [
        Requirement(key, "In", (value,))
        for key, value in (selector.get("matchLabels") or {}).items()
    ]
    return (*equal, *_expressions(selector.get("matchExpressions") or ()))


def _expressions(rows: Iterable[Mapping[str, Any]]) -> Iterable[Requirement]:
    for row in rows:
        operator = row.get("operator", "")
        values = tuple(row.get("values") or ())
        if operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
            operator, values = "In", ()
        yield Requirement(row.get("key", ""), operator, values)
