"""How many pods of a kind each node holds, counted once per question and then kept up to date.

Pods of one owner ask the same question one after the other, so that each of them would count all
pods of the namespace; here only the first one does.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from hami_operator.scheduling import fields, labels
from hami_operator.scheduling import pod as pods


class Scope(NamedTuple):
    """Pods by namespace (None for all there are) and by labels."""

    namespaces: frozenset[str] | None
    selector: labels.Selector

    def covers(self, pod: pods.Pod) -> bool:
        """Whether the pod is meant."""
        here = self.namespaces is None or pod.namespace in self.namespaces
        return here and self.selector.matches(pod.labels)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Question:
    """Which pods on nodes are counted.

    Attributes:
        scopes: all of them must cover a pod; without any, none does.
        staying: pods that are being deleted do not count.
    """

    scopes: tuple[Scope, ...]
    staying: bool = False

    def counts(self, pod: pods.Pod) -> bool:
        """Whether the pod counts."""
        if self.staying and pod.terminating:
            return False
        return bool(self.scopes) and all(scope.covers(pod) for scope in self.scopes)

    def __hash__(self) -> int:
        return self._hash

    @functools.cached_property
    def _hash(self) -> int:
        """Asked for with every look-up; selectors are deep."""
        return hash((self.scopes, self.staying))


class Tallies:
    """Answers per question; the one that was asked longest ago goes first.

    Args:
        limit: how many answers are kept up to date.
    """

    def __init__(self, limit: int = 128) -> None:
        self._limit = limit
        self._pods: dict[str, dict[str, tuple[pods.Pod, str]]] = {}
        self._answers: dict[Question, dict[str, int]] = {}
        self._asked: dict[str | None, dict[Question, None]] = {}

    def add(self, pod: pods.Pod, node: str) -> None:
        """A pod is on a node."""
        self._pods.setdefault(pod.namespace, {})[pod.uid] = (pod, node)
        for question in self._concerned(pod):
            _shift(self._answers[question], node, 1)

    def drop(self, pod: pods.Pod, node: str) -> None:
        """It is there no more; to be called with what was added."""
        known = self._pods[pod.namespace]
        del known[pod.uid]
        if not known:
            del self._pods[pod.namespace]
        for question in self._concerned(pod):
            _shift(self._answers[question], node, -1)

    def counts(self, question: Question) -> Mapping[str, int]:
        """Node to the number of pods that count, where that is not 0; not to be changed."""
        if not question.scopes or any(scope.selector.absent for scope in question.scopes):
            return fields.EMPTY
        answer = self._answers.pop(question, None)
        if answer is None:
            answer = self._counted(question)
            self._watch(question)
        self._answers[question] = answer
        if len(self._answers) > self._limit:
            self._forget(next(iter(self._answers)))
        return answer

    def _counted(self, question: Question) -> dict[str, int]:
        answer: dict[str, int] = {}
        for namespace in self._pods if None in _places(question) else _places(question):
            for pod, node in self._pods.get(namespace or "", {}).values():
                if question.counts(pod):
                    _shift(answer, node, 1)
        return answer

    def _watch(self, question: Question) -> None:
        for namespace in _places(question):
            self._asked.setdefault(namespace, {})[question] = None

    def _forget(self, question: Question) -> None:
        del self._answers[question]
        for namespace in _places(question):
            asked = self._asked[namespace]
            del asked[question]
            if not asked:
                del self._asked[namespace]

    def _concerned(self, pod: pods.Pod) -> Iterator[Question]:
        for namespace in (pod.namespace, None):
            for question in self._asked.get(namespace, ()):
                if question.counts(pod):
                    yield question


def _places(question: Question) -> frozenset[str | None]:
    """The namespaces in which pods may count; None stands for all."""
    namespaces = question.scopes[0].namespaces
    return frozenset({None}) if namespaces is None else frozenset(namespaces)


def _shift(counts: dict[str, int], node: str, by: int) -> None:
    left = counts.get(node, 0) + by
    if left:
        counts[node] = left
    else:
        counts.pop(node, None)
