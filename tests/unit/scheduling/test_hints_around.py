"""Which event around wakes which parked pod: other pods, nodes that make domains, objects."""

from __future__ import annotations

from typing import Any

import pytest

from hami_operator.scheduling import hints, objecthints, objects
from tests import builders
from tests.unit.scheduling.test_hints import node, other

Kind = objects.Kind
NODE = builders.node("n").label("zone", "a")
PORT = [{"containerPort": 80, "hostPort": 80}]
DISK = {"name": "v", "gcePersistentDisk": {"pdName": "d"}}
CLAIM = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
WEB = {"matchLabels": {"app": "web"}}
TERM = {"labelSelector": WEB, "topologyKey": "zone"}
NEAR = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution"
PLAIN = builders.pod("p")
FRIEND = builders.pod("o").label("app", "web").on("n")
STRANGER = builders.pod("o").on("n")
SPREAD = PLAIN.append(
    "spec.topologySpreadConstraints",
    {"maxSkew": 1, "topologyKey": "zone", "labelSelector": WEB},
)
LONELY = PLAIN.append(NEAR, TERM)
SHY = PLAIN.repels(WEB, "zone")
STORED = PLAIN.append("spec.volumes", CLAIM)


@pytest.mark.parametrize(
    ("plugin", "pod", "event", "want"),
    [
        pytest.param(
            "NodePorts", PLAIN.container(ports=PORT), node(None, NODE), True, id="a new node"
        ),
        pytest.param(
            "NodePorts",
            PLAIN.container(ports=PORT),
            other(FRIEND.container(ports=PORT), None),
            True,
            id="a port is free",
        ),
        pytest.param(
            "NodePorts",
            PLAIN.container(ports=PORT),
            other(FRIEND.container(ports=PORT), FRIEND.container(ports=PORT).label("x")),
            False,
            id="a port is still taken",
        ),
        pytest.param(
            "NodePorts", PLAIN.container(ports=PORT), other(None, FRIEND), False, id="a pod came"
        ),
        pytest.param(
            "VolumeRestrictions",
            PLAIN.append("spec.volumes", DISK),
            other(FRIEND.append("spec.volumes", DISK), None),
            True,
            id="a disk is free",
        ),
        pytest.param(
            "VolumeRestrictions",
            STORED,
            other(FRIEND.append("spec.volumes", CLAIM), None),
            True,
            id="a claim is free",
        ),
        pytest.param(
            "VolumeRestrictions", STORED, other(FRIEND, None), False, id="neither was held"
        ),
        pytest.param(
            "NodeVolumeLimits",
            STORED,
            other(FRIEND.append("spec.volumes", CLAIM), None),
            True,
            id="one volume less on its node",
        ),
        pytest.param("NodeVolumeLimits", STORED, other(FRIEND, None), False, id="no volume less"),
        pytest.param(
            "VolumeBinding", STORED, node(NODE, NODE.label("x")), True, id="a node relabelled"
        ),
        pytest.param("VolumeBinding", STORED, other(FRIEND, None), False, id="pods bind nothing"),
        pytest.param("PodTopologySpread", SPREAD, other(FRIEND, None), True, id="one went"),
        pytest.param("PodTopologySpread", SPREAD, other(None, FRIEND), True, id="one came"),
        pytest.param("PodTopologySpread", SPREAD, other(STRANGER, None), False, id="not counted"),
        pytest.param(
            "PodTopologySpread",
            SPREAD,
            other(FRIEND.put("metadata.namespace", "x"), None),
            False,
            id="of another namespace",
        ),
        pytest.param("PodTopologySpread", SPREAD, other(STRANGER, FRIEND), True, id="counted now"),
        pytest.param(
            "PodTopologySpread", SPREAD, other(FRIEND, FRIEND.label("x")), False, id="as before"
        ),
        pytest.param("PodTopologySpread", SPREAD, node(None, NODE), True, id="a node in a domain"),
        pytest.param(
            "PodTopologySpread", SPREAD, node(None, builders.node("n")), False, id="in none"
        ),
        pytest.param("PodTopologySpread", SPREAD, node(NODE, None), True, id="one node less"),
        pytest.param(
            "PodTopologySpread", SPREAD, node(NODE, NODE.label("zone", "b")), True, id="moved"
        ),
        pytest.param(
            "PodTopologySpread", SPREAD, node(NODE, builders.node("n")), True, id="off the map"
        ),
        pytest.param("PodTopologySpread", SPREAD, node(NODE, NODE.taint("t")), True, id="tainted"),
        pytest.param(
            "PodTopologySpread", SPREAD, node(NODE, NODE.label("x")), False, id="another label"
        ),
        pytest.param(
            "PodTopologySpread", SPREAD, other(SPREAD, SPREAD.label("x")), True, id="its labels"
        ),
        pytest.param("InterPodAffinity", LONELY, other(None, FRIEND), True, id="a friend came"),
        pytest.param("InterPodAffinity", LONELY, other(None, STRANGER), False, id="a stranger"),
        pytest.param("InterPodAffinity", LONELY, other(STRANGER, FRIEND), True, id="befriended"),
        pytest.param("InterPodAffinity", SHY, other(None, FRIEND), False, id="one more to shun"),
        pytest.param("InterPodAffinity", SHY, other(FRIEND, None), True, id="one less to shun"),
        pytest.param("InterPodAffinity", SHY, other(FRIEND, STRANGER), True, id="no more shunned"),
        pytest.param(
            "InterPodAffinity",
            PLAIN.label("app", "web"),
            other(STRANGER.repels(WEB, "zone"), None),
            True,
            id="one less that shuns it",
        ),
        pytest.param(
            "NodeDeclaredFeatures",
            PLAIN,
            node(NODE, NODE.put("status.declaredFeatures", ["F"])),
            True,
            id="a kubelet that can do more",
        ),
        pytest.param(
            "NodeDeclaredFeatures", PLAIN, node(NODE, NODE.label("x")), False, id="as before"
        ),
    ],
)
def test_nodes_and_pods(
    plugin: str, pod: builders.PodBuilder, event: hints.Event, want: bool
) -> None:
    assert hints.may_help([plugin], pod.read(), event) is want


def changed(kind: Kind, raw: dict[str, Any] | None, old: dict[str, Any] | None = None) -> Any:
    known = objects.Objects()
    before = known.seen(kind, old).new if old is not None else None
    after = known.seen(kind, raw).new if raw is not None else None
    return objects.Change(kind, before, after)


def named(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": name}, "spec": spec}


DEVICED = PLAIN.append("spec.resourceClaims", {"name": "r", "resourceClaimName": "cards"})


@pytest.mark.parametrize(
    ("plugin", "pod", "event", "want"),
    [
        pytest.param("VolumeBinding", STORED, changed(Kind.CLAIM, named("data")), True, id="its"),
        pytest.param("VolumeBinding", STORED, changed(Kind.CLAIM, named("x")), False, id="other"),
        pytest.param(
            "VolumeBinding", STORED, changed(Kind.CLAIM, None, named("data")), False, id="gone"
        ),
        pytest.param("VolumeZone", STORED, changed(Kind.VOLUME, named("v")), True, id="a volume"),
        pytest.param(
            "VolumeZone",
            STORED,
            changed(Kind.VOLUME, named("v", claimRef={"namespace": "default", "name": "data"})),
            True,
            id="a volume for its claim",
        ),
        pytest.param(
            "VolumeZone",
            STORED,
            changed(Kind.VOLUME, named("v", claimRef={"namespace": "default", "name": "x"})),
            False,
            id="a volume for another claim",
        ),
        pytest.param("VolumeBinding", STORED, changed(Kind.CLASS, named("c")), True, id="a class"),
        pytest.param(
            "NodeVolumeLimits",
            STORED,
            changed(Kind.ATTACHMENT, None, named("a")),
            True,
            id="one less attached",
        ),
        pytest.param(
            "DynamicResources",
            DEVICED,
            changed(Kind.RESOURCE_CLAIM, named("cards")),
            True,
            id="its claim of devices",
        ),
        pytest.param(
            "DynamicResources",
            DEVICED,
            changed(Kind.RESOURCE_CLAIM, named("x")),
            False,
            id="another claim of devices",
        ),
        pytest.param(
            "DynamicResources", DEVICED, other(DEVICED, PLAIN), True, id="it claims others"
        ),
        pytest.param("NotListed", STORED, objects.Change(Kind.CLAIM), True, id="all are known"),
        pytest.param(
            "NotListed", STORED, changed(Kind.CLAIM, named("data")), False, id="one is known"
        ),
        pytest.param(
            "TaintToleration", STORED, changed(Kind.CLAIM, named("data")), False, id="no matter"
        ),
        pytest.param(
            "InterPodAffinity", SHY, changed(Kind.NAMESPACE, named("n")), True, id="a namespace"
        ),
    ],
)
def test_objects(plugin: str, pod: builders.PodBuilder, event: hints.Event, want: bool) -> None:
    assert hints.may_help([plugin], pod.read(), event) is want


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_wakes_whoever_waits_for_its_list(kind: Kind) -> None:
    assert "NotListed" in objecthints.affected(kind)
    assert len(objecthints.affected(kind)) > 1


def test_a_late_end_does_not_take_the_object_that_has_the_name_now() -> None:
    known = objects.Objects()
    for uid in ("old", "new"):
        raw = {"metadata": {"name": "team", "uid": uid, "labels": {"made": uid}}}
        known.seen(Kind.NAMESPACE, raw)
    assert known.gone(Kind.NAMESPACE, "", "team", "old") is None
    assert known.namespaces == {"team": {"made": "new"}}
    gone = known.gone(Kind.NAMESPACE, "", "team", "new")
    assert gone is not None
    assert gone.new is None
    assert (known.namespaces, len(known.claims)) == ({}, 0)
