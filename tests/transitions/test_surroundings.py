"""Pods that depend on other pods and objects: where they go, and what wakes them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from hami_operator.scheduling import effects, objects
from tests import builders
from tests.transitions.stage import Stage, gpus, wants

HOST = "kubernetes.io/hostname"
WEB = {"matchLabels": {"app": "web"}}
PORTS = [{"containerPort": 80, "hostPort": 80}]
NEAR = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution"


def fleet(stage: Stage, count: int, zones: int = 2) -> None:
    for number in range(count):
        node = gpus(f"n{number}").label(HOST, f"n{number}").label("zone", f"z{number % zones}")
        stage.node(node)


def web(name: str) -> builders.PodBuilder:
    return wants(name).label("app", "web")


def spread(pod: builders.PodBuilder, key: str = "zone") -> builders.PodBuilder:
    constraint = {"maxSkew": 1, "topologyKey": key, "labelSelector": WEB}
    return pod.append("spec.topologySpreadConstraints", constraint)


def test_a_burst_of_replicas_is_spread_although_no_bind_was_confirmed() -> None:
    stage = Stage()
    fleet(stage, 6, zones=3)
    stage.pod(*(spread(web(f"p{number}")) for number in range(9)))
    binds = [one for one in stage.attempts() if isinstance(one, effects.Bind)]
    zones = Counter(int(bind.node[1:]) % 3 for bind in binds)
    assert zones == {0: 3, 1: 3, 2: 3}


def test_pods_that_shun_each_other_get_a_node_each_and_the_rest_waits() -> None:
    stage = Stage()
    fleet(stage, 2)
    stage.pod(*(web(name).repels(WEB, HOST) for name in ("a", "b", "c")))
    landed = stage.bind()
    assert sorted(landed.values()) == ["n0", "n1"]
    (waiting,) = {"a", "b", "c"} - set(landed)
    stage.wait(20)
    assert stage.bind() == {}
    gone = next(iter(landed))
    stage.gone(gone)
    stage.wait(20)
    assert stage.bind() == {waiting: landed[gone]}


@pytest.mark.parametrize("ours", [pytest.param(True, id="ours"), pytest.param(False, id="other")])
def test_a_pod_that_wants_company_is_woken_when_it_comes(ours: bool) -> None:
    stage = Stage()
    fleet(stage, 3, zones=3)
    lonely = wants("lonely").append(NEAR, {"labelSelector": WEB, "topologyKey": "zone"})
    stage.pod(lonely)
    assert stage.bind() == {}
    stage.wait(20)
    friend = web("friend").node_selector({HOST: "n2"})
    if ours:
        stage.pod(friend)
        assert stage.bind() == {"friend": "n2"}
    else:
        stage.pod(friend.scheduler("other").on("n2"))
    assert stage.bind() == {"lonely": "n2"}


def test_a_stranger_wakes_nobody() -> None:
    stage = Stage()
    fleet(stage, 1)
    stage.pod(wants("lonely").append(NEAR, {"labelSelector": WEB, "topologyKey": "zone"}))
    stage.bind()
    stage.wait(20)
    before = stage.state
    stage.pod(builders.pod("stranger").scheduler("other").on("n0"))
    assert stage.state.waiting == before.waiting


def test_a_port_is_given_once_per_node_and_again_when_it_is_free() -> None:
    stage = Stage()
    fleet(stage, 1)
    first, second = (wants(name).container(ports=PORTS) for name in ("first", "second"))
    stage.pod(first, second)
    assert stage.bind() == {"first": "n0"}
    stage.wait(20)
    stage.gone("first")
    stage.wait(20)
    assert stage.bind() == {"second": "n0"}


def test_a_failed_bind_gives_its_place_among_others_back() -> None:
    stage = Stage()
    fleet(stage, 1)
    stage.pod(web("a").repels(WEB, HOST))
    order = stage.order()
    stage.pod(web("b"))
    assert stage.bind() == {}, "the one that is being bound shuns it"
    stage.world.bind_failed(order.pod.uid, stage.now, message="no", lost=True)
    stage.wait(20)
    assert stage.bind() == {"b": "n0"}


# ---- objects


def claiming(name: str) -> builders.PodBuilder:
    source = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    return wants(name).append("spec.volumes", source)


def see(stage: Stage, kind: objects.Kind, name: str, **more: Any) -> None:
    meta = {"name": name, "uid": name, **more.pop("meta", {})}
    assert stage.world.object_seen(kind, {"metadata": meta, **more}, stage.now) == ()


def list_all(stage: Stage) -> None:
    for kind in objects.STORAGE:
        stage.world.objects_listed(kind, stage.now)


def test_kinds_are_wanted_once_and_the_pod_goes_on_when_they_are_listed() -> None:
    stage = Stage()
    fleet(stage, 1)
    stage.pod(claiming("a"), claiming("b"))
    wanted = [one for one in stage.attempts() if isinstance(one, effects.Watch)]
    assert wanted == [effects.Watch(kinds=objects.STORAGE)]
    bound = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    see(stage, objects.Kind.CLAIM, "data", meta=bound, spec={"volumeName": "disk"})
    see(stage, objects.Kind.VOLUME, "disk", spec={})
    list_all(stage)
    stage.wait(20)
    orders = [one for one in stage.attempts() if isinstance(one, effects.Bind)]
    assert {(one.pod.name, one.preparation) for one in orders} == {("a", None), ("b", None)}


def test_a_claim_that_comes_wakes_the_pod_and_tells_what_to_prepare() -> None:
    stage = Stage()
    fleet(stage, 1)
    list_all(stage)
    stage.pod(claiming("a"))
    assert stage.bind() == {}
    stage.wait(20)
    see(stage, objects.Kind.CLAIM, "other")
    assert stage.bind() == {}
    mode = {"volumeBindingMode": "WaitForFirstConsumer"}
    see(stage, objects.Kind.CLASS, "later", provisioner="example.com/p", **mode)
    see(stage, objects.Kind.CLAIM, "data", spec={"storageClassName": "later"})
    stage.wait(20)
    order = stage.order()
    assert order.preparation is not None
    assert [claim.name for claim in order.preparation.provisioned] == ["data"]
    stage.world.object_gone(objects.Kind.CLAIM, ("default", "data", "data"), stage.now)
    assert stage.world.preparing(order.preparation, {}) == (
        'persistentvolumeclaim "data" not found'
    )
    assert stage.world.waits(order.pod.uid)
    stage.gone("a")
    assert not stage.world.waits(order.pod.uid)


def test_one_pod_at_a_time_has_a_claim_of_its_own() -> None:
    stage = Stage()
    fleet(stage, 2)
    list_all(stage)
    bound = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    spec = {"volumeName": "disk", "accessModes": ["ReadWriteOncePod"]}
    see(stage, objects.Kind.CLAIM, "data", meta=bound, spec=spec)
    see(stage, objects.Kind.VOLUME, "disk", spec={})
    stage.pod(claiming("a"), claiming("b"))
    assert stage.bind() == {"a": "n0"}
    stage.wait(20)
    stage.gone("a")
    stage.wait(20)
    assert set(stage.bind()) == {"b"}
