"""Gangs: all pods find room at once or none takes any, and no gang stays half."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from hami_operator.protocol import keys
from hami_operator.scheduling import effects, objects, queue
from tests import builders
from tests.transitions.stage import Stage, gpus, placed, wants

Place = queue.Place
CARD = 10_000
GROUP = objects.Kind.POD_GROUP


def member(gang: str, number: int, size: int, mem: int = CARD) -> builders.PodBuilder:
    pod = wants(f"{gang}-{number:02}", mem=mem)
    return pod.annotate({keys.GANG_NAME: gang, keys.GANG_MIN_MEMBER: str(size)})


def members(gang: str, size: int, mem: int = CARD) -> list[builders.PodBuilder]:
    return [member(gang, number, size, mem) for number in range(size)]


def fleet(cards: int, nodes: int = 1, **given: Any) -> Stage:
    stage = Stage(**given)
    for number in range(nodes):
        stage.node(gpus(f"n{number}", cards, memory_mib=CARD))
    return stage


def binds(told: tuple[effects.Effect, ...]) -> list[effects.Bind]:
    return [one for one in told if isinstance(one, effects.Bind)]


def texts(told: tuple[effects.Effect, ...]) -> set[str]:
    return {one.message for one in told if isinstance(one, effects.Condition)}


def names(orders: list[effects.Bind]) -> list[str]:
    return [one.pod.name for one in orders]


def test_a_gang_is_bound_in_one_step_however_its_pods_come() -> None:
    stage = fleet(cards=2, nodes=2)
    pods = members("g", 4)
    stage.pod(*pods[:3])
    assert binds(stage.attempts()) == []
    stage.pod(pods[3])
    told = stage.world.attempt(stage.now)
    assert names(binds(told)) == ["g-00", "g-01", "g-02", "g-03"]
    assert stage.usage("n0") == stage.usage("n1") == {"GPU-0": (1, CARD), "GPU-1": (1, CARD)}


def test_a_gang_of_which_some_are_missing_holds_nothing_and_says_who_is_there() -> None:
    stage = fleet(cards=4)
    stage.pod(*members("g", 4)[:2], member("g", 3, 4).gate("queue"))
    told = stage.attempts()
    assert "0/1 nodes are available: gang default/g needs 4 pods at once: 2 are here, and 1 are " \
        "gated (GangIncomplete)." in texts(told)  # fmt: skip
    stage.pod(wants("other", mem=CARD))
    assert names(binds(stage.attempts())) == ["other"]


def test_pods_that_start_gated_come_in_when_their_gates_are_gone() -> None:
    stage = fleet(cards=2)
    gated = [one.gate("kueue.x-k8s.io/admission") for one in members("g", 2)]
    stage.pod(*gated)
    assert stage.attempts() == ()
    for one in members("g", 2):
        stage.pod(one.version(5))
    assert names(binds(stage.attempts())) == ["g-00", "g-01"]


def test_a_gang_that_cannot_fit_says_which_pod_fails_and_why_and_leaves_no_trace() -> None:
    stage = fleet(cards=3)
    before = stage.world.snapshot.views()
    stage.pod(*members("g", 4))
    told = stage.attempts()
    assert texts(told) == {
        "0/1 nodes are available: gang default/g needs 4 pods at once: 3 find room, and g-03 does "
        "not: 0/1 nodes are available: 1 card(s) have too little free memory "
        "(CardInsufficientMemory) (GangIncomplete)."
    }
    assert binds(told) == []
    assert stage.state.held == frozenset()
    after = stage.world.snapshot.views()
    assert [(one.cards, one.requested, one.pod_count) for one in after] == [
        (one.cards, one.requested, one.pod_count) for one in before
    ]
    assert {stage.place(f"g-{number:02}") for number in range(4)} == {Place.UNSCHEDULABLE}


def test_room_for_the_missing_one_wakes_the_whole_gang() -> None:
    stage = fleet(cards=3)
    stage.pod(*members("g", 4))
    stage.attempts()
    stage.wait(60)
    stage.node(gpus("late", 1, memory_mib=CARD))
    told = stage.world.attempt(stage.now)
    assert len(binds(told)) == 4
    assert stage.attempts() == ()


def test_two_gangs_of_16_on_room_for_20() -> None:
    stage = fleet(cards=4, nodes=5)
    mixed = [pod for pair in zip(members("a", 16), members("b", 16), strict=True) for pod in pair]
    stage.pod(*mixed)
    orders = binds(stage.attempts())
    assert {one.pod.name[0] for one in orders} == {"a"}
    for one in orders:
        stage.land(one)
    assert {stage.place(f"b-{number:02}") for number in range(16)} == {Place.UNSCHEDULABLE}
    stage.wait(30)
    stage.gone(*(f"a-{number:02}" for number in range(16)))
    orders = binds(stage.attempts())
    assert names(orders) == [f"b-{number:02}" for number in range(16)]


def test_more_pods_than_have_to_run_take_what_is_left() -> None:
    stage = fleet(cards=3)
    stage.pod(*(member("g", number, 2) for number in range(4)))
    told = stage.attempts()
    assert names(binds(told)) == ["g-00", "g-01", "g-02"]
    assert stage.place("g-03") is Place.UNSCHEDULABLE
    stage.node(gpus("late", 1, memory_mib=CARD))
    assert names(binds(stage.attempts())) == ["g-03"]


def test_a_gang_gets_its_place_in_the_queue_by_its_most_important_pod() -> None:
    stage = fleet(cards=2)
    stage.pod(wants("first", mem=CARD))
    stage.pod(member("g", 0, 2), member("g", 1, 2).priority(5))
    assert names(binds(stage.attempts())) == ["g-01", "g-00"]


def test_the_room_of_a_pod_whose_bind_failed_is_kept_for_its_gang() -> None:
    stage = fleet(cards=2)
    stage.pod(*members("g", 2))
    first, second = binds(stage.attempts())
    stage.land(first)
    stage.world.bind_failed(second.pod.uid, stage.now, message="500")
    stage.pod(wants("thief", mem=CARD))
    assert binds(stage.attempts()) == []
    stage.wait(2)
    assert names(binds(stage.attempts())) == ["g-01"]


def test_a_deleted_pod_of_a_gang_wakes_the_others_to_say_so() -> None:
    stage = fleet(cards=1)
    stage.pod(*members("g", 2))
    stage.attempts()
    stage.wait(20)
    stage.gone("g-01")
    assert any("1 are here" in text for text in texts(stage.attempts()))


def test_a_whole_gang_replaces_single_pods() -> None:
    stage = fleet(cards=3)
    stage.pod(*members("g", 3))
    for order in binds(stage.attempts()):
        stage.land(order)
    stage.wait(1)
    stage.gone("g-00", "g-01")
    stage.pod(member("g", 7, 3).uid("new"))
    assert names(binds(stage.attempts())) == ["g-07"]


def test_a_gang_that_is_gone_starts_whole_again() -> None:
    stage = fleet(cards=3)
    stage.pod(*members("g", 3))
    for order in binds(stage.attempts()):
        stage.land(order)
    stage.wait(1)
    stage.gone("g-00", "g-01", "g-02")
    stage.pod(member("g", 7, 3).uid("new"))
    assert binds(stage.attempts()) == []


def test_what_is_bound_of_a_gang_is_given_back_when_it_is_not_whole_in_time() -> None:
    stage = fleet(cards=2, gang_timeout_s=60.0)
    stage.pod(*members("g", 2))
    first, second = binds(stage.attempts())
    stage.land(first)
    stage.world.bind_failed(second.pod.uid, stage.now, message="500")
    assert stage.wait(59) == []
    (told,) = stage.world.tick(type(stage.now)(monotonic_s=1061.0, wall=stage.now.wall))
    assert isinstance(told, effects.Evict)
    assert (told.pod.name, told.node, told.reason) == ("g-00", "n0", "GangReleased")
    assert told.tell.message == (
        "gang default/g needs 2 pods at once: 1 were bound, and the others not within 60 s; "
        "all give their room back"
    )
    assert stage.wait(100) == []


def test_a_gang_that_lost_its_waiting_pods_is_left_alone() -> None:
    stage = fleet(cards=2, gang_timeout_s=60.0)
    stage.pod(*members("g", 2))
    first, second = binds(stage.attempts())
    stage.land(first)
    stage.gone(second.pod.name)
    assert stage.wait(61) == []


@pytest.mark.parametrize(
    ("bound_at", "want"),
    [
        pytest.param("2026-03-01T11:59:30Z", ["g-00"], id="just now: it was never whole"),
        pytest.param("2026-03-01T10:00:00Z", [], id="long ago: it was whole once"),
        pytest.param("", [], id="nobody knows"),
    ],
)
def test_what_a_new_leader_does_with_half_a_gang(bound_at: str, want: list[str]) -> None:
    """The room of the other half is taken, so that it cannot be completed."""
    half = placed(member("g", 0, 2), "n0", f"GPU-0,NVIDIA,{CARD},0:;")
    half = half.condition("PodScheduled", "True", lastTransitionTime=bound_at)
    other = placed(wants("other", mem=CARD), "n0", f"GPU-1,NVIDIA,{CARD},0:;")
    stage = Stage(active=False, gang_timeout_s=60.0)
    stage.node(gpus("n0", 2, memory_mib=CARD))
    stage.pod(half, other, member("g", 1, 2))
    stage.lead()
    assert binds(stage.attempts()) == []
    stage.wait(1)
    told = stage.wait(61)
    assert [text.split()[1] for text in told if text.startswith("evict")] == want


def test_a_new_leader_completes_half_a_gang_first() -> None:
    half = placed(member("g", 0, 3), "n0", f"GPU-0,NVIDIA,{CARD},0:;")
    stage = Stage(active=False)
    stage.node(gpus("n0", 3, memory_mib=CARD))
    stage.pod(half, member("g", 1, 3), member("g", 2, 3))
    stage.lead()
    assert names(binds(stage.attempts())) == ["g-01", "g-02"]


def test_without_a_size_pods_are_placed_one_by_one_and_it_is_said() -> None:
    stage = fleet(cards=1)
    stage.world.objects_listed(GROUP, stage.now)
    stage.pod(wants("a", mem=CARD).label(keys.POD_GROUP, "g"))
    assert stage.run() == ["a: GangWithoutSize", "bind a to n0"]


def test_a_podgroup_that_comes_later_wakes_its_pods() -> None:
    stage = fleet(cards=2)
    stage.pod(*(wants(name, mem=CARD).label(keys.POD_GROUP, "g") for name in "ab"))
    told = stage.attempts()
    assert [one.kinds for one in told if isinstance(one, effects.Watch)] == [{GROUP}]
    assert texts(told) == {
        "0/1 nodes are available: waiting for the first list of podgroups. preemption: "
        "0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    }
    stage.wait(20)
    group = {"metadata": {"namespace": "default", "name": "g"}, "spec": {"minMember": 3}}
    stage.world.object_seen(GROUP, group, stage.now)
    stage.world.objects_listed(GROUP, stage.now)
    assert any("needs 3 pods at once: 2 are here" in text for text in texts(stage.attempts()))
    stage.wait(20)
    stage.world.object_seen(GROUP, {**group, "spec": {"minMember": 2}}, stage.now)
    assert names(binds(stage.attempts())) == ["a", "b"]


def test_a_gang_ends_no_other_pods() -> None:
    stage = fleet(cards=1)
    stage.pod(placed(wants("low", mem=CARD), "n0", f"GPU-0,NVIDIA,{CARD},0:;"))
    stage.pod(*(one.priority(10) for one in members("g", 2)))
    assert not [one for one in stage.attempts() if isinstance(one, effects.Evict)]


@hypothesis_settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(2, 5), min_size=2, max_size=4),
    order=st.randoms(use_true_random=False),
    cards=st.integers(5, 7),
    failing=st.sets(st.integers(0, 20), max_size=3),
)
def test_every_gang_runs_in_the_end_and_none_is_ever_decided_in_part(
    sizes: list[int], order: Any, cards: int, failing: set[int]
) -> None:
    """Gangs that fit alone but not together, their pods in any order; some binds fail once."""
    stage = fleet(cards=cards)
    pods = [one for name, size in zip("abcd", sizes, strict=False) for one in members(name, size)]
    order.shuffle(pods)
    stage.pod(*pods)
    waiting = {name: size for name, size in zip("abcd", sizes, strict=False)}
    count = 0
    for _ in range(200):
        if not waiting:
            break
        for order_ in binds(stage.attempts()):
            count += 1
            if count in failing:
                stage.world.bind_failed(order_.pod.uid, stage.now, message="500")
            else:
                stage.land(order_)
        held = [name for name, _, _ in stage.state.held]
        for gang, size in list(waiting.items()):
            if sum(name.startswith(gang) for name in held) == size:
                stage.gone(*(f"{gang}-{number:02}" for number in range(size)))
                del waiting[gang]
        stage.wait(3)
    assert waiting == {}
