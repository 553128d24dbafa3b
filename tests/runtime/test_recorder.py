"""Events: bodies the API server accepts, repeats as a series, and never a caller that waits."""

from __future__ import annotations

import asyncio
import dataclasses
import random
from typing import Any

import pytest

from hami_operator import errors
from hami_operator.runtime import recorder
from tests import fakes

POD = recorder.Occurrence(
    kind="Pod",
    namespace="team",
    name="p1",
    uid="u1",
    type="Warning",
    reason="FailedScheduling",
    action="Scheduling",
    text="0/3 nodes are available: 3 Insufficient cpu.",
)
NODE = recorder.Occurrence(
    kind="Node",
    namespace="",
    name="n1",
    uid="",
    type="Warning",
    reason="DeviceTypeUnavailable",
    action="Handshake",
    text="NVIDIA has stopped answering",
)
STAMP = "64bf3c7c00000"


class Writer:
    """Takes Events; ``answers`` are given first, one per call."""

    def __init__(self, *answers: Exception | None) -> None:
        self.calls: list[tuple[str, str, Any]] = []
        self.answers = list(answers)

    async def create_event(self, namespace: str, body: Any) -> dict:
        self.calls.append(("POST", namespace, body))
        return self._answer()

    async def patch_event(self, namespace: str, name: str, body: Any) -> dict:
        self.calls.append(("PATCH", f"{namespace}/{name}", body))
        return self._answer()

    def _answer(self) -> dict:
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise answer
        return {}


class Metrics:
    def __init__(self) -> None:
        self.counts: dict[tuple, float] = {}

    def count(self, name: str, amount: float = 1.0, /, **labels: str) -> None:
        key = (name, *sorted(labels.items()))
        self.counts[key] = self.counts.get(key, 0) + amount

    def observe(self, name: str, value: float, /, **labels: str) -> None: ...

    def gauge(self, name: str, value: float, /, **labels: str) -> None: ...


@dataclasses.dataclass
class Bench:
    writer: Writer
    clock: fakes.FakeClock = dataclasses.field(default_factory=fakes.FakeClock)
    metrics: Metrics = dataclasses.field(default_factory=Metrics)
    limit: int = 100

    def __post_init__(self) -> None:
        self.recorder = recorder.Recorder(
            self.writer,
            time=self.clock,
            metrics=self.metrics,
            generator=random.Random(1),
            controller="hami-scheduler",
            instance="pod-0",
            limit=self.limit,
        )

    async def say(self, *occurrences: recorder.Occurrence, wait_s: float = 0.0) -> None:
        """Record, write what is due, and let time pass."""
        for occurrence in occurrences:
            self.recorder.record(occurrence)
        async with asyncio.TaskGroup() as group:
            worker = group.create_task(self.recorder.work())
            await self.clock.advance(wait_s)
            worker.cancel()


async def test_an_event_about_a_pod_lives_beside_it() -> None:
    bench = Bench(Writer())
    await bench.say(POD)
    ((verb, namespace, body),) = bench.writer.calls
    assert (verb, namespace) == ("POST", "team")
    name = body["metadata"].pop("name")
    assert name.startswith("p1.")
    assert body == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "team"},
        "eventTime": "2026-03-01T12:00:00.000000Z",
        "type": "Warning",
        "reason": "FailedScheduling",
        "action": "Scheduling",
        "note": POD.text,
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "team",
            "name": "p1",
            "uid": "u1",
        },
        "reportingController": "hami-scheduler",
        "reportingInstance": "pod-0",
    }


async def test_an_event_about_a_node_lives_in_namespace_default_under_the_nodes_name() -> None:
    bench = Bench(Writer())
    await bench.say(NODE)
    ((_, namespace, body),) = bench.writer.calls
    assert namespace == "default"
    assert body["regarding"] == {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "n1"}


async def test_a_repeat_is_a_series_of_the_first_event_and_another_text_is_another_event() -> None:
    bench = Bench(Writer())
    await bench.say(POD, wait_s=1.0)
    await bench.say(POD)
    await bench.say(dataclasses.replace(POD, text="another text"))
    verbs = [verb for verb, _, _ in bench.writer.calls]
    assert verbs == ["POST", "PATCH", "POST"]
    first, series, second = bench.writer.calls
    assert series[1] == f"team/{first[2]['metadata']['name']}"
    assert series[2] == {"series": {"count": 2, "lastObservedTime": "2026-03-01T12:00:01.000000Z"}}
    assert second[2]["metadata"]["name"] != first[2]["metadata"]["name"]


async def test_repeats_before_the_first_write_are_one_event_with_their_number() -> None:
    bench = Bench(Writer())
    await bench.say(POD, POD, POD)
    ((verb, _, body),) = bench.writer.calls
    assert verb == "POST"
    assert body["series"] == {"count": 3, "lastObservedTime": "2026-03-01T12:00:00.000000Z"}


async def test_a_series_is_written_at_most_every_ten_seconds_and_counts_all() -> None:
    bench = Bench(Writer())
    await bench.say(POD)
    await bench.say(POD)
    for _ in range(50):
        await bench.say(POD, wait_s=0.1)
    assert len(bench.writer.calls) == 2
    bench.recorder.tick()
    await bench.say(wait_s=0.0)
    assert len(bench.writer.calls) == 2, "the pause is not over"
    bench.clock.forward(recorder.SERIES_PAUSE_S)
    bench.recorder.tick()
    await bench.say()
    assert bench.writer.calls[-1][2]["series"]["count"] == 52
    assert len(bench.writer.calls) == 3


async def test_a_repeat_after_the_window_is_a_new_event() -> None:
    bench = Bench(Writer())
    await bench.say(POD)
    bench.clock.forward(recorder.WINDOW_S + 1)
    await bench.say(POD)
    assert [verb for verb, _, _ in bench.writer.calls] == ["POST", "POST"]


async def test_a_series_whose_event_the_server_has_forgotten_becomes_a_new_event() -> None:
    bench = Bench(Writer(None, errors.NotFound("gone", status=404)))
    await bench.say(POD)
    await bench.say(POD)
    assert [verb for verb, _, _ in bench.writer.calls] == ["POST", "PATCH", "POST"]
    assert bench.writer.calls[-1][2]["series"]["count"] == 2


@pytest.mark.parametrize(
    ("answers", "want_calls", "want_dropped"),
    [
        pytest.param(
            [errors.Retryable("busy", status=429, retry_after_s=2.0), None],
            2,
            {},
            id="429 is sent again after Retry-After",
        ),
        pytest.param(
            [errors.Unclear("lost"), errors.Conflict("exists", status=409)],
            2,
            {},
            id="a lost answer is settled by the same name existing",
        ),
        pytest.param(
            [errors.Unclear("lost"), None], 2, {}, id="a write that was lost is written again"
        ),
        pytest.param(
            [errors.Unclear("lost"), errors.Unclear("lost"), None],
            3,
            {},
            id="a write that was lost twice is written a third time",
        ),
        pytest.param(
            [errors.Unclear("lost")] * 4,
            4,
            {"Unclear": 1},
            id="a write that is lost again and again is dropped and counted",
        ),
        pytest.param(
            [errors.Conflict("exists", status=409)],
            1,
            {"Conflict": 1},
            id="a name that exists before the first try is somebody else's",
        ),
        pytest.param(
            [errors.Forbidden("no", status=403)],
            1,
            {"Forbidden": 1},
            id="a refused event is dropped and counted",
        ),
        pytest.param(
            [errors.Fenced("late")], 1, {"Fenced": 1}, id="a former leader writes no event"
        ),
    ],
)
async def test_a_failing_write(
    answers: list[Exception | None], want_calls: int, want_dropped: dict[str, int]
) -> None:
    bench = Bench(Writer(*answers))
    await bench.say(POD, wait_s=30.0)
    assert len(bench.writer.calls) == want_calls
    names = {body["metadata"]["name"] for _, _, body in bench.writer.calls}
    assert len(names) == 1
    want = {
        ("hami_events_dropped_total", ("reason", reason)): count
        for reason, count in want_dropped.items()
    }
    assert bench.metrics.counts == want


async def test_an_overloaded_recorder_drops_its_oldest_and_says_so() -> None:
    bench = Bench(Writer(), limit=2)
    await bench.say(*(dataclasses.replace(POD, name=f"p{number}") for number in range(5)))
    written = [body["regarding"]["name"] for _, _, body in bench.writer.calls]
    assert written == ["p3", "p4"]
    assert bench.metrics.counts == {("hami_events_dropped_total", ("reason", "overload")): 3}


async def test_drain_writes_what_is_due_and_what_is_deferred() -> None:
    bench = Bench(Writer())
    await bench.say(POD)
    await bench.say(POD)
    bench.recorder.record(POD)
    bench.recorder.record(NODE)
    assert await bench.recorder.drain(1.0)
    assert [verb for verb, _, _ in bench.writer.calls] == ["POST", "PATCH", "POST", "PATCH"]
    assert bench.writer.calls[-1][2]["series"]["count"] == 3


async def test_memory_is_bounded_whatever_happens_to_how_many_objects() -> None:
    bench = Bench(Writer(), limit=10_000)
    await bench.say(*(dataclasses.replace(POD, name=f"p{number}") for number in range(4200)))
    await bench.say(POD)
    kept = len(bench.recorder._told)
    assert kept <= 4200
    await bench.say(*(dataclasses.replace(POD, name=f"q{number}") for number in range(10)))
    assert len(bench.recorder._told) <= 4096


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="an empty text stays"),
        pytest.param("a" * 1024, id="a text of 1024 bytes stays"),
    ],
)
def test_a_text_that_fits_is_not_cut(text: str) -> None:
    assert recorder.cut(text) == text


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a" * 1025, id="one byte too many"),
        pytest.param("ö" * 1024, id="characters of two bytes"),
        pytest.param("é€🎉" * 500, id="no character is cut in half"),
    ],
)
def test_a_long_text_is_cut_to_1024_bytes(text: str) -> None:
    cut = recorder.cut(text)
    assert len(cut.encode()) <= 1024
    assert len(cut.encode()) > 1024 - 8
    assert cut.endswith(" ...")
    assert text.startswith(cut.removesuffix(" ..."))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("p" * 253, id="the longest name an object can have"),
        pytest.param("a" * 199 + ".bcd", id="a cut that would end in a dot"),
    ],
)
async def test_event_names_are_names(name: str) -> None:
    bench = Bench(Writer())
    await bench.say(dataclasses.replace(POD, name=name))
    ((_, _, body),) = bench.writer.calls
    got = body["metadata"]["name"]
    assert len(got) <= 253
    assert all(part and part[0] != "-" and part[-1] != "-" for part in got.split("."))
