"""Creation: defaults, validation, and what the server alone decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hami_operator.cluster.memory import refusals, store
from tests.unit.memory import objects

TOLERATIONS = [
    {
        "key": f"node.kubernetes.io/{why}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    for why in ("not-ready", "unreachable")
]


@pytest.fixture
def memory() -> store.Store:
    return objects.new_store()


def refused(act: Callable[[], Any]) -> tuple[int, str, str]:
    with pytest.raises(refusals.Refused) as caught:
        act()
    return objects.refusal(caught.value)


def test_a_pod_gets_the_defaults_of_the_server(memory: store.Store) -> None:
    spec = objects.asking(limits={"cpu": 0.5, "memory": "1024Mi", "nvidia.com/gpu": 1})
    made = memory.create("pods", objects.pod(spec=spec, labels={"a": "b"})).copy("pods")
    amounts = {"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": "1"}
    assert made == {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": "p",
            "namespace": "default",
            "uid": "uid-00007",
            "resourceVersion": "7",
            "creationTimestamp": objects.NOW,
            "generation": 1,
            "labels": {"a": "b"},
        },
        "spec": {
            "containers": [
                {
                    "name": "c",
                    "image": "i",
                    "imagePullPolicy": "Always",
                    "resources": {"limits": amounts, "requests": amounts},
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                }
            ],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
            "priority": 0,
            "tolerations": TOLERATIONS,
        },
        "status": {"phase": "Pending", "qosClass": "Guaranteed"},
    }


@pytest.mark.parametrize(
    ("spec", "field", "want"),
    [
        pytest.param({"schedulerName": "s"}, "schedulerName", "s", id="the scheduler is kept"),
        pytest.param(
            {"tolerations": [{"operator": "Exists"}]},
            "tolerations",
            [{"operator": "Exists"}],
            id="a toleration of everything needs no others",
        ),
        pytest.param(
            {"tolerations": [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]},
            "tolerations",
            [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}, TOLERATIONS[1]],
            id="one of the two tolerations is there already",
        ),
        pytest.param(
            {"priorityClassName": "system-node-critical"},
            "priority",
            2_000_001_000,
            id="the priority of its class",
        ),
        pytest.param({"overhead": {"cpu": 1}}, "overhead", {"cpu": "1"}, id="overhead"),
        pytest.param(
            {"resources": {"requests": {"cpu": "1000m"}}},
            "resources",
            {"requests": {"cpu": "1"}},
            id="resources of the whole pod",
        ),
    ],
)
def test_pod_specs(memory: store.Store, spec: dict, field: str, want: Any) -> None:
    made = memory.create("pods", objects.pod(spec=spec))
    assert made.obj["spec"][field] == want


@pytest.mark.parametrize(
    ("image", "want"),
    [
        pytest.param("a", "Always", id="no tag"),
        pytest.param("host:5000/a", "Always", id="a port is no tag"),
        pytest.param("a:latest", "Always", id="the latest"),
        pytest.param("a:1", "IfNotPresent", id="a tag"),
    ],
)
def test_pull_policies(memory: store.Store, image: str, want: str) -> None:
    spec = {"containers": [{"name": "c", "image": image, "ports": [{"containerPort": 1}]}]}
    container = memory.create("pods", objects.pod(spec=spec)).obj["spec"]["containers"][0]
    assert container["imagePullPolicy"] == want
    assert container["ports"] == [{"containerPort": 1, "protocol": "TCP"}]


@pytest.mark.parametrize(
    ("resources", "want"),
    [
        pytest.param({}, "BestEffort", id="nothing"),
        pytest.param({"limits": {"a.b/c": 1}}, "BestEffort", id="only extended resources"),
        pytest.param({"requests": {"cpu": 1}}, "Burstable", id="a request"),
        pytest.param({"limits": {"cpu": 1}}, "Burstable", id="only one of the two"),
        pytest.param({"limits": {"cpu": 1, "memory": 1}}, "Guaranteed", id="both limits"),
        pytest.param(
            {"limits": {"cpu": 2, "memory": 1}, "requests": {"cpu": 1}},
            "Burstable",
            id="a request below its limit",
        ),
    ],
)
def test_quality_of_service(memory: store.Store, resources: dict, want: str) -> None:
    made = memory.create("pods", objects.pod(spec=objects.asking(**resources)))
    assert made.obj["status"]["qosClass"] == want


def test_a_gated_pod_says_so(memory: store.Store) -> None:
    made = memory.create("pods", objects.pod(spec={"schedulingGates": [{"name": "g"}]}))
    assert made.obj["status"]["conditions"] == [
        {
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": None,
            "lastTransitionTime": objects.NOW,
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }
    ]


def test_the_global_priority_class_is_the_default(memory: store.Store) -> None:
    memory.create(
        "priorityclasses",
        {
            "metadata": {"name": "mine"},
            "value": 7,
            "globalDefault": True,
            "preemptionPolicy": "Never",
        },
    )
    spec = memory.create("pods", objects.pod()).obj["spec"]
    assert (spec["priority"], spec["priorityClassName"]) == (7, "mine")
    assert spec["preemptionPolicy"] == "Never"


def test_a_node_gets_allocatable_and_the_taint_of_a_new_node(memory: store.Store) -> None:
    made = memory.create("nodes", objects.node(status={"capacity": {"cpu": 4, "pods": "110"}}))
    assert made.obj["status"]["allocatable"] == {"cpu": "4", "pods": "110"}
    assert made.obj["spec"]["taints"] == [
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    ]
    assert "generation" not in made.obj["metadata"]


def test_a_node_that_brings_the_taint_keeps_its_own(memory: store.Store) -> None:
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}
    made = memory.create("nodes", {"metadata": {"name": "n"}, "spec": {"taints": [taint]}})
    assert made.obj["spec"]["taints"] == [taint]


@pytest.mark.parametrize(
    ("resource", "body", "half", "want"),
    [
        pytest.param(
            "namespaces",
            {"metadata": {"name": "x"}, "status": {"phase": "Odd"}},
            "status",
            {"phase": "Active"},
            id="a namespace is active",
        ),
        pytest.param(
            "persistentvolumeclaims",
            objects.config_map(),
            "status",
            {"phase": "Pending"},
            id="a claim is pending",
        ),
        pytest.param(
            "deployments",
            {**objects.config_map(), "status": {"replicas": 1}},
            "status",
            None,
            id="the status of a new Deployment is dropped",
        ),
        pytest.param(
            "resourcequotas",
            {**objects.config_map(), "spec": {"hard": {"cpu": 0.5}}},
            "spec",
            {"hard": {"cpu": "500m"}},
            id="a quota is converted",
        ),
    ],
)
def test_other_kinds(memory: store.Store, resource: str, body: dict, half: str, want: Any) -> None:
    assert memory.create(resource, body).obj.get(half) == want


def test_generated_names_differ(memory: store.Store) -> None:
    body = {"metadata": {"generateName": "g-", "namespace": "default"}}
    names = {memory.create("configmaps", body).key[1] for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith("g-") for name in names)


def test_what_the_server_decides_is_not_taken_from_the_client(memory: store.Store) -> None:
    sent = objects.config_map(
        uid="mine",
        creationTimestamp="2001-01-01T00:00:00Z",
        deletionTimestamp="2001-01-01T00:00:00Z",
        managedFields=[{}],
    )
    assert memory.create("configmaps", sent).obj["metadata"] == {
        "name": "c",
        "namespace": "default",
        "uid": "uid-00007",
        "resourceVersion": "7",
        "creationTimestamp": objects.NOW,
    }


def test_nulls_are_dropped_and_null_annotations_are_empty(memory: store.Store) -> None:
    sent = {
        **objects.config_map(annotations={"a": None}, labels=None),
        "data": {"k": "v", "n": None},
    }
    made = memory.create("configmaps", sent).obj
    assert made["metadata"]["annotations"] == {"a": ""}
    assert "labels" not in made["metadata"]
    assert made["data"] == {"k": "v"}


def test_the_body_belongs_to_the_caller(memory: store.Store) -> None:
    sent = objects.config_map(labels={"a": "b"})
    record = memory.create("configmaps", sent)
    sent["metadata"]["labels"]["a"] = "changed"
    record.copy("configmaps")["metadata"]["labels"]["a"] = "changed too"
    assert memory.get("configmaps", ("default", "c")).obj["metadata"]["labels"] == {"a": "b"}


@pytest.mark.parametrize(
    ("resource", "body", "want"),
    [
        pytest.param(
            "configmaps",
            b"{odd",
            (400, "BadRequest", "the object provided is unrecognized (must be of type ConfigMap)"),
            id="no JSON",
        ),
        pytest.param(
            "configmaps",
            b"[]",
            (400, "BadRequest", "the object provided is unrecognized"),
            id="no object",
        ),
        pytest.param(
            "configmaps",
            objects.pod(),
            (400, "BadRequest", 'Pod in version "v1" cannot be handled as a ConfigMap'),
            id="another kind",
        ),
        pytest.param(
            "leases",
            {**objects.lease(), "apiVersion": "v1"},
            (400, "BadRequest", "the API version in the data (v1) does not match"),
            id="another version",
        ),
        pytest.param(
            "configmaps",
            {"metadata": []},
            (400, "BadRequest", "json: cannot unmarshal array into Go struct field"),
            id="metadata is a list",
        ),
        pytest.param(
            "configmaps",
            objects.config_map(annotations={"a": 1}),
            (
                400,
                "BadRequest",
                "json: cannot unmarshal number into Go struct field "
                "ObjectMeta.metadata.annotations of type string",
            ),
            id="a number as annotation",
        ),
        pytest.param(
            "configmaps",
            objects.config_map(labels=["a"]),
            (400, "BadRequest", "of type map[string]string"),
            id="labels are a list",
        ),
        pytest.param(
            "pods",
            {**objects.pod(), "spec": "odd"},
            (400, "BadRequest", "cannot unmarshal string"),
            id="the spec is a text",
        ),
        pytest.param(
            "pods",
            objects.pod(spec={"containers": ["odd"]}),
            (400, "BadRequest", "field Pod.spec.containers of type object"),
            id="a container is a text",
        ),
        pytest.param(
            "pods",
            objects.pod(spec=objects.asking(limits={"nvidia.com/gpu": "NaN"})),
            (400, "BadRequest", "quantities must match the regular expression"),
            id="no quantity",
        ),
        pytest.param(
            "configmaps",
            objects.config_map(resourceVersion="5"),
            (500, "", "resourceVersion should not be set on objects to be created"),
            id="a resourceVersion",
        ),
        pytest.param(
            "configmaps",
            objects.config_map(namespace="nope"),
            (404, "NotFound", 'namespaces "nope" not found'),
            id="no such namespace",
        ),
        pytest.param(
            "pods",
            objects.pod(spec={"priority": 5}),
            (403, "Forbidden", "the integer value of priority (5) must not be provided"),
            id="a priority without its class",
        ),
        pytest.param(
            "pods",
            objects.pod(spec={"priorityClassName": "nope"}),
            (403, "Forbidden", 'pods "p" is forbidden: no PriorityClass with name nope was found'),
            id="no such priority class",
        ),
        pytest.param(
            "configmaps",
            {"metadata": {}},
            (422, "Invalid", 'ConfigMap "" is invalid: metadata.name: Required value: name or'),
            id="no name",
        ),
        pytest.param(
            "leases",
            objects.lease(leaseDurationSeconds=0),
            (
                422,
                "Invalid",
                'Lease.coordination.k8s.io "l" is invalid: spec.leaseDurationSeconds: '
                "Invalid value: 0: must be greater than 0",
            ),
            id="a lease of no time",
        ),
        pytest.param(
            "leases",
            objects.lease(leaseTransitions=-1),
            (422, "Invalid", "spec.leaseTransitions: Invalid value: -1"),
            id="negative transitions",
        ),
        pytest.param(
            "leases",
            objects.lease(renewTime="2026-01-01T00:00:00Z"),
            (400, "BadRequest", 'as "2006-01-02T15:04:05.000000Z07:00"'),
            id="a time without microseconds",
        ),
    ],
)
def test_refused_objects(
    memory: store.Store, resource: str, body: Any, want: tuple[int, str, str]
) -> None:
    code, reason, message = refused(lambda: memory.create(resource, body))
    assert (code, reason) == want[:2]
    assert want[2] in message


@pytest.mark.parametrize(
    ("resource", "name", "want"),
    [
        pytest.param("configmaps", "Bad_Name", "a lowercase RFC 1123 subdomain", id="subdomain"),
        pytest.param("configmaps", "x" * 254, "must be no more than 253 bytes", id="too long"),
        pytest.param("namespaces", "a.b", "a lowercase RFC 1123 label", id="a label has no dot"),
        pytest.param("namespaces", "x" * 64, "must be no more than 63 bytes", id="long label"),
        pytest.param("clusterroles", "a/b", "may not contain '/'", id="a slash in a role"),
        pytest.param("clusterroles", "..", "may not be '..'", id="a role that is a folder"),
        pytest.param("nodes", "n" * 72, "", id="a node may have 72 characters"),
        pytest.param("clusterroles", "system:Basic", "", id="a role may have a colon"),
    ],
)
def test_names(memory: store.Store, resource: str, name: str, want: str) -> None:
    if not want:
        assert memory.create(resource, {"metadata": {"name": name}}).key[1] == name
        return
    code, _, message = refused(lambda: memory.create(resource, {"metadata": {"name": name}}))
    assert code == 422
    assert f'metadata.name: Invalid value: "{name}": {want}' in message


@pytest.mark.parametrize(
    ("metadata", "want"),
    [
        pytest.param({"labels": {"a": "x" * 63}}, "", id="63 characters are allowed"),
        pytest.param(
            {"labels": {"a": "x" * 64}}, "must be no more than 63 bytes", id="64 are not"
        ),
        pytest.param({"labels": {"a": "b c"}}, "a valid label must be", id="a blank in a label"),
        pytest.param({"labels": {"a": ""}}, "", id="an empty label"),
        pytest.param({"labels": {"bad key!": ""}}, "name part must consist", id="a label key"),
        pytest.param({"annotations": {"bad key!": ""}}, "name part must consist", id="a key"),
        pytest.param({"annotations": {"A.b/C": ""}}, "", id="capitals in an annotation key"),
        pytest.param({"labels": {"A.b/C": ""}}, "prefix part a lowercase", id="but not in labels"),
        pytest.param({"annotations": {"/a": ""}}, "prefix part must be non-empty", id="prefix"),
        pytest.param({"annotations": {"a/": ""}}, "name part must be non-empty", id="no name"),
        pytest.param({"annotations": {"a/b/c": ""}}, "a valid label key", id="two slashes"),
        pytest.param({"annotations": {"x" * 64: ""}}, "no more than 63 bytes", id="a long key"),
        pytest.param(
            {"annotations": {"x" * 254 + "/a": ""}}, "no more than 253 bytes", id="a long prefix"
        ),
        pytest.param({"annotations": {"a": "x" * (256 * 1024 - 1)}}, "", id="exactly 256 KiB"),
        pytest.param(
            {"annotations": {"a": "x" * 200_000, "b": "ä" * 40_000}},
            "Too long: may not be more than 262144 bytes",
            id="more than 256 KiB in bytes",
        ),
        pytest.param(
            {"finalizers": ["a b"]}, "metadata.finalizers: Invalid value", id="finalizer"
        ),
        pytest.param(
            {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]},
            "metadata.ownerReferences.uid",
            id="an owner without UID",
        ),
    ],
)
def test_metadata(memory: store.Store, metadata: dict, want: str) -> None:
    sent = objects.config_map(**metadata)
    if not want:
        assert memory.create("configmaps", sent).key == ("default", "c")
        return
    code, _, message = refused(lambda: memory.create("configmaps", sent))
    assert code == 422
    assert want in message


@pytest.mark.parametrize(
    ("resources", "want"),
    [
        pytest.param({"limits": {"nvidia.com/gpu": "0"}}, "", id="zero"),
        pytest.param({"limits": {"nvidia.com/gpu": "1e30"}}, "", id="an absurd number"),
        pytest.param(
            {"limits": {"nvidia.com/gpu": "-1"}},
            '.limits[nvidia.com/gpu]: Invalid value: "-1": must be greater than or equal to 0',
            id="negative",
        ),
        pytest.param(
            {"limits": {"nvidia.com/gpu": 1.5}},
            '.limits[nvidia.com/gpu]: Invalid value: "1500m": must be an integer',
            id="a fraction",
        ),
        pytest.param(
            {"requests": {"nvidia.com/gpu": 1}},
            ".limits: Required value: Limit must be set for non overcommitable resources",
            id="an extended resource without limit",
        ),
        pytest.param(
            {"requests": {"nvidia.com/gpu": 1}, "limits": {"nvidia.com/gpu": 2}},
            '.requests: Invalid value: "1": must be equal to nvidia.com/gpu limit of 2',
            id="an extended resource that differs",
        ),
        pytest.param(
            {"requests": {"cpu": 2}, "limits": {"cpu": 1}},
            '.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
            id="more than the limit",
        ),
        pytest.param({"requests": {"hugepages-2Mi": "2Mi"}}, "", id="huge pages"),
        pytest.param(
            {"limits": {"gpu": 1}},
            "must be a standard resource type or fully qualified",
            id="an unknown name",
        ),
        pytest.param(
            {"limits": {"a b/c": 1}}, "[a b/c]: Invalid value", id="a name with a bad prefix"
        ),
    ],
)
def test_container_resources(memory: store.Store, resources: dict, want: str) -> None:
    sent = objects.pod(spec=objects.asking(**resources))
    if not want:
        memory.create("pods", sent)
        return
    code, _, message = refused(lambda: memory.create("pods", sent))
    assert code == 422
    assert f"spec.containers[0].resources{want}" in message or want in message


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({"containers": []}, "spec.containers: Required value", id="no containers"),
        pytest.param(
            {"containers": [{}]},
            "[spec.containers[0].name: Required value, spec.containers[0].image: Required value]",
            id="an empty container",
        ),
        pytest.param(
            {"initContainers": [{"name": "i"}]},
            "spec.initContainers[0].image: Required value",
            id="an init container without image",
        ),
    ],
)
def test_containers(memory: store.Store, spec: dict, want: str) -> None:
    message = refused(lambda: memory.create("pods", objects.pod(spec=spec)))[2]
    assert message == f'Pod "p" is invalid: {want}'


def test_a_name_is_taken_once(memory: store.Store) -> None:
    memory.create("configmaps", objects.config_map())
    memory.create("configmaps", objects.config_map(namespace="kube-system"))
    again = refused(lambda: memory.create("configmaps", objects.config_map()))
    assert again == (409, "AlreadyExists", 'configmaps "c" already exists')


def test_the_namespace_of_the_path_must_be_that_of_the_object(memory: store.Store) -> None:
    sent = objects.config_map()
    wrong = refused(lambda: memory.create("configmaps", sent, namespace="kube-system"))
    assert wrong[0] == 400
    assert "does not match the namespace sent on the request" in wrong[2]


def test_a_preview_stores_nothing(memory: store.Store) -> None:
    shown = memory.preview("pods", objects.pod(), namespace="default")
    assert shown["kind"] == "Pod"
    assert shown["spec"]["schedulerName"] == "default-scheduler"
    assert "status" not in shown
    assert memory.find("pods", ("default", "p")) is None


def test_a_rehearsal_answers_but_keeps_nothing(memory: store.Store) -> None:
    rehearsal = memory.rehearsal()
    made = rehearsal.create("configmaps", objects.config_map())
    assert made.key == ("default", "c")
    assert (memory.find("configmaps", made.key), memory.version) == (None, 6)


def test_every_store_starts_with_namespaces_and_priority_classes(memory: store.Store) -> None:
    names = [record.key[1] for record in memory.list("namespaces").records]
    classes = [record.key[1] for record in memory.list("priorityclasses").records]
    assert names == ["default", "kube-node-lease", "kube-public", "kube-system"]
    assert classes == ["system-cluster-critical", "system-node-critical"]
