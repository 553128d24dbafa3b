"""The operator ends between any two binds of a gang: the next one completes it, or ends it."""

from __future__ import annotations

import pytest

from hami_operator.protocol import keys
from hami_operator.scheduling import effects
from tests import builders
from tests.moments import START
from tests.transitions.stage import Stage, gpus, placed, wants
from tests.transitions.truth import Truth

CARD = 10_000
SIZE = 16
TIMEOUT_S = 60.0


def member(gang: str, number: int) -> builders.PodBuilder:
    pod = wants(f"{gang}-{number:02}", mem=CARD)
    return pod.annotate({keys.GANG_NAME: gang, keys.GANG_MIN_MEMBER: str(SIZE)})


def fleet() -> Truth:
    """Twenty cards, and two gangs of sixteen."""
    truth = Truth()
    for number in range(5):
        truth.put_node(f"n{number}", gpus(f"n{number}", 4, memory_mib=CARD))
    for gang in ("a", "b"):
        for number in range(SIZE):
            pod = member(gang, number)
            truth.put(f"{gang}-{number:02}", pod)
    return truth


def started(truth: Truth) -> Stage:
    """An operator that has just begun."""
    stage = Stage(active=False, gang_timeout_s=TIMEOUT_S)
    truth.show(stage)
    stage.lead()
    return stage


def binds(stage: Stage) -> list[effects.Bind]:
    return [one for one in stage.attempts() if isinstance(one, effects.Bind)]


def land(truth: Truth, order: effects.Bind) -> None:
    """As the API server does it, which says when it was."""
    bound = truth.land(order)
    moment = START.isoformat().replace("+00:00", "Z")
    conditions = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": moment}]
    truth.put(order.pod.name, bound.put("status.conditions", conditions))


def bound(truth: Truth) -> list[str]:
    return sorted(name for name in truth.pods if truth.node_of(name))


A = [f"a-{number:02}" for number in range(SIZE)]
LANDED = [pytest.param(number, id=f"{number} of {SIZE} have landed") for number in range(SIZE + 1)]


@pytest.mark.parametrize("landed", LANDED)
def test_the_next_operator_completes_what_was_begun(landed: int) -> None:
    """Whatever had not landed then never does."""
    truth = fleet()
    orders = binds(started(truth))
    assert [one.pod.name for one in orders] == A
    for order in orders[:landed]:
        land(truth, order)
    successor = started(truth)
    for order in binds(successor):
        land(truth, order)
    assert bound(truth) == A
    truth.show(successor)
    assert successor.wait(TIMEOUT_S + 1) == []


def fill(truth: Truth) -> list[str]:
    """Others take every card that is free; who they are."""
    seen = started(truth)
    free = [
        (node, card)
        for node in truth.nodes
        for card in (f"GPU-{number}" for number in range(4))
        if card not in seen.usage(node)
    ]
    for node, card in free:
        pod = wants(f"x-{node}-{card}").scheduler("other")
        truth.put(f"x-{node}-{card}", placed(pod, node, f"{card},NVIDIA,{CARD},0:;"))
    return [f"x-{node}-{card}" for node, card in free]


@pytest.mark.parametrize("landed", LANDED[1:-1])
def test_what_cannot_be_completed_gives_its_room_to_the_gang_that_waits(landed: int) -> None:
    truth = fleet()
    for order in binds(started(truth))[:landed]:
        land(truth, order)
    others = fill(truth)
    stage = started(truth)
    assert binds(stage) == []
    stage.wait(1)
    told = stage.wait(TIMEOUT_S)
    ended = [text.split()[1] for text in told if text.startswith("evict")]
    assert sorted(ended) == A[:landed]
    for name in (*ended, *others):
        truth.end(name)
    truth.show(stage)
    stage.wait(11)
    assert [one.pod.name for one in binds(stage)] == [f"b-{number:02}" for number in range(SIZE)]
