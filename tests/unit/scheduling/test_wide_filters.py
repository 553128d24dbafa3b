"""The filters that look around, beyond what the cases say: claims, volumes, places, features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from hami_operator.scheduling import (
    neighbours,
    objects,
    rejection,
    storage,
    surroundings,
    volumeoffer,
)
from hami_operator.scheduling.filters import volumebinding
from tests import builders
from tests.unit.scheduling import scenes

Kind = objects.Kind
Things = list[tuple[Kind, Mapping[str, Any]]]
ONE = builders.node("n1").label("zone", "a").label("kubernetes.io/hostname", "n1")
TWO = builders.node("n2").label("zone", "b").label("kubernetes.io/hostname", "n2")
POD = builders.pod("p")
NONE_LEFT = ("node(s) didn't find available persistent volumes to bind",)
NO_SPACE = ("node(s) did not have enough free storage",)
UNREACHED = ("node(s) didn't match PersistentVolume's node affinity",)
VANISHED = ("node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",)
ALONE = ("node(s) didn't match pod affinity rules",)
REPELLED = ("node(s) didn't match pod anti-affinity rules",)
NEAR = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution"
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}


def mounting(*names: str) -> builders.PodBuilder:
    pod = POD
    for name in names:
        source = {"name": name, "persistentVolumeClaim": {"claimName": name}}
        pod = pod.append("spec.volumes", source)
    return pod


def claim(name: str = "data", **spec: Any) -> tuple[Kind, dict[str, Any]]:
    notes = spec.pop("annotations", {})
    meta = {"name": name, "uid": f"uid-{name}", "annotations": notes, **spec.pop("meta", {})}
    status = spec.pop("status", {})
    wanted = {"storageClassName": "later", "resources": {"requests": {"storage": "1Gi"}}}
    return Kind.CLAIM, {"metadata": meta, "spec": wanted | spec, "status": status}


def volume(
    name: str, host: str = "", size: str = "1Gi", **spec: Any
) -> tuple[Kind, dict[str, Any]]:
    made: dict[str, Any] = {"storageClassName": "later", "capacity": {"storage": size}, **spec}
    if host:
        term = builders.expression("kubernetes.io/hostname", "In", host)
        made["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    meta = {"name": name, "uid": name}
    return Kind.VOLUME, {"metadata": meta, "spec": made, "status": {"phase": "Available"}}


def of_class(
    provisioner: str = "kubernetes.io/no-provisioner", **more: Any
) -> tuple[Kind, dict[str, Any]]:
    mode = {"volumeBindingMode": "WaitForFirstConsumer"} | more
    return Kind.CLASS, {"metadata": {"name": "later"}, "provisioner": provisioner, **mode}


@pytest.mark.parametrize(
    ("things", "want"),
    [
        pytest.param(
            [claim(), of_class(), volume("v", "n1")],
            {"n1": "fit", "n2": NONE_LEFT},
            id="a local volume is where it is",
        ),
        pytest.param(
            [claim(), of_class(), volume("v", claimRef={"namespace": "x", "name": "y"})],
            {"n1": NONE_LEFT, "n2": NONE_LEFT},
            id="a volume that is meant for another",
        ),
        pytest.param(
            [
                claim(),
                of_class(),
                volume("mine", "n1", claimRef={"namespace": "default", "name": "data"}),
                volume("any"),
            ],
            {"n1": "fit", "n2": NONE_LEFT},
            id="a volume that is meant for the claim, and no other",
        ),
        pytest.param(
            [claim(accessModes=["ReadWriteMany"]), of_class(), volume("v")],
            {"n1": NONE_LEFT, "n2": NONE_LEFT},
            id="another access mode",
        ),
        pytest.param(
            [claim(selector={"matchLabels": {"a": "b"}}), of_class(), volume("v")],
            {"n1": NONE_LEFT, "n2": NONE_LEFT},
            id="other labels",
        ),
        pytest.param(
            [claim(volumeMode="Block"), of_class(), volume("v")],
            {"n1": NONE_LEFT, "n2": NONE_LEFT},
            id="another mode",
        ),
        pytest.param(
            [claim(annotations={storage.SELECTED_NODE: "n2"}), of_class("example.com/p")],
            {"n1": NONE_LEFT, "n2": "fit"},
            id="being made on another node",
        ),
        pytest.param(
            [
                claim(),
                of_class("example.com/p"),
                (Kind.CSI_DRIVER, {"metadata": {"name": "example.com/p"}, "spec": {}}),
            ],
            {"n1": "fit", "n2": "fit"},
            id="a driver that does not say what is left",
        ),
        pytest.param(
            [
                claim(),
                of_class("example.com/p"),
                (
                    Kind.CSI_DRIVER,
                    {"metadata": {"name": "example.com/p"}, "spec": {"storageCapacity": True}},
                ),
                (
                    Kind.CAPACITY,
                    {
                        "metadata": {"name": "c"},
                        "storageClassName": "later",
                        "capacity": "5Gi",
                        "nodeTopology": {"matchLabels": {"zone": "b"}},
                    },
                ),
            ],
            {"n1": NO_SPACE, "n2": "fit"},
            id="enough is left in one zone",
        ),
        pytest.param(
            [
                claim("data", volumeName="v", annotations=BOUND),
                claim("more"),
                of_class(),
                volume("v", "n1", claimRef={"namespace": "default", "name": "data"}),
            ],
            {"n1": NONE_LEFT, "n2": (*UNREACHED, *NONE_LEFT)},
            id="several reasons at once",
        ),
        pytest.param(
            [
                claim(volumeName="gone", annotations=BOUND),
                claim("more"),
                of_class("example.com/p"),
            ],
            ('persistentvolume "gone" not found',),
            id="a volume that is gone",
        ),
        pytest.param(
            [claim(meta={"deletionTimestamp": builders.CREATED})],
            ('persistentvolumeclaim "data" is being deleted',),
            id="a claim that goes",
        ),
        pytest.param(
            [claim(), of_class(volumeBindingMode=None)],
            ('VolumeBindingMode not set for StorageClass "later"',),
            id="a class without a mode",
        ),
        pytest.param(
            [claim(volumeName="v"), of_class()],
            ("pod has unbound immediate PersistentVolumeClaims",),
            id="a claim that waits for a certain volume",
        ),
        pytest.param(
            [claim()],
            ("pod has unbound immediate PersistentVolumeClaims",),
            id="a class that does not exist",
        ),
    ],
)
def test_claims_of_volumes(things: Things, want: Any) -> None:
    names = [raw["metadata"]["name"] for kind, raw in things if kind is Kind.CLAIM]
    cluster = scenes.around([ONE, TWO], (), things)
    assert scenes.answers(mounting(*names), cluster) == want


def test_an_ephemeral_claim_belongs_to_its_pod() -> None:
    pod = POD.append("spec.volumes", {"name": "s", "ephemeral": {}})
    alien = scenes.around([ONE], (), [claim("p-s"), of_class("example.com/p")])
    assert scenes.answers(pod, alien) == (
        "PVC default/p-s was not created for pod default/p (pod is not owner)",
    )
    owner = {"ownerReferences": [{"uid": "uid-p", "controller": True}]}
    own = scenes.around([ONE], (), [claim("p-s", meta=owner), of_class("example.com/p")])
    assert scenes.answers(pod, own) == {"n1": "fit"}


def test_a_volume_that_vanished_is_told_where_only_binding_looks() -> None:
    things = [claim(volumeName="gone", annotations=BOUND)]
    cluster = scenes.around([ONE], (), things)
    found = scenes.planned("VolumeBinding", mounting("data").read(), cluster)
    assert not isinstance(found, rejection.Rejection)
    assert scenes.said(found["n1"]) == VANISHED


def test_two_claims_do_not_get_the_same_volume() -> None:
    things = [claim("a"), claim("b"), of_class(), volume("v"), volume("w", "n1", "3Gi")]
    cluster = scenes.around([ONE, TWO], (), things)
    pod = mounting("a", "b")
    assert scenes.answers(pod, cluster) == {"n1": "fit", "n2": NONE_LEFT}
    found = volumebinding.claims(pod.read(), cluster.objects)
    assert isinstance(found, volumebinding.Claims)
    bound = volumebinding.binding(found.waiting, ONE.read(), cluster.objects)
    assert isinstance(bound, volumebinding.Binding)
    assert sorted(volume.name for _, volume in bound.matched) == ["v", "w"]


def test_the_smallest_volume_is_taken_and_only_those_at_hand_are_looked_at() -> None:
    known = objects.Objects()
    for kind, raw in [
        claim(),
        volume("big", "n1", "9Gi"),
        volume("small", "n1", "2Gi"),
        volume("tiny", "n2", "1Gi"),
        volume("too-small", "n1", "1Mi"),
        volume("wide", "", "4Gi"),
    ]:
        known.seen(kind, raw)
    wanted = known.claims.get("data", "default")
    assert wanted is not None
    offer = volumeoffer.Offer(wanted, known.volumes)
    found = [offer.best({"kubernetes.io/hostname": name}) for name in ("n1", "n2", "n3")]
    assert [one and one.name for one in found] == ["small", "tiny", "wide"]
    taken = offer.best({"kubernetes.io/hostname": "n1"}, {"small", "wide"})
    assert taken is not None
    assert taken.name == "big"


@pytest.mark.parametrize(
    ("limit", "want"),
    [
        pytest.param(3, "fit", id="the third one still fits"),
        pytest.param(2, ("node(s) exceed max volume count",), id="no place left"),
    ],
)
def test_disks_of_the_specification_count_with_their_driver(limit: int, want: Any) -> None:
    spec = {"drivers": [{"name": "ebs.csi.aws.com", "allocatable": {"count": limit}}]}
    disk = {"name": "d", "awsElasticBlockStore": {"volumeID": "vol-1"}}
    other = {"name": "d", "awsElasticBlockStore": {"volumeID": "vol-2"}}
    others = [
        builders.pod("o1").append("spec.volumes", other).on("n1"),
        builders.pod("o2")
        .append("spec.volumes", {"name": "c", "persistentVolumeClaim": {"claimName": "data"}})
        .on("n1"),
        builders.pod("o3")
        .append("spec.volumes", {"name": "c", "persistentVolumeClaim": {"claimName": "lost"}})
        .on("n1"),
    ]
    things: Things = [
        (Kind.CSI_NODE, {"metadata": {"name": "n1"}, "spec": spec}),
        claim(),
        of_class("kubernetes.io/aws-ebs"),
    ]
    cluster = scenes.around([ONE], others, things)
    assert scenes.answers(POD.append("spec.volumes", disk), cluster) == {"n1": want}


def test_zone_sets_of_old_volumes() -> None:
    def answers(zones: str, **labels: str) -> Any:
        raw = volume("v")[1]
        raw["metadata"]["labels"] = {"failure-domain.beta.kubernetes.io/zone": zones}
        things = [claim(volumeName="v", annotations=BOUND), (Kind.VOLUME, raw)]
        node = builders.node("n1").merge(
            "metadata.labels", {f"topology.kubernetes.io/{k}": v for k, v in labels.items()}
        )
        return scenes.answers(mounting("data"), scenes.around([node], (), things))

    refused = {"n1": ("node(s) had no available volume zone",)}
    assert answers("a__b", zone="b") == {"n1": "fit"}
    assert answers("a__b", zone="c") == refused
    assert answers("a__", zone="c") == {"n1": "fit"}, "a set with an empty part is none"
    assert answers("a", region="r") == refused
    assert answers("a") == {"n1": "fit"}


def test_what_a_node_declares() -> None:
    able = ONE.put("status.declaredFeatures", ["UserNamespacesHostNetworkSupport"])
    pod = POD.put("spec.hostUsers", False).put("spec.hostNetwork", True)
    assert scenes.answers(pod, scenes.around([able, TWO])) == {
        "n1": "fit",
        "n2": ("node(s) didn't match Pod's required features",),
    }


# ---- claims of devices


def devices(**status: Any) -> tuple[Kind, dict[str, Any]]:
    meta = status.pop("meta", {})
    requests = [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]
    return Kind.RESOURCE_CLAIM, {
        "metadata": {"name": "c", **meta},
        "spec": {"devices": {"requests": requests}},
        "status": status,
    }


def entry(**source: str) -> builders.PodBuilder:
    return POD.append("spec.resourceClaims", {"name": "r", **source})


NAMED = entry(resourceClaimName="c")
MADE = entry(resourceClaimTemplateName="t")
STATUS = {"name": "r", "resourceClaimName": "c"}


@pytest.mark.parametrize(
    ("pod", "things", "want"),
    [
        pytest.param(NAMED, [devices(allocation={})], {"n1": "fit"}, id="usable from anywhere"),
        pytest.param(
            NAMED, [devices()], ("request r: device class gpu does not exist",), id="no class"
        ),
        pytest.param(
            NAMED,
            [devices(allocation={}, reservedFor=[{"uid": str(n)} for n in range(256)])],
            ("resourceclaim in use",),
            id="no place left in the claim",
        ),
        pytest.param(
            NAMED,
            [devices(allocation={}, reservedFor=[{"uid": f"{n}"} for n in range(255)]
                     + [{"uid": "uid-p"}])],
            {"n1": "fit"},
            id="but one is its own",
        ),
        pytest.param(
            NAMED,
            [devices(meta={"deletionTimestamp": "x"}, allocation={})],
            ('resourceclaim "c" is being deleted',),
            id="a claim that goes",
        ),
        pytest.param(
            MADE, [], ('pod "default/p": ResourceClaim not created yet',), id="not made yet"
        ),
        pytest.param(
            MADE.append("status.resourceClaimStatuses", {"name": "r"}),
            [],
            {"n1": "fit"},
            id="none is needed",
        ),
        pytest.param(
            MADE.append("status.resourceClaimStatuses", STATUS),
            [devices(allocation={})],
            ("ResourceClaim default/c was not created for Pod default/p (Pod is not owner)",),
            id="made for another pod",
        ),
    ],
)  # fmt: skip
def test_claims_of_devices(pod: builders.PodBuilder, things: Things, want: Any) -> None:
    assert scenes.answers(pod, scenes.around([ONE], (), things)) == want


CLASS = (Kind.DEVICE_CLASS, {"metadata": {"name": "gpu"}})
REQUIRED = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
CONFLICT = {
    "matchFields": [*builders.pin("n1")["matchFields"], *builders.pin("n2")["matchFields"]]
}
PINNED = {"nodeSelector": {"nodeSelectorTerms": [builders.expression("zone", "In", "b")]}}


@pytest.mark.parametrize(
    ("pod", "things", "want"),
    [
        pytest.param(
            NAMED.append("spec.resourceClaims", {"name": "s", "resourceClaimName": "gone"}),
            [devices()],
            ('could not find ResourceClaim "default/gone"',),
            id="a claim that is missing comes before a class that is missing for another",
        ),
        pytest.param(
            mounting("x").append("spec.resourceClaims", MADE.raw()["spec"]["resourceClaims"][0]),
            [],
            ('pod "default/p": ResourceClaim not created yet',),
            id="and before a volume that is missing",
        ),
        pytest.param(
            MADE.put(REQUIRED, {"nodeSelectorTerms": [CONFLICT]}),
            [],
            ('pod "default/p": ResourceClaim not created yet',),
            id="and before pins that contradict each other",
        ),
        pytest.param(
            NAMED.append("spec.resourceClaims", {"name": "s", "resourceClaimName": "d"}),
            [CLASS, devices(allocation=PINNED), devices(meta={"name": "d"})],
            {"n1": ("cannot allocate all claims",)},
            id="devices that cannot be chosen come before those that are elsewhere",
        ),
        pytest.param(
            entry(resourceClaimName="c").container(
                "a", restartPolicyRules=[{"action": "RestartAllContainers"}]
            ),
            [CLASS, devices()],
            {"n1": ("cannot allocate all claims",)},
            id="and before features that kubelet lacks",
        ),
    ],
)  # fmt: skip
def test_which_of_several_problems_with_claims_is_told(
    pod: builders.PodBuilder, things: Things, want: Any
) -> None:
    assert scenes.answers(pod, scenes.around([ONE], (), things)) == want


def test_the_problem_of_a_claim_that_was_sent_here_is_told_first() -> None:
    small = {"metadata": {"name": "room"}, "storageClassName": "sized", "capacity": "1"}
    small["nodeTopology"] = {"matchLabels": {}}  # everywhere
    sized = {"metadata": {"name": "sized"}, "provisioner": "example.com/s"}
    things = [
        claim("a", storageClassName="sized"),
        claim("b", annotations={storage.SELECTED_NODE: "n1"}),
        (Kind.CLASS, sized | {"volumeBindingMode": "WaitForFirstConsumer"}),
        of_class(),
        (
            Kind.CSI_DRIVER,
            {"metadata": {"name": "example.com/s"}, "spec": {"storageCapacity": True}},
        ),
        (Kind.CAPACITY, small),
    ]
    assert scenes.answers(mounting("a", "b"), scenes.around([ONE], (), things)) == {
        "n1": NONE_LEFT
    }
    assert scenes.answers(mounting("a"), scenes.around([ONE], (), things)) == {"n1": NO_SPACE}


# ---- namespaces by label, where kube-scheduler and the API differ


OUTSIDE = {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}
INSIDE = {"matchLabels": {"team": "a"}}
OURS = (Kind.NAMESPACE, {"metadata": {"name": "default", "labels": {"team": "a"}}})
DB = {"matchLabels": {"app": "db"}}


@pytest.mark.parametrize(
    ("selector", "want"),
    [
        pytest.param(OUTSIDE, {"n1": REPELLED, "n2": "fit"}, id="it holds without labels"),
        pytest.param(INSIDE, {"n1": REPELLED, "n2": "fit"}, id="it selects the namespace"),
        pytest.param(
            {"matchLabels": {"team": "b"}}, {"n1": "fit", "n2": "fit"}, id="it selects another one"
        ),
    ],
)
def test_a_namespace_selector_that_holds_without_labels_repels_from_all(
    selector: Any, want: Any
) -> None:
    other = builders.pod("o").label("app", "db").on("n1")
    pod = POD.repels(DB, "zone", namespaceSelector=selector)
    assert scenes.answers(pod, scenes.around([ONE, TWO], [other], [OURS])) == want


@pytest.mark.parametrize(
    ("selector", "want"),
    [
        pytest.param(INSIDE, {"n1": "fit", "n2": ALONE}, id="a pod of a selected namespace"),
        pytest.param(
            OUTSIDE, {"n1": ALONE, "n2": ALONE}, id="a pod that only kube-scheduler sees"
        ),
    ],
)
def test_affinity_keeps_to_the_namespaces_that_the_selector_selects(
    selector: Any, want: Any
) -> None:
    other = builders.pod("o").label("app", "db").on("n1")
    term = {"labelSelector": DB, "topologyKey": "zone", "namespaceSelector": selector}
    pod = POD.label("app", "db").append(NEAR, term | {"namespaces": ["default"]})
    pod = pod if selector is INSIDE else POD.append(NEAR, term)
    assert scenes.answers(pod, scenes.around([ONE, TWO], [other], [OURS])) == want


def test_the_first_of_a_group_goes_nowhere_while_kube_scheduler_sees_others_of_it() -> None:
    other = builders.pod("o", "far").label("app", "db").on("n1")
    far = (Kind.NAMESPACE, {"metadata": {"name": "far", "labels": {"team": "a"}}})
    here = (Kind.NAMESPACE, {"metadata": {"name": "default", "labels": {"team": "b"}}})
    term = {"labelSelector": DB, "topologyKey": "zone", "namespaceSelector": OUTSIDE}
    pod = POD.label("app", "db").append(NEAR, term)
    assert scenes.answers(pod, scenes.around([ONE], [other], [far, here])) == {"n1": ALONE}
    assert scenes.answers(pod, scenes.around([ONE], [], [far, here])) == {"n1": "fit"}


# ---- what is not known yet


def test_a_pod_waits_for_the_kinds_it_depends_on_and_makes_them_wanted() -> None:
    cluster = scenes.around([ONE], complete=False)
    assert scenes.answers(mounting("data"), cluster) == (
        "waiting for the first list of csidrivers, csinodes, csistoragecapacities, "
        "persistentvolumeclaims, persistentvolumes, storageclasses, volumeattachments",
    )
    assert cluster.objects.take_wanted() == objects.STORAGE
    assert cluster.objects.take_wanted() == frozenset()


def test_terms_of_others_make_namespaces_wanted_and_repel_until_these_are_known() -> None:
    selector = {"matchLabels": {"team": "a"}}
    other = builders.pod("o").repels({}, "zone", namespaceSelector=selector).on("n1")
    cluster = scenes.around([ONE, TWO], [other], complete=False)
    refused = ("node(s) didn't satisfy existing pods anti-affinity rules",)
    assert scenes.answers(POD, cluster) == {"n1": refused, "n2": "fit"}
    assert cluster.objects.take_wanted() == objects.NAMESPACES
    cluster.objects.seen(Kind.NAMESPACE, {"metadata": {"name": "default"}})
    assert scenes.answers(POD, cluster) == {"n1": "fit", "n2": "fit"}


def test_who_was_promised_a_place_is_counted_but_helps_nobody() -> None:
    friend = builders.pod("friend").label("app", "db")
    port = [{"containerPort": 1, "hostPort": 80}]
    promised = [(friend.container(ports=port).read(), "n1")]
    cluster = scenes.around([ONE, TWO])
    assert isinstance(cluster.pods, neighbours.Neighbours)
    seen = surroundings.Surroundings(
        nodes=cluster.nodes,
        pods=cluster.pods,
        objects=cluster.objects,
        promised=neighbours.Supposed(cluster.pods, (), promised),
    )
    repelled = POD.repels({"matchLabels": {"app": "db"}}, "zone")
    assert scenes.answers(repelled, seen) == {
        "n1": ("node(s) didn't match pod anti-affinity rules",),
        "n2": "fit",
    }
    term = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "zone"}
    path = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    alone = ("node(s) didn't match pod affinity rules",)
    assert scenes.answers(POD.append(path, term), seen) == {"n1": alone, "n2": alone}
