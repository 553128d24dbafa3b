"""The oracle runs kube-scheduler's plugins: verdicts that Kubernetes' documentation foretells."""

from collections.abc import Iterator

import pytest

from tests import builders
from tests.builders import expression, node, pin, pod, roomy
from tests.controlplane import process
from tests.differential import oracle
from tests.differential.questions import HOST, ZONE, asked, filtered, final, for_now, passed, zoned

pytestmark = pytest.mark.e2e

WEB = {"matchLabels": {"app": "web"}}
REPELLED = for_now("InterPodAffinity", "node(s) didn't match pod anti-affinity rules")


def web(name: str, on: str) -> builders.PodBuilder:
    return pod(name).label("app", "web").container().on(on)


NODES = [
    pytest.param(
        asked(
            pod("p").container().toleration("gpu", operator="Exists"),
            nodes=[roomy("n1"), roomy("n2").taint("gpu"), roomy("n3").taint("dedicated", "a")],
        ),
        passed("n1", "n2", n3=final("TaintToleration", "node(s) had untolerated taint(s)")),
        id="a taint keeps away whoever does not tolerate it",
    ),
    pytest.param(
        asked(pod("p").container(), nodes=[roomy("n1").cordoned(), roomy("n2")]),
        passed("n2", n1=final("NodeUnschedulable", "node(s) were unschedulable")),
        id="a cordoned node takes nothing new",
    ),
    pytest.param(
        asked(
            pod("p").container(requests={"cpu": "1"}),
            nodes=[
                node("n1").allocatable(cpu="4", memory="8Gi", pods="10"),
                node("n2").allocatable(cpu="500m", memory="8Gi", pods="10"),
                node("n3").allocatable(cpu="4", memory="8Gi", pods="10"),
            ],
            pods=[
                pod("r").container(requests={"cpu": "3500m"}).on("n1"),
                pod("done").container(requests={"cpu": "4"}).on("n3").phase("Succeeded"),
            ],
        ),
        passed(
            "n3",
            n1=for_now("NodeResourcesFit", "Insufficient cpu"),
            n2=final("NodeResourcesFit", "Insufficient cpu"),
        ),
        id="running pods take room, ended ones do not",
    ),
    pytest.param(
        asked(
            pod("p").container(requests={"cpu": "1"}),
            nodes=[node("n1").allocatable(cpu="1", memory="8Gi", pods="10"), roomy("n2")],
            pods=[
                pod("first")
                .container(requests={"cpu": "1"})
                .scheduler("default-scheduler")
                .priority(9)
                .put("status.nominatedNodeName", "n1")
            ],
        ),
        passed("n2", n1=for_now("NodeResourcesFit", "Insufficient cpu")),
        id="room is kept for a nominated pod of higher priority",
    ),
    pytest.param(
        asked(
            pod("p").container(ports=[{"containerPort": 80, "hostPort": 80}]),
            nodes=[roomy("n1"), roomy("n2")],
            pods=[pod("r").container(ports=[{"containerPort": 8, "hostPort": 80}]).on("n1")],
        ),
        passed(
            "n2",
            n1=for_now("NodePorts", "node(s) didn't have free ports for the requested pod ports"),
        ),
        id="a port of the host is given once",
    ),
    pytest.param(
        asked(
            pod("p").container().node_selector({"disk": "ssd"}),
            nodes=[roomy("n1").label("disk", "ssd"), roomy("n2").label("disk", "hdd")],
        ),
        passed(
            "n1", n2=final("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
        ),
        id="a node selector wants its labels",
    ),
    pytest.param(
        asked(pod("p").container().requires(pin("n1")), nodes=[roomy("n1"), roomy("n2")]),
        passed("n1", n2=final("NodeAffinity", "node(s) didn't satisfy plugin(s) [NodeAffinity]")),
        id="a pod pinned by field goes to that node, as a DaemonSet's does",
    ),
]

NEIGHBOURS = [
    pytest.param(
        asked(
            pod("p").label("app", "web").container().repels(WEB, ZONE),
            nodes=[zoned("n1", "z1"), zoned("n2", "z1"), zoned("n3", "z2")],
            pods=[web("r", "n1")],
        ),
        passed("n3", n1=REPELLED, n2=REPELLED),
        id="a pod keeps out of the zone of pods that it repels",
    ),
    pytest.param(
        asked(
            pod("p").label("app", "web").container(),
            nodes=[zoned("n1", "z1"), zoned("n2", "z2")],
            pods=[pod("r").container().repels(WEB, HOST).on("n1")],
        ),
        passed(
            "n2",
            n1=for_now(
                "InterPodAffinity",
                "node(s) didn't satisfy existing pods anti-affinity rules",
            ),
        ),
        id="a running pod's anti-affinity holds against newcomers",
    ),
    pytest.param(
        asked(
            pod("p")
            .container()
            .append(
                "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution",
                {"labelSelector": WEB, "topologyKey": ZONE},
            ),
            nodes=[zoned("n1", "z1"), zoned("n2", "z2")],
            pods=[web("r", "n2")],
        ),
        passed("n2", n1=final("InterPodAffinity", "node(s) didn't match pod affinity rules")),
        id="a pod goes to the zone of pods that it wants near",
    ),
    pytest.param(
        asked(
            pod("p")
            .label("app", "web")
            .container()
            .append(
                "spec.topologySpreadConstraints",
                {
                    "maxSkew": 1,
                    "topologyKey": ZONE,
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": WEB,
                },
            ),
            nodes=[zoned("n1", "z1"), zoned("n2", "z2"), roomy("n3").label(HOST, "n3")],
            pods=[web("r", "n1")],
        ),
        passed(
            "n2",
            n1=for_now(
                "PodTopologySpread", "node(s) didn't match pod topology spread constraints"
            ),
            n3=final(
                "PodTopologySpread",
                "node(s) didn't match pod topology spread constraints (missing required label)",
            ),
        ),
        id="pods are spread over zones, and no further than zones go",
    ),
]


@pytest.mark.parametrize(("scenario", "want"), [*NODES, *NEIGHBOURS])
def test_each_node_has_the_documented_verdict(
    judge: oracle.Oracle, scenario: oracle.Scenario, want: oracle.Verdict
) -> None:
    (verdict,) = judge.ask([scenario])
    assert filtered(verdict) == want


def test_a_gated_pod_never_comes_to_the_nodes(judge: oracle.Oracle) -> None:
    gated = pod("p").container().gate("example.com/wait")
    answer = final("SchedulingGates", "waiting for scheduling gates: [example.com/wait]")
    assert judge.ask([asked(gated, nodes=[roomy("n1")])]) == [
        oracle.Verdict(id="s", prefilter=answer)
    ]


def test_the_message_counts_the_reasons(judge: oracle.Oracle) -> None:
    small = node("n3").allocatable(cpu="100m", memory="1Gi", pods="10")
    nodes = [roomy("n1").taint("a"), roomy("n2").taint("b"), small]
    (verdict,) = judge.ask([asked(pod("p").container(requests={"cpu": "1"}), nodes=nodes)])
    assert verdict.message == (
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s)."
    )


def test_no_node_has_a_message_of_its_own(judge: oracle.Oracle) -> None:
    assert judge.ask([asked(pod("p").container())]) == [
        oracle.Verdict(id="s", message="no nodes available to schedule pods")
    ]


def test_scores_are_normalised_and_weighted(judge: oracle.Oracle) -> None:
    nodes = [
        roomy("n1").label("disk", "ssd").taint("busy", effect="PreferNoSchedule"),
        roomy("n2").label("disk", "hdd"),
    ]
    wishes = pod("p").container().prefers(10, expression("disk", "In", "ssd"))
    (verdict,) = judge.ask([asked(wishes, nodes=nodes)])
    told = {
        name: {plugin: points[plugin] for plugin in ("NodeAffinity", "TaintToleration")}
        for name, points in verdict.scores.items()
    }
    assert told == {
        "n1": {"NodeAffinity": 200, "TaintToleration": 0},
        "n2": {"NodeAffinity": 0, "TaintToleration": 300},
    }


# ---- the stream --------------------------------------------------------------------------------


def test_answers_come_in_the_order_of_the_questions(judge: oracle.Oracle) -> None:
    def numbered() -> Iterator[oracle.Scenario]:
        for number in range(60):
            # Every third is large: it must not be overtaken.
            nodes = [roomy(f"n{one}") for one in range(40 if number % 3 == 0 else 1)]
            yield {**asked(pod("p").container(), nodes=nodes), "id": str(number)}

    verdicts = judge.ask(numbered())
    assert [verdict.id for verdict in verdicts] == [str(number) for number in range(60)]
    assert [len(verdict.feasible) for verdict in verdicts] == [40, 1, 1] * 20


def test_what_cannot_be_read_costs_its_own_answer_only(judge: oracle.Oracle) -> None:
    good = asked(pod("p").container(), nodes=[roomy("n1")])
    wrong_kind = asked(pod("p").container(), nodes=[pod("no-node").container()])
    nonsense = {"id": "s", "kinds": {"nodes": ["text"]}, "pod": {}}
    first, second, third = judge.ask([wrong_kind, nonsense, good])
    assert first == oracle.Verdict(id="s", error="kinds.nodes[0]: want *v1.Node, have *v1.Pod")
    assert second.error.startswith("kinds.nodes[0]: ")
    assert third.feasible == ("n1",)


def test_what_fails_while_questions_are_drawn_is_raised(judge: oracle.Oracle) -> None:
    def broken() -> Iterator[oracle.Scenario]:
        yield asked(pod("p").container(), nodes=[roomy("n1")])
        raise LookupError("no more scenarios")

    with pytest.raises(LookupError, match="no more scenarios"):
        judge.ask(broken())
    assert len(judge.ask([asked(pod("p").container())])) == 1


def test_an_oracle_that_takes_too_long_is_ended() -> None:
    scenario = asked(pod("p").container(), nodes=[roomy("n1")])
    with oracle.Oracle() as own:
        with pytest.raises(process.ProcessError, match="before its answer to s"):
            own.ask((scenario for _ in range(1_000_000)), timeout_s=0.2)
        own.close()
