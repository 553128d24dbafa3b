"""Short ways to ask the built-in rows, for tests of single families."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final

from hami_operator.devices import admit, annotate, fit, inventory, registry, request, score, usage
from hami_operator.devices import vendor as vendors
from hami_operator.protocol import decision
from tests import moments
from tests.unit.devices.rows import Node

ROWS: Final = registry.default().by_word
NOW: Final = moments.at(0)


def changed(word: str, **overrides: Any) -> vendors.Vendor:
    """A row as the configuration changes it."""
    return registry.build(overrides={word: overrides}).by_word[word]


def ask(word: str, **amounts: str) -> request.Request | request.Invalid | None:
    """What a container asks with these limits, by their names in the row."""
    row = ROWS[word]
    limits = {getattr(row.resources, name): value for name, value in amounts.items()}
    return request.read(row, limits=limits, requests={})


def wanted(word: str, count: int = 1, **facts: Any) -> request.Request:
    """A request."""
    return request.Request(word=word, count=count, **facts)


def place(
    row: str | vendors.Vendor,
    asked: request.Request | request.Invalid | None,
    cards: Sequence[usage.CardUsage],
    **context: Any,
) -> fit.Fit | fit.NoFit:
    """The fit."""
    assert isinstance(asked, request.Request), asked
    row = ROWS[row] if isinstance(row, str) else row
    return fit.fit(row, asked, cards, fit.Context(**context))


def ids(answer: fit.Fit | fit.NoFit) -> list[str]:
    """The cards that were picked."""
    assert isinstance(answer, fit.Fit), answer.text()
    return [pick.id for pick in answer.picks]


def told(answer: fit.Fit | fit.NoFit) -> str:
    """The ids, or the reason."""
    return " ".join(ids(answer)) if isinstance(answer, fit.Fit) else answer.text()


def admitted(
    row: str | vendors.Vendor,
    limits: Mapping[str, str],
    *,
    requests: Mapping[str, str] | None = None,
    env: tuple[Mapping[str, Any], ...] = (),
    annotations: Mapping[str, str] | None = None,
) -> admit.Admitted | admit.Denied:
    """Admission of one container; keys of annotations as they are."""
    row = ROWS[row] if isinstance(row, str) else row
    container = admit.Container(name="main", limits=limits, requests=requests or {}, env=env)
    return admit.admit(row, container, admit.Pod(annotations=annotations or {}))


def denial(answer: admit.Admitted | admit.Denied) -> str:
    """Why not."""
    assert isinstance(answer, admit.Denied), answer
    return answer.text()


def pods(*classes: str | None) -> tuple[Mapping[str, str], ...]:
    """Annotations of pods by their application class."""
    key = "metax-tech.com/sgpu-app-class"
    return tuple({key: one} if one else {} for one in classes)


def pick(id: str, index: int = 0, **facts: Any) -> decision.Pick:
    """A pick."""
    usual: dict[str, Any] = {"memory_mib": 0, "cores": 0}
    return decision.Pick(id=id, index=index, **(usual | facts))


def node_score(row: str | vendors.Vendor, slots: decision.Slots, **facts: Any) -> float:
    """The row's term under binpack, or as given."""
    row = ROWS[row] if isinstance(row, str) else row
    usual: dict[str, Any] = {
        "node_policy": "binpack",
        "before": (),
        "pod_annotations": {},
        "node_annotations": {},
    }
    return score.term(row, score.Facts(slots=slots, **(usual | facts)))


def written(row: str | vendors.Vendor, slots: decision.Slots, **facts: Any) -> Mapping[str, str]:
    """The annotations of a decision."""
    row = ROWS[row] if isinstance(row, str) else row
    size = len(slots)
    usual: dict[str, Any] = {
        "node_name": "n1",
        "now": NOW,
        "containers": tuple(f"c{number}" for number in range(size)),
        "limits": ({},) * size,
    }
    return annotate.decision_annotations([row], {row.keyword: slots}, **(usual | facts))


def devices(word: str, **node: Any) -> inventory.Inventory:
    """What a node has of a row."""
    return inventory.read(Node(**node), ROWS[word])


def cards(found: inventory.Inventory) -> list[usage.CardUsage]:
    """All of them unused."""
    return [usage.CardUsage(card) for card in found.cards]


def with_custom(card: usage.CardUsage, **custom: Any) -> usage.CardUsage:
    """The card with free facts."""
    return usage.CardUsage(dataclasses.replace(card.card, custom=custom), card.usage)
