"""The condition PodScheduled=False: a strategic patch, only when something changes."""

from __future__ import annotations

import asyncio
import dataclasses
import random
from typing import Any

import pytest

from hami_operator import errors
from hami_operator.cluster import ports
from hami_operator.runtime import conditions
from hami_operator.scheduling import effects
from tests import fakes

POD = effects.PodRef(uid="u1", namespace="team", name="p1")
UNFIT = effects.Condition(
    pod=POD, status="False", reason="Unschedulable", message="0/3 nodes are available: x."
)


class Writer:
    def __init__(self, *answers: Exception | None) -> None:
        self.calls: list[tuple[str, str, Any]] = []
        self.answers = list(answers)

    async def patch_pod_status(self, namespace: str, name: str, body: Any) -> dict:
        self.calls.append((namespace, name, body))
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise answer
        return {}

    async def patch_pod(self, namespace: str, name: str, body: Any) -> dict:
        raise AssertionError("a condition is a matter of the status")

    async def bind(self, namespace: str, name: str, binding: Any) -> None:
        raise AssertionError("a condition binds nothing")


def desk(writer: Writer, clock: fakes.FakeClock, *, limit: int = 100) -> conditions.Conditions:
    return conditions.Conditions(
        writer,
        time=clock,
        metrics=ports.NoRecorder(),
        generator=random.Random(1),
        limit=limit,
    )


async def test_the_patch_names_the_pod_and_one_condition() -> None:
    writer = Writer()
    wanted = desk(writer, fakes.FakeClock())
    wanted.put(UNFIT)
    assert await wanted.drain(1.0)
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/3 nodes are available: x.",
        "lastProbeTime": None,
        "lastTransitionTime": "2026-03-01T12:00:00Z",
    }
    assert writer.calls == [
        ("team", "p1", {"metadata": {"uid": "u1"}, "status": {"conditions": [condition]}})
    ]


@pytest.mark.parametrize(
    ("generation", "want"),
    [
        pytest.param(3, 3, id="a server that counts versions of specifications"),
        pytest.param(0, None, id="one that does not"),
    ],
)
async def test_the_condition_says_which_specification_it_is_about(
    generation: int, want: int | None
) -> None:
    writer = Writer()
    wanted = desk(writer, fakes.FakeClock())
    wanted.put(dataclasses.replace(UNFIT, generation=generation))
    assert await wanted.drain(1.0)
    [(_, _, body)] = writer.calls
    assert body["status"]["conditions"][0].get("observedGeneration") == want


async def test_only_a_change_is_written_and_the_transition_time_stays_with_the_status() -> None:
    writer = Writer()
    wanted = desk(writer, fakes.FakeClock())
    for condition in (UNFIT, UNFIT, dataclasses.replace(UNFIT, message="0/4 …"), UNFIT):
        wanted.put(condition)
        assert await wanted.drain(1.0)
    written = [body["status"]["conditions"][0] for _, _, body in writer.calls]
    assert [each["message"] for each in written] == [UNFIT.message, "0/4 …", UNFIT.message]
    assert ["lastTransitionTime" in each for each in written] == [True, False, False]


@pytest.mark.parametrize(
    ("stands", "wanted", "want"),
    [
        pytest.param("", "n1", ["n1"], id="a promise"),
        pytest.param("n1", "n1", [], id="a promise that stands"),
        pytest.param("n1", "n2", ["n2"], id="another promise"),
        pytest.param("n1", "", [None], id="the end of a promise"),
        pytest.param("", "", [], id="the end of none"),
        pytest.param("n1", None, [], id="nothing said about it"),
    ],
)
async def test_the_promised_node_is_written_with_the_condition(
    stands: str, wanted: str | None, want: list[str | None]
) -> None:
    writer = Writer()
    desk_ = desk(writer, fakes.FakeClock())
    desk_.seen("u1", "False", "Unschedulable", UNFIT.message, nominated=stands)
    for _ in range(2):
        desk_.put(dataclasses.replace(UNFIT, nominated=wanted))
        assert await desk_.drain(1.0)
    assert [body["status"]["nominatedNodeName"] for _, _, body in writer.calls] == want


async def test_what_the_pod_carries_already_is_not_written() -> None:
    writer = Writer()
    wanted = desk(writer, fakes.FakeClock())
    wanted.seen("u1", "False", "Unschedulable", UNFIT.message)
    wanted.put(UNFIT)
    wanted.put(dataclasses.replace(UNFIT, message="other"))
    assert await wanted.drain(1.0)
    ((_, _, body),) = writer.calls
    assert "lastTransitionTime" not in body["status"]["conditions"][0]


async def test_the_newest_of_several_waiting_conditions_wins() -> None:
    writer = Writer()
    wanted = desk(writer, fakes.FakeClock())
    wanted.put(UNFIT)
    wanted.put(dataclasses.replace(UNFIT, reason="SchedulerError", message="boom"))
    assert await wanted.drain(1.0)
    assert [body["status"]["conditions"][0]["message"] for _, _, body in writer.calls] == ["boom"]


@pytest.mark.parametrize(
    ("answer", "want_second"),
    [
        pytest.param(errors.NotFound("gone", status=404), 2, id="a pod that is gone"),
        pytest.param(errors.Invalid("uid", status=422), 2, id="another pod of the name"),
        pytest.param(errors.Forbidden("no", status=403), 2, id="a missing permission"),
        pytest.param(errors.Fenced("late"), 2, id="the end of leadership"),
        pytest.param(None, 1, id="success"),
    ],
)
async def test_a_condition_that_was_not_written_is_not_taken_for_written(
    answer: Exception | None, want_second: int
) -> None:
    writer = Writer(answer)
    wanted = desk(writer, fakes.FakeClock())
    for _ in range(2):
        wanted.put(UNFIT)
        assert await wanted.drain(1.0)
    assert len(writer.calls) == want_second


@pytest.mark.parametrize(
    ("answer", "pause_s"),
    [
        pytest.param(
            errors.Retryable("busy", status=429, retry_after_s=2.0), 2.0, id="429 says how long"
        ),
        pytest.param(errors.Unclear("lost"), 0.1, id="a lost answer: the patch can be repeated"),
    ],
)
async def test_what_can_be_repeated_is_sent_again_after_its_pause(
    answer: Exception, pause_s: float
) -> None:
    writer, clock = Writer(answer), fakes.FakeClock()
    wanted = desk(writer, clock)
    async with asyncio.TaskGroup() as group:
        worker = group.create_task(wanted.work())
        wanted.put(UNFIT)
        await clock.advance(pause_s * 0.9)
        assert len(writer.calls) == 1
        await clock.advance(pause_s)
        worker.cancel()
    assert len(writer.calls) == 2


async def test_a_condition_whose_worker_was_cancelled_is_left_for_the_drain() -> None:
    writer, clock = Writer(errors.Retryable("busy", status=429)), fakes.FakeClock()
    wanted = desk(writer, clock)
    async with asyncio.TaskGroup() as group:
        worker = group.create_task(wanted.work())
        wanted.put(UNFIT)
        await fakes.settle()
        worker.cancel()
    assert await wanted.drain(1.0)
    assert len(writer.calls) == 2


async def test_an_overloaded_writer_drops_the_oldest_pod() -> None:
    writer = Writer()
    wanted = desk(writer, fakes.FakeClock(), limit=1)
    wanted.put(UNFIT)
    wanted.put(dataclasses.replace(UNFIT, pod=dataclasses.replace(POD, uid="u2", name="p2")))
    assert await wanted.drain(1.0)
    assert [name for _, name, _ in writer.calls] == ["p2"]
