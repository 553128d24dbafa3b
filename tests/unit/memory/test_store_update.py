"""Updates: PATCH and PUT, what they may change, and when nothing happens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hami_operator.cluster.memory import records, refusals, resources, store, updates
from tests.unit.memory import objects

POD = ("default", "p")
LEASE = ("default", "l")


@pytest.fixture
def memory() -> store.Store:
    memory = objects.new_store()
    memory.create("pods", objects.pod(annotations={"a": "1"}))
    memory.create("leases", objects.lease())
    memory.create("nodes", objects.node(status={"capacity": {"cpu": "1"}}))
    return memory


def refused(act: Callable[[], Any]) -> tuple[int, str, str]:
    with pytest.raises(refusals.Refused) as caught:
        act()
    return objects.refusal(caught.value)


def noted(record: records.Record) -> dict[str, str]:
    return dict(record.obj["metadata"].get("annotations") or {})


@pytest.mark.parametrize(
    ("content_type", "patch", "want"),
    [
        pytest.param(
            updates.MERGE, {"metadata": {"annotations": {"b": "2"}}}, {"a": "1", "b": "2"},
            id="merge",
        ),
        pytest.param(
            updates.MERGE, {"metadata": {"annotations": {"a": None}}}, {}, id="null removes"
        ),
        pytest.param(
            updates.MERGE, {"metadata": {"annotations": None}}, {}, id="null removes them all"
        ),
        pytest.param(
            updates.STRATEGIC, {"metadata": {"annotations": {"b": "2"}}}, {"a": "1", "b": "2"},
            id="strategic",
        ),
        pytest.param(
            updates.JSON, [{"op": "add", "path": "/metadata/annotations/b", "value": "2"}],
            {"a": "1", "b": "2"},
            id="JSON patch",
        ),
        pytest.param(
            updates.JSON, [{"op": "add", "path": "/metadata/annotations", "value": None}], {},
            id="JSON patch to null",
        ),
        pytest.param(
            updates.MERGE, {"kind": "Pod", "apiVersion": "v1", "metadata": {"annotations": {}}},
            {"a": "1"},
            id="kind and apiVersion may be given",
        ),
    ],
)  # fmt: skip
def test_patches(memory: store.Store, content_type: str, patch: Any, want: dict) -> None:
    after = memory.patch("pods", POD, patch, content_type=content_type)
    assert noted(after) == want
    assert noted(memory.get("pods", POD)) == want


@pytest.mark.parametrize(
    ("patch", "options", "want"),
    [
        pytest.param({}, {"content_type": "application/odd"}, (415, "415"), id="unknown type"),
        pytest.param({}, {"content_type": ""}, (415, "415"), id="no type"),
        pytest.param(b"{odd", {}, (400, "error decoding patch"), id="no JSON"),
        pytest.param(b"[]", {}, (400, "cannot unmarshal array"), id="a list to merge"),
        pytest.param(
            b"{}", {"content_type": updates.JSON}, (400, "cannot unmarshal object"),
            id="an object of operations",
        ),
        pytest.param(
            [{"op": "test", "path": "/metadata/name", "value": "q"}],
            {"content_type": updates.JSON},
            (422, "the server rejected our request due to an error in our request"),
            id="a failed test",
        ),
        pytest.param(
            [{"op": "add", "path": "", "value": 1}],
            {"content_type": updates.JSON},
            (422, "the server rejected our request"),
            id="no object left",
        ),
        pytest.param({"kind": "Odd"}, {}, (422, "no such kind"), id="another kind"),
        pytest.param(
            {"metadata": {"annotations": {"a": 1}}}, {}, (422, "cannot unmarshal number"),
            id="a number as annotation",
        ),
        pytest.param(
            {"metadata": {"uid": "other"}},
            {},
            (422, 'Pod "p" is invalid: metadata.uid: Invalid value: "other": field is immutable'),
            id="another UID",
        ),
        pytest.param(
            {"metadata": {"resourceVersion": "1"}},
            {},
            (
                409,
                'Operation cannot be fulfilled on pods "p": the object has been modified; please '
                "apply your changes to the latest version and try again",
            ),
            id="a stale version",
        ),
        pytest.param(
            {"metadata": {"name": "q"}},
            {},
            (400, "the name of the object (q) does not match the name on the URL (p)"),
            id="another name",
        ),
        pytest.param(
            {"metadata": {"namespace": "q"}},
            {},
            (400, "the namespace of the provided object does not match"),
            id="another namespace",
        ),
        pytest.param(
            {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
            {},
            (422, "metadata.deletionTimestamp: Invalid value"),
            id="deletion is no update",
        ),
        pytest.param(
            {"metadata": {"labels": {"a": "x" * 64}}}, {}, (422, "no more than 63 bytes"),
            id="a long label",
        ),
        pytest.param({"spec": {"nodeName": "n"}}, {}, (422, "spec: Forbidden"), id="the node"),
        pytest.param(
            {"spec": {"schedulerName": "s"}}, {}, (422, "spec: Forbidden"), id="the scheduler"
        ),
        pytest.param(
            {"spec": {"tolerations": []}}, {}, (422, "spec: Forbidden"), id="fewer tolerations"
        ),
    ],
)  # fmt: skip
def test_refused_patches(
    memory: store.Store, patch: Any, options: dict, want: tuple[int, str]
) -> None:
    before = memory.version
    code, _, message = refused(lambda: memory.patch("pods", POD, patch, **options))
    assert code == want[0]
    assert want[1] in message
    assert memory.version == before


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param({}, id="an empty patch"),
        pytest.param({"metadata": {"annotations": {"a": "1"}}}, id="the same value"),
        pytest.param({"metadata": {"annotations": {"no": None}}}, id="removes what is not there"),
        pytest.param({"metadata": {"uid": "uid-00007"}}, id="the right UID"),
        pytest.param({"metadata": {"resourceVersion": "7"}}, id="the right version"),
        pytest.param(
            {"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z", "generation": 9}},
            id="what only the server sets",
        ),
        pytest.param({"metadata": {"uid": None, "resourceVersion": None}}, id="null identity"),
        pytest.param({"status": {"phase": "Failed"}}, id="the status, on the main path"),
    ],
)
def test_a_patch_without_effect_is_no_write(memory: store.Store, patch: dict) -> None:
    before = memory.get("pods", POD)
    version = memory.version
    assert memory.patch("pods", POD, patch) is before
    assert memory.version == version
    assert memory.events_since("pods", version) == []


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"containers": [{"name": "c", "image": "other"}]}, id="an image"),
        pytest.param({"activeDeadlineSeconds": 5}, id="the deadline"),
    ],
)
def test_the_little_of_a_pod_that_may_change(memory: store.Store, spec: dict) -> None:
    after = memory.patch("pods", POD, {"spec": spec}, content_type=updates.STRATEGIC)
    assert after.obj["metadata"]["generation"] == 2


def test_tolerations_may_be_added(memory: store.Store) -> None:
    old = memory.get("pods", POD).obj["spec"]["tolerations"]
    more = [*old, {"key": "k", "operator": "Exists"}]
    after = memory.patch("pods", POD, {"spec": {"tolerations": more}})
    assert after.obj["spec"]["tolerations"] == more


def test_gates_are_only_removed(memory: store.Store) -> None:
    memory.create("pods", objects.pod("g", spec={"schedulingGates": [{"name": "a"}]}))
    key = ("default", "g")
    more = {"spec": {"schedulingGates": [{"name": "a"}, {"name": "b"}]}}
    assert refused(lambda: memory.patch("pods", key, more))[2] == (
        'Pod "g" is invalid: spec.schedulingGates[1].name: Forbidden: only deletion is allowed, '
        "but found new scheduling gate 'b'"
    )
    narrowed = memory.patch("pods", key, {"spec": {"nodeSelector": {"a": "b"}}})
    free = memory.patch("pods", key, {"spec": {"schedulingGates": None}})
    assert narrowed.obj["spec"]["nodeSelector"] == {"a": "b"}
    assert "schedulingGates" not in free.obj["spec"]
    assert free.obj["metadata"]["generation"] == 3


def test_the_status_path_changes_status_and_metadata_of_a_pod_only(memory: store.Store) -> None:
    patch = {
        "metadata": {"annotations": {"via": "status"}, "ownerReferences": [{"uid": "x"}]},
        "spec": {"schedulerName": "other"},
        "status": {"phase": "Running", "qosClass": None},
    }
    after = memory.patch("pods", POD, patch, subresource="status").obj
    assert after["status"] == {"phase": "Running", "qosClass": "BestEffort"}
    assert after["metadata"]["annotations"] == {"a": "1", "via": "status"}
    assert "ownerReferences" not in after["metadata"]
    assert after["spec"]["schedulerName"] == "default-scheduler"
    assert after["metadata"]["generation"] == 1


def test_the_owners_of_a_pod_survive_a_status_update(memory: store.Store) -> None:
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}
    memory.create("pods", objects.pod("owned", ownerReferences=[owner]))
    patch = {"metadata": {"ownerReferences": None}, "status": {"phase": "Running"}}
    after = memory.patch("pods", ("default", "owned"), patch, subresource="status")
    assert after.obj["metadata"]["ownerReferences"] == [owner]


def test_the_status_path_of_a_deployment_changes_nothing_else(memory: store.Store) -> None:
    memory.create("deployments", {**objects.config_map("d"), "spec": {"replicas": 1}})
    key = ("default", "d")
    patch = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"replicas": 2},
        "status": {"replicas": 1},
    }
    after = memory.patch("deployments", key, patch, subresource="status").obj
    assert after["status"] == {"replicas": 1}
    assert after["spec"] == {"replicas": 1}
    assert "labels" not in after["metadata"]
    gone = memory.patch("deployments", key, {"status": None}, subresource="status").obj
    assert "status" not in gone


def test_the_main_path_of_a_deployment_counts_generations(memory: store.Store) -> None:
    memory.create("deployments", {**objects.config_map("d"), "spec": {"replicas": 1}})
    key = ("default", "d")
    labelled = memory.patch("deployments", key, {"metadata": {"labels": {"a": "b"}}})
    scaled = memory.patch("deployments", key, {"spec": {"replicas": 2}, "status": {"replicas": 9}})
    assert labelled.obj["metadata"]["generation"] == 1
    assert scaled.obj["metadata"]["generation"] == 2
    assert "status" not in scaled.obj


def test_conditions_survive_a_strategic_patch_and_not_a_merge_patch(memory: store.Store) -> None:
    def patch(kind: str, content_type: str) -> list[str]:
        body = {"status": {"conditions": [{"type": kind, "status": "True"}]}}
        after = memory.patch("pods", POD, body, content_type=content_type, subresource="status")
        return [condition["type"] for condition in after.obj["status"]["conditions"]]

    assert patch("A", updates.STRATEGIC) == ["A"]
    assert patch("B", updates.STRATEGIC) == ["B", "A"]
    assert patch("C", updates.MERGE) == ["C"]


def test_quantities_of_a_patch_are_converted(memory: store.Store) -> None:
    patch = {"status": {"capacity": {"nvidia.com/gpu": 40}, "allocatable": None}}
    after = memory.patch("nodes", ("", "n"), patch, subresource="status")
    amounts = {"cpu": "1", "nvidia.com/gpu": "40"}
    assert after.obj["status"] == {"capacity": amounts, "allocatable": amounts}


def test_a_missing_object_cannot_be_patched(memory: store.Store) -> None:
    missing = refused(lambda: memory.patch("leases", ("default", "no"), {}))
    assert missing == (404, "NotFound", 'leases.coordination.k8s.io "no" not found')


def test_a_put_replaces_all_but_what_the_server_keeps(memory: store.Store) -> None:
    old = memory.get("leases", LEASE)
    body = old.copy("leases")
    body["spec"] = {"holderIdentity": "b"}
    body["metadata"] |= {"labels": {"a": "b"}, "managedFields": [{}]}
    after = memory.replace("leases", body)
    assert after.obj["spec"] == {"holderIdentity": "b"}
    want = {**old.obj["metadata"], "labels": {"a": "b"}, "resourceVersion": str(after.version)}
    assert after.obj["metadata"] == want


def test_a_put_of_what_is_there_is_no_write(memory: store.Store) -> None:
    for resource, key in (("pods", POD), ("leases", LEASE), ("nodes", ("", "n"))):
        record = memory.get(resource, key)
        assert memory.replace(resource, record.copy(resource)) is record


@pytest.mark.parametrize(
    ("resource", "changes", "want"),
    [
        pytest.param(
            "leases", {"resourceVersion": "1"}, (409, "the object has been modified"), id="stale"
        ),
        pytest.param(
            "leases",
            {"resourceVersion": ""},
            (
                422,
                'leases.coordination.k8s.io "l" is invalid: metadata.resourceVersion: '
                "Invalid value: 0: must be specified for an update",
            ),
            id="a lease without version",
        ),
        pytest.param(
            "leases",
            {"uid": "other"},
            (
                409,
                "Precondition failed: UID in precondition: other, UID in object meta: uid-00008",
            ),
            id="another UID",
        ),
        pytest.param("pods", {"name": "other"}, (404, 'pods "other" not found'), id="missing"),
    ],
)
def test_refused_puts(
    memory: store.Store, resource: str, changes: dict, want: tuple[int, str]
) -> None:
    key = {"leases": LEASE, "pods": POD}[resource]
    body = memory.get(resource, key).copy(resource)
    body["metadata"] |= changes
    code, _, message = refused(lambda: memory.replace(resource, body))
    assert code == want[0]
    assert want[1] in message


def test_a_put_may_leave_the_version_out_where_the_kind_allows(memory: store.Store) -> None:
    body = memory.get("nodes", ("", "n")).copy("nodes")
    del body["metadata"]["resourceVersion"]
    body["metadata"]["labels"] = {"a": "b"}
    assert memory.replace("nodes", body).obj["metadata"]["labels"] == {"a": "b"}


def test_a_put_of_an_unknown_lease_creates_it(memory: store.Store) -> None:
    made = memory.replace("leases", objects.lease("new"), key=("default", "new"))
    assert made.key == ("default", "new")
    assert memory.events_since("leases", made.version - 1)[0].type == "ADDED"


def test_the_name_of_a_put_is_that_of_the_path(memory: store.Store) -> None:
    wrong = refused(lambda: memory.replace("leases", objects.lease("a"), key=("default", "b")))
    assert wrong[:2] == (400, "BadRequest")


def test_every_version_is_higher_than_all_before(memory: store.Store) -> None:
    versions = [
        memory.create("configmaps", objects.config_map()).version,
        memory.patch("pods", POD, {"metadata": {"labels": {"a": "b"}}}).version,
        memory.patch("nodes", ("", "n"), {"metadata": {"labels": {"a": "b"}}}).version,
        memory.delete("configmaps", ("default", "c")).version,
    ]
    assert versions == [10, 11, 12, 13]
    assert resources.find("pods") is resources.PODS
