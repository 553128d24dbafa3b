"""Faults that people met with what is counted, before and after restarts: none happens here."""

from __future__ import annotations

import pytest

from hami_operator.protocol import keys
from hami_operator.scheduling import queue, world
from tests import builders
from tests.transitions import field
from tests.transitions.field import MIB, amounts, asks, bare, card, cards, silent
from tests.transitions.stage import AL, Stage, placed

Place = queue.Place


def runs(stage: Stage, pod: builders.PodBuilder, version: int = 50) -> builders.PodBuilder:
    """The pod as it is on its node, running."""
    entry = stage.world.ledger.get(pod.raw()["metadata"]["uid"])
    assert entry is not None
    known = stage.world.pod(entry.uid)
    assert known is not None
    seen = pod.annotate(dict(known.annotations)).on(entry.node).version(version)
    return seen.phase("Running")


# ---- accounting


def test_a_pod_that_was_deleted_in_a_watch_gap_is_let_go_by_the_next_list() -> None:
    stage = field.start(silent(*cards(8)))
    assert set(field.decided(stage, asks("a", 8))) == {"a"}
    assert "AllocatedCards" not in field.tried(stage, asks("b"))
    assert stage.place("b") is Place.UNSCHEDULABLE
    stage.gone("a")  # what a list that lacks it comes to
    assert (stage.usage("n1"), stage.world.ledger.namespace_usage("default")) == ({}, {})
    assert set(stage.bind()) == {"b"}


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_is_released_once(phase: str) -> None:
    stage = field.start(silent(card()))
    kept = asks("b", gpumem=1000)
    field.decided(stage, asks("a", gpumem=1000), kept)
    stage.pod(runs(stage, asks("a", gpumem=1000)).phase(phase))
    assert stage.usage("n1") == {"GPU-A": (1, 1000)}
    stage.gone("a")
    assert stage.usage("n1") == {"GPU-A": (1, 1000)}


def test_a_pod_in_its_grace_period_keeps_its_cards() -> None:
    stage = field.start(silent(card()))
    field.decided(stage, asks("a"))
    stage.pod(runs(stage, asks("a")).terminating())
    field.tried(stage, asks("b"))
    assert stage.place("b") is Place.UNSCHEDULABLE
    stage.wait(60)
    assert stage.bind() == {}
    stage.gone("a")
    assert stage.bind() == {"b": "n1"}


def test_two_containers_on_one_card_take_two_slots_of_it() -> None:
    two = bare("a")
    for name in ("c0", "c1"):
        two = two.container(name, limits=amounts(1, gpumem=1000))
    stage = field.start(silent(card(count=2)))
    assert field.decided(stage, two) == {"a": "GPU-A,NVIDIA,1000,0:;GPU-A,NVIDIA,1000,0:;"}
    pod = runs(stage, two)
    assert "no free slot" in field.tried(stage, asks("b", gpumem=1000))
    again = field.start(silent(card(count=2)), pods=(pod,))
    assert again.usage("n1") == {"GPU-A": (2, 2000)}
    assert "no free slot" in field.tried(again, asks("b", gpumem=1000))


def test_a_bind_that_fails_three_times_leaves_the_use_of_one_pod() -> None:
    stage = field.start(silent(card()))
    stage.pod(asks("a", gpumem=1000))
    for _ in range(3):
        order = stage.order()
        stage.world.bind_failed(order.pod.uid, stage.now, message="no")
        assert stage.usage("n1") == {}
        stage.wait(20)
    stage.land(stage.order())
    assert stage.usage("n1") == {"GPU-A": (1, 1000)}
    used = stage.world.ledger.namespace_usage("default")["NVIDIA"]
    assert (used.used, used.memory_mib) == (1, 1000)


@pytest.mark.parametrize(
    ("node", "pods", "want"),
    [
        pytest.param(silent(card()), [12288] * 3, 2, id="half cards on one card"),
        pytest.param(silent(*cards(8)), [MIB // 2] * 17, 16, id="half cards on eight"),
        pytest.param(silent(card(memory_mib=46068, count=30)), [2000] * 24, 23, id="small ones"),
    ],
)
def test_many_at_once_never_share_what_is_not_there(
    node: builders.NodeBuilder, pods: list[int], want: int
) -> None:
    stage = field.start(node)
    given = [asks(f"p{number}", gpumem=size) for number, size in enumerate(pods)]
    assert len(field.decided(stage, *given)) == want
    view = stage.world.snapshot.view("n1")
    assert view is not None
    for one in view.cards["NVIDIA"]:
        assert one.usage.memory_mib <= one.card.memory_mib
        assert one.usage.used <= one.card.count


def test_a_pod_on_another_node_than_decided_is_usage_on_neither() -> None:
    stray = placed(asks("a", gpumem=1000), "n1", "GPU-A,NVIDIA,1000,0:;").on("n2")
    stage = field.start(silent(card()), silent(card("B"), name="n2"))
    told = stage.world.pod_seen(stray.read(), stage.now)
    assert "hami.io/vgpu-node is 'n1'" in field.messages(told)
    again = field.start(silent(card()), silent(card("B"), name="n2"), pods=(stray,))
    for one in (stage, again):
        assert (one.usage("n1"), one.usage("n2")) == ({}, {})


def test_nobody_is_counted_twice_from_decision_and_watch() -> None:
    stage = field.start(silent(card()))
    given = [asks(f"p{number}", gpumem=3072) for number in range(9)]
    assert len(field.decided(stage, *given)) == 8
    assert stage.usage("n1") == {"GPU-A": (8, MIB)}


def test_a_new_replica_gets_exactly_the_freed_cards_once_the_old_pod_is_gone() -> None:
    stage = field.start(silent(*cards(8)))
    values = field.decided(stage, *(asks(f"p{number}", 2) for number in range(4)))
    stage.pod(runs(stage, asks("p1", 2)).terminating())
    field.tried(stage, asks("p9", 2))
    assert stage.place("p9") is Place.UNSCHEDULABLE
    stage.gone("p1")
    assert _ids(field.value(stage.order())) == _ids(values["p1"])


def _ids(value: str) -> set[str]:
    return {item.split(",")[0] for item in value.strip(":;").split(":")}


def test_after_a_restart_everything_counts_as_before() -> None:
    stage = field.start(silent(*cards(2)))
    given = [asks("a", gpumem=1000, gpucores=30), asks("b", 2, gpumem=2000)]
    field.decided(stage, *given)
    again = field.start(silent(*cards(2)), pods=tuple(runs(stage, pod) for pod in given))
    assert again.usage("n1") == stage.usage("n1")
    assert again.world.ledger.namespace_usage("default") == (
        stage.world.ledger.namespace_usage("default")
    )


# ---- init containers and sidecars


def ended(pod: builders.PodBuilder, *names: str, code: int = 0) -> builders.PodBuilder:
    for name in names:
        pod = pod.init_ended(name, code)
    return pod


def test_an_init_container_and_the_app_are_not_added_up() -> None:
    pod = bare("a").init("i", limits=amounts(1, gpumem=20480))
    pod = pod.container("c", limits=amounts(1, gpumem=10240))
    stage = field.start(silent(card()))
    assert set(field.decided(stage, pod)) == {"a"}
    assert stage.usage("n1") == {"GPU-A": (1, 20480)}
    stage.pod(ended(runs(stage, pod), "i", code=1))
    assert stage.usage("n1") == {"GPU-A": (1, 20480)}
    field.tried(stage, asks("b", gpumem=12288))
    assert stage.place("b") is Place.UNSCHEDULABLE
    stage.pod(ended(runs(stage, pod, 60), "i"))
    assert stage.usage("n1") == {"GPU-A": (1, 10240)}
    assert stage.bind() == {"b": "n1"}
    stage.pod(runs(stage, pod, 70).phase("Succeeded"))
    assert stage.usage("n1") == {"GPU-A": (1, 12288)}


def test_init_containers_take_turns_on_a_card() -> None:
    pod = bare("a").container("c")
    for name in ("i0", "i1", "i2"):
        pod = pod.init(name, limits=amounts(1, gpumem=10240))
    stage = field.start(silent(card(memory_mib=16384)))
    turn = "GPU-A,NVIDIA,10240,0:;"
    assert field.decided(stage, pod) == {"a": f"{turn * 3};"}
    assert stage.usage("n1") == {"GPU-A": (1, 10240)}


def gpu(
    name: str, pod: builders.PodBuilder, mem: int = 2500, cores: int = 25
) -> builders.PodBuilder:
    return pod.container(name, limits=amounts(1, gpumem=mem, gpucores=cores))


@pytest.mark.parametrize("model", ["Tesla T4", "NVIDIA"])
@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(
            gpu("y", gpu("x", bare("a").init("i"))),
            ";GPU-B,NVIDIA,2500,25:;GPU-A,NVIDIA,2500,25:;",
            id="a container without devices comes first",
        ),
        pytest.param(
            gpu("z", gpu("x", bare("a")).container("y")),
            "GPU-B,NVIDIA,2500,25:;;GPU-A,NVIDIA,2500,25:;",
            id="one between two others",
        ),
        pytest.param(
            gpu("y", bare("a").container("x")), ";GPU-B,NVIDIA,2500,25:;", id="the last has one"
        ),
    ],
)
def test_every_container_has_its_slot_whatever_the_model_is(
    model: str, pod: builders.PodBuilder, want: str
) -> None:
    stage = field.start(silent(*cards(2, model=model)))
    assert field.decided(stage, pod) == {"a": want}


def test_a_pod_without_devices_is_bound_without_any_key_of_ours() -> None:
    stage = field.start(silent(card()))
    stage.pod(bare("a").container("x").container("y"))
    order = stage.order()
    assert (dict(order.decision.annotations), dict(order.decision.labels)) == ({}, {})


def test_a_whole_card_is_kept_when_an_init_container_without_devices_ends() -> None:
    pod = bare("a").init("i").container("c", limits=amounts(1, gpucores=100))
    stage = field.start(silent(card(model="Tesla T4")))
    field.decided(stage, pod)
    stage.pod(ended(runs(stage, pod), "i"))
    assert stage.usage("n1") == {"GPU-A": (1, MIB)}
    joins = bare("b").init("i").container("c", limits=amounts(1, gpumem=20000, gpucores=22))
    field.tried(stage, joins)
    assert stage.place("b") is Place.UNSCHEDULABLE


@pytest.mark.parametrize(
    ("init", "before", "after"),
    [
        pytest.param(0, 20480, 20480, id="a sidecar alone"),
        pytest.param(20480, 22528, 12288, id="beside an init container"),
    ],
)
def test_a_sidecar_runs_beside_the_apps(init: int, before: int, after: int) -> None:
    pod = bare("a")
    if init:
        pod = pod.init("i", limits=amounts(1, gpumem=init))
    side = 2048 if init else 10240
    pod = pod.sidecar("s", limits=amounts(1, gpumem=side))
    pod = pod.container("c", limits=amounts(1, gpumem=10240))
    stage = field.start(silent(card()))
    field.decided(stage, pod)
    assert stage.usage("n1")["GPU-A"][1] == before
    stage.pod(ended(runs(stage, pod), *(["i"] if init else []), "s"))
    assert stage.usage("n1")["GPU-A"][1] == after
    field.tried(stage, asks("b", gpumem=MIB - after + 1))
    assert stage.place("b") is Place.UNSCHEDULABLE


# ---- what stands on pods and nodes besides


def test_a_pod_that_went_round_admission_is_told_and_counts_for_nothing() -> None:
    stage = field.start(silent(card()))
    told = stage.world.pod_seen(
        asks("a").on("n1").scheduler("default-scheduler").read(), stage.now
    )
    assert "bound without a decision" in field.messages(told)
    assert stage.usage("n1") == {}
    assert set(field.decided(stage, asks("b"))) == {"b"}


def test_a_forged_decision_of_a_bound_pod_is_counted_since_its_plugin_serves_it() -> None:
    forged = placed(asks("a", gpumem=1000), "n1", "GPU-A,NVIDIA,24000,0:;")
    stage = field.start(silent(card()))
    told = stage.world.pod_seen(forged.scheduler("other").read(), stage.now)
    assert "did not make" in field.messages(told)
    assert stage.usage("n1") == {"GPU-A": (1, 24000)}
    field.tried(stage, asks("b", gpumem=1000))
    assert stage.place("b") is Place.UNSCHEDULABLE


@pytest.mark.parametrize("key", [keys.VGPU_NODE, AL, keys.BIND_TIME, keys.BIND_PHASE])
def test_one_forged_key_alone_on_a_waiting_pod_is_no_usage(key: str) -> None:
    stage = field.start(silent(card()), pods=(asks("a", gpumem=1000).annotate({key: "n1"}),))
    assert stage.usage("n1") == {}
    assert stage.bind() == {"a": "n1"}
    assert stage.usage("n1") == {"GPU-A": (1, 1000)}


def test_a_follower_with_an_old_view_decides_nothing_in_its_new_term() -> None:
    stage = field.start(silent(card()))
    stage.world.step_down()
    stage.world.take_over(stage.now)
    stage.world.step_down()
    stage.world.take_over(stage.now)
    stage.pod(asks("a"))
    assert stage.bind() == {}
    for source in sorted(world.SOURCES):
        stage.world.synced(source, stage.now)
    assert stage.bind() == {"a": "n1"}


def test_heartbeats_rebuild_nothing() -> None:
    stage = field.start(silent(card()))
    before = stage.world.snapshot.view("n1")
    for number in range(1000):
        condition = [{"type": "Ready", "status": "True", "lastHeartbeatTime": str(number)}]
        stage.node(silent(card()).version(number + 2).put("status.conditions", condition))
    assert stage.world.snapshot.view("n1") is before
