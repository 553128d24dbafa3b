"""The filters together: order, first rejection, what holds a pod back on all nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_operator import errors
from hami_operator.scheduling import filters, nodeselector
from hami_operator.scheduling.filters import check
from hami_operator.scheduling.rejection import Rejection
from tests import builders
from tests.unit.scheduling import scenes

NONE: Mapping[str, int] = {}
POD = builders.pod("p").container(requests={"cpu": "1"})
NODE = builders.node("n1").allocatable(cpu="4", memory="8Gi", pods="10").label("zone", "z1")


View = scenes.View


def view(node: builders.NodeBuilder, pod_count: int = 0, **requested: int) -> View:
    return View(node=node.read(), requested=requested, pod_count=pod_count)


def unresolvable(plugin: str, text: str) -> Rejection:
    return Rejection(plugin=plugin, texts=(text,), resolvable=False)


CORDONED = unresolvable("NodeUnschedulable", "node(s) were unschedulable")
TAINTED = unresolvable("TaintToleration", "node(s) had untolerated taint(s)")
ELSEWHERE = unresolvable("NodeName", "node(s) didn't match the requested node name")
MISMATCH = unresolvable("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
ENFORCED = unresolvable("NodeAffinity", "node(s) didn't match scheduler-enforced node affinity")
NARROWED = unresolvable("NodeAffinity", "node(s) didn't satisfy plugin(s) [NodeAffinity]")
FULL = Rejection(plugin="NodeResourcesFit", texts=("Insufficient cpu",), resolvable=True)


def test_the_order_is_that_of_kube_scheduler() -> None:
    assert [name for name, _ in filters.FILTERS] == [
        "NodeUnschedulable",
        "NodeName",
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        "VolumeRestrictions",
        "NodeVolumeLimits",
        "VolumeBinding",
        "VolumeZone",
        "PodTopologySpread",
        "InterPodAffinity",
        "DynamicResources",
        "NodeDeclaredFeatures",
    ]


@pytest.mark.parametrize(
    ("pod", "seen", "want"),
    [
        pytest.param(POD, view(NODE), None, id="a plain pod on a free node"),
        pytest.param(POD, view(NODE.cordoned().taint("a")), CORDONED, id="the first one tells"),
        pytest.param(POD.on("n2"), view(NODE.taint("a")), ELSEWHERE, id="the name before taints"),
        pytest.param(
            POD.node_selector({"zone": "z2"}), view(NODE.taint("a")), TAINTED, id="taints next"
        ),
        pytest.param(
            POD.node_selector({"zone": "z2"}), view(NODE, cpu=4000), MISMATCH, id="then labels"
        ),
        pytest.param(POD, view(NODE, cpu=3500), FULL, id="resources last"),
        pytest.param(
            POD.toleration(operator="Exists"),
            view(NODE.cordoned().taint("a")),
            None,
            id="a pod that tolerates everything",
        ),
        pytest.param(POD.on("n1"), view(NODE), None, id="the node that is named"),
        pytest.param(POD.requires(builders.pin("n1")), view(NODE), None, id="a pinned node"),
        pytest.param(
            POD.requires(builders.pin("n2")),
            view(NODE.cordoned()),
            NARROWED,
            id="a node that is not pinned is not looked at",
        ),
    ],
)
def test_run(pod: builders.PodBuilder, seen: View, want: Rejection | None) -> None:
    assert filters.run(pod.read(), seen) == want
    assert filters.plan(pod.read()).run(seen) == want


@pytest.mark.parametrize(
    ("pod", "plugin", "texts", "reasons"),
    [
        pytest.param(
            POD.gate("a", "b"),
            "SchedulingGates",
            ("waiting for scheduling gates: [a b]",),
            (),
            id="gates",
        ),
        pytest.param(
            POD.put("spec.priority", "high").container(requests={"memory": "x"}),
            "PodSpec",
            (
                "spec.containers[1].resources.requests[memory]: 'x' is not a quantity",
                "spec.priority: is not an integer",
            ),
            (errors.Reason.INVALID_POD,),
            id="odd content, each by its field",
        ),
        pytest.param(
            POD.put("spec.workloadRef", {"name": "w", "podGroup": "g"}),
            "FilterNotBuilt",
            (
                "pod needs rules that this scheduler does not know yet: "
                "GangScheduling by spec.workloadRef",
            ),
            (errors.Reason.FILTER_NOT_BUILT,),
            id="rules that are not built, by name",
        ),
        pytest.param(
            POD.put("spec.schedulingGroup.podGroupName", "g"),
            "NotListed",
            ("waiting for the first list of podgroups.scheduling.k8s.io",),
            (),
            id="groups of Kubernetes that are not known yet",
        ),
        pytest.param(
            POD.append("spec.resourceClaims", {"name": "r", "resourceClaimName": "c"}),
            "NotListed",
            ("waiting for the first list of deviceclasses, resourceclaims",),
            (),
            id="objects that are not known yet",
        ),
        pytest.param(
            POD.requires(
                {"matchFields": [builders.pin(name)["matchFields"][0] for name in ("n1", "n2")]}
            ),
            "NodeAffinity",
            ("pod affinity terms conflict",),
            (),
            id="names that contradict each other",
        ),
    ],
)
def test_held_back_on_all_nodes(
    pod: builders.PodBuilder,
    plugin: str,
    texts: tuple[str, ...],
    reasons: tuple[errors.Reason, ...],
) -> None:
    want = Rejection(plugin=plugin, texts=texts, resolvable=False, reasons=reasons)
    assert filters.plan(pod.read()).prefilter == want
    assert filters.run(pod.read(), view(NODE)) == want


def test_a_plan_asks_only_what_matters() -> None:
    plain = filters.plan(POD.toleration(operator="Exists").read())
    zone = builders.roomy("n").label("zone", "z2")
    repeller = builders.pod("r").repels({}, "zone").on("n")
    fussy = filters.plan(
        POD.on("n1").node_selector({"zone": "z1"}).read(),
        around=scenes.around([zone], [repeller]),
    )
    assert (len(plain.checks), len(plain.wide)) == (2, 0)
    assert (len(fussy.checks), len(fussy.wide)) == (5, 1)
    assert (plain.names, fussy.names) == (None, None)


def test_pins_narrow_the_plan() -> None:
    plan = filters.plan(POD.requires(builders.pin("n1"), builders.pin("n7")).read())
    assert plan.names == frozenset({"n1", "n7"})


@pytest.mark.parametrize(
    ("labels", "want"),
    [
        pytest.param({"zone": "z1"}, None, id="both hold"),
        pytest.param({"zone": "z2"}, MISMATCH, id="the pod's own does not"),
        pytest.param({}, ENFORCED, id="the enforced one comes first"),
    ],
)
def test_enforced_affinity(labels: dict[str, str], want: Rejection | None) -> None:
    term = nodeselector.read_term(builders.expression("zone", "Exists"))
    added = nodeselector.Affinity(required=nodeselector.NodeSelector(terms=(term,)))
    options = check.Options(added_affinity=added)
    node = builders.node("n1").allocatable(cpu="4", pods="1").put("metadata.labels", labels)
    pod = POD.node_selector({"zone": "z1"}).read()
    assert filters.run(pod, view(node), options) == want


@pytest.mark.parametrize(
    ("requests", "seen", "texts", "resolvable"),
    [
        pytest.param(
            {"cpu": "5", "memory": "1Gi"},
            view(NODE, memory=8 * 2**30),
            ("Insufficient cpu", "Insufficient memory"),
            False,
            id="one shortage beyond the empty node is enough",
        ),
        pytest.param(
            {"example.com/b": "1", "example.com/a": "1", "ephemeral-storage": "1"},
            view(NODE),
            (
                "Insufficient ephemeral-storage",
                "Insufficient example.com/a",
                "Insufficient example.com/b",
            ),
            False,
            id="plain names first, then by name",
        ),
        pytest.param({}, view(NODE, 10), ("Too many pods",), True, id="no place for one more"),
        pytest.param(
            {}, view(builders.node("n").allocatable(cpu="1")), ("Too many pods",), True, id="pods"
        ),
        pytest.param(
            {"cpu": "2", "storage": "5Gi"}, view(NODE, cpu=2000), (), True, id="unknown plain name"
        ),
        pytest.param(
            {"cpu": "0"}, view(NODE, cpu=9000), (), True, id="nothing asked, nothing compared"
        ),
        pytest.param(
            {"example.com/dev": "1", "other.com/x": "1"},
            view(NODE),
            (),
            True,
            id="ignored by name and by group",
        ),
        pytest.param(
            {"some.com/x": "1"}, view(NODE), (), True, id="compared only where it is offered"
        ),
        pytest.param(
            {"some.com/x": "2"},
            view(builders.node("n").allocatable({"some.com/x": "1"}, cpu="1", pods="1")),
            ("Insufficient some.com/x",),
            False,
            id="and there it is compared",
        ),
        pytest.param(
            {"kubernetes.io/dev": "1"},
            view(NODE),
            ("Insufficient kubernetes.io/dev",),
            False,
            id="names of Kubernetes cannot be ignored",
        ),
    ],
)
def test_resources(
    requests: dict[str, Any], seen: View, texts: tuple[str, ...], resolvable: bool
) -> None:
    options = check.Options(
        ignored=frozenset({"example.com/dev", "kubernetes.io/dev"}),
        where_offered=frozenset({"some.com/x"}),
        ignored_groups=frozenset({"other.com"}),
    )
    pod = builders.pod("p").container(requests=requests).read()
    want = Rejection(plugin="NodeResourcesFit", texts=texts, resolvable=resolvable)
    assert filters.run(pod, seen, options) == (want if texts else None)


AMOUNT = st.integers(0, 5)


@given(st.tuples(AMOUNT, AMOUNT), AMOUNT, AMOUNT, st.integers(0, 2), st.integers(0, 2))
def test_room_agrees_with_the_rule_as_written(
    wanted: tuple[int, int], booked: int, offered: int, count: int, places: int
) -> None:
    asked, devices = wanted
    requests = {"cpu": str(asked), "example.com/a": str(devices)}
    pod = builders.pod("p").container(requests=requests).read()
    node = builders.node("n").allocatable(
        {"example.com/a": str(offered)}, cpu=str(offered), pods=str(places)
    )
    seen = View(
        node=node.read(),
        requested={"cpu": booked * 1000, "example.com/a": booked},
        pod_count=count,
    )
    fits = count + 1 <= places and all(
        amount == 0 or amount <= offered - booked for amount in wanted
    )
    assert (filters.run(pod, seen) is None) is fits
