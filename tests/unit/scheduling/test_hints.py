"""Which event wakes which parked pod."""

from __future__ import annotations

import pytest

from hami_operator.scheduling import hints, nodeselector
from hami_operator.scheduling.filters import check
from tests import builders

POD = builders.pod("p").container(requests={"cpu": "2", "example.com/a": "1"})
NODE = builders.node("n").allocatable({"example.com/a": "1"}, cpu="4", pods="5")
OTHER = builders.pod("o").container(requests={"cpu": "1"}).on("n")


def node(
    old: builders.NodeBuilder | None, new: builders.NodeBuilder | None, *, devices: bool = False
) -> hints.NodeChange:
    before, after = (None if one is None else one.read() for one in (old, new))
    return hints.NodeChange(old=before, new=after, devices=devices)


def other(old: builders.PodBuilder | None, new: builders.PodBuilder | None) -> hints.PodChange:
    before, after = (None if one is None else one.read() for one in (old, new))
    return hints.PodChange(old=before, new=after)


QUOTA = hints.QuotaChange(namespace="default")
ADDED = node(None, NODE)
GONE = node(NODE, None)
LEFT = other(OTHER, None)


@pytest.mark.parametrize(
    ("plugin", "event", "want"),
    [
        pytest.param("NodeResourcesFit", ADDED, True, id="a node that would do"),
        pytest.param("NodeResourcesFit", node(None, NODE.allocatable(cpu="1")), False, id="small"),
        pytest.param("NodeResourcesFit", node(None, NODE.allocatable(pods="0")), False, id="pods"),
        pytest.param("NodeResourcesFit", node(NODE, NODE.label("a")), False, id="no more room"),
        pytest.param("NodeResourcesFit", node(NODE.allocatable(cpu="3"), NODE), True, id="grown"),
        pytest.param(
            "NodeResourcesFit", node(NODE.allocatable(pods="4"), NODE), True, id="one place more"
        ),
        pytest.param(
            "NodeResourcesFit", node(NODE, NODE.allocatable(memory="9Gi")), False, id="not wanted"
        ),
        pytest.param("NodeResourcesFit", GONE, False, id="a node that went"),
        pytest.param("NodeResourcesFit", LEFT, True, id="a pod that left its node"),
        pytest.param("NodeResourcesFit", other(builders.pod("o"), None), False, id="never placed"),
        pytest.param("NodeResourcesFit", other(None, OTHER), False, id="a pod that came"),
        pytest.param(
            "NodeResourcesFit",
            other(OTHER.container(requests={"cpu": "1"}), OTHER),
            True,
            id="a pod that shrank",
        ),
        pytest.param(
            "NodeResourcesFit",
            other(OTHER.container(requests={"memory": "1"}), OTHER),
            False,
            id="a pod that shrank elsewhere",
        ),
        pytest.param("NodeResourcesFit", QUOTA, False, id="a quota"),
        pytest.param("NodeUnschedulable", ADDED, True, id="a node that is not cordoned"),
        pytest.param("NodeUnschedulable", node(None, NODE.cordoned()), False, id="a cordoned one"),
        pytest.param("NodeUnschedulable", node(NODE.cordoned(), NODE), True, id="uncordoned"),
        pytest.param("NodeUnschedulable", node(NODE, NODE.label("a")), False, id="a label only"),
        pytest.param("NodeUnschedulable", LEFT, False, id="pods that leave cannot uncordon"),
        pytest.param(
            "NodeUnschedulable", other(POD, POD), False, id="its update, still intolerant"
        ),
        pytest.param(
            "NodeUnschedulable",
            other(POD, POD.toleration(operator="Exists")),
            True,
            id="its update, now tolerant",
        ),
        pytest.param("TaintToleration", node(NODE.taint("a"), NODE), True, id="a taint removed"),
        pytest.param("TaintToleration", node(NODE, NODE.taint("a")), False, id="a taint added"),
        pytest.param("TaintToleration", node(NODE, NODE), False, id="never tainted"),
        pytest.param(
            "TaintToleration", other(POD, POD.toleration("a")), True, id="its tolerations changed"
        ),
        pytest.param(
            "TaintToleration", other(POD, POD.label("a")), False, id="its labels changed"
        ),
        pytest.param("NodeAffinity", ADDED, True, id="no wish, any node"),
        pytest.param("NodeAffinity", node(NODE, NODE.label("a")), False, id="matched before too"),
        pytest.param("NodeAffinity", other(POD, POD.node_selector({"a": "b"})), True, id="edited"),
        pytest.param("NodeName", ADDED, False, id="another node than named"),
        pytest.param("SchedulingGates", other(POD.gate("g"), POD), True, id="no gate left"),
        pytest.param("SchedulingGates", other(POD, POD.gate("g")), False, id="a gate left"),
        pytest.param("SchedulingGates", ADDED, False, id="nodes do not open gates"),
        pytest.param("PodSpec", ADDED, False, id="nodes do not mend a specification"),
        pytest.param("PodSpec", other(POD, POD.label("a")), True, id="its update may"),
        pytest.param("FilterNotBuilt", LEFT, False, id="nor do pods"),
        pytest.param("Devices", node(NODE, NODE, devices=True), True, id="cards changed"),
        pytest.param("Devices", node(NODE, NODE.label("a")), False, id="cards did not change"),
        pytest.param("Devices", node(NODE, None, devices=True), True, id="cards went with a node"),
        pytest.param("Devices", ADDED, True, id="a node came"),
        pytest.param("Devices", LEFT, True, id="a pod left its cards"),
        pytest.param("Devices", other(OTHER, OTHER), False, id="a pod that holds what it held"),
        pytest.param(
            "Devices",
            other(OTHER.init("i"), OTHER.init("i").init_ended("i")),
            True,
            id="init containers gave back their share",
        ),
        pytest.param("Devices", QUOTA, True, id="the quota of its namespace"),
        pytest.param("Devices", hints.QuotaChange(namespace="x"), False, id="another quota"),
        pytest.param(
            "Devices", other(POD, POD.annotate({"a": "b"})), True, id="it asks otherwise"
        ),
        pytest.param("Devices", other(POD, POD.label("a")), False, id="it asks the same"),
        pytest.param("DeviceQuota", QUOTA, True, id="its namespace may hold more"),
        pytest.param("DeviceQuota", hints.QuotaChange(namespace="x"), False, id="another may"),
        pytest.param("DeviceQuota", ADDED, False, id="nodes do not raise a quota"),
        pytest.param("DeviceQuota", node(NODE, NODE, devices=True), False, id="nor do cards"),
        pytest.param("DeviceQuota", other(POD, POD.container()), True, id="it asks for less"),
        pytest.param("InterPodAffinity", node(NODE, NODE.label("a")), True, id="node relabelled"),
        pytest.param("InterPodAffinity", node(NODE, NODE.cordoned()), False, id="same labels"),
        pytest.param("InterPodAffinity", other(OTHER.repels({}, "z"), None), True, id="repeller"),
        pytest.param("InterPodAffinity", LEFT, False, id="a pod that never minded"),
        pytest.param(
            "InterPodAffinity",
            other(OTHER.repels({}, "z"), OTHER.repels({}, "z")),
            False,
            id="a repeller that stays",
        ),
        pytest.param("Unheard", GONE, True, id="what is not known is woken by everything"),
    ],
)
def test_may_help(plugin: str, event: hints.Event, want: bool) -> None:
    assert hints.may_help([plugin], POD.read(), event) is want


def test_the_named_node_appears() -> None:
    waiting = POD.on("n").read()
    assert hints.may_help(["NodeName"], waiting, ADDED)
    assert not hints.may_help(["NodeName"], waiting, node(NODE, NODE))


def test_one_of_several_filters_is_enough() -> None:
    waiting = POD.read()
    assert hints.may_help(["TaintToleration", "NodeResourcesFit"], waiting, LEFT)
    assert not hints.may_help(["TaintToleration", "NodeAffinity"], waiting, LEFT)
    assert not hints.may_help([], waiting, LEFT)


def test_enforced_affinity_counts() -> None:
    term = nodeselector.read_term(builders.expression("pool", "Exists"))
    added = nodeselector.Affinity(required=nodeselector.NodeSelector(terms=(term,)))
    options = check.Options(added_affinity=added)
    assert not hints.may_help(["NodeAffinity"], POD.read(), ADDED, options)
    assert hints.may_help(["NodeAffinity"], POD.read(), node(NODE, NODE.label("pool")), options)
