"""PodDisruptionBudgets: whose end somebody wants to be spared.

They bind evictions. Preemption deletes, and keeps them as far as it can.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from hami_operator import errors
from hami_operator.scheduling import fields, labels
from hami_operator.scheduling import pod as pods


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """One object.

    Attributes:
        namespace: of the pods that it protects.
        name: of the object.
        uid: of the object.
        selector: which pods; null none, empty all (policy/v1).
        allowed: how many of them may still be disrupted.
        disrupted: names of pods whose disruption was counted in ``allowed`` already.
    """

    namespace: str
    name: str
    uid: str = ""
    selector: labels.Selector = labels.NOTHING
    allowed: int = 0
    disrupted: frozenset[str] = frozenset()

    def protects(self, pod: pods.Pod) -> bool:
        """Whether the end of this pod would take from the budget."""
        return (
            pod.namespace == self.namespace
            and pod.name not in self.disrupted
            and self.selector.matches(pod.labels)
        )


def read(raw: Mapping[str, Any]) -> Budget:
    """Read an API object. Never raises: a selector that does not parse protects every pod."""
    found = fields.Fields()
    meta = found.mapping(raw, "metadata", "")
    status = found.mapping(raw, "status", "")
    try:
        selector = labels.read(found.mapping(raw, "spec", "").get("selector"))
    except errors.DecodeError:
        selector = labels.Selector()
    return Budget(
        namespace=found.text(meta, "namespace", "metadata.") or "default",
        name=found.text(meta, "name", "metadata."),
        uid=found.text(meta, "uid", "metadata."),
        selector=selector,
        allowed=found.integer(status, "disruptionsAllowed", "status."),
        disrupted=frozenset(found.mapping(status, "disruptedPods", "status.")),
    )


class Budgets:
    """All of them, by namespace."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, Budget]] = {}

    def seen(self, raw: Mapping[str, Any]) -> None:
        """Take up an object as the API shows it."""
        budget = read(raw)
        self._known.setdefault(budget.namespace, {})[budget.name] = budget

    def gone(self, namespace: str, name: str, uid: str) -> None:
        """An object is deleted; another one of its name stays."""
        known = self._known.get(namespace, {})
        if name in known and known[name].uid == uid:
            del known[name]
            if not known:
                del self._known[namespace]

    def __iter__(self) -> Iterator[Budget]:
        return (one for each in self._known.values() for one in each.values())

    def protect(self, pod: pods.Pod) -> bool:
        """Whether any of them is about this pod."""
        return any(True for _ in self._of(pod))

    def split(self, victims: Sequence[pods.Pod]) -> tuple[list[pods.Pod], list[pods.Pod]]:
        """Those whose end would break a budget, and the others; both in the order given.

        Each pod takes from all budgets that protect it, those that come first before the rest.
        """
        left: dict[tuple[str, str], int] = {}
        breaking: list[pods.Pod] = []
        harmless: list[pods.Pod] = []
        for pod in victims:
            broken = self._take(pod, self._of(pod), left)
            (breaking if broken else harmless).append(pod)
        return breaking, harmless

    def after(self, victims: Iterable[pods.Pod]) -> Budgets:
        """What they will allow once these are gone."""
        made = Budgets()
        made._known = {namespace: dict(each) for namespace, each in self._known.items()}
        for pod in victims:
            for one in list(made._of(pod)):
                disrupted = one.disrupted | {pod.name}
                left = dataclasses.replace(one, allowed=one.allowed - 1, disrupted=disrupted)
                made._known[pod.namespace][one.name] = left
        return made

    def _of(self, pod: pods.Pod) -> Iterator[Budget]:
        known = self._known.get(pod.namespace, {})
        return (one for one in known.values() if one.protects(pod))

    def _take(
        self, pod: pods.Pod, budgets: Iterable[Budget], left: dict[tuple[str, str], int]
    ) -> bool:
        broken = False
        for one in budgets:
            key = (pod.namespace, one.name)
            left[key] = left.get(key, one.allowed) - 1
            broken |= left[key] < 0
        return broken
