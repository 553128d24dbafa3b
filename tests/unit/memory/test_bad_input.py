"""Whatever a client sends, the store answers or refuses; it never breaks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis
import orjson
import pytest
from hypothesis import strategies

from hami_operator.cluster.memory import records, refusals, resources, shapes, store, updates
from tests.unit.memory import objects

FIELDS = (
    "metadata", "spec", "status", "name", "namespace", "labels", "annotations", "finalizers",
    "ownerReferences", "uid", "resourceVersion", "containers", "initContainers", "resources",
    "limits", "requests", "cpu", "nvidia.com/gpu", "image", "ports", "env", "tolerations", "key",
    "effect", "schedulingGates", "nodeName", "priority", "priorityClassName", "nodeSelector",
    "terminationGracePeriodSeconds", "conditions", "type", "phase", "capacity", "allocatable",
    "hard", "taints", "holderIdentity", "leaseDurationSeconds", "renewTime", "involvedObject",
    "regarding", "note", "message", "reason", "series", "count", "eventTime", "target", "kind",
    "deletionTimestamp", "generation", "$patch", "$retainKeys", "$setElementOrder/containers",
)  # fmt: skip
LEAVES = (
    strategies.none()
    | strategies.booleans()
    | strategies.integers(-3, 70)
    | strategies.sampled_from(["", "p", "default", "1", "1.5", "NaN", "bad key!", "delete", 0.5])
)
VALUES = strategies.recursive(
    LEAVES,
    lambda inner: (
        strategies.lists(inner, max_size=3)
        | strategies.dictionaries(strategies.sampled_from(FIELDS), inner, max_size=5)
    ),
    max_leaves=25,
)
OBJECTS = strategies.dictionaries(strategies.sampled_from(FIELDS), VALUES, max_size=5)
KINDS = strategies.sampled_from(
    ["pods", "nodes", "leases", "events", "events.events.k8s.io", "resourcequotas", "configmaps"]
)
KEYS = {
    "pods": ("default", "p"),
    "nodes": ("", "n"),
    "leases": ("default", "l"),
    "events": ("default", "e"),
    "events.events.k8s.io": ("default", "e"),
    "resourcequotas": ("default", "c"),
    "configmaps": ("default", "c"),
}


def full_store() -> store.Store:
    memory = objects.new_store()
    memory.create("pods", objects.pod(spec=objects.asking(limits={"nvidia.com/gpu": 1})))
    memory.create("nodes", objects.node(status={"capacity": {"cpu": 1}}))
    memory.create("leases", objects.lease())
    memory.create("events.events.k8s.io", objects.event())
    memory.create("resourcequotas", objects.config_map())
    memory.create("configmaps", objects.config_map())
    return memory


def is_sound(memory: store.Store, resource: str, act: Callable[[], records.Record]) -> bool:
    """Whether the request was refused without effect, or left something that can be shown."""
    before = memory.version
    try:
        record = act()
    except refusals.Refused as refused:
        shown = orjson.loads(orjson.dumps(refused.body()))
        return shown["code"] >= 400 and memory.version <= before + 1
    found = memory.find(resource, record.key)
    return records.key_of(record.copy(resource)) == record.key and (
        found is None or found.obj["metadata"]["resourceVersion"] == str(found.version)
    )


@hypothesis.given(KINDS, OBJECTS, OBJECTS)
def test_odd_objects(resource: str, top: dict, metadata: dict) -> None:
    memory = full_store()
    body = {**top, "metadata": {"name": "new", "namespace": "default", **metadata}}
    assert is_sound(memory, resource, lambda: memory.create(resource, body))


@hypothesis.given(KINDS, OBJECTS, OBJECTS)
def test_odd_replacements(resource: str, top: dict, metadata: dict) -> None:
    memory = full_store()
    key = KEYS[resource]
    body = memory.get(resource, key).copy(resource)
    body |= {**top, "metadata": {**body["metadata"], **metadata}}
    assert is_sound(memory, resource, lambda: memory.replace(resource, body, key=key))


@hypothesis.given(
    KINDS,
    OBJECTS,
    strategies.sampled_from([updates.MERGE, updates.STRATEGIC]),
    strategies.sampled_from(["", "status"]),
)
def test_odd_patches(resource: str, patch: dict, content_type: str, subresource: str) -> None:
    memory = full_store()
    key = KEYS[resource]
    how = {"content_type": content_type, "subresource": subresource}
    assert is_sound(memory, resource, lambda: memory.patch(resource, key, patch, **how))


@hypothesis.given(
    KINDS,
    strategies.lists(
        strategies.fixed_dictionaries(
            {
                "op": strategies.sampled_from(["add", "remove", "replace", "copy", "move"]),
                "path": strategies.lists(
                    strategies.sampled_from([*FIELDS, "0", "-"]), max_size=4
                ).map(lambda parts: "".join(f"/{part}" for part in parts)),
                "from": strategies.sampled_from(["/metadata", "/spec", "/metadata/name"]),
                "value": VALUES,
            }
        ),
        max_size=3,
    ),
)
def test_odd_operations(resource: str, operations: list) -> None:
    memory = full_store()
    key = KEYS[resource]
    assert is_sound(
        memory,
        resource,
        lambda: memory.patch(resource, key, operations, content_type=updates.JSON),
    )


@hypothesis.given(OBJECTS, OBJECTS)
def test_odd_bindings(top: dict, metadata: dict) -> None:
    memory = full_store()
    body = {"target": {"name": "n"}, **top, "metadata": {"name": "p", **metadata}}
    assert is_sound(memory, "pods", lambda: memory.bind(KEYS["pods"], body))


@hypothesis.given(OBJECTS, OBJECTS)
def test_odd_evictions(body: dict, options: dict) -> None:
    memory = full_store()
    sent = {"deleteOptions": options, **body}
    assert is_sound(memory, "pods", lambda: memory.evict(KEYS["pods"], sent))


@pytest.mark.parametrize(
    ("value", "want"),
    [
        pytest.param({"spec": {"containers": [{"name": "c"}]}}, "", id="right"),
        pytest.param({"spec": None}, "", id="null is absent"),
        pytest.param(
            {"spec": []}, "array into Go struct field Pod.spec of type object", id="a list"
        ),
        pytest.param(
            {"spec": {"priority": True}},
            "bool into Go struct field Pod.spec.priority of type number",
            id="a truth value is no number",
        ),
        pytest.param(
            {"spec": {"schedulerName": 5}},
            "number into Go struct field Pod.spec.schedulerName of type string",
            id="a number is no name",
        ),
        pytest.param(
            {"spec": {"tolerations": [None]}},
            "array into Go struct field Pod.spec.tolerations of type array",
            id="null in a list",
        ),
        pytest.param(
            {"spec": {"containers": [{"resources": {"limits": "x"}}]}},
            "string into Go struct field Pod.spec.containers.resources.limits of type object",
            id="deep inside",
        ),
    ],
)
def test_shapes(value: Any, want: str) -> None:
    found = shapes.fault(value, shapes.OBJECTS["pods"], resources.PODS.kind)
    assert found == (want and f"json: cannot unmarshal {want}")
