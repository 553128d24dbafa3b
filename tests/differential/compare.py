"""Where two schedulers differ about a scenario, and which of these differences are meant."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from tests.differential import chance, oracle

DYNAMIC: Final = "DynamicResources"
INTERPOD: Final = "InterPodAffinity"
FIT: Final = "NodeResourcesFit"
SPREAD: Final = "PodTopologySpread"
NEVER_TRIED: Final = ("SchedulingGates", DYNAMIC)
"""Plugins that keep a pod out of the queue of kube-scheduler; it gets no message then."""


class About(enum.Enum):
    """What differs."""

    PLACES = "ours takes a node that kube-scheduler refuses"
    REFUSES = "ours refuses a node that kube-scheduler takes"
    REASON = "another reason for a node"
    MESSAGE = "another message on the pod"
    SCORE = "another score of a node"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """One difference.

    Attributes:
        scenario: its id.
        about: what differs.
        node: where; empty for the pod as a whole.
        theirs: what kube-scheduler says.
        ours: what our scheduler says.
        meant: why that is so, a key of `MEANT`; empty for a fault.
    """

    scenario: str
    about: About
    node: str
    theirs: Any
    ours: Any
    meant: str = ""


DEFAULTS: Final = "spreading by default"
NAMESPACES: Final = "namespaces by label"
ALLOCATE: Final = "devices for claims"
PREFERENCE: Final = "unreadable preference"
RESIZE: Final = "score of resized pods"
MEANT: Final[Mapping[str, str]] = {
    DEFAULTS: "kube-scheduler scores the pods of a Service, ReplicaSet or StatefulSet as if they "
    "said ScheduleAnyway. Ours spreads by what the pod says.",
    NAMESPACES: "kube-scheduler 1.36 asks a namespaceSelector of the pod's own terms without the "
    "namespace's labels, so that one with NotIn or DoesNotExist selects pods of all namespaces. "
    "Ours keeps to the API for affinity and for scores, and to both for anti-affinity.",
    ALLOCATE: "Ours takes claims whose devices are chosen, and chooses none itself.",
    PREFERENCE: "A preference with Gt or Lt and no number ends kube-scheduler's attempt with an "
    "error where two nodes or more would take the pod. Ours passes over the preference.",
    RESIZE: "What ours assumes for containers without requests may differ by a point where a pod "
    "with init containers is being resized.",
}
"""Differences that are meant, none of which lets a pod go where kube-scheduler would not."""


def find(
    scenario: oracle.Scenario, theirs: oracle.Verdict, ours: oracle.Verdict
) -> list[Difference]:
    """All differences about one scenario."""
    found = [*_nodes(scenario, theirs, ours)]
    if not found and theirs.message != ours.message and not _is_never_tried(theirs):
        found.append(_difference(theirs, About.MESSAGE, "", theirs.message, ours.message))
    if not any(one.about in _OF_NODES for one in found):
        found += _scores(theirs, ours)
    return [dataclasses.replace(one, meant=_why(scenario, one)) for one in found]


_UNREAD: Final = 'running PreScore plugin "NodeAffinity"'
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_OF_NODES: Final = {About.PLACES, About.REFUSES}


def _nodes(
    scenario: oracle.Scenario, theirs: oracle.Verdict, ours: oracle.Verdict
) -> Iterator[Difference]:
    for node in scenario["kinds"]["nodes"]:
        name = node["metadata"]["name"]
        their, our = _answer(theirs, name), _answer(ours, name)
        if their == our:
            continue
        about = About.REASON
        if our is None:
            about = About.PLACES
        elif their is None:
            about = About.REFUSES
        yield _difference(theirs, about, name, their, our)


def _answer(verdict: oracle.Verdict, node: str) -> oracle.Refusal | None:
    """Why a node refuses; the order of reasons is random, or does not show in any message."""
    if node in verdict.feasible:
        return None
    found = verdict.prefilter or verdict.refusals[node]
    return dataclasses.replace(found, reasons=tuple(sorted(found.reasons)))


def _is_never_tried(theirs: oracle.Verdict) -> bool:
    early = theirs.prefilter
    return early is not None and early.plugin in NEVER_TRIED and not theirs.message


def _scores(theirs: oracle.Verdict, ours: oracle.Verdict) -> Iterator[Difference]:
    """Plugins that kube-scheduler passes over score nothing, or the same everywhere."""
    plugins = {plugin for each in theirs.scores.values() for plugin in each} - {DYNAMIC}
    for plugin in sorted(plugins):
        for node, points in theirs.scores.items():
            their, our = points[plugin], ours.scores[node][plugin]
            if their != our:
                yield _difference(theirs, About.SCORE, node, {plugin: their}, {plugin: our})


def _difference(
    theirs: oracle.Verdict, about: About, node: str, their: Any, our: Any
) -> Difference:
    return Difference(scenario=theirs.id, about=about, node=node, theirs=their, ours=our)


def _why(scenario: oracle.Scenario, one: Difference) -> str:
    if one.about is About.SCORE:
        return _why_scored(scenario, one)
    if one.about is About.MESSAGE:
        return PREFERENCE if one.theirs.startswith(_UNREAD) and not one.ours else ""
    if one.about is About.PLACES or not isinstance(one.ours, oracle.Refusal):
        return ""
    if one.ours.plugin == INTERPOD and _selects_without_labels(scenario, _REQUIRED):
        return NAMESPACES
    return ALLOCATE if one.ours.reasons == ("cannot allocate all claims",) else ""


def _why_scored(scenario: oracle.Scenario, one: Difference) -> str:
    (plugin,) = one.ours
    if plugin == INTERPOD and _selects_without_labels(scenario, _PREFERRED):
        return NAMESPACES
    if plugin == SPREAD and _is_spread_by_default(scenario):
        return DEFAULTS
    return RESIZE if plugin == FIT and _off_by_one(scenario, one) else ""


def _is_spread_by_default(scenario: oracle.Scenario) -> bool:
    own = scenario["pod"]["spec"].get("topologySpreadConstraints")
    return not own and bool(scenario["kinds"].get("services"))


def _off_by_one(scenario: oracle.Scenario, one: Difference) -> bool:
    resized = any("containerStatuses" in pod["status"] for pod in scenario["kinds"]["pods"])
    return resized and abs(one.theirs[FIT] - one.ours[FIT]) <= 1


def _selects_without_labels(scenario: oracle.Scenario, strength: str) -> bool:
    """Whether a term of the pod has a namespaceSelector that holds where there are no labels."""
    affinity = scenario["pod"]["spec"].get("affinity", {})
    terms = (
        term.get("podAffinityTerm", term)
        for kind in ("podAffinity", "podAntiAffinity")
        for term in affinity.get(kind, {}).get(strength, ())
    )
    return any(_holds_without_labels(term.get("namespaceSelector")) for term in terms)


def _holds_without_labels(selector: chance.Raw | None) -> bool:
    if not selector or selector.get("matchLabels"):
        return False
    expressions: Iterable[chance.Raw] = selector.get("matchExpressions", ())
    return all(one["operator"] in {"NotIn", "DoesNotExist"} for one in expressions)
