"""Label requirements and label selectors (``metav1.LabelSelector``).

The same requirements serve node selectors, which know two operators more.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from hami_operator import errors

_NAME: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)", re.ASCII)
_PREFIX: Final = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII
)
_INTEGER: Final = re.compile(r"[+-]?\d{1,400}", re.ASCII)
_INT64: Final = 2**63


class Operator(enum.Enum):
    """How the value of a label is compared."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Requirement:
    """One condition on one label; build it with ``requirement``, which checks it."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether labels satisfy it."""
        return _MATCH[self.operator](self.values, labels.get(self.key))


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Selector:
    """All requirements must hold. Absent (``null``) selects nothing, empty everything."""

    requirements: tuple[Requirement, ...] = ()
    absent: bool = False

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether it selects an object with these labels."""
        return not self.absent and all(one.matches(labels) for one in self.requirements)


NOTHING: Final = Selector(absent=True)
EVERYTHING: Final = Selector()
_SELECTOR_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")


def read(raw: object) -> Selector:
    """A selector from its API form.

    Raises:
        errors.DecodeError: the API server would not take it; names the field.
    """
    if raw is None:
        return NOTHING
    if not isinstance(raw, Mapping):
        raise errors.DecodeError("labelSelector", "type", "is not an object")
    exact = _section(raw, "matchLabels", Mapping, {})
    found = [_checked(key, "In", [value]) for key, value in exact.items()]
    expressions = _section(raw, "matchExpressions", list | tuple, [])
    return Selector(requirements=(*found, *map(_expression, expressions)))


def requirement(item: Mapping[str, Any]) -> Requirement | None:
    """A requirement from its API form, or None where it does not parse."""
    key, values = item.get("key"), item.get("values") or ()
    operator = _OPERATORS.get(str(item.get("operator")))
    if operator is None or not isinstance(key, str) or not isinstance(values, list | tuple):
        return None
    if not is_key(key) or not all(isinstance(value, str) and is_value(value) for value in values):
        return None
    if not _COUNT[operator](values):
        return None
    return Requirement(key=key, operator=operator, values=frozenset(values))


@functools.lru_cache(maxsize=4096)
def is_key(text: str) -> bool:
    """Whether a text is a label key: an optional DNS prefix, and a name of at most 63."""
    prefix, slash, name = text.rpartition("/")
    if slash and (len(prefix) > 253 or not _PREFIX.fullmatch(prefix)):
        return False
    return _NAME.fullmatch(name) is not None


@functools.lru_cache(maxsize=4096)
def is_value(text: str) -> bool:
    """Whether a text is a label value: empty, or a name of at most 63."""
    return not text or _NAME.fullmatch(text) is not None


def integer(text: str) -> int | None:
    """A decimal int64, leading zeros allowed; None for anything else."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -_INT64 <= number < _INT64 else None


def _section(raw: Mapping[str, Any], key: str, kind: Any, default: Any) -> Any:
    value = raw.get(key)
    if value is None:
        return default
    if not isinstance(value, kind):
        raise errors.DecodeError("labelSelector", key, "is of the wrong type")
    return value


def _expression(item: object) -> Requirement:
    if not isinstance(item, Mapping) or item.get("operator") not in _SELECTOR_OPERATORS:
        raise errors.DecodeError("labelSelector", "matchExpressions", f"{item!r} does not parse")
    return _checked(item.get("key"), item["operator"], item.get("values"))


def _checked(key: object, operator: str, values: object) -> Requirement:
    found = requirement({"key": key, "operator": operator, "values": values})
    if found is None:
        raise errors.DecodeError("labelSelector", str(key), f"{operator} {values!r} is not legal")
    return found


def _compare(values: frozenset[str], value: str | None, *, sign: int) -> bool:
    number = None if value is None else integer(value)
    (operand,) = values
    bound = integer(operand)
    return number is not None and bound is not None and sign * (number - bound) > 0


_OPERATORS: Final = {operator.value: operator for operator in Operator}
_MATCH: Final[Mapping[Operator, Callable[[frozenset[str], str | None], bool]]] = {
    Operator.IN: lambda values, value: value in values,
    Operator.NOT_IN: lambda values, value: value not in values,
    Operator.EXISTS: lambda _, value: value is not None,
    Operator.DOES_NOT_EXIST: lambda _, value: value is None,
    Operator.GT: functools.partial(_compare, sign=1),
    Operator.LT: functools.partial(_compare, sign=-1),
}
_COUNT: Final[Mapping[Operator, Callable[[Sequence[str]], bool]]] = {
    Operator.IN: lambda values: len(values) > 0,
    Operator.NOT_IN: lambda values: len(values) > 0,
    Operator.EXISTS: lambda values: len(values) == 0,
    Operator.DOES_NOT_EXIST: lambda values: len(values) == 0,
    Operator.GT: lambda values: len(values) == 1 and integer(values[0]) is not None,
    Operator.LT: lambda values: len(values) == 1 and integer(values[0]) is not None,
}
