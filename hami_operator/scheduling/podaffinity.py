"""Terms of pod affinity: which pods, in which namespaces, within which topology."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from hami_operator import errors
from hami_operator.scheduling import fields, labels

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Term:
    """One required term.

    Attributes:
        selector: which pods it is about.
        topology_key: nodes that share the value of this label are one place.
        namespaces: where those pods live, by name.
        namespace_selector: where they live, by the labels of the namespace.
    """

    selector: labels.Selector
    topology_key: str
    namespaces: frozenset[str]
    namespace_selector: labels.Selector = labels.NOTHING

    def selects(
        self,
        pod_labels: Mapping[str, str],
        namespace: str,
        namespace_labels: Mapping[str, Mapping[str, str]],
    ) -> bool:
        """Whether it is about a pod with these labels in this namespace.

        A namespace whose labels are not known counts as selected by any namespace selector:
        wrongly keeping two pods apart is a wait, wrongly putting them together is a fault.
        """
        return self._is_here(namespace, namespace_labels) and self.selector.matches(pod_labels)

    def _is_here(self, namespace: str, namespace_labels: Mapping[str, Mapping[str, str]]) -> bool:
        if namespace in self.namespaces:
            return True
        known = namespace_labels.get(namespace)
        if known is None:
            return not self.namespace_selector.absent
        return self.namespace_selector.matches(known)


def read(
    raw: Mapping[str, Any], path: str, found: fields.Fields, *, namespace: str
) -> tuple[Term, ...]:
    """The required terms of ``podAffinity`` or ``podAntiAffinity`` of a pod of ``namespace``."""
    terms = []
    for place, item in found.items(raw, REQUIRED, path):
        try:
            terms.append(_term(item, namespace))
        except errors.DecodeError as problem:
            found.note(place, str(problem))
    return tuple(terms)


def _term(item: Mapping[str, Any], namespace: str) -> Term:
    names = item.get("namespaces") or ()
    if not isinstance(names, list | tuple):
        raise errors.DecodeError("term", "namespaces", "is not a list")
    selector = labels.read(item.get("namespaceSelector"))
    if not names and selector.absent:
        names = (namespace,)
    return Term(
        selector=labels.read(item.get("labelSelector")),
        topology_key=str(item.get("topologyKey") or ""),
        namespaces=frozenset(str(name) for name in names),
        namespace_selector=selector,
    )
