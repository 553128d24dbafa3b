"""A thousand pods that wait: an event costs what it may help, and time alone costs nothing."""

from __future__ import annotations

from hami_operator.scheduling import effects, queue
from tests import builders
from tests.transitions.stage import OURS, Stage, gpus, wants

Place = queue.Place
CROWD = 990
HELPED = 10


def crowd() -> Stage:
    """A thousand pods parked for three reasons: no such label, no such type, no room."""
    stage = Stage()
    stage.node(gpus("full", 1, memory_mib=1000), builders.roomy("plain"))
    stage.pod(*(wants(f"label{n}").node_selector({"zone": "none"}) for n in range(CROWD // 3)))
    mlu = {"cambricon.com/vmlu": 1}
    for number in range(CROWD // 3):
        stage.pod(builders.pod(f"mlu{number}").scheduler(OURS).container("c", limits=mlu))
    huge = {"cpu": "1000"}
    for number in range(CROWD // 3):
        stage.pod(builders.pod(f"huge{number}").scheduler(OURS).container("c", requests=huge))
    stage.pod(*(wants(f"gpu{number}", mem=2000) for number in range(HELPED)))
    stage.attempts()
    stage.wait(20)
    assert stage.world.queue.counts()[Place.UNSCHEDULABLE] == CROWD + HELPED
    return stage


def tried(told: tuple[effects.Effect, ...]) -> list[str]:
    return [one.pod.name for one in told if isinstance(one, effects.Attempt)]


def test_a_node_that_helps_ten_of_a_thousand_costs_ten_attempts() -> None:
    stage = crowd()
    stage.node(gpus("new", 2, memory_mib=100_000))
    told = stage.attempts()
    bound = [one.pod.name for one in told if isinstance(one, effects.Bind)]
    assert sorted(bound) == sorted(f"gpu{number}" for number in range(HELPED))
    assert sorted(tried(told)) == sorted(bound)


def test_room_that_a_pod_gives_back_is_offered_to_those_alone_that_lack_room() -> None:
    stage = crowd()
    stage.node(gpus("new", 1, memory_mib=2000))
    (bind,) = (one for one in stage.attempts() if isinstance(one, effects.Bind))
    stage.land(bind)
    stage.wait(20)
    stage.gone(bind.pod.name)
    told = stage.attempts()
    assert {name.rstrip("0123456789") for name in tried(told)} == {"gpu", "huge"}
    assert sum(isinstance(one, effects.Bind) for one in told) == 1


def test_a_minute_in_which_nothing_changes_costs_nothing() -> None:
    stage = crowd()
    told: list[str] = []
    for _ in range(60):
        told += stage.wait(1.0)
        told += stage.run()
    assert told == []


def test_the_net_tries_everybody_once_after_five_minutes_and_writes_nothing_new() -> None:
    stage = crowd()
    stage.wait(301)
    told = stage.attempts()
    assert len(tried(told)) == CROWD + HELPED
    # As none of these conditions has shown on its pod meanwhile, each is ordered once more.
    assert sum(isinstance(one, effects.Condition) for one in told) == CROWD + HELPED
    assert not [one for one in told if isinstance(one, effects.Bind | effects.Evict)]
