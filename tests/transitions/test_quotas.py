"""Quotas: what a namespace may hold, what its pods hold of it, and who is woken by either."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings, stateful
from hypothesis import strategies as st

from hami_operator.scheduling import demand, effects, queue, room
from tests import builders
from tests.transitions.stage import ROWS, Stage, gpus, placed, wants

NVIDIA = ROWS.by_word["NVIDIA"]
Place = queue.Place


def limit(
    gpumem: Any = None, gpucores: Any = None, *, name: str = "q", namespace: str = "default"
) -> dict[str, Any]:
    """A ResourceQuota of a namespace."""
    given = {"gpumem": gpumem, "gpucores": gpucores}
    hard = {f"limits.nvidia.com/{key}": str(each) for key, each in given.items() if each != None}  # noqa: E711
    metadata = {"namespace": namespace, "name": name, "uid": f"uid-{name}"}
    return {"metadata": metadata, "spec": {"hard": hard}}


def in_namespace(pod: builders.PodBuilder, namespace: str) -> builders.PodBuilder:
    return pod.put("metadata.namespace", namespace)


def told(stage: Stage) -> list[str]:
    return [one.message for one in stage.attempts() if isinstance(one, effects.Condition)]


def test_a_pod_waits_with_the_amounts_and_is_bound_when_the_quota_is_raised() -> None:
    stage = Stage()
    stage.node(gpus("n1"), gpus("n2"))
    assert stage.quota(limit(gpumem=4000)) == []
    stage.pod(wants("a", mem=3000))
    assert stage.bind() == {"a": "n1"}
    stage.pod(wants("b", mem=2000))
    assert told(stage) == [
        "0/2 nodes are available: 2 the namespace's quota limits.nvidia.com/gpumem has no room: "
        "3000 used of 4000 MiB, 2000 asked (ResourceQuotaNotFit). preemption: "
        "0/2 nodes are available: 2 No preemption victims found for incoming pod."
    ]
    stage.wait(2)
    stage.quota(limit(gpumem=4999))
    assert stage.bind() == {}
    stage.wait(10)
    stage.quota(limit(gpumem=5000))
    assert stage.bind() == {"b": "n1"}


def test_a_burst_gets_exactly_what_the_quota_allows_and_more_as_pods_end() -> None:
    stage = Stage()
    stage.node(gpus("n1", 4))
    stage.quota(limit(gpumem=4000))
    stage.pod(*(wants(f"p{number}", mem=2000) for number in range(10)))
    assert set(stage.bind()) == {"p0", "p1"}
    stage.wait(2)
    stage.gone("p0")
    assert set(stage.bind()) == {"p2"}
    stage.wait(20)
    stage.gone("p1", "p2")
    assert len(stage.bind()) == 2


@pytest.mark.parametrize(
    ("event", "want"),
    [
        pytest.param(lambda stage: stage.gone("a"), True, id="a pod of the namespace ends"),
        pytest.param(lambda stage: stage.gone("o"), False, id="a pod of another one ends"),
        pytest.param(lambda stage: stage.gone("bare"), False, id="a pod without devices ends"),
        pytest.param(lambda stage: stage.node(gpus("n2")), False, id="a node comes"),
        pytest.param(
            lambda stage: stage.quota(limit(gpumem=9000)), True, id="the quota is raised"
        ),
        pytest.param(lambda stage: stage.quota(limit(gpumem=1)), False, id="it is lowered"),
        pytest.param(
            lambda stage: stage.quota({**limit(gpumem=4000), "status": {"used": {}}}),
            False,
            id="only its status changes",
        ),
        pytest.param(
            lambda stage: stage.quota(limit(gpumem=9000, namespace="other")),
            False,
            id="another namespace gets a quota",
        ),
        pytest.param(
            lambda stage: stage.world.quota_gone("default", "q", "uid-q", stage.now),
            True,
            id="it is deleted",
        ),
        pytest.param(
            lambda stage: stage.world.quota_gone("default", "q", "uid-older", stage.now),
            False,
            id="an older one of its name is deleted",
        ),
    ],
)
def test_what_wakes_a_pod_that_waits_for_its_quota(event: Any, want: bool) -> None:
    stage = Stage()
    stage.node(gpus("n1", 2))
    stage.quota(limit(gpumem=4000))
    stage.pod(wants("a", mem=3000), in_namespace(wants("o", mem=500), "other"))
    stage.pod(builders.pod("bare").scheduler("hami-scheduler").container())
    stage.bind()
    stage.pod(wants("b", mem=2000))
    stage.run()
    assert stage.place("b") is Place.UNSCHEDULABLE
    stage.wait(20)
    event(stage)
    assert (stage.place("b") is not Place.UNSCHEDULABLE) is want


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(
            builders.pod("b").container(limits={"nvidia.com/gpu": 1}), id="a card's whole memory"
        ),
        pytest.param(wants("b", mem=30000), id="more than a card has free as well"),
    ],
)
def test_where_other_cards_may_help_they_wake_too(pod: builders.PodBuilder) -> None:
    stage = Stage()
    stage.node(gpus("n1"))
    stage.quota(limit(gpumem=30000))
    stage.pod(in_namespace(wants("o", mem=5000), "other"))
    stage.bind()
    stage.pod(pod.scheduler("hami-scheduler"))
    stage.run()
    assert stage.place("b") is Place.UNSCHEDULABLE
    stage.wait(20)
    stage.gone("o")
    assert stage.place("b") is not Place.UNSCHEDULABLE


def test_init_containers_that_ended_give_their_share_of_the_quota_back() -> None:
    stage = Stage()
    stage.node(gpus("n1", 2))
    stage.quota(limit(gpumem=5000))
    asks = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 4000}
    first = wants("a", mem=1000).init("i", limits=asks)
    stage.pod(first)
    assert stage.bind() == {"a": "n1"}
    stage.pod(wants("b", mem=2000))
    assert stage.bind() == {}
    stage.wait(20)
    stage.pod(
        placed(first, "n1", "GPU-0,NVIDIA,4000,0:;GPU-1,NVIDIA,1000,0:;")
        .version(50)
        .init_ended("i", 0)
    )
    assert stage.bind() == {"b": "n1"}


def test_a_bind_that_fails_gives_its_share_back() -> None:
    stage = Stage()
    stage.node(gpus("n1", 2))
    stage.quota(limit(gpumem=4000))
    stage.pod(wants("a", mem=3000), wants("b", mem=3000))
    order = stage.order()
    assert (order.pod.name, stage.place("b")) == ("a", Place.UNSCHEDULABLE)
    for _ in range(3):
        stage.wait(20)
        stage.world.bind_failed(f"uid-{order.pod.name}", stage.now, message="500")
        order = stage.order()
        assert stage.world.ledger.namespace_usage("default")["NVIDIA"].memory_mib == 3000


def test_a_lost_delete_is_made_up_for_by_a_relist() -> None:
    stage = Stage()
    stage.node(gpus("n1"))
    stage.quota(limit(gpumem=1000))
    stage.pod(wants("a"))
    stage.bind()
    stage.gone("a")
    stage.gone("a")
    assert stage.world.ledger.namespace_usage("default") == {}
    stage.pod(wants("b"))
    assert stage.bind() == {"b": "n1"}


def test_no_update_opens_a_gap() -> None:
    stage = Stage()
    stage.node(gpus("n1"))
    stage.quota(limit(gpumem=1000))
    stage.pod(wants("a"))
    stage.bind()
    for number in range(50):
        stage.quota({**limit(gpumem=1000), "status": {"used": {"pods": str(number)}}})
        stage.pod(wants(f"p{number}", mem=1))
        assert stage.bind() == {}


def test_a_quota_that_comes_later_than_its_pods_counts_them() -> None:
    stage = Stage(active=False)
    stage.node(gpus("n1"))
    stage.pod(placed(wants("a", mem=3000), "n1", "GPU-0,NVIDIA,3000,0:;"))
    stage.quota(limit(gpumem=4000))
    stage.lead()
    stage.pod(wants("b", mem=1001), wants("c", mem=1000))
    assert stage.bind() == {"c": "n1"}


def test_what_cannot_be_a_limit_is_told_once_and_again_by_a_new_leader() -> None:
    stage = Stage()
    odd = limit(gpumem="1.5", gpucores="-1")
    (event,) = stage.world.quota_seen(odd, stage.now)
    assert event == effects.QuotaEvent(
        uid="uid-q",
        namespace="default",
        name="q",
        type=effects.EventType.WARNING,
        reason="MalformedResourceQuota",
        message="spec.hard[limits.nvidia.com/gpumem]: '1.5' is not a whole number from 0 up: not "
        "a limit; spec.hard[limits.nvidia.com/gpucores]: '-1' is not a whole number from 0 up: "
        "not a limit",
    )
    assert stage.quota(odd, {**odd, "status": {}}) == []
    assert stage.lead() == ["default/q: MalformedResourceQuota"]
    assert stage.quota(limit(gpumem="2")) == []
    assert stage.lead() == []


def test_a_follower_knows_quotas_and_is_silent() -> None:
    stage = Stage(active=False)
    stage.node(gpus("n1"))
    assert stage.quota(limit(gpumem="x", gpucores=1)) == []
    stage.world.step_down()
    assert stage.world.accounts("default") is not None
    assert stage.world.accounts("other") is None


class Storm(stateful.RuleBasedStateMachine):
    """Pods come and go, binds land and fail, limits change."""

    def __init__(self) -> None:
        super().__init__()
        self.stage = Stage()
        self.stage.node(gpus("n1", 4), gpus("n2", 2))
        self.limits: dict[str, int] = {}
        self.binds: list[effects.Bind] = []
        self.born = 0

    amount = st.integers(0, 9)

    @stateful.rule(name=st.sampled_from("qr"), gpumem=amount)
    def see_quota(self, name: str, gpumem: int) -> None:
        self.limits[name] = gpumem
        self.stage.quota(limit(gpumem=gpumem, name=name))

    @stateful.rule(name=st.sampled_from("qr"))
    def lose_quota(self, name: str) -> None:
        self.limits.pop(name, None)
        self.stage.world.quota_gone("default", name, f"uid-{name}", self.stage.now)

    @stateful.rule(mems=st.lists(st.integers(1, 5), max_size=4), init=st.booleans())
    def create(self, mems: list[int], init: bool) -> None:
        self.born += 1
        pod = wants(f"p{self.born}", mem=2)
        for number, mem in enumerate(mems):
            asks = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": mem}
            pod = (pod.init if init else pod.container)(f"x{number}", limits=asks)
        self.stage.pod(pod)

    @stateful.rule()
    def decide(self) -> None:
        """Whoever is placed has room under all limits as they are."""
        while told := self.stage.world.attempt(self.stage.now):
            placed = [one for one in told if isinstance(one, effects.Bind)]
            self.binds += placed
            assert not placed or self._used() <= min(self.limits.values(), default=10**9)

    @stateful.precondition(lambda self: self.binds)
    @stateful.rule(lands=st.booleans())
    def answer(self, lands: bool) -> None:
        order = self.binds.pop()
        if lands:
            self.stage.land(order)
        else:
            self.stage.world.bind_failed(order.pod.uid, self.stage.now, message="500")

    @stateful.rule(data=st.data())
    def end(self, data: Any) -> None:
        bound = [one.name for one in self.stage.world.ledger if one.state.value == "bound"]
        if bound:
            self.stage.gone(data.draw(st.sampled_from(bound)))

    @stateful.rule(seconds=st.sampled_from([1.0, 11.0]))
    def wait(self, seconds: float) -> None:
        self.stage.wait(seconds)

    def _used(self) -> int:
        return sum(
            card.memory_mib
            for entry in self.stage.world.ledger
            for card in entry.usage.get("NVIDIA", {}).values()
        )

    @stateful.invariant()
    def usage_of_the_namespace_is_the_sum_of_its_entries(self) -> None:
        used = self.stage.world.ledger.namespace_usage("default")
        assert (used["NVIDIA"].memory_mib if used else 0) == self._used()

    @stateful.invariant()
    def nobody_waits_for_a_quota_that_has_room(self) -> None:
        """A pod that is parked would be refused again, if it were tried."""
        accounts = self.stage.world.accounts("default")
        account = accounts(NVIDIA) if accounts is not None else None
        for item in self.stage.world.queue.items():
            if item.place is Place.UNSCHEDULABLE and "DeviceQuota" in item.plugins:
                asked = demand.read(item.pod, ROWS)
                least = room.least(NVIDIA, asked.words["NVIDIA"], asked.kinds)
                assert account is not None
                assert not account.fits(least.memory_mib, least.cores)


TestStorm = Storm.TestCase
TestStorm.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
