"""Events: one object in two shapes, and the rules of each."""

from __future__ import annotations

from typing import Any

import pytest

from hami_operator.cluster.memory import refusals, resources, selectors, store
from tests.unit.memory import objects

KEY = ("default", "e")
NEW = "events.events.k8s.io"
SERIES = {"count": 2, "lastObservedTime": "2026-03-01T12:01:00.000000Z"}


@pytest.fixture
def memory() -> store.Store:
    return objects.new_store()


def test_an_event_is_the_same_in_both_shapes(memory: store.Store) -> None:
    made = memory.create(NEW, objects.event())
    new, core = made.copy(NEW), memory.get("events", KEY).copy("events")
    assert (new["apiVersion"], core["apiVersion"]) == ("events.k8s.io/v1", "v1")
    assert new["metadata"] == core["metadata"]
    assert core["involvedObject"] == new["regarding"] == objects.event()["regarding"]
    assert core["message"] == new["note"] == "one text"
    assert core["reportingComponent"] == new["reportingController"] == "hami.io/scheduler"
    assert core["source"] == new["deprecatedSource"] == {}


@pytest.mark.parametrize(
    ("resource", "text"),
    [
        pytest.param(NEW, "regarding.name=p,reason=Scheduled", id="the new shape"),
        pytest.param("events", "involvedObject.name=p,type=Normal", id="the core shape"),
        pytest.param(NEW, "reportingController=hami.io/scheduler", id="the new controller"),
        pytest.param("events", "reportingComponent=hami.io/scheduler", id="the core controller"),
    ],
)
def test_selectors(memory: store.Store, resource: str, text: str) -> None:
    memory.create(NEW, objects.event())
    memory.create(NEW, objects.event("other", reason="Odd", type="Warning",
                                     reportingController="x.y/z",
                                     regarding={"kind": "Node", "name": "n"}))  # fmt: skip
    selector = selectors.parse(resources.find(resource), fields=text)
    found = memory.list(resource, selector=selector).records
    assert [record.key[1] for record in found] == ["e"]


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        pytest.param({"note": "ä" * 512}, "", id="1024 bytes"),
        pytest.param(
            {"note": "ä" * 512 + "b"},
            'message: Invalid value: "": can have at most 1024',
            id="1025",
        ),
        pytest.param({"eventTime": None}, "eventTime: Required value", id="no time"),
        pytest.param(
            {"type": "Odd"}, 'type: Invalid value: "": has invalid value: Odd', id="type"
        ),
        pytest.param({"action": ""}, "action: Required value", id="no action"),
        pytest.param({"reason": "x" * 129}, "reason: Invalid value", id="a long reason"),
        pytest.param(
            {"reportingController": ""}, "reportingController: Required value", id="no controller"
        ),
        pytest.param(
            {"reportingController": "a b"}, "reportingController: Invalid value", id="bad name"
        ),
        pytest.param(
            {"deprecatedCount": 3}, 'count: Invalid value: "": needs to be unset', id="a count"
        ),
        pytest.param({"series": SERIES}, "", id="a series"),
        pytest.param(
            {"series": {"count": 1}}, "series.count: Invalid value", id="a series of one"
        ),
        pytest.param(
            {"series": {"count": 2}}, "series.lastObservedTime: Required value", id="no last time"
        ),
        pytest.param({"regarding": {"kind": "Node", "name": "n"}}, "", id="about a Node"),
    ],
)
def test_creation_by_the_new_shape(memory: store.Store, changes: dict, want: str) -> None:
    if not want:
        assert memory.create(NEW, objects.event(**changes)).key == KEY
        return
    with pytest.raises(refusals.Refused) as caught:
        memory.create(NEW, objects.event(**changes))
    assert caught.value.code == 422
    assert want in caught.value.message


@pytest.mark.parametrize(
    ("event_time", "regarding", "namespace", "fits"),
    [
        pytest.param(None, {"namespace": "default"}, "default", True, id="same namespace"),
        pytest.param(None, {"namespace": "x"}, "default", False, id="another namespace"),
        pytest.param(None, {}, "default", True, id="about a Node, in default"),
        pytest.param(None, {}, "kube-system", False, id="about a Node, elsewhere"),
        pytest.param("t", {}, "kube-system", True, id="about a Node, in kube-system, with time"),
        pytest.param("t", {}, "kube-public", False, id="about a Node, in kube-public, with time"),
    ],
)
def test_namespaces_of_core_events(
    memory: store.Store, event_time: str | None, regarding: dict, namespace: str, fits: bool
) -> None:
    body = {
        "metadata": {"name": "e", "namespace": namespace},
        "involvedObject": regarding,
        "message": "m",
        "reason": "r",
        "action": "a",
        "reportingComponent": "c",
        "reportingInstance": "i",
    }
    if event_time:
        body["eventTime"] = objects.event()["eventTime"]
    if fits:
        assert memory.create("events", body).key == (namespace, "e")
    else:
        with pytest.raises(refusals.Refused, match=r"does not match event\.namespace"):
            memory.create("events", body)


@pytest.mark.parametrize(
    ("patch", "want"),
    [
        pytest.param({"series": SERIES}, "", id="a series may begin"),
        pytest.param({"note": "x"}, 'message: Invalid value: "x": field is immutable', id="note"),
        pytest.param({"reason": "x"}, "reason: Invalid value", id="reason"),
        pytest.param(
            {"reportingController": "x.y/z"}, "reportingController: Invalid value", id="controller"
        ),
        pytest.param(
            {"regarding": {"name": "q"}}, "involvedObject: Invalid value", id="the subject"
        ),
        pytest.param({"series": {"count": 1}}, "series.count", id="a series of one"),
    ],
)
def test_updates_by_the_new_shape(memory: store.Store, patch: dict, want: str) -> None:
    memory.create(NEW, objects.event())
    if not want:
        assert memory.patch(NEW, KEY, patch).copy(NEW)["series"] == SERIES
        return
    with pytest.raises(refusals.Refused) as caught:
        memory.patch(NEW, KEY, patch)
    assert caught.value.code == 422
    assert caught.value.message.startswith('Event "e" is invalid: ')
    assert want in caught.value.message


def test_a_series_grows(memory: store.Store) -> None:
    memory.create(NEW, objects.event(series=SERIES))
    longer: Any = {"count": 3, "lastObservedTime": "2026-03-01T12:02:00.000000Z"}
    assert memory.patch(NEW, KEY, {"series": longer}).copy(NEW)["series"] == longer
    labelled = memory.patch(NEW, KEY, {"metadata": {"labels": {"a": "b"}}})
    assert labelled.obj["series"] == longer


def test_the_core_shape_may_change_the_message(memory: store.Store) -> None:
    memory.create(NEW, objects.event())
    after = memory.patch("events", KEY, {"message": "x"})
    assert after.copy(NEW)["note"] == "x"


def test_a_put_in_the_new_shape(memory: store.Store) -> None:
    body = memory.create(NEW, objects.event()).copy(NEW)
    body["series"] = SERIES
    assert memory.replace(NEW, body).obj["series"] == SERIES
    assert memory.replace(NEW, objects.event("fresh")).key == ("default", "fresh")
