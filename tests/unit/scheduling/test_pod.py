"""Reading a Pod: all fields at once, oddities as findings, and never an exception."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_operator.scheduling import gang, labels, nodeselector, podaffinity, tolerations
from hami_operator.scheduling import pod as pods
from tests import builders

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)
PATHS = [
    "metadata",
    "metadata.labels",
    "metadata.creationTimestamp",
    "metadata.generation",
    "spec",
    "spec.containers",
    "spec.initContainers",
    "spec.priority",
    "spec.tolerations",
    "spec.affinity",
    "spec.affinity.nodeAffinity",
    "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution",
    "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution",
    "spec.overhead",
    "spec.resources",
    "spec.schedulingGates",
    "spec.schedulingGroup",
    "spec.topologySpreadConstraints",
    "spec.volumes",
    "status",
    "status.conditions",
    "status.containerStatuses",
    "status.initContainerStatuses",
]


def test_a_bare_pod() -> None:
    raw = {"metadata": {"name": "p"}}
    assert pods.read(raw) == pods.Pod(uid="default/p", namespace="default", name="p")


IMAGE = "example.com/app:1"


def test_a_full_pod() -> None:
    raw = (
        builders.pod("p", "team")
        .label("app", "web")
        .label("scheduling.x-k8s.io/pod-group", "gang")
        .annotate({"hami.io/x": "y"})
        .init("i", requests={"cpu": "2"})
        .sidecar("s", requests={"cpu": "100m"})
        .container("c", limits={"nvidia.com/gpu": 1, "cpu": "1"}, privileged=True)
        .on("n1")
        .phase("Running")
        .scheduler("hami-scheduler")
        .priority(7)
        .gate("g1", "g2")
        .toleration("k", "v", effect="NoSchedule")
        .node_selector({"zone": "z1"})
        .requires(builders.pin("n1"))
        .prefers(3, builders.expression("a", "Exists"))
        .condition("PodScheduled", "False", reason="Unschedulable", message="no", odd=1)
        .init_ended("i")
        .put("metadata.generation", 4)
        .terminating()
        .raw()
    )
    container = pods.Container(
        name="c",
        kind=pods.Kind.APP,
        limits={"nvidia.com/gpu": "1", "cpu": "1"},
        requests={"nvidia.com/gpu": "1", "cpu": "1"},
        amounts={"nvidia.com/gpu": 10**9, "cpu": 10**9},
        privileged=True,
        image=IMAGE,
    )
    init = pods.Container(
        name="i",
        kind=pods.Kind.INIT,
        requests={"cpu": "2"},
        amounts={"cpu": 2 * 10**9},
        image=IMAGE,
    )
    sidecar = pods.Container(
        name="s",
        kind=pods.Kind.SIDECAR,
        requests={"cpu": "100m"},
        amounts={"cpu": 10**8},
        image=IMAGE,
    )
    requests = {"cpu": 2000, "nvidia.com/gpu": 1}
    assert pods.read(raw) == pods.Pod(
        uid="uid-p",
        namespace="team",
        name="p",
        resource_version="1",
        generation=4,
        created=datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC),
        labels={"app": "web", "scheduling.x-k8s.io/pod-group": "gang"},
        annotations={"hami.io/x": "y"},
        scheduler_name="hami-scheduler",
        node_name="n1",
        phase="Running",
        terminating=True,
        priority=7,
        containers=(init, sidecar, container),
        gates=("g1", "g2"),
        tolerations=(tolerations.Toleration(key="k", value="v", effect="NoSchedule"),),
        node_selector={"zone": "z1"},
        affinity=nodeselector.Affinity(
            required=nodeselector.NodeSelector(
                terms=(nodeselector.read_term(builders.pin("n1")),)
            ),
            preferred=(
                nodeselector.Preference(
                    weight=3, term=nodeselector.read_term(builders.expression("a", "Exists"))
                ),
            ),
        ),
        requests=requests,
        held=requests,
        inits_done=True,
        scheduled_condition=pods.ScheduledCondition(
            status="False", reason="Unschedulable", message="no"
        ),
        gang=gang.Membership(name="gang"),
    )


def test_reading_leaves_the_object_alone() -> None:
    raw = builders.pod("p").container(limits={"cpu": 1}).gate("g").raw()
    before = builders.Object(raw).raw()
    pods.read(raw)
    assert raw == before


@pytest.mark.parametrize(
    ("path", "value", "want"),
    [
        pytest.param("metadata", "x", "metadata: is not an object", id="metadata is a text"),
        pytest.param("metadata.name", 5, "metadata.name: is not a text", id="a name in digits"),
        pytest.param("metadata.name", "", "metadata.name: is missing", id="no name"),
        pytest.param(
            "metadata.labels",
            {"a": "b", "c": 5},
            "metadata.labels[c]: is not a text",
            id="a label that is a number",
        ),
        pytest.param(
            "spec.containers", {}, "spec.containers: is not a list", id="containers are a map"
        ),
        pytest.param(
            "spec.containers",
            ["c"],
            "spec.containers[0]: is not an object",
            id="a container is a text",
        ),
        pytest.param(
            "spec.containers",
            [{"name": "c", "resources": []}],
            "spec.containers[0].resources: is not an object",
            id="resources are a list",
        ),
        pytest.param(
            "spec.containers",
            [builders.container("c", requests={"cpu": "NaN"})],
            "spec.containers[0].resources.requests[cpu]: 'NaN' is not a quantity",
            id="an unreadable quantity",
        ),
        pytest.param(
            "spec.containers",
            [builders.container("c", requests={"cpu": "-1"})],
            "spec.containers[0].resources.requests[cpu]: '-1' is negative",
            id="a negative quantity",
        ),
        pytest.param(
            "spec.containers",
            [{"name": "c", "securityContext": {"privileged": "yes"}}],
            "spec.containers[0].securityContext.privileged: is neither true nor false",
            id="privileged is a text",
        ),
        pytest.param(
            "spec.priority", "high", "spec.priority: is not an integer", id="priority is a text"
        ),
        pytest.param(
            "spec.priority", True, "spec.priority: is not an integer", id="priority is a boolean"
        ),
        pytest.param(
            "spec.overhead",
            {"cpu": "1 core"},
            "spec.overhead[cpu]: '1 core' is not a quantity",
            id="an unreadable overhead",
        ),
        pytest.param(
            "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution",
            [{"labelSelector": "x", "topologyKey": "zone"}],
            "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]: "
            "labelSelector: type: is not an object",
            id="a term of anti-affinity that does not parse",
        ),
    ],
)
def test_oddities_are_told_with_their_field(path: str, value: Any, want: str) -> None:
    raw = builders.pod("p").put(path, value).raw()
    assert want in [str(finding) for finding in pods.read(raw).findings]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        pytest.param(
            "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution",
            [{"labelSelector": {"matchExpressions": [{"key": "a", "operator": ["In"]}]}}],
            id="an operator that is a list, in a label selector",
        ),
        pytest.param(
            "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution",
            [{"labelSelector": {}, "topologyKey": "zone", "namespaces": 5}],
            id="namespaces that are a number",
        ),
        pytest.param(
            "metadata.uid",
            ["u"],
            id="a UID that is a list",
        ),
    ],
)
def test_odd_leaves_are_findings(path: str, value: Any) -> None:
    assert builders.pod("p").put(path, value).read().findings


@pytest.mark.parametrize(
    ("path", "value"),
    [
        pytest.param(
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution",
            {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": []}]}]},
            id="an operator that is a list, in a node selector",
        ),
        pytest.param(
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution",
            {"nodeSelectorTerms": [{"matchExpressions": [{"key": [], "operator": {}}]}]},
            id="a key that is a list",
        ),
    ],
)
def test_odd_node_terms_match_nothing(path: str, value: Any) -> None:
    required = builders.pod("p").put(path, value).read().affinity.required
    assert required is not None
    assert not required.matches("n", {})


def test_a_status_with_an_odd_name_ends_no_init_container() -> None:
    odd = {"name": ["i"], "state": {"terminated": {"exitCode": 0}}}
    pod = builders.pod("p").init("i").append("status.initContainerStatuses", odd)
    assert not pod.read().inits_done


def test_each_finding_is_told_once() -> None:
    pod = builders.pod("p").put("spec.containers", "odd").read()
    assert [str(one) for one in pod.findings] == ["spec.containers: is not a list"]


@pytest.mark.parametrize(
    ("limits", "want"),
    [
        pytest.param({"x/y": 1}, {"x/y": "1"}, id="a number becomes text"),
        pytest.param({"x/y": 0.5}, {"x/y": "0.5"}, id="a fraction becomes text"),
        pytest.param({"x/y": None}, {}, id="null is absent"),
        pytest.param({"x/y": "1e30"}, {"x/y": "1e30"}, id="a text stays what it is"),
        pytest.param({"x/y": True}, {"x/y": "True"}, id="a boolean becomes unreadable text"),
    ],
)
def test_limits_are_kept_as_text(limits: dict[str, Any], want: dict[str, str]) -> None:
    raw = builders.pod("p").put(
        "spec.containers", [{"name": "c", "resources": {"limits": limits}}]
    )
    (container,) = raw.read().containers
    assert container.limits == want


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(builders.pod("p").container(), False, id="no init container"),
        pytest.param(builders.pod("p").sidecar("s"), False, id="only a sidecar"),
        pytest.param(builders.pod("p").init("a"), False, id="not started"),
        pytest.param(builders.pod("p").init("a").init_ended("a"), True, id="ended well"),
        pytest.param(builders.pod("p").init("a").init_ended("a", 1), False, id="failed"),
        pytest.param(
            builders.pod("p").init("a").init("b").init_ended("a"), False, id="one of two"
        ),
        pytest.param(
            builders.pod("p").init("a").sidecar("s").init_ended("a"),
            True,
            id="a sidecar need not end",
        ),
    ],
)
def test_inits_done(pod: builders.PodBuilder, want: bool) -> None:
    assert pod.read().inits_done is want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("2026-03-01T12:00:00Z", 12, id="UTC"),
        pytest.param("2026-03-01T14:00:00+02:00", 12, id="another zone"),
        pytest.param("2026-03-01T12:00:00", 12, id="no zone is UTC"),
        pytest.param("yesterday", None, id="unreadable"),
        pytest.param(5, None, id="a number"),
    ],
)
def test_created(text: Any, want: int | None) -> None:
    created = builders.pod("p").put("metadata.creationTimestamp", text).read().created
    found = created.astimezone(datetime.UTC).hour if created else None
    assert found == want


@pytest.mark.parametrize(
    ("phase", "want"),
    [("Succeeded", True), ("Failed", True), ("Running", False), ("Unknown", False), ("", False)],
)
def test_terminal(phase: str, want: bool) -> None:
    assert builders.pod("p").phase(phase).read().terminal is want


def test_anti_affinity_belongs_to_the_namespace_of_its_owner() -> None:
    pod = builders.pod("p", "team").repels({"matchLabels": {"a": "b"}}, "zone").read()
    selector = labels.read({"matchLabels": {"a": "b"}})
    assert pod.pod_affinity.repelled == (
        podaffinity.Term(selector=selector, topology_key="zone", namespaces=frozenset({"team"})),
    )


def test_the_gang_may_be_named_by_the_specification() -> None:
    pod = builders.pod("p").label("scheduling.x-k8s.io/pod-group", "old")
    named = pod.put("spec.schedulingGroup", {"podGroupName": "new"})
    assert (pod.read().gang.name, named.read().gang.name) == ("old", "new")


def test_key() -> None:
    assert builders.pod("p", "team").read().key == ("team", "p")


@given(st.lists(st.tuples(st.sampled_from(PATHS), JSON), min_size=1, max_size=3))
def test_no_content_makes_reading_raise(odd: list[tuple[str, Any]]) -> None:
    raw = builders.pod("p").container(limits={"cpu": "1"}).init().raw()
    for path, value in odd:
        *levels, last = path.split(".")
        place: Any = raw
        for level in levels:
            if not isinstance(place.get(level), dict):
                place[level] = {}
            place = place[level]
        place[last] = value
    pods.read(raw)


@given(path=st.sampled_from(PATHS), value=JSON)
def test_a_resident_is_what_is_counted_of_the_pod(path: str, value: Any) -> None:
    raw = (
        builders.pod("p", "team")
        .annotate({"hami.io/x": "y"})
        .init("i", requests={"cpu": "2"})
        .container("c", limits={"nvidia.com/gpu": 1}, requests={"cpu": "1"})
        .on("n1")
        .phase("Running")
        .init_ended("i")
        .put(path, value)
        .raw()
    )
    pod, resident = pods.read(raw), pods.read_resident(raw)
    same = set(pods.Resident._fields) - {"speaks"}
    assert {name: getattr(resident, name) for name in same} == {
        name: getattr(pod, name) for name in same
    }
    assert resident.speaks or pod.pod_affinity is podaffinity.NONE


@pytest.mark.parametrize(
    ("value", "want"),
    [
        pytest.param(1, "1", id="a whole number"),
        pytest.param(1.0, "1.0", id="a fraction"),
        pytest.param("1", "1", id="a text"),
    ],
)
def test_amounts_that_are_equal_are_not_taken_for_each_other(value: Any, want: str) -> None:
    raw = builders.pod("p").put(
        "spec.containers", [{"name": "c", "resources": {"requests": {"cpu": value}}}]
    )
    assert pods.read(raw.raw()).containers[0].requests == {"cpu": want}


def test_one_container_comes_to_the_same_as_the_sum_of_one() -> None:
    alone = builders.pod("p").container("c", requests={"cpu": "1n", "memory": "1500m"})
    assert alone.read().requests == {"cpu": 1, "memory": 2}
    assert alone.init("i", requests={}).read().requests == {"cpu": 1, "memory": 2}
