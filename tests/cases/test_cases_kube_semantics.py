"""One test per row of the cases about Kubernetes scheduling semantics."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import pytest

from hami_operator import errors
from hami_operator.protocol import quantity
from hami_operator.scheduling import (
    fields,
    fiterror,
    fitscore,
    hints,
    neighbours,
    nodeselector,
    objects,
    preferences,
    rejection,
    surroundings,
)
from hami_operator.scheduling import filters as filtering
from hami_operator.scheduling import node as nodes
from hami_operator.scheduling import pod as pods
from hami_operator.scheduling.filters import affinity, check, gates
from tests.cases import loader, uncovered

Case = Mapping[str, Any]
FILE = "kube-semantics.yaml"
LISTED = uncovered.KUBE_SEMANTICS
ROWS = [row for row in loader.rows(FILE) if row["filter"] != "Binding"]
"""All but what ``test_cases_binding`` runs."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Booked:
    """A node with the pods that are on it."""

    node: nodes.Node
    pods: tuple[pods.Pod, ...]

    @property
    def requested(self) -> Mapping[str, int]:
        total: Counter[str] = Counter()
        for one in self.pods:
            total.update(one.held)
        return total

    @property
    def pod_count(self) -> int:
        return len(self.pods)


def _views(case: Case) -> list[Booked]:
    bound = [pods.read(raw) for raw in case.get("pods", ())]
    return [
        Booked(node=node, pods=tuple(one for one in bound if one.node_name == node.name))
        for node in (nodes.read(raw) for raw in case.get("nodes", ()))
    ]


def _options(case: Case) -> check.Options:
    config = case.get("config", {})
    added = config.get("addedAffinity") or {}
    return check.Options(
        ignored=frozenset(config.get("ignoredResources", ())),
        ignored_groups=frozenset(config.get("ignoredResourceGroups", ())),
        comparison_operators=bool(
            config.get("featureGates", {}).get("TaintTolerationComparisonOperators")
        ),
        added_affinity=nodeselector.read_affinity(added, "addedAffinity.", fields.Fields()),
    )


def _said(answer: rejection.Rejection | None) -> Any:
    if answer is None:
        return "fit"
    code = "Unschedulable" if answer.resolvable else "UnschedulableAndUnresolvable"
    return {"code": code, "reasons": list(answer.texts)}


KINDS = {
    "PersistentVolumeClaim": objects.Kind.CLAIM,
    "PersistentVolume": objects.Kind.VOLUME,
    "StorageClass": objects.Kind.CLASS,
    "CSINode": objects.Kind.CSI_NODE,
    "CSIDriver": objects.Kind.CSI_DRIVER,
    "CSIStorageCapacity": objects.Kind.CAPACITY,
    "VolumeAttachment": objects.Kind.ATTACHMENT,
    "Namespace": objects.Kind.NAMESPACE,
    "ResourceClaim": objects.Kind.RESOURCE_CLAIM,
    "DeviceClass": objects.Kind.DEVICE_CLASS,
}


def _around(case: Case) -> surroundings.Surroundings:
    views = _views(case)
    labels = {view.node.name: view.node.labels for view in views}
    others = neighbours.Neighbours(lambda name: labels.get(name, {}))
    for raw in case.get("pods", ()):
        one = pods.read(raw)
        others.add(one, one.node_name)
    known = objects.Objects()
    for kind in objects.Kind:
        known.complete(kind)
    for raw in case.get("objects", ()):
        known.seen(KINDS[raw["kind"]], raw)
    return surroundings.Surroundings(nodes=views, pods=others, objects=known)


def _judged(
    case: Case, early: rejection.Rejection | None, planned: check.Planned
) -> dict[str, Any]:
    if isinstance(planned, rejection.Rejection):
        early, planned = planned, None
    if early is not None:
        return {"*": _said(early)}
    return {
        view.node.name: _said(None if planned is None else planned(view)) for view in _views(case)
    }


def _filter(case: Case) -> dict[str, Any]:
    pod = pods.read(case["pod"])
    early = affinity.prefilter(pod) if case["filter"] == affinity.NAME else None
    planner = dict(filtering.FILTERS)[case["filter"]]
    return _judged(case, early, planner(pod, _options(case), _around(case)))


def _gates(case: Case) -> dict[str, Any]:
    return _judged(case, gates.prefilter(pods.read(case["pod"])), None)


def _pod_requests(case: Case) -> dict[str, Any]:
    pod = pods.read(case["pod"])
    held = case.get("config", {}).get("useStatus")
    return {"requests": dict(pod.held if held else pod.requests)}


def _quantity(case: Case) -> dict[str, Any]:
    try:
        value = quantity.parse(case["quantity"])
    except errors.DecodeError:
        return {"error": True}
    return {"value": quantity.whole(value), "milli": quantity.milli(value)}


def _fit_error(case: Case) -> dict[str, Any]:
    diagnosis = case["diagnosis"]
    rejections = {
        name: rejection.Rejection(plugin="Any", texts=tuple(texts), resolvable=True)
        for name, texts in diagnosis.get("nodes", {}).items()
    }
    text = fiterror.message(
        diagnosis["allNodes"],
        rejections,
        diagnosis.get("preFilterMsg"),
        post_filter=diagnosis.get("postFilterMsg", ""),
    )
    return {"message": text}


def _affinity_score(case: Case) -> dict[str, Any]:
    feasible = [view.node for view in _views(case)]
    pod = pods.read(case["pod"])
    return {"scores": preferences.affinity_scores(pod, feasible, _options(case))}


def _taint_score(case: Case) -> dict[str, Any]:
    feasible = [view.node for view in _views(case)]
    pod = pods.read(case["pod"])
    return {"scores": preferences.taint_scores(pod, feasible, _options(case))}


def _fit_score(case: Case) -> dict[str, Any]:
    raw = case.get("config", {}).get("scoringStrategy") or {"type": "LeastAllocated"}
    weights = {one["name"]: one.get("weight", 1) for one in raw.get("resources", ())}
    corners = raw.get("requestedToCapacityRatio", {}).get("shape", ())
    scoring = fitscore.Scoring(
        strategy=fitscore.Strategy(raw["type"]),
        weights=tuple((weights or {"cpu": 1, "memory": 1}).items()),
        shape=tuple(
            fitscore.Point(utilization=one["utilization"], score=one["score"]) for one in corners
        ),
    )
    pod = pods.read(case["pod"])
    return {
        "scores": {
            view.node.name: fitscore.score(pod, view.node, view.pods, scoring)
            for view in _views(case)
        }
    }


def _hint(case: Case) -> dict[str, Any]:
    event = case["event"]
    old, new = event.get("old"), event.get("new")
    change: hints.Event
    if event["kind"] == "Node":
        change = hints.NodeChange(old=old and nodes.read(old), new=new and nodes.read(new))
    else:
        change = hints.PodChange(old=old and pods.read(old), new=new and pods.read(new))
    plugin = case["config"]["rejectedBy"]
    waiting = pods.read(case["pod"])
    helps = hints.may_help([plugin], waiting, change, _options(case))
    return {"hint": "Queue" if helps else "Skip"}


RUNNERS: Mapping[str, Callable[[Case], dict[str, Any]]] = {
    **dict.fromkeys((name for name, _ in filtering.FILTERS), _filter),
    "SchedulingGates": _gates,
    "TaintToleration/score": _taint_score,
    "NodeAffinity/score": _affinity_score,
    "NodeResourcesFit/score": _fit_score,
    "PodRequests": _pod_requests,
    "Quantity": _quantity,
    "FitError": _fit_error,
    "RequeueHint": _hint,
}


def _unbuilt(case: Case, what: str) -> NoReturn:
    """A shipped row must be listed; of rows from elsewhere the name and the reason are shown."""
    if loader.OTHER:
        pytest.skip(f"{case['id']}: {what} is not built")
    pytest.fail(f"{case['id']} is neither covered nor listed: {what} is not built")


@pytest.mark.parametrize("case", loader.params(ROWS, LISTED))
def test_row(case: Case) -> None:
    runner = RUNNERS.get(case["filter"])
    if runner is None:
        _unbuilt(case, case["filter"])
    assert runner(case) == case["expect"], case["title"]


def test_every_listed_row_exists_and_says_why() -> None:
    assert loader.unknown(FILE, LISTED) == set()
    assert all(LISTED.values())
