"""``pods/binding``: what it merges, what it refuses, what it does not look at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hami_operator.cluster.memory import refusals, store, updates
from tests.unit.memory import objects

POD = ("default", "p")
ZONE = {"topology.kubernetes.io/zone": "z"}


@pytest.fixture
def memory() -> store.Store:
    memory = objects.new_store()
    memory.create("pods", objects.pod(annotations={"a": "1", "b": "1"}, labels={"l": "1"}))
    return memory


def refused(act: Callable[[], Any]) -> tuple[int, str, str]:
    with pytest.raises(refusals.Refused) as caught:
        act()
    return objects.refusal(caught.value)


def test_a_binding_is_one_write_that_merges_and_assigns(memory: store.Store) -> None:
    before = memory.get("pods", POD)
    sent = objects.binding(annotations={"b": "2", "c": None}, labels={"m": "2"})
    after = memory.bind(POD, sent)
    assert after.version == before.version + 1
    assert after.obj == {
        **before.obj,
        "metadata": {
            **before.obj["metadata"],
            "resourceVersion": str(after.version),
            "annotations": {"a": "1", "b": "2", "c": ""},
            "labels": {"l": "1", "m": "2"},
        },
        "spec": {**before.obj["spec"], "nodeName": "n"},
        "status": {
            **before.obj["status"],
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "True",
                    "lastProbeTime": None,
                    "lastTransitionTime": objects.NOW,
                }
            ],
        },
    }


def test_the_condition_takes_the_place_of_the_old_one(memory: store.Store) -> None:
    conditions = [
        {"type": "Other", "status": "True"},
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
    ]
    memory.patch("pods", POD, {"status": {"conditions": conditions}}, subresource="status")
    after = memory.bind(POD, objects.binding()).obj["status"]["conditions"]
    assert [(one["type"], one["status"]) for one in after] == [
        ("Other", "True"),
        ("PodScheduled", "True"),
    ]
    assert "reason" not in after[1]


@pytest.mark.parametrize(
    ("version", "want"),
    [
        pytest.param("1.36.3", ({"l": "1", "m": "2", **ZONE}, None), id="1.36"),
        pytest.param("1.35.0", ({"l": "1", "m": "2", **ZONE}, None), id="1.35"),
        pytest.param("v1.34.4", ({"l": "1"}, "other"), id="1.34"),
    ],
)
def test_labels_topology_and_nomination_depend_on_the_release(
    version: str, want: tuple[dict, str | None]
) -> None:
    memory = objects.new_store(version=version)
    memory.create("pods", objects.pod(labels={"l": "1"}))
    memory.create("nodes", objects.node(labels={**ZONE, "other": "x"}))
    nominated = {"status": {"nominatedNodeName": "other"}}
    memory.patch("pods", POD, nominated, subresource="status")
    after = memory.bind(POD, objects.binding(labels={"m": "2"}, annotations={"a": "1"})).obj
    assert (after["metadata"]["labels"], after["status"].get("nominatedNodeName")) == want
    assert after["metadata"]["annotations"] == {"a": "1"}


def test_a_pod_without_labels_gets_none(memory: store.Store) -> None:
    memory.create("pods", objects.pod("bare"))
    after = memory.bind(("default", "bare"), objects.binding("bare"))
    assert "labels" not in after.obj["metadata"]


@pytest.mark.parametrize(
    ("body", "want"),
    [
        pytest.param(b"odd", (400, "json parse error"), id="no JSON"),
        pytest.param(
            b"1", (400, "cannot unmarshal number into Go struct field Binding"), id="no object"
        ),
        pytest.param(b"null", (400, "it is no object"), id="null"),
        pytest.param(
            objects.binding("q"),
            (400, "name in URL does not match name in Binding object"),
            id="another name",
        ),
        pytest.param(
            objects.binding(namespace="q"),
            (400, "the namespace of the provided object does not match"),
            id="another namespace",
        ),
        pytest.param(
            {**objects.binding(), "target": {}}, (500, "target.name: Required value"), id="no node"
        ),
        pytest.param(
            {**objects.binding(), "target": {"kind": "Pod", "name": "n"}},
            (500, 'target.kind: Unsupported value: "Pod"'),
            id="no Node",
        ),
        pytest.param(
            objects.binding(uid="other"),
            (
                409,
                'Operation cannot be fulfilled on pods "p": StorageError: invalid object, Code: 4,'
                " Key: /registry/pods/default/p, ResourceVersion: 0, AdditionalErrorMsg: "
                "Precondition failed: UID in precondition: other, UID in object meta: uid-00007",
            ),
            id="another UID",
        ),
        pytest.param(
            objects.binding(resourceVersion="1"),
            (409, "ResourceVersion in precondition: 1, ResourceVersion in object meta: 7"),
            id="another version",
        ),
    ],
)
def test_refused_bindings(memory: store.Store, body: Any, want: tuple[int, str]) -> None:
    version = memory.version
    code, _, message = refused(lambda: memory.bind(POD, body))
    assert code == want[0]
    assert want[1] in message
    assert memory.version == version


def test_right_preconditions_let_it_happen(memory: store.Store) -> None:
    pod = memory.get("pods", POD)
    sent = objects.binding(uid=pod.uid, resourceVersion=str(pod.version))
    assert memory.bind(POD, sent).obj["spec"]["nodeName"] == "n"


def test_a_second_binding_names_the_node(memory: store.Store) -> None:
    memory.bind(POD, objects.binding(node_name="n1"))
    again = refused(lambda: memory.bind(POD, objects.binding(node_name="n1")))
    assert again == (
        409,
        "Conflict",
        'Operation cannot be fulfilled on pods/binding "p": '
        'pod p is already assigned to node "n1"',
    )


def test_a_gated_pod_cannot_be_bound(memory: store.Store) -> None:
    memory.create("pods", objects.pod("g", spec={"schedulingGates": [{"name": "a"}]}))
    gated = refused(lambda: memory.bind(("default", "g"), objects.binding("g")))
    assert gated[2].endswith("pod g has non-empty .spec.schedulingGates")


def test_a_pod_that_is_being_deleted_cannot_be_bound(memory: store.Store) -> None:
    memory.create("pods", objects.pod("f", finalizers=["a.b/c"]))
    memory.delete("pods", ("default", "f"))
    going = refused(lambda: memory.bind(("default", "f"), objects.binding("f")))
    assert going[2].endswith("pod f is being deleted, cannot be assigned to a host")


def test_a_missing_pod_cannot_be_bound(memory: store.Store) -> None:
    missing = refused(lambda: memory.bind(("default", "no"), objects.binding("no")))
    assert missing == (404, "NotFound", 'pods "no" not found')


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({"labels": {"l": "x" * 72}}, id="a long label"),
        pytest.param({"annotations": {"bad key!": "1"}}, id="a bad key"),
        pytest.param({"annotations": {"a": "x" * 300_000}}, id="too many bytes"),
    ],
)
def test_what_a_binding_makes_invalid_refuses_every_later_update(
    memory: store.Store, metadata: dict
) -> None:
    memory.bind(POD, objects.binding(**metadata))
    running = {"status": {"phase": "Running"}}
    codes = [
        refused(lambda: memory.patch("pods", POD, {"metadata": {"labels": {"x": "y"}}}))[0],
        refused(lambda: memory.patch("pods", POD, running, subresource="status"))[0],
        refused(lambda: memory.patch("pods", POD, {}))[0],
        refused(lambda: memory.replace("pods", memory.get("pods", POD).copy("pods")))[0],
        refused(lambda: memory.evict(POD, {"metadata": {"name": "p"}}))[0],
    ]
    assert codes == [422] * 5
    memory.delete("pods", POD, grace_s=0)
    assert memory.find("pods", POD) is None


def test_an_update_that_mends_the_pod_is_taken(memory: store.Store) -> None:
    memory.bind(POD, objects.binding(labels={"l": "x" * 72}))
    memory.patch("pods", POD, {"metadata": {"labels": {"l": "short"}}})
    running = {"status": {"phase": "Running"}}
    after = memory.patch(
        "pods", POD, running, content_type=updates.STRATEGIC, subresource="status"
    )
    assert after.obj["status"]["phase"] == "Running"
