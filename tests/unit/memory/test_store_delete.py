"""Deletion: at once, after a grace, after finalizers, of collections and namespaces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hami_operator.cluster.memory import refusals, resources, selectors, store
from tests import fakes
from tests.unit.memory import objects

POD = ("default", "p")


@pytest.fixture
def clock() -> fakes.FakeClock:
    return fakes.FakeClock()


@pytest.fixture
def memory(clock: fakes.FakeClock) -> store.Store:
    return objects.new_store(system_clock=clock)


def refused(act: Callable[[], Any]) -> tuple[int, str, str]:
    with pytest.raises(refusals.Refused) as caught:
        act()
    return objects.refusal(caught.value)


def seen(memory: store.Store, since: int, resource: str = "pods") -> list[str]:
    return [event.type for event in memory.events_since(resource, since)]


def bound(memory: store.Store, **options: Any) -> None:
    memory.create("pods", objects.pod(**options))
    memory.bind(POD, objects.binding())


def test_a_pending_pod_goes_at_once(memory: store.Store) -> None:
    made = memory.create("pods", objects.pod())
    memory.delete("pods", POD)
    assert memory.find("pods", POD) is None
    assert seen(memory, made.version) == ["DELETED"]


def test_a_bound_pod_stays_until_its_node_lets_it_go(memory: store.Store) -> None:
    bound(memory)
    since = memory.version
    marked = memory.delete("pods", POD).obj["metadata"]
    assert marked["deletionTimestamp"] == "2026-03-01T12:00:30Z"
    assert (marked["deletionGracePeriodSeconds"], marked["generation"]) == (30, 2)
    memory.delete("pods", POD, grace_s=0)
    assert memory.find("pods", POD) is None
    assert seen(memory, since) == ["MODIFIED", "DELETED"]


@pytest.mark.parametrize(
    ("spec", "status", "asked_s", "want_s"),
    [
        pytest.param({}, {}, None, 30, id="the default"),
        pytest.param({"terminationGracePeriodSeconds": 5}, {}, None, 5, id="what the pod says"),
        pytest.param({}, {}, 7, 7, id="what the client says"),
        pytest.param({}, {}, -1, 1, id="a negative grace is one second"),
        pytest.param({}, {}, 0, None, id="none asked"),
        pytest.param({}, {"phase": "Succeeded"}, None, None, id="it has ended well"),
        pytest.param({}, {"phase": "Failed"}, 5, None, id="it has failed"),
    ],
)
def test_the_grace_of_a_bound_pod(
    memory: store.Store, spec: dict, status: dict, asked_s: int | None, want_s: int | None
) -> None:
    bound(memory, spec=spec)
    memory.patch("pods", POD, {"status": status}, subresource="status")
    memory.delete("pods", POD, grace_s=asked_s)
    left = memory.find("pods", POD)
    assert want_s == (left and left.obj["metadata"]["deletionGracePeriodSeconds"])


def test_a_second_deletion_can_only_shorten_the_grace(
    memory: store.Store, clock: fakes.FakeClock
) -> None:
    bound(memory)
    first = memory.delete("pods", POD)
    clock.forward(2)
    assert memory.delete("pods", POD, grace_s=60) is first
    shorter = memory.delete("pods", POD, grace_s=5).obj["metadata"]
    assert shorter["deletionTimestamp"] == "2026-03-01T12:00:07Z"
    assert shorter["generation"] == 2


def test_a_finalizer_holds_an_object_until_it_is_removed(memory: store.Store) -> None:
    memory.create("configmaps", objects.config_map(finalizers=["a.b/c"]))
    key = ("default", "c")
    since = memory.version
    held = memory.delete("configmaps", key)
    assert held.obj["metadata"]["deletionTimestamp"] == objects.NOW
    assert memory.delete("configmaps", key) is held
    memory.patch("configmaps", key, {"metadata": {"finalizers": None}})
    assert memory.find("configmaps", key) is None
    assert seen(memory, since, "configmaps") == ["MODIFIED", "DELETED"]


def test_a_finalizer_holds_a_bound_pod_after_its_grace(memory: store.Store) -> None:
    bound(memory, finalizers=["a.b/c"])
    memory.delete("pods", POD)
    memory.delete("pods", POD, grace_s=0)
    memory.patch("pods", POD, {"metadata": {"finalizers": []}})
    assert memory.find("pods", POD) is None


def test_a_finalizer_cannot_be_added_to_what_is_being_deleted(memory: store.Store) -> None:
    bound(memory)
    memory.delete("pods", POD)
    patch = {"metadata": {"finalizers": ["a.b/c"]}}
    code, _, message = refused(lambda: memory.patch("pods", POD, patch))
    assert code == 422
    assert 'found new finalizers []string{"a.b/c"}' in message


@pytest.mark.parametrize(
    ("preconditions", "want"),
    [
        pytest.param(
            {"uid": "other"},
            'Operation cannot be fulfilled on Pod "p": the UID in the precondition (other) does '
            "not match the UID in record (uid-00007). The object might have been deleted and "
            "then recreated",
            id="another UID",
        ),
        pytest.param(
            {"version": "1"},
            'Operation cannot be fulfilled on Pod "p": the ResourceVersion in the precondition '
            "(1) does not match the ResourceVersion in record (7). The object might have been "
            "modified",
            id="another version",
        ),
    ],
)
def test_preconditions(memory: store.Store, preconditions: dict, want: str) -> None:
    memory.create("pods", objects.pod())
    assert refused(lambda: memory.delete("pods", POD, **preconditions)) == (409, "Conflict", want)
    assert memory.find("pods", POD) is not None


def test_right_preconditions_let_it_happen(memory: store.Store) -> None:
    made = memory.create("pods", objects.pod())
    memory.delete("pods", POD, uid=made.uid, version=str(made.version))
    assert memory.find("pods", POD) is None


def test_what_is_not_there_cannot_be_deleted(memory: store.Store) -> None:
    assert refused(lambda: memory.delete("pods", POD)) == (404, "NotFound", 'pods "p" not found')


def test_a_selection_is_deleted_together(memory: store.Store) -> None:
    for name in "abc":
        memory.create("configmaps", objects.config_map(name, labels={"n": name}))
    memory.create("configmaps", objects.config_map("a", "kube-system", labels={"n": "a"}))
    selector = selectors.parse(resources.find("configmaps"), labels="n in (a,b)")
    gone = memory.delete_all("configmaps", namespace="default", selector=selector)
    left = [record.key for record in memory.list("configmaps").records]
    assert [record.key[1] for record in gone] == ["a", "b"]
    assert left == [("default", "c"), ("kube-system", "a")]


def test_a_namespace_goes_with_all_that_is_in_it(memory: store.Store) -> None:
    memory.create("namespaces", {"metadata": {"name": "team"}})
    memory.create("pods", {**objects.pod(), "metadata": {"name": "p", "namespace": "team"}})
    memory.create("configmaps", objects.config_map())
    since = memory.version
    memory.delete("namespaces", ("", "team"))
    assert memory.find("pods", ("team", "p")) is None
    assert memory.find("configmaps", ("default", "c")) is not None
    assert seen(memory, since) == seen(memory, since, "namespaces") == ["DELETED"]


def test_an_eviction_says_why_and_deletes(memory: store.Store) -> None:
    bound(memory)
    memory.evict(POD, {"metadata": {"name": "p"}, "deleteOptions": {"gracePeriodSeconds": 5}})
    left = memory.get("pods", POD).obj
    assert left["metadata"]["deletionGracePeriodSeconds"] == 5
    assert left["status"]["conditions"][0] == {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastTransitionTime": objects.NOW,
    }


def test_an_eviction_has_preconditions(memory: store.Store) -> None:
    bound(memory)
    eviction = {"deleteOptions": {"preconditions": {"uid": "other"}}}
    assert refused(lambda: memory.evict(POD, eviction))[0] == 409


@pytest.mark.parametrize(
    "body", [pytest.param(b"{odd", id="no JSON"), pytest.param(b"[]", id="a list")]
)
def test_an_unreadable_eviction(memory: store.Store, body: bytes) -> None:
    bound(memory)
    assert refused(lambda: memory.evict(POD, body))[:2] == (400, "BadRequest")
