"""A pod that finds no room: who has to go for it, what it is promised, and that it gets it."""

from __future__ import annotations

from typing import Any

import pytest

from hami_operator.scheduling import effects, queue
from tests import builders
from tests.transitions.stage import AL, Stage, gpus, placed, wants

Place = queue.Place


def held(
    name: str, card: str, mem: int, *, node: str = "n1", priority: int = 0, minute: int = 0
) -> builders.PodBuilder:
    """A pod on a node, with so much of one card, started at that minute."""
    pod = placed(wants(name, mem=mem), node, f"{card},NVIDIA,{mem},0:;").scheduler(
        "hami-scheduler"
    )
    return pod.priority(priority).started(f"2026-03-01T10:{minute:02}:00Z").phase("Running")


def full(*pods: builders.PodBuilder, cards: int = 2, nodes: int = 1, **facts: Any) -> Stage:
    """Nodes with cards of 10,000 MiB, and these pods on them."""
    stage = Stage(active=False)
    for number in range(1, nodes + 1):
        stage.node(gpus(f"n{number}", cards, memory_mib=10_000, **facts))
    stage.pod(*pods)
    stage.lead()
    return stage


def budget(name: str, allowed: int = 0, **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "default", "name": name, "uid": f"uid-{name}"},
        "spec": {"selector": {"matchLabels": labels}},
        "status": {"disruptionsAllowed": allowed},
    }


def evicted(told: list[str]) -> list[str]:
    return [text.split()[1] for text in told if text.startswith("evict ")]


def message(told: tuple[effects.Effect, ...]) -> str:
    (only,) = (one.message for one in told if isinstance(one, effects.Condition))
    return only


def test_the_order_names_victim_node_and_who_needs_it_and_the_node_is_written_on_the_pod() -> None:
    stage = full(held("low", "GPU-0", 9000), cards=1)
    stage.pod(wants("high", mem=5000).priority(10))
    told = [one for one in stage.attempts() if isinstance(one, effects.Evict | effects.Condition)]
    high = effects.PodRef(uid="uid-high", namespace="default", name="high")
    low = effects.PodRef(uid="uid-low", namespace="default", name="low")
    text = (
        "0/1 nodes are available: 1 card(s) have too little free memory (CardInsufficientMemory)."
    )
    assert told == [
        effects.Condition(
            pod=high, status="False", reason="Unschedulable", message=text, nominated="n1"
        ),
        effects.Evict(
            pod=low,
            node="n1",
            reason="PreemptionByScheduler",
            message="hami-scheduler: preempting to accommodate a higher priority pod",
            tell=effects.PodEvent(
                pod=low,
                type=effects.EventType.NORMAL,
                reason="Preempted",
                message="Preempted by pod uid-high on node n1",
                action="Preempting",
            ),
        ),
    ]
    assert stage.place("high") is Place.UNSCHEDULABLE


@pytest.mark.parametrize(
    ("pods", "want"),
    [
        pytest.param([held("a", "GPU-0", 9000), held("b", "GPU-1", 9000, minute=5)], ["b"],
                     id="the youngest of equals"),
        pytest.param([held("a", "GPU-0", 9000, priority=1), held("b", "GPU-1", 9000, priority=2)],
                     ["a"], id="the lowest priority, however old"),
        pytest.param(
            [
                held("a", "GPU-0", 9000, minute=1),
                *(held(f"b{number}", "GPU-1", 3000, minute=9) for number in range(3)),
            ],
            ["a"],
            id="one rather than two of a card, of equal priority",
        ),
        pytest.param(
            [
                held("a", "GPU-0", 9000, priority=2),
                *(held(f"b{number}", "GPU-1", 3000, priority=1) for number in range(3)),
            ],
            ["b1", "b2"],
            id="two of a lower priority rather than one of a higher",
        ),
        pytest.param(
            [
                held("a", "GPU-0", 6000),
                held("b", "GPU-1", 6000),
                held("c", "GPU-0", 500, minute=9),
            ],
            ["b"],
            id="nobody whose end does not help",
        ),
        pytest.param(
            [held("a", "GPU-0", 9000, priority=10), held("b", "GPU-1", 9000)], ["b"],
            id="nobody of the same priority",
        ),
        pytest.param(
            [held("a", "GPU-0", 9000), held("b", "GPU-1", 9000).annotate(
                {"kubernetes.io/config.mirror": "x"})],
            ["a"],
            id="no static pod, which nobody can delete",
        ),
    ],
)  # fmt: skip
def test_who_has_to_go_from_one_node(pods: list[builders.PodBuilder], want: list[str]) -> None:
    stage = full(*pods)
    stage.pod(wants("high", mem=5000).priority(10))
    assert sorted(evicted(stage.run())) == want


@pytest.mark.parametrize(
    ("pods", "want"),
    [
        pytest.param(
            [held("a", "GPU-0", 9000, node="n1"), held("b", "GPU-0", 9000, node="n2", minute=5)],
            ["b"],
            id="the node whose victim started last",
        ),
        pytest.param(
            [
                *(held(f"a{number}", "GPU-0", 4900, node="n1", minute=9) for number in range(2)),
                held("b", "GPU-0", 9000, node="n2"),
            ],
            ["b"],
            id="the node with fewer victims of one priority",
        ),
        pytest.param(
            [
                held("a", "GPU-0", 9000, node="n1", priority=3),
                *(held(f"b{number}", "GPU-0", 4900, node="n2") for number in range(2)),
            ],
            ["b0", "b1"],
            id="the node with the less important victims",
        ),
        pytest.param(
            [held("a", "GPU-0", 9000, node="n1"), held("b", "GPU-0", 9000, node="n2")],
            ["a"],
            id="the first node by name where all is equal",
        ),
        pytest.param(
            [
                held("a", "GPU-0", 9000, node="n1"),
                held("b", "GPU-0", 9000, node="n2").terminating(),
            ],
            [],
            id="a node where it is enough to wait",
        ),
    ],
)
def test_which_node_is_chosen(pods: list[builders.PodBuilder], want: list[str]) -> None:
    stage = full(*pods, cards=1, nodes=2)
    stage.pod(wants("high", mem=8000).priority(10))
    assert evicted(stage.run()) == want


def test_ordinary_resources_and_cards_count_together() -> None:
    """The card of ``a`` would do, but only the end of ``b`` gives back enough cpu."""
    stage = Stage(active=False)
    node = builders.node("n1").allocatable(cpu="4", memory="1Ti", pods="10")
    stage.node(node.register("NVIDIA", builders.cards(2, memory_mib=10_000)))
    stage.pod(
        held("a", "GPU-0", 9000),
        held("b", "GPU-1", 9000).container("x", requests={"cpu": "3"}),
        builders.pod("c").container("x", requests={"cpu": "1"}).on("n1").priority(5),
    )
    stage.lead()
    stage.pod(wants("high", mem=5000).container("x", requests={"cpu": "2"}).priority(10))
    assert evicted(stage.run()) == ["b"]


def test_pods_without_devices_are_victims_and_preemptors_as_well() -> None:
    stage = Stage(active=False)
    stage.node(builders.node("n1").allocatable(cpu="4", memory="1Gi", pods="1"))
    stage.pod(builders.pod("low").container("c").on("n1"))
    stage.lead()
    stage.pod(builders.pod("high").scheduler("hami-scheduler").container("c").priority(1))
    assert evicted(stage.run()) == ["low"]
    stage.gone("low")
    assert stage.run() == ["bind high to n1"]


@pytest.mark.parametrize(
    ("allowed", "want"),
    [
        pytest.param(0, ["b"], id="a budget that allows nothing spares its pod"),
        pytest.param(1, ["a"], id="one that allows a disruption does not"),
    ],
)
def test_disruption_budgets_come_first(allowed: int, want: list[str]) -> None:
    stage = full(
        held("a", "GPU-0", 9000, minute=9).label("app", "db"),
        held("b", "GPU-1", 9000, priority=3),
    )
    stage.world.budget_seen(budget("db", allowed, app="db"))
    stage.pod(wants("high", mem=5000).priority(10))
    assert evicted(stage.run()) == want


def test_budgets_are_broken_where_nothing_else_helps() -> None:
    stage = full(held("a", "GPU-0", 9000).label("app", "db"), cards=1)
    stage.world.budget_seen(budget("db", app="db"))
    stage.pod(wants("high", mem=5000).priority(10))
    assert evicted(stage.run()) == ["a"]


def test_a_budget_that_is_gone_spares_nobody() -> None:
    stage = full(held("a", "GPU-0", 9000, minute=9).label("app", "db"), held("b", "GPU-1", 9000))
    stage.world.budget_seen(budget("db", app="db"))
    stage.world.budget_gone("default", "db", "uid-db")
    stage.pod(wants("high", mem=5000).priority(10))
    assert evicted(stage.run()) == ["a"]


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(
            wants("high", mem=5000).priority(10).put("spec.preemptionPolicy", "Never"),
            "preemption: not eligible due to preemptionPolicy=Never.",
            id="a pod that pushes nobody off",
        ),
        pytest.param(
            wants("high", mem=5000),
            "preemption: 0/2 nodes are available: "
            "1 No preemption victims found for incoming pod, "
            "1 Preemption is not helpful for scheduling.",
            id="nobody is less important",
        ),
        pytest.param(
            wants("high", mem=20_000).priority(10),
            "preemption: 0/2 nodes are available: "
            "1 No preemption victims found for incoming pod, "
            "1 Preemption is not helpful for scheduling.",
            id="not even an empty node would do",
        ),
        pytest.param(
            wants("high", mem=5000).priority(10).node_selector({"zone": "z"}),
            "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
            id="no pod stands in the way",
        ),
    ],
)
def test_why_nobody_has_to_go(pod: builders.PodBuilder, want: str) -> None:
    stage = full(held("low", "GPU-0", 9000), cards=1)
    stage.node(builders.roomy("n2"))
    stage.pod(pod)
    told = stage.attempts()
    assert message(told).partition(". ")[2] == want
    assert not [one for one in told if isinstance(one, effects.Evict)]


def test_the_pod_gets_the_card_of_its_victim_once_that_is_gone_and_nobody_else_does() -> None:
    stage = full(held("low", "GPU-1", 9000), held("mate", "GPU-0", 9000, priority=9))
    stage.pod(wants("high", mem=5000).priority(10))
    assert evicted(stage.run()) == ["low"]
    stage.pod(wants("middle", mem=6000).priority(5))
    assert evicted(stage.run()) == []
    stage.pod(held("low", "GPU-1", 9000).version(5).terminating())
    stage.wait(11)
    assert stage.run() == []
    stage.gone("low")
    orders = [one for one in stage.attempts() if isinstance(one, effects.Bind)]
    assert [(one.pod.name, one.node) for one in orders] == [("high", "n1")]
    assert orders[0].decision.annotations[AL] == "GPU-1,NVIDIA,5000,0:;"
    stage.land(orders[0])
    stage.pod(wants("small", mem=4000))
    stage.wait(11)
    assert stage.bind() == {"small": "n1"}


@pytest.mark.parametrize(
    ("priority", "mem", "want"),
    [
        pytest.param(5, 6000, {}, id="a less important pod cannot take the room in between"),
        pytest.param(10, 6000, {}, id="nor can an equal one that came later"),
        pytest.param(5, 4000, {"third": "n1"}, id="but what was not promised is free"),
        pytest.param(11, 6000, {"third": "n1"}, id="and a more important pod may take it"),
    ],
)
def test_what_others_see_of_a_promise(priority: int, mem: int, want: dict[str, str]) -> None:
    """The victim is gone, and the preemptor rests, since its bind has failed."""
    stage = full(held("low", "GPU-0", 9000), cards=1)
    stage.pod(wants("high", mem=5000).priority(10))
    stage.run()
    stage.gone("low")
    stage.world.bind_failed(stage.order().pod.uid, stage.now, message="500")
    stage.pod(wants("third", mem=mem).priority(priority).put("spec.preemptionPolicy", "Never"))
    assert stage.bind() == want


def test_it_gets_the_card_of_its_victims_though_another_one_became_free_as_well() -> None:
    """Which of equal cards it would take else is a matter of their order."""
    pods = (held("a", "GPU-0", 9000, minute=5), held("b", "GPU-1", 9000, minute=9))
    stage = full(*pods, held("c", "GPU-2", 9000), cards=3)
    stage.pod(wants("high", mem=5000).priority(10))
    assert evicted(stage.run()) == ["b"]
    stage.gone("a", "b", "c")
    order = stage.order()
    assert order.decision.annotations[AL] == "GPU-1,NVIDIA,5000,0:;"


def test_it_takes_another_card_where_its_victims_card_is_gone() -> None:
    stage = full(held("a", "GPU-0", 9000), held("b", "GPU-1", 9000, minute=9))
    stage.pod(wants("high", mem=5000).priority(10))
    assert evicted(stage.run()) == ["b"]
    stage.node(gpus("n1", 1, memory_mib=10_000).version(9))
    stage.gone("a", "b")
    order = stage.order()
    assert order.decision.annotations[AL] == "GPU-0,NVIDIA,5000,0:;"


def test_it_waits_while_victims_end_and_does_not_choose_others() -> None:
    stage = full(held("a", "GPU-0", 9000), held("b", "GPU-1", 9000, minute=5))
    stage.pod(wants("high", mem=5000).priority(10))
    assert evicted(stage.run()) == ["b"]
    stage.wait(301)
    told = stage.attempts()
    assert message(told).endswith(
        " preemption: not eligible due to a terminating pod on the nominated node."
    )
    assert not [one for one in told if isinstance(one, effects.Evict)]


def test_victims_that_end_already_are_not_told_twice_and_count_for_a_second_pod() -> None:
    stage = full(held("a", "GPU-0", 9000), held("b", "GPU-1", 9000, minute=5))
    stage.pod(wants("high", mem=5000).priority(10))
    assert evicted(stage.run()) == ["b"]
    stage.pod(wants("second", mem=5000).priority(10))
    assert evicted(stage.run()) == []
    stage.pod(wants("third", mem=5000).priority(10))
    assert evicted(stage.run()) == ["a"]


def test_a_victim_that_could_not_be_ended_is_tried_again_after_a_rest() -> None:
    stage = full(held("low", "GPU-0", 9000), cards=1)
    stage.pod(wants("high", mem=5000).priority(10))
    assert evicted(stage.run()) == ["low"]
    assert stage.world.evict_failed("uid-low", stage.now) == ()
    assert stage.place("high") is Place.BACKOFF
    assert evicted(stage.run()) == ["low"]


def test_a_more_important_pod_takes_over_what_was_promised_and_the_loser_is_told() -> None:
    stage = full(held("low", "GPU-0", 9000), cards=1)
    stage.pod(wants("high", mem=5000).priority(10))
    stage.run()
    shown = wants("high", mem=5000).priority(10).version(7)
    condition = {"reason": "Unschedulable", "message": "m"}
    shown = shown.condition("PodScheduled", "False", **condition)
    stage.pod(shown.put("status.nominatedNodeName", "n1"))
    stage.pod(wants("top", mem=6000).priority(20))
    told = stage.run()
    assert evicted(told) == []
    assert "top: condition Unschedulable, promised n1" in told
    assert "high: condition Unschedulable, promised nothing" in told
    stage.gone("low")
    assert stage.bind() == {"top": "n1"}


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(lambda stage: stage.gone("high"), id="the pod is deleted"),
        pytest.param(
            lambda stage: stage.pod(
                placed(wants("high", mem=1).priority(10), "n2", "GPU-0,NVIDIA,1,0:;").version(9)
            ),
            id="the pod is bound elsewhere",
        ),
    ],
)
def test_a_promise_ends(event: Any) -> None:
    stage = full(held("low", "GPU-0", 9000), cards=1)
    stage.pod(wants("high", mem=5000).priority(10))
    stage.run()
    event(stage)
    stage.gone("low")
    stage.pod(wants("other", mem=9000))
    assert stage.bind() == {"other": "n1"}


def test_the_end_of_the_node_ends_what_was_promised_there() -> None:
    stage = full(held("low", "GPU-0", 9000), cards=1)
    stage.pod(wants("high", mem=5000).priority(10))
    stage.run()
    stage.world.node_gone("n1", stage.now)
    stage.node(gpus("n2", memory_mib=10_000))
    assert stage.bind() == {"high": "n2"}


def test_a_promise_that_leads_nowhere_is_taken_from_the_pod() -> None:
    stage = full(held("low", "GPU-0", 9000), cards=1)
    stage.pod(wants("high", mem=5000).priority(10))
    stage.run()
    stage.gone("low")
    stage.pod(held("new", "GPU-0", 9000, priority=50).scheduler("other"))
    assert "high: condition Unschedulable, promised nothing" in stage.run()


def test_a_promise_on_a_node_that_nobody_knows_hides_nothing() -> None:
    stage = full(cards=1)
    stage.pod(wants("high", mem=5000).priority(10).put("status.nominatedNodeName", "gone"))
    stage.pod(wants("low", mem=4000))
    assert stage.bind() == {"high": "n1", "low": "n1"}


def test_a_promised_node_that_no_end_would_open_is_given_up() -> None:
    """Its victim still ends, but the node was cordoned meanwhile."""
    stage = full(held("a", "GPU-0", 9000, minute=5), held("b", "GPU-0", 9000, node="n2"), nodes=2)
    stage.pod(held("c", "GPU-1", 9000), held("d", "GPU-1", 9000, node="n2"))
    stage.pod(wants("high", mem=5000).priority(10))
    assert evicted(stage.run()) == ["a"]
    stage.node(gpus("n1", 2, memory_mib=10_000).version(9).cordoned())
    stage.wait(301)
    assert len(evicted(stage.run())) == 1


def test_a_promise_is_kept_over_a_failed_bind() -> None:
    stage = full(held("low", "GPU-0", 9000), cards=1)
    stage.pod(wants("high", mem=5000).priority(10))
    stage.run()
    stage.gone("low")
    order = stage.order()
    stage.world.bind_failed(order.pod.uid, stage.now, message="500")
    stage.pod(wants("other", mem=6000))
    assert "bind other to n1" not in stage.run()
    stage.wait(2)
    assert stage.bind() == {"high": "n1"}


def test_a_new_leader_reads_promises_from_the_pods_and_waits_for_their_victims() -> None:
    dying = held("low", "GPU-0", 9000).terminating()
    dying = dying.condition("DisruptionTarget", "True", reason="PreemptionByScheduler")
    stage = full(dying, held("mate", "GPU-1", 9000, priority=1))
    high = wants("high", mem=5000).priority(10).put("status.nominatedNodeName", "n1")
    stage.pod(high, wants("middle", mem=6000).priority(5))
    told = stage.attempts()
    evicts = [one for one in told if isinstance(one, effects.Evict)]
    assert not [one for one in evicts if "uid-high" in one.tell.message]
    stage.gone("low")
    assert stage.bind() == {"high": "n1"}


def test_a_follower_that_takes_over_knows_what_was_promised_meanwhile() -> None:
    stage = Stage(active=False)
    stage.node(gpus("n1", memory_mib=10_000))
    stage.pod(wants("high", mem=5000).priority(10))
    stage.pod(
        wants("high", mem=5000)
        .priority(10)
        .version(5)
        .gate("x")
        .put("status.nominatedNodeName", "n1")
    )
    stage.lead()
    assert [one.pod.name for one in stage.world._attempts.preemptor.promises.on("n1")] == ["high"]
    stage.pod(wants("high", mem=5000).priority(10).version(6).gate("x"))
    stage.lead()
    assert stage.world._attempts.preemptor.promises.on("n1") == ()


def test_a_quota_without_room_is_no_reason_to_end_pods_of_others() -> None:
    stage = full(held("a", "GPU-0", 3000), held("b", "GPU-1", 3000))
    stage.quota({
        "metadata": {"namespace": "default", "name": "q"},
        "spec": {"hard": {"limits.nvidia.com/gpumem": "7000"}},
    })  # fmt: skip
    stage.pod(wants("high", mem=4000).priority(10))
    assert evicted(stage.run()) == ["b"]
    stage.gone("b")
    assert stage.bind() == {"high": "n1"}


def test_pods_that_do_not_want_the_newcomer_near_are_victims_too() -> None:
    lonely = held("low", "GPU-0", 100).repels({"matchLabels": {"app": "x"}}, "zone")
    stage = Stage(active=False)
    stage.node(gpus("n1", memory_mib=10_000).label("zone", "z"))
    stage.pod(lonely, held("mate", "GPU-0", 100))
    stage.lead()
    stage.pod(wants("high", mem=100).label("app", "x").priority(1))
    assert evicted(stage.run()) == ["low"]
    assert "bind" not in " ".join(stage.run())
    stage.gone("low")
    assert stage.bind() == {"high": "n1"}
