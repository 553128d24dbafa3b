"""Node selectors (``v1.NodeSelector``) and node affinity, required and preferred."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Final

from hami_operator.scheduling import fields, labels

_NAME_FIELD: Final = "metadata.name"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class NamePin:
    """A condition on the node's name; ``wanted`` False turns it round."""

    name: str
    wanted: bool


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Term:
    """Conditions that must all hold.

    Attributes:
        expressions: on labels.
        pins: on the node's name.
        names: names that ``In`` pins leave over, as written, even where the term does not
            parse; None where no pin narrows. kube-scheduler narrows by these alone.
        legal: a term that does not parse, or is empty, matches no node.
    """

    expressions: tuple[labels.Requirement, ...] = ()
    pins: tuple[NamePin, ...] = ()
    names: frozenset[str] | None = None
    legal: bool = True

    def matches(self, name: str, node_labels: Mapping[str, str]) -> bool:
        """Whether a node satisfies the term."""
        return (
            self.legal
            and all(one.matches(node_labels) for one in self.expressions)
            and all((pin.name == name) is pin.wanted for pin in self.pins)
        )


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class NodeSelector:
    """Terms of which one must hold; without terms it matches no node."""

    terms: tuple[Term, ...] = ()

    def matches(self, name: str, node_labels: Mapping[str, str]) -> bool:
        """Whether a node satisfies one of the terms."""
        return any(term.matches(name, node_labels) for term in self.terms)

    def names(self) -> frozenset[str] | None:
        """The names that all terms together leave over; None where one leaves all."""
        found: set[str] = set()
        for term in self.terms:
            if term.names is None:
                return None
            found |= term.names
        return frozenset(found) if self.terms else None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Preference:
    """A term that is worth ``weight`` where it holds."""

    weight: int
    term: Term


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Affinity:
    """Node affinity; ``required`` None puts no constraint."""

    required: NodeSelector | None = None
    preferred: tuple[Preference, ...] = ()


NONE: Final = Affinity()


def read_affinity(raw: Mapping[str, Any], path: str, found: fields.Fields) -> Affinity:
    """``nodeAffinity`` as it stands in a pod's spec or in a scheduler profile."""
    if not raw:
        return NONE
    required = None
    if raw.get(_REQUIRED) is not None:
        required = read(found.mapping(raw, _REQUIRED, path), f"{path}{_REQUIRED}.", found)
    preferred = tuple(_preferences(raw, path, found))
    return Affinity(required=required, preferred=preferred)


def read(raw: Mapping[str, Any], path: str, found: fields.Fields) -> NodeSelector:
    """A node selector; terms that do not parse stay, and match nothing."""
    terms = found.items(raw, "nodeSelectorTerms", path)
    return NodeSelector(terms=tuple(read_term(term) for _, term in terms))


def read_term(raw: Mapping[str, Any]) -> Term:
    """One term of a node selector or of a preference."""
    expressions = raw.get("matchExpressions") or ()
    pins = raw.get("matchFields") or ()
    if not isinstance(expressions, list | tuple) or not isinstance(pins, list | tuple):
        return Term(legal=False)
    names = _names(pins)
    wanted = [labels.requirement(one) for one in expressions if isinstance(one, Mapping)]
    pinned = [_pin(one) for one in pins if isinstance(one, Mapping)]
    kept = tuple(one for one in wanted if one is not None)
    kept_pins = tuple(pin for pin in pinned if pin is not None)
    complete = len(kept) == len(expressions) and len(kept_pins) == len(pins)
    if not complete or not (expressions or pins):
        return Term(names=names, legal=False)
    return Term(expressions=kept, pins=kept_pins, names=names)


def _preferences(raw: Mapping[str, Any], path: str, found: fields.Fields) -> Iterable[Preference]:
    for place, item in found.items(raw, _PREFERRED, path):
        weight = found.integer(item, "weight", f"{place}.")
        term = read_term(found.mapping(item, "preference", f"{place}."))
        if weight and term.legal:
            yield Preference(weight=weight, term=term)


def _pin(raw: Mapping[str, Any]) -> NamePin | None:
    values, operator = raw.get("values"), raw.get("operator")
    if raw.get("key") != _NAME_FIELD or operator not in ("In", "NotIn"):
        return None
    if not isinstance(values, list | tuple) or len(values) != 1 or not isinstance(values[0], str):
        return None
    return NamePin(name=values[0], wanted=operator == "In")


def _names(pins: Iterable[object]) -> frozenset[str] | None:
    left: frozenset[str] | None = None
    for pin in pins:
        if not isinstance(pin, Mapping) or pin.get("operator") != "In":
            continue
        values = pin.get("values")
        if pin.get("key") == _NAME_FIELD and isinstance(values, list | tuple):
            names = frozenset(value for value in values if isinstance(value, str))
            left = names if left is None else left & names
    return left
