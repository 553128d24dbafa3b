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
NATIVE = objects.Kind.NATIVE_GROUP


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
        "(CardInsufficientMemory) (GangIncomplete). preemption: 0/1 nodes are available: "
        "1 No preemption victims found for incoming pod."
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


def native(gang: str, number: int) -> builders.PodBuilder:
    """A pod of a gang of Kubernetes' own."""
    return wants(f"{gang}-{number:02}", mem=CARD).put("spec.schedulingGroup.podGroupName", gang)


def group(name: str, **spec: Any) -> dict[str, Any]:
    """A PodGroup of Kubernetes' own."""
    meta = {"namespace": "default", "name": name, "uid": f"uid-group-{name}"}
    return {"metadata": meta, "spec": spec}


def together(name: str, count: int) -> dict[str, Any]:
    return group(name, schedulingPolicy={"gang": {"minCount": count}})


def shown(stage: Stage, *groups: dict[str, Any]) -> None:
    """The watch of Kubernetes' own PodGroups shows these, and has listed all."""
    for one in groups:
        stage.world.object_seen(NATIVE, one, stage.now)
    stage.world.objects_listed(NATIVE, stage.now)


def test_kubernetes_own_groups_are_watched_once_a_pod_names_one() -> None:
    stage = fleet(cards=2)
    stage.pod(wants("plain"))
    assert not [one for one in stage.attempts() if isinstance(one, effects.Watch)]
    stage.pod(native("g", 0))
    told = stage.attempts()
    assert [one.kinds for one in told if isinstance(one, effects.Watch)] == [{NATIVE}]
    assert any(
        "waiting for the first list of podgroups.scheduling.k8s.io" in text for text in texts(told)
    )


def test_a_gang_of_kubernetes_own_is_bound_in_one_step() -> None:
    stage = fleet(cards=3)
    shown(stage, together("g", 3))
    stage.pod(native("g", 0), native("g", 1))
    told = stage.attempts()
    assert binds(told) == []
    assert any("gang default/g needs 3 pods at once: 2 are here" in text for text in texts(told))
    stage.pod(native("g", 2))
    assert names(binds(stage.world.attempt(stage.now))) == ["g-00", "g-01", "g-02"]


def test_a_pod_waits_for_its_group_of_kubernetes_own() -> None:
    stage = fleet(cards=3)
    shown(stage)
    stage.pod(native("g", 0), native("g", 1))
    told = stage.attempts()
    assert binds(told) == []
    assert {text.partition(" preemption")[0] for text in texts(told)} == {
        "0/1 nodes are available: PodGroup default/g of scheduling.k8s.io does not exist "
        "(GangIncomplete)."
    }
    stage.wait(20)
    stage.world.object_seen(GROUP, together("g", 2), stage.now)  # another kind of that name
    assert stage.attempts() == ()
    stage.world.object_seen(NATIVE, together("g", 2), stage.now)
    assert names(binds(stage.attempts())) == ["g-00", "g-01"]


def test_pods_of_a_basic_group_are_placed_one_by_one() -> None:
    stage = fleet(cards=1)
    shown(stage, group("g", schedulingPolicy={"basic": {}}))
    stage.pod(native("g", 0), native("g", 1))
    assert stage.run()[0] == "bind g-00 to n0"
    assert stage.place("g-01") is Place.UNSCHEDULABLE


def test_a_group_with_wishes_that_are_not_known_keeps_its_pods_waiting() -> None:
    stage = fleet(cards=2)
    wishes = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}
    one, other = together("g", 2), group("h", schedulingPolicy={"basic": {}})
    shown(stage, {**one, "spec": one["spec"] | wishes}, {**other, "spec": other["spec"] | wishes})
    stage.pod(native("g", 0), native("g", 1), native("h", 0))
    told = stage.attempts()
    assert binds(told) == []
    assert all("asks for schedulingConstraints, which this" in text for text in texts(told))


def test_gangs_of_the_same_name_and_different_kind_are_different() -> None:
    stage = fleet(cards=4)
    shown(stage, together("g", 2))
    stage.pod(native("g", 0), member("g", 7, 2))
    assert binds(stage.attempts()) == []
    stage.pod(native("g", 1), member("g", 8, 2))
    assert sorted(names(binds(stage.attempts()))) == ["g-00", "g-01", "g-07", "g-08"]


def test_a_new_leader_looks_back_at_a_gang_as_soon_as_its_size_is_known() -> None:
    half = placed(native("g", 0), "n0", f"GPU-0,NVIDIA,{CARD},0:;")
    half = half.condition("PodScheduled", "True", lastTransitionTime="2026-03-01T11:59:30Z")
    other = placed(wants("other", mem=CARD), "n0", f"GPU-1,NVIDIA,{CARD},0:;")
    stage = Stage(active=False, gang_timeout_s=60.0)
    stage.node(gpus("n0", 2, memory_mib=CARD))
    stage.pod(half, other, native("g", 1))
    stage.lead()
    stage.attempts()
    stage.wait(1)
    shown(stage, together("g", 2))
    stage.attempts()
    stage.wait(1)
    assert [text.split()[1] for text in stage.wait(61) if text.startswith("evict")] == ["g-00"]


# ---- room for the whole gang


def low(name: str, node: str, mem: int = CARD, minute: int = 0) -> builders.PodBuilder:
    """A pod of no importance on the first card of a node."""
    pod = placed(wants(name, mem=mem), node, f"GPU-0,NVIDIA,{mem},0:;")
    return pod.started(f"2026-03-01T10:{minute:02}:00Z").phase("Running")


def crowd(*pods: builders.PodBuilder, nodes: int, cards: int = 1, **given: Any) -> Stage:
    """Nodes with these pods on them."""
    stage = Stage(active=False, **given)
    for number in range(nodes):
        stage.node(gpus(f"n{number}", cards, memory_mib=CARD))
    stage.pod(*pods)
    stage.lead()
    return stage


def urgent(gang: str, size: int, mem: int = CARD) -> list[builders.PodBuilder]:
    return [one.priority(10) for one in members(gang, size, mem)]


def victims(told: tuple[effects.Effect, ...]) -> list[str]:
    return sorted(one.pod.name for one in told if isinstance(one, effects.Evict))


def promised(told: tuple[effects.Effect, ...]) -> dict[str, str | None]:
    return {one.pod.name: one.nominated for one in told if isinstance(one, effects.Condition)}


def test_victims_make_room_for_the_whole_gang_and_nobody_comes_between() -> None:
    stage = crowd(low("a", "n0"), low("b", "n1"), nodes=2)
    stage.pod(*urgent("g", 2))
    told = stage.attempts()
    assert (victims(told), promised(told)) == (["a", "b"], {"g-00": "n0", "g-01": "n1"})
    stage.pod(wants("thief", mem=CARD).priority(5))
    stage.gone("a")
    stage.wait(20)
    told = stage.attempts()
    assert (binds(told), victims(told)) == ([], [])
    assert any(text.endswith("terminating pod on the nominated node.") for text in texts(told))
    stage.gone("b")
    assert names(binds(stage.attempts())) == ["g-00", "g-01"]


def test_only_as_many_go_as_the_gang_lacks_and_free_room_is_promised_as_well() -> None:
    stage = crowd(low("a", "n0"), nodes=2)
    stage.pod(*urgent("g", 2))
    told = stage.attempts()
    assert (victims(told), promised(told)) == (["a"], {"g-00": "n1", "g-01": "n0"})
    stage.pod(wants("thief", mem=CARD).priority(5))
    assert binds(stage.attempts()) == []
    stage.gone("a")
    assert names(binds(stage.attempts())) == ["g-00", "g-01"]


def test_one_victim_makes_room_for_two() -> None:
    stage = crowd(low("a", "n0"), low("b", "n1"), nodes=2)
    stage.pod(*urgent("g", 2, CARD // 2))
    told = stage.attempts()
    assert len(victims(told)) == 1
    assert len(set(promised(told).values())) == 1
    stage.gone(*victims(told))
    assert names(binds(stage.attempts())) == ["g-00", "g-01"]


def test_where_not_all_would_find_room_nobody_goes_and_it_is_said_for_whom_there_is_none() -> None:
    stage = crowd(low("a", "n0"), low("b", "n1"), nodes=2)
    stage.pod(*urgent("g", 3))
    before = stage.state
    told = stage.attempts()
    assert (victims(told), set(promised(told).values())) == ([], {None})
    assert {text.partition("preemption: ")[2] for text in texts(told)} == {
        "2 more would find room, and g-02 not: 0/2 nodes are available: "
        "2 No preemption victims found for incoming pod."
    }
    assert (stage.state.held, stage.attempts()) == (before.held, ())
    stage.pod(wants("next", mem=CARD).priority(5))
    assert victims(stage.attempts()) != []  # nothing stayed promised


def test_what_a_gang_took_from_others_in_thought_is_theirs_again() -> None:
    stage = crowd(low("a", "n0"), nodes=1)
    stage.pod(wants("middle", mem=CARD).priority(5))
    assert victims(stage.attempts()) == ["a"]
    stage.pod(*urgent("g", 2))
    stage.attempts()
    stage.gone("a")
    assert names(binds(stage.attempts())) == ["middle"]


def test_a_budget_is_spent_once_over_all_victims_of_a_gang() -> None:
    """Alone, each of the two younger ones would be the cheapest, and would break no budget."""
    spared = [low(name, f"n{n}", minute=9).label("app", "x") for n, name in enumerate("ab")]
    stage = crowd(*spared, low("c", "n2"), nodes=3)
    selector = {"matchLabels": {"app": "x"}}
    stage.world.budget_seen(
        {
            "metadata": {"namespace": "default", "name": "x", "uid": "uid-x"},
            "spec": {"selector": selector},
            "status": {"disruptionsAllowed": 1},
        }
    )
    stage.pod(*urgent("g", 2))
    assert victims(stage.attempts()) == ["a", "c"]


@pytest.mark.parametrize(
    ("pods", "want"),
    [
        pytest.param(
            [one.put("spec.preemptionPolicy", "Never") for one in urgent("g", 2)],
            "preemption: not eligible due to preemptionPolicy=Never.",
            id="they are not to push anybody off",
        ),
        pytest.param(
            members("g", 2), "1 No preemption victims found for incoming pod.", id="all are equal"
        ),
        pytest.param(
            urgent("g", 40),
            "preemption: not tried, since more than 32 pods of the gang lack room.",
            id="they are too many to look at",
        ),
    ],
)
def test_a_gang_for_which_nobody_has_to_go(pods: list[builders.PodBuilder], want: str) -> None:
    stage = crowd(low("a", "n0"), nodes=1)
    stage.pod(*pods)
    told = stage.attempts()
    assert victims(told) == []
    assert all(text.endswith(want) for text in texts(told))


def test_pods_above_the_minimum_push_nobody_off() -> None:
    stage = crowd(*(low(name, f"n{number}") for number, name in enumerate("abc")), nodes=3)
    stage.pod(*(member("g", number, 2).priority(10) for number in range(3)))
    told = stage.attempts()
    assert len(victims(told)) == 2
    assert sorted(map(bool, promised(told).values())) == [False, True, True]


def test_a_gang_that_is_too_small_again_is_promised_nothing() -> None:
    stage = crowd(low("a", "n0"), low("b", "n1"), nodes=2)
    stage.pod(*urgent("g", 2))
    assert victims(stage.attempts()) == ["a", "b"]
    stage.gone("a", "b", "g-01")
    stage.wait(20)
    stage.pod(wants("next", mem=CARD), wants("last", mem=CARD))
    told = stage.attempts()
    assert names(binds(told)) == ["next", "last"]
    assert promised(told) == {"g-00": ""}


def test_nobody_goes_for_another_pod_of_its_own_gang() -> None:
    """The whole gang but for one is there, and the last one matters more than the others."""
    mates = [
        placed(member("g", number, 3), f"n{number}", f"GPU-0,NVIDIA,{CARD},0:;")
        for number in range(2)
    ]
    stage = crowd(*mates, nodes=2)
    stage.pod(member("g", 2, 3).priority(10))
    assert victims(stage.attempts()) == []
    stage.pod(wants("alone", mem=CARD).priority(10))
    assert len(victims(stage.attempts())) == 1


def test_a_victim_that_stays_is_replaced() -> None:
    stage = crowd(low("a", "n0"), low("b", "n1"), nodes=2)
    stage.pod(*urgent("g", 2))
    assert victims(stage.attempts()) == ["a", "b"]
    stage.gone("b")
    stage.world.evict_failed("uid-a", stage.now)
    stage.wait(20)
    told = stage.attempts()
    assert (victims(told), binds(told)) == (["a"], [])


def test_a_new_leader_goes_on_where_the_last_one_has_chosen() -> None:
    leaving = (
        low("a", "n0")
        .terminating()
        .condition("DisruptionTarget", "True", reason="PreemptionByScheduler")
    )
    stage = crowd(leaving, low("b", "n1"), nodes=2)
    first, second = urgent("g", 2)
    nominated = "status.nominatedNodeName"
    stage.pod(first.put(nominated, "n0"), second.put(nominated, "n1"))
    told = stage.attempts()
    assert victims(told) == ["b"]
    stage.gone("a", "b")
    assert names(binds(stage.attempts())) == ["g-00", "g-01"]


@hypothesis_settings(max_examples=60, deadline=None)
@given(
    lows=st.lists(
        st.tuples(
            st.integers(0, 2), st.sampled_from((CARD // 2, CARD)), st.sampled_from((0, 5, 20))
        ),
        max_size=6,
    ),
    size=st.integers(2, 4),
    mem=st.sampled_from((CARD // 2, CARD)),
)
def test_room_is_made_for_all_of_a_gang_or_nobody_goes(
    lows: list[tuple[int, int, int]], size: int, mem: int
) -> None:
    """Whoever goes, goes for a gang that is bound as soon as all of them are gone."""
    stage = Stage(active=False)
    free = [CARD] * 3
    for node in range(3):
        stage.node(gpus(f"n{node}", 1, memory_mib=CARD))
    for number, (node, held, priority) in enumerate(lows):
        if held <= free[node]:
            free[node] -= held
            stage.pod(low(f"low-{number}", f"n{node}", held).priority(priority))
    stage.lead()
    stage.pod(*urgent("g", size, mem))
    told = stage.attempts()
    gone = victims(told)
    if binds(told):
        assert (len(binds(told)), gone) == (size, [])
        return
    assert bool(gone) == all(promised(told).values())
    stage.gone(*gone)
    stage.wait(20)
    assert len(binds(stage.attempts())) == (size if gone else 0)


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
