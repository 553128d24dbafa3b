"""What is done for a pod's claims once its node is chosen, and how far it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from hami_operator.scheduling import objects, preparation, storage
from tests import builders
from tests.unit.scheduling import scenes
from tests.unit.scheduling.test_wide_filters import (
    BOUND,
    Things,
    claim,
    devices,
    mounting,
    of_class,
    volume,
)

Kind = objects.Kind
NODE = builders.node("n1").label("kubernetes.io/hostname", "n1")
CAN_MAKE = of_class("example.com/p")


def made(
    pod: builders.PodBuilder, things: Things
) -> tuple[preparation.Preparation | None, objects.Objects]:
    cluster = scenes.around([NODE], (), things)
    return preparation.of(pod.read(), NODE.read(), cluster), cluster.objects


@pytest.mark.parametrize(
    ("things", "matched", "provisioned", "problem"),
    [
        pytest.param([claim(), CAN_MAKE], [], ["data"], "", id="to be made"),
        pytest.param(
            [claim(), of_class(), volume("v", "n1")], [("data", "v")], [], "", id="to be given"
        ),
        pytest.param(
            [claim(annotations={storage.SELECTED_NODE: "n1"}), CAN_MAKE],
            [],
            ["data"],
            "",
            id="being made here already",
        ),
        pytest.param([], [], [], 'persistentvolumeclaim "data" not found', id="gone meanwhile"),
        pytest.param(
            [claim(), of_class()],
            [],
            [],
            "node(s) didn't find available persistent volumes to bind",
            id="taken meanwhile",
        ),
    ],
)
def test_what_has_to_be_done(
    things: Things, matched: list[tuple[str, str]], provisioned: list[str], problem: str
) -> None:
    wanted, known = made(mounting("data"), things)
    assert wanted is not None
    assert [(one.name, two.name) for one, two in wanted.matched] == matched
    assert [one.name for one in wanted.provisioned] == provisioned
    assert wanted.problem == problem
    state = preparation.progress(wanted, {("default", "data"): "7"}, known)
    assert state == (problem or preparation.Progress.WAITING)


@pytest.mark.parametrize(
    ("pod", "things"),
    [
        pytest.param(builders.pod("p"), [], id="no claims"),
        pytest.param(
            mounting("data"),
            [claim(volumeName="v", annotations=BOUND), volume("v")],
            id="it has its volume",
        ),
        pytest.param(
            builders.pod("p").append(
                "spec.resourceClaims", {"name": "r", "resourceClaimName": "c"}
            ),
            [devices(allocation={}, reservedFor=[{"uid": "uid-p"}])],
            id="it has its place",
        ),
    ],
)
def test_nothing_has_to_be_done(pod: builders.PodBuilder, things: Things) -> None:
    assert made(pod, things)[0] is None


def test_a_claim_of_devices_that_is_not_ready_is_a_problem() -> None:
    pod = builders.pod("p").append("spec.resourceClaims", {"name": "r", "resourceClaimName": "c"})
    wanted, _ = made(pod, [])
    assert wanted is not None
    assert wanted.problem == 'could not find ResourceClaim "default/c"'


@pytest.mark.parametrize(
    ("now", "others", "want"),
    [
        pytest.param({"version": "5"}, [], preparation.Progress.WAITING, id="our write is unseen"),
        pytest.param(
            {"version": "7", "selected": "n1"}, [], preparation.Progress.WAITING, id="on its way"
        ),
        pytest.param(
            {"version": "8"},
            [],
            "no volume could be made for persistentvolumeclaim 'data' on the node",
            id="taken back",
        ),
        pytest.param(
            {"version": "8", "selected": "n2"},
            [],
            "no volume could be made for persistentvolumeclaim 'data' on the node",
            id="sent elsewhere",
        ),
        pytest.param(
            {"version": "8", "bound": True},
            [],
            preparation.Progress.WAITING,
            id="its volume is not seen yet",
        ),
        pytest.param(
            {"version": "8", "bound": True}, [volume("v")], preparation.Progress.DONE, id="done"
        ),
        pytest.param(
            {"version": "8", "bound": True},
            [volume("v", "n2")],
            "persistentvolume 'v' is not reached from node n1",
            id="made where it is not reached",
        ),
        pytest.param(
            {"version": "8", "uid": "new"}, [], 'persistentvolumeclaim "data" not found', id="new"
        ),
    ],
)
def test_how_far_it_is(now: Mapping[str, Any], others: Things, want: Any) -> None:
    wanted, known = made(mounting("data"), [claim(), CAN_MAKE])
    assert wanted is not None
    notes = {storage.SELECTED_NODE: now["selected"]} if "selected" in now else {}
    more: dict[str, Any] = {"meta": {"resourceVersion": now["version"]}}
    more["meta"]["uid"] = now.get("uid", "uid-data")
    if now.get("bound"):
        more |= {"volumeName": "v"}
        notes |= BOUND
    more["meta"]["annotations"] = notes
    for kind, raw in [claim(**more), *others]:
        known.seen(kind, raw)
    assert preparation.progress(wanted, {("default", "data"): "7"}, known) == want
