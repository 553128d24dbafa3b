"""Extended resources that a DeviceClass stands for: counted where offered, else refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from hami_operator.scheduling import filters, hints, objects, resourceclaims, surroundings
from tests import builders
from tests.unit.scheduling import scenes

Kind = objects.Kind
NAME = "example.com/gpu"
POD = builders.pod("p").container(limits={NAME: 1})
IMPLICIT = "deviceclass.resource.kubernetes.io/fast"
BARE, RICH = builders.roomy("n1"), builders.roomy("n2").allocatable({NAME: 2})
SHORT = {"n1": (f"Insufficient {NAME}",)}


def a_class(name: str, extended: str = "") -> tuple[Kind, dict[str, Any]]:
    spec = {"extendedResourceName": extended} if extended else {}
    return Kind.DEVICE_CLASS, {"metadata": {"name": name, "uid": name}, "spec": spec}


def refused(resource: str, name: str) -> tuple[str]:
    return (
        f"cannot allocate all claims: {resource} stands for devices of DeviceClass {name}, which "
        "this scheduler does not choose",
    )


@pytest.mark.parametrize(
    ("pod", "nodes", "things", "want"),
    [
        pytest.param(
            POD, [BARE], [a_class("fast", NAME)], refused(NAME, "fast"), id="a class says so"
        ),
        pytest.param(
            builders.pod("p").container(requests={IMPLICIT: 1}),
            [BARE],
            [a_class("fast")],
            refused(IMPLICIT, "fast"),
            id="the resource names the class",
        ),
        pytest.param(
            POD,
            [BARE],
            [a_class("slow", NAME), a_class("fast", NAME)],
            refused(NAME, "fast"),
            id="of several classes the first",
        ),
        pytest.param(
            POD, [BARE], [a_class("fast", "example.com/nic")], SHORT, id="it is another resource"
        ),
        pytest.param(POD, [BARE], [], SHORT, id="no class"),
        pytest.param(
            POD,
            [BARE, RICH],
            [a_class("fast", NAME)],
            {**SHORT, "n2": "fit"},
            id="a device plugin offers it somewhere",
        ),
        pytest.param(
            POD,
            [BARE, builders.roomy("n2").allocatable({NAME: 0})],
            [a_class("fast", NAME)],
            refused(NAME, "fast"),
            id="none is left of what a plugin offered",
        ),
        pytest.param(
            builders.pod("p").container(requests={"cpu": "1"}),
            [BARE],
            [a_class("fast", NAME)],
            {"n1": "fit"},
            id="a pod that asks for no such thing",
        ),
    ],
)
def test_resources_of_device_classes(
    pod: builders.PodBuilder,
    nodes: list[builders.NodeBuilder],
    things: list[tuple[Kind, Mapping[str, Any]]],
    want: Any,
) -> None:
    around = scenes.around(nodes, (), things)
    plan = filters.plan(pod.read(), around=around)
    if plan.prefilter is not None:
        assert plan.prefilter.texts == want
        return
    views = (scenes.View(node=one.read()) for one in nodes)
    assert {view.node.name: scenes.said(plan.run(view)) for view in views} == want


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(filters.Options(ignored=frozenset({NAME})), id="it is one of our devices"),
        pytest.param(filters.Options(ignored_groups=frozenset({"example.com"})), id="ignored"),
        pytest.param(filters.Options(where_offered=frozenset({NAME})), id="only where offered"),
    ],
)
def test_what_others_count_is_left_to_them(options: filters.Options) -> None:
    around = scenes.around([BARE], (), [a_class("fast", NAME)])
    assert filters.plan(POD.read(), options, around).prefilter is None


def test_the_classes_are_watched_once_a_pod_asks_for_what_nobody_offers() -> None:
    known = objects.Objects()
    views = scenes.around([RICH], ()).nodes

    def plan(pod: builders.PodBuilder) -> filters.Plan:
        bare = surroundings.alone(views)
        around = surroundings.Surroundings(nodes=views, pods=bare.pods, objects=known)
        return filters.plan(pod.read(), around=around)

    assert (plan(POD).prefilter, known.take_wanted()) == (None, frozenset())
    other = builders.pod("p").container(limits={"example.com/nic": 1})
    assert (plan(other).prefilter, known.take_wanted()) == (
        None,
        frozenset({Kind.DEVICE_CLASS}),
    )


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param(objects.Change(Kind.DEVICE_CLASS), True, id="all classes are listed"),
        pytest.param(
            objects.Change(
                Kind.DEVICE_CLASS, new=resourceclaims.read_class(a_class("x", NAME)[1])
            ),
            True,
            id="a class stands for it",
        ),
        pytest.param(
            objects.Change(
                Kind.DEVICE_CLASS, old=resourceclaims.read_class(a_class("x", NAME)[1])
            ),
            True,
            id="a class that stood for it is gone",
        ),
        pytest.param(
            objects.Change(Kind.DEVICE_CLASS, new=resourceclaims.read_class(a_class("x")[1])),
            False,
            id="another class",
        ),
        pytest.param(objects.Change(Kind.CLAIM), False, id="another kind"),
    ],
)
def test_which_classes_wake_a_pod_that_lacks_a_resource(
    change: objects.Change, want: bool
) -> None:
    assert hints.may_help(["NodeResourcesFit"], POD.read(), change) is want


def test_claims_of_the_first_beta_name_their_class_one_level_higher() -> None:
    requests = [{"name": "a", "deviceClassName": "gpu"}, {"name": "b", "firstAvailable": []}]
    raw = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": requests}}}
    assert resourceclaims.read_claim(raw).classes == (("a", "gpu"),)
