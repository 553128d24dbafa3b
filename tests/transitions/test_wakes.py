"""Room that nobody sees being freed: promises that end, gangs that others complete, new terms."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hami_operator.protocol import keys
from hami_operator.scheduling import effects, queue
from tests import builders
from tests.transitions.stage import Stage, gpus, placed, wants

Place = queue.Place
CARD = 10_000


def promised() -> Stage:
    """``high`` is promised the one card of ``n1``, and ``low`` waits because of that."""
    stage = Stage(active=False)
    stage.node(gpus("n1", memory_mib=CARD), gpus("n2", memory_mib=CARD).cordoned())
    stage.pod(placed(wants("victim", mem=9000), "n1", "GPU-0,NVIDIA,9000,0:;"))
    stage.lead()
    stage.pod(wants("high", mem=9000).priority(10))
    assert "evict victim from n1" in stage.run()
    return stage


def waiting(stage: Stage, *, priority: int = 5) -> None:
    """The victim is gone, ``high`` rests after a bind that failed, and ``low`` finds no room."""
    stage.gone("victim")
    stage.world.bind_failed(stage.order().pod.uid, stage.now, message="500")
    stage.pod(wants("low", mem=5000).priority(priority).put("spec.preemptionPolicy", "Never"))
    stage.run()
    assert stage.place("low") is Place.UNSCHEDULABLE


def deleted(stage: Stage) -> None:
    stage.gone("high")


def bound_elsewhere(stage: Stage) -> None:
    pod = placed(wants("high", mem=9000).priority(10), "n2", "GPU-0,NVIDIA,9000,0:;")
    stage.pod(pod.version(9))


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(deleted, id="the pod that was promised it is deleted"),
        pytest.param(bound_elsewhere, id="somebody has bound it elsewhere"),
    ],
)
def test_room_that_is_promised_no_more_is_offered_to_others(
    event: Callable[[Stage], None],
) -> None:
    stage = promised()
    waiting(stage)
    stage.wait(0.5)
    event(stage)
    assert stage.bind() == {"low": "n1"}


def test_room_that_was_promised_is_offered_when_its_pod_finds_other_room() -> None:
    """``high`` is placed on a node of its own liking only where the promised one refuses it."""
    stage = promised()
    waiting(stage)
    stage.node(gpus("n1", memory_mib=CARD).version(9).taint("only", "low"))
    stage.node(gpus("n2", memory_mib=CARD).version(9))
    tolerant = wants("low", mem=5000).priority(5).put("spec.preemptionPolicy", "Never")
    stage.pod(tolerant.version(9).toleration("only", "low"))
    stage.wait(11)
    assert stage.bind() == {"high": "n2", "low": "n1"}


def test_a_promise_that_is_kept_wakes_nobody() -> None:
    stage = promised()
    waiting(stage)
    stage.wait(2)
    told = stage.attempts()
    assert [one.pod.name for one in told if isinstance(one, effects.Attempt)] == ["high"]
    (order,) = (one for one in told if isinstance(one, effects.Bind))
    stage.land(order)
    assert stage.run() == []
    assert stage.place("low") is Place.UNSCHEDULABLE


def member(number: int) -> builders.PodBuilder:
    pod = wants(f"g-{number}", mem=CARD)
    return pod.annotate({keys.GANG_NAME: "g", keys.GANG_MIN_MEMBER: "3"})


def test_a_pod_that_somebody_else_bound_counts_for_its_gang_at_once() -> None:
    stage = Stage()
    stage.node(gpus("n1", 3, memory_mib=CARD))
    stage.pod(member(0).gate("later"), member(1), member(2))
    assert "bind" not in " ".join(stage.run())
    stage.wait(20)
    stage.pod(placed(member(0), "n1", f"GPU-0,NVIDIA,{CARD},0:;").version(9))
    assert stage.bind() == {"g-1": "n1", "g-2": "n1"}


def test_what_a_term_leaves_unbound_is_offered_to_all_in_the_next() -> None:
    stage = Stage()
    stage.node(gpus("n1", memory_mib=CARD))
    stage.pod(wants("first", mem=CARD), wants("second", mem=CARD))
    assert [one.pod.name for one in stage.attempts() if isinstance(one, effects.Bind)] == ["first"]
    stage.wait(20)
    stage.world.step_down()
    stage.lead()
    stage.gone("first")
    assert stage.bind() == {"second": "n1"}
