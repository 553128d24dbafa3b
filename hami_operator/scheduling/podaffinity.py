"""Terms of pod affinity: which pods, in which namespaces, within which topology."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, Final

from hami_operator import errors
from hami_operator.scheduling import fields, labels

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Term:
    """One term.

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

    @property
    def reads_namespaces(self) -> bool:
        """Whether labels of namespaces decide; an empty selector means all without a look."""
        return bool(self.namespace_selector.requirements)

    @property
    def widened(self) -> Term:
        """The term as kube-scheduler 1.36 reads it where it is about the pods around.

        That asks the selector of namespaces without labels, so that one which holds of a
        namespace without any is about all of them.
        """
        if not self.namespace_selector.matches(fields.EMPTY):
            return self
        return dataclasses.replace(self, namespace_selector=labels.EVERYTHING)

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

    def places(self, namespace_labels: Mapping[str, Mapping[str, str]]) -> frozenset[str] | None:
        """The namespaces that it is about, of those that are known; None for all there are."""
        selector = self.namespace_selector
        if selector.absent:
            return self.namespaces
        if not selector.requirements:
            return None
        return self.namespaces.union(
            name for name, known in namespace_labels.items() if selector.matches(known)
        )

    def _is_here(self, namespace: str, namespace_labels: Mapping[str, Mapping[str, str]]) -> bool:
        if namespace in self.namespaces:
            return True
        known = namespace_labels.get(namespace)
        if known is None:
            return not self.namespace_selector.absent
        return self.namespace_selector.matches(known)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """A term that is worth ``weight`` where it holds; less than nothing for anti-affinity."""

    weight: int
    term: Term


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Affinity:
    """Pod affinity and anti-affinity of one pod.

    Attributes:
        required: one pod that all of these select must be in the place of each.
        repelled: no pod that one of these selects may be in its place.
        wishes: preferred terms of both kinds.
    """

    required: tuple[Term, ...] = ()
    repelled: tuple[Term, ...] = ()
    wishes: tuple[Wish, ...] = ()

    @property
    def reads_namespaces(self) -> bool:
        """Whether labels of namespaces decide about any term."""
        terms = (*self.required, *self.repelled, *(wish.term for wish in self.wishes))
        return any(term.reads_namespaces for term in terms)


NONE: Final = Affinity()


def read(affinity: Mapping[str, Any], found: fields.Fields, *, namespace: str) -> Affinity:
    """Both kinds, from ``spec.affinity`` of a pod of ``namespace``."""
    path = "spec.affinity."
    near = found.mapping(affinity, "podAffinity", path)
    far = found.mapping(affinity, "podAntiAffinity", path)
    if not near and not far:
        return NONE
    near_path, far_path = f"{path}podAffinity.", f"{path}podAntiAffinity."
    return Affinity(
        required=tuple(_required(near, near_path, found, namespace)),
        repelled=tuple(_required(far, far_path, found, namespace)),
        wishes=(
            *_wishes(near, near_path, found, namespace, sign=1),
            *_wishes(far, far_path, found, namespace, sign=-1),
        ),
    )


def _required(
    raw: Mapping[str, Any], path: str, found: fields.Fields, namespace: str
) -> Iterator[Term]:
    for place, item in found.items(raw, REQUIRED, path):
        term = _term(item, place, found, namespace)
        if term is not None:
            yield term


def _wishes(
    raw: Mapping[str, Any], path: str, found: fields.Fields, namespace: str, *, sign: int
) -> Iterator[Wish]:
    for place, item in found.items(raw, PREFERRED, path):
        weight = found.integer(item, "weight", f"{place}.")
        written = found.mapping(item, "podAffinityTerm", f"{place}.")
        term = _term(written, f"{place}.podAffinityTerm", found, namespace)
        if term is not None and weight:
            yield Wish(weight=sign * weight, term=term)


def _term(
    item: Mapping[str, Any], place: str, found: fields.Fields, namespace: str
) -> Term | None:
    try:
        return _read_term(item, namespace)
    except errors.DecodeError as problem:
        found.note(place, str(problem))
        return None


def _read_term(item: Mapping[str, Any], namespace: str) -> Term:
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
