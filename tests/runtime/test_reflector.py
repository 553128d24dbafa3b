"""The reflector: its sink ends up equal to the cluster, whatever the connection does."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import random
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from hami_operator import errors
from hami_operator.cluster import ports
from hami_operator.runtime import reflector
from tests import fakes


def pod(name: str, version: int, *, uid: str = "", **extra: Any) -> dict[str, Any]:
    metadata = {
        "namespace": "ns",
        "name": name,
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(version),
    }
    return {"metadata": metadata | extra}


def key(raw: ports.Raw) -> str:
    return (
        f"{raw['metadata']['name']}/{raw['metadata']['uid']}/{raw['metadata']['resourceVersion']}"
    )


@dataclasses.dataclass
class Sink:
    """Writes down what happened, and what exists by that."""

    lines: list[str] = dataclasses.field(default_factory=list)
    objects: dict[str, str] = dataclasses.field(default_factory=dict)

    def upsert(self, raw: ports.Raw) -> None:
        self.lines.append(f"+{key(raw)}")
        self.objects[raw["metadata"]["name"]] = raw["metadata"]["uid"]

    def delete(self, raw: ports.Raw) -> None:
        assert raw["metadata"]["namespace"] == "ns"
        self.lines.append(f"-{key(raw)}")
        del self.objects[raw["metadata"]["name"]]

    def synced(self) -> None:
        self.lines.append("synced")

    def take(self) -> list[str]:
        taken, self.lines = self.lines, []
        return taken


Step = tuple[str, ports.Raw] | Exception | str


class Source:
    """A `ports.ListWatcher` that plays what a test scripted; watches then wait for `send`."""

    def __init__(self) -> None:
        self.lists: list[list[ports.Page | Exception]] = []
        self.watches: list[list[Step]] = []
        self.log: list[str] = []
        self.life_s: list[int] = []
        self.open = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self._live: asyncio.Queue[Step] = asyncio.Queue()
        self._pages: list[ports.Page | Exception] = []

    def listing(self, *pods: ports.Raw, version: int) -> None:
        self.lists.append([ports.Page(items=list(pods), version=str(version))])

    def send(self, *steps: Step) -> None:
        for step in steps:
            self._live.put_nowait(step)

    async def list_page(
        self,
        resource: ports.Resource,
        *,
        selector: ports.Selector = ports.EVERYTHING,
        limit: int = 500,
        token: str = "",
        metadata_only: bool = False,
    ) -> ports.Page:
        assert (resource.plural, selector, limit) == ("pods", ports.LIVE_PODS, 500)
        assert not metadata_only
        self.log.append(f"list {token}".strip())
        if not token:
            self._pages = self.lists.pop(0)
        page = self._pages.pop(0)
        await self.gate.wait()
        if isinstance(page, Exception):
            raise page
        return page

    async def watch(
        self,
        resource: ports.Resource,
        *,
        version: str,
        selector: ports.Selector = ports.EVERYTHING,
        timeout_s: int,
    ) -> AsyncGenerator[tuple[str, ports.Raw], None]:
        assert (resource.plural, selector) == ("pods", ports.LIVE_PODS)
        self.log.append(f"watch {version}")
        self.life_s.append(timeout_s)
        script = list(self.watches.pop(0)) if self.watches else []
        self.open += 1
        try:
            while True:
                step = script.pop(0) if script else await self._live.get()
                if isinstance(step, Exception):
                    raise step
                if isinstance(step, str):  # the server ends the stream
                    return
                yield step
        finally:
            self.open -= 1


@dataclasses.dataclass
class Rig:
    clock: fakes.FakeClock
    source: Source
    sink: Sink
    reflector: reflector.Reflector

    def is_synced(self) -> bool:
        return self.reflector.synced

    async def started(self) -> asyncio.Task[None]:
        task = asyncio.create_task(self.reflector.run())
        await fakes.settle()
        return task


@pytest.fixture
async def rig() -> Rig:
    return made(ports.PODS)


def made(resource: ports.Resource) -> Rig:
    clock, source, sink = fakes.FakeClock(), Source(), Sink()
    subject = reflector.Reflector(
        source,
        resource,
        sink,
        time=clock,
        generator=random.Random(1),
        selector=ports.LIVE_PODS,
    )
    return Rig(clock, source, sink, subject)


@contextlib.asynccontextmanager
async def running(rig: Rig) -> AsyncGenerator[None, None]:
    task = await rig.started()
    yield
    assert not task.done(), "the reflector ended by itself"
    task.cancel()
    await asyncio.wait({task})
    assert rig.source.open == 0, "a watch was left open"


BOOKMARK = ("BOOKMARK", {"metadata": {"resourceVersion": "50"}})
GONE = errors.Gone("too old", status=410)
LOST = errors.Retryable("connection lost")


async def test_it_lists_then_is_synced_then_watches_from_the_version_of_the_list(rig: Rig) -> None:
    rig.source.listing(pod("a", 3), pod("b", 5), version=9)
    assert not rig.is_synced()
    async with running(rig):
        assert rig.sink.take() == ["+a/uid-a/3", "+b/uid-b/5", "synced"]
        assert rig.source.log == ["list", "watch 9"]
        await rig.reflector.wait_synced()
        assert rig.is_synced()
        assert len(rig.reflector) == 2
        assert 300 <= rig.source.life_s[0] <= 600


async def test_pages_belong_to_one_list_and_what_is_in_none_of_them_is_deleted(rig: Rig) -> None:
    rig.source.listing(pod("a", 1), pod("b", 2), pod("c", 3), version=9)
    rig.source.watches = [[GONE]]
    rig.source.lists.append(
        [
            ports.Page(items=[pod("c", 3)], version="20", token="t1"),
            ports.Page(items=[pod("d", 12)], version="21"),
        ]
    )
    async with running(rig):
        assert rig.source.log == ["list", "watch 9", "list", "list t1", "watch 20"]
        took = rig.sink.take()
        assert took[:5] == ["+a/uid-a/1", "+b/uid-b/2", "+c/uid-c/3", "synced", "+d/uid-d/12"]
        assert sorted(took[5:]) == ["-a/uid-a/1", "-b/uid-b/2"]
        assert rig.sink.objects == {"c": "uid-c", "d": "uid-d"}


async def test_an_expired_continue_token_starts_the_list_afresh(rig: Rig) -> None:
    first = ports.Page(items=[pod("a", 1), pod("gone", 2)], version="9", token="t1")
    rig.source.lists.append([first, GONE])
    rig.source.listing(pod("a", 1), version=30)
    async with running(rig):
        await rig.clock.advance(2)
        assert rig.source.log == ["list", "list t1", "list", "watch 30"]
        assert rig.sink.take() == ["+a/uid-a/1", "+gone/uid-gone/2", "-gone/uid-gone/2", "synced"]


@pytest.mark.parametrize(
    ("steps", "want"),
    [
        pytest.param([("ADDED", pod("b", 12))], ["+b/uid-b/12"], id="a new object"),
        pytest.param([("MODIFIED", pod("a", 12))], ["+a/uid-a/12"], id="a changed object"),
        pytest.param([("DELETED", pod("a", 12))], ["-a/uid-a/12"], id="a deleted object"),
        pytest.param([("MODIFIED", pod("a", 3))], [], id="a repeated version is no news"),
        pytest.param([("MODIFIED", pod("a", 2))], [], id="an older version is no news"),
        pytest.param(
            [("ADDED", pod("a", 12, uid="new"))],
            ["-a/uid-a/3", "+a/new/12"],
            id="the same name with another UID is a delete and an add",
        ),
        pytest.param(
            [("ADDED", pod("a", 12, uid="new")), ("DELETED", pod("a", 13))],
            ["-a/uid-a/3", "+a/new/12"],
            id="a late delete of the old one leaves the new one alone",
        ),
        pytest.param([("DELETED", pod("z", 12))], [], id="a delete of what is not known"),
        pytest.param([BOOKMARK], [], id="a bookmark"),
        pytest.param([("ADDED", {"metadata": None})], [], id="an object without metadata"),
        pytest.param([("ADDED", {})], [], id="an empty object"),
    ],
)
async def test_watch_events(rig: Rig, steps: list[Step], want: list[str]) -> None:
    rig.source.listing(pod("a", 3), version=9)
    async with running(rig):
        rig.sink.take()
        rig.source.send(*steps)
        await fakes.settle()
        assert rig.sink.take() == want


async def test_objects_without_numeric_versions_are_news_whenever_they_differ(rig: Rig) -> None:
    first, second = pod("a", 1), pod("a", 2)
    first["metadata"]["resourceVersion"] = "xyz"
    second["metadata"]["resourceVersion"] = "abc"
    rig.source.listing(first, version=9)
    async with running(rig):
        rig.source.send(("MODIFIED", second), ("MODIFIED", second))
        await fakes.settle()
        assert rig.sink.take() == ["+a/uid-a/xyz", "synced", "+a/uid-a/abc"]


async def test_a_stream_that_ends_is_resumed_at_once_from_the_last_version_seen(rig: Rig) -> None:
    rig.source.listing(version=9)
    rig.source.watches = [[("ADDED", pod("a", 12)), "end"], [BOOKMARK, "end"]]
    async with running(rig):
        assert rig.source.log == ["list", "watch 9", "watch 12", "watch 50"]
        assert rig.clock.slept == []


async def test_a_stream_that_ends_at_once_again_and_again_is_not_hammered(rig: Rig) -> None:
    rig.source.listing(version=9)
    rig.source.watches = [["end"]] * 30
    async with running(rig):
        await rig.clock.advance(60)
        assert len(rig.source.log) <= 12
        assert min(rig.clock.slept) >= 1


async def test_410_while_watching_lists_again_and_reports_what_was_deleted(rig: Rig) -> None:
    rig.source.listing(pod("a", 1), pod("b", 2), version=9)
    rig.source.watches = [[("MODIFIED", pod("a", 11)), GONE]]
    rig.source.listing(pod("a", 11), pod("c", 20), version=30)
    async with running(rig):
        assert rig.sink.take() == [
            "+a/uid-a/1", "+b/uid-b/2", "synced", "+a/uid-a/11", "+c/uid-c/20", "-b/uid-b/2",
        ]  # fmt: skip
        assert rig.source.log == ["list", "watch 9", "list", "watch 30"]
        assert rig.clock.slept == []


async def test_410_over_and_over_backs_off(rig: Rig) -> None:
    for _ in range(20):
        rig.source.listing(pod("a", 1), version=9)
    rig.source.watches = [[GONE]] * 20
    async with running(rig):
        await rig.clock.advance(30)
        assert 3 <= rig.source.log.count("list") <= 8
        assert rig.sink.take() == ["+a/uid-a/1", "synced"]


@pytest.mark.parametrize(
    ("error", "want_s"),
    [
        pytest.param(LOST, (1.0, 1.5), id="a lost connection"),
        pytest.param(errors.Forbidden("no", status=403), (1.0, 1.5), id="a missing permission"),
        pytest.param(
            errors.Retryable("wait", status=429, retry_after_s=7), (7.0, 7.0), id="Retry-After"
        ),
    ],
)
async def test_errors_are_waited_out(
    rig: Rig, error: Exception, want_s: tuple[float, float]
) -> None:
    rig.source.listing(version=9)
    rig.source.watches = [[error]]
    async with running(rig):
        (pause_s,) = rig.clock.slept
        assert want_s[0] <= pause_s <= want_s[1]
        assert rig.source.log == ["list", "watch 9"]
        await rig.clock.advance(pause_s)
        assert rig.source.log == ["list", "watch 9", "watch 9"]


async def test_pauses_grow_to_ten_seconds_and_start_anew_after_progress(rig: Rig) -> None:
    rig.source.listing(version=9)
    rig.source.watches = [[LOST] for _ in range(8)]
    rig.source.watches.append([("ADDED", pod("a", 12)), LOST])
    async with running(rig):
        await rig.clock.advance(120)
        slept = rig.clock.slept
        assert len(slept) == 8
        assert all(1.0 <= pause <= 10.0 for pause in slept)
        assert slept[0] <= 1.5
        assert slept[5:] == [10.0] * 3
        assert rig.source.log[-1] == "watch 12"


async def test_a_failed_first_list_leaves_it_unsynced_until_one_succeeds(rig: Rig) -> None:
    rig.source.lists = [[LOST], [LOST]]
    rig.source.listing(pod("a", 1), version=9)
    async with running(rig):
        await rig.clock.advance(1.6)
        assert not rig.is_synced()
        await rig.clock.advance(5)
        assert rig.is_synced()
        assert rig.sink.take() == ["+a/uid-a/1", "synced"]


async def test_a_kind_that_the_server_does_not_know_has_no_objects_until_it_does() -> None:
    rig = made(dataclasses.replace(ports.PODS, optional=True))
    unknown = errors.NotFound("the server could not find the requested resource", status=404)
    rig.source.lists = [[unknown], [unknown]]
    rig.source.listing(pod("a", 1), version=9)
    rig.source.lists.append([unknown])
    rig.source.watches = [[unknown]]
    async with running(rig):
        assert rig.is_synced()
        assert rig.sink.take() == ["synced"]
        await rig.clock.advance(599)
        assert rig.source.log == ["list", "list"]
        await rig.clock.advance(2)
        assert rig.sink.take() == ["+a/uid-a/1", "-a/uid-a/1"]
        assert rig.clock.slept == [300.0] * 3


async def test_a_missing_kind_is_an_error_where_every_server_should_know_it(rig: Rig) -> None:
    rig.source.lists = [[errors.NotFound("no", status=404)]]
    async with running(rig):
        assert not rig.is_synced()
        assert rig.clock.slept != [300.0]


async def test_a_list_on_demand_cuts_the_watch_and_tells_the_difference_once(rig: Rig) -> None:
    rig.source.listing(pod("a", 1), pod("b", 2), version=9)
    async with running(rig):
        rig.sink.take()
        rig.source.listing(pod("a", 1), pod("c", 12), version=20)
        asking = [asyncio.create_task(rig.reflector.relist()) for _ in range(2)]
        await fakes.settle()
        assert all(task.done() for task in asking)
        assert rig.sink.take() == ["+c/uid-c/12", "-b/uid-b/2"]
        assert rig.source.log == ["list", "watch 9", "list", "watch 20"]
        assert rig.clock.slept == []


async def test_a_list_on_demand_is_one_that_began_after_the_demand(rig: Rig) -> None:
    rig.source.listing(pod("a", 1), version=9)
    rig.source.gate.clear()
    async with running(rig):
        asking = asyncio.create_task(rig.reflector.relist())  # the first list is under way
        await fakes.settle()
        rig.source.listing(pod("b", 12), version=20)
        rig.source.gate.set()
        await fakes.settle()
        assert asking.done()
        assert rig.source.log == ["list", "list", "watch 20"]
        assert rig.sink.objects == {"b": "uid-b"}


async def test_a_list_on_demand_that_fails_is_repeated_before_anybody_is_told(rig: Rig) -> None:
    rig.source.listing(version=9)
    async with running(rig):
        rig.source.lists.append([LOST])
        rig.source.listing(pod("a", 12), version=20)
        asking = asyncio.create_task(rig.reflector.relist())
        await fakes.settle()
        assert not asking.done()
        await rig.clock.advance(2)
        assert asking.done()
        assert rig.sink.objects == {"a": "uid-a"}


async def test_who_stops_waiting_for_a_list_does_no_harm(rig: Rig) -> None:
    rig.source.listing(version=9)
    async with running(rig):
        rig.source.lists.append([LOST])
        rig.source.listing(version=20)
        asking = asyncio.create_task(rig.reflector.relist())
        await fakes.settle()
        asking.cancel()
        await rig.clock.advance(2)
        assert rig.source.log[-1] == "watch 20"


async def test_others_get_a_turn_while_many_events_arrive(rig: Rig) -> None:
    turns: list[int] = []

    async def other() -> None:
        while True:
            turns.append(len(rig.sink.lines))
            await asyncio.sleep(0)

    pods = [pod(f"p{index}", index + 1) for index in range(400)]
    rig.source.listing(*pods, version=500)
    rig.source.watches = [[("ADDED", pod(f"q{index}", 600 + index)) for index in range(400)]]
    task = asyncio.create_task(other())
    async with running(rig):
        task.cancel()
    assert len(rig.sink.lines) == 801
    assert max(after - before for before, after in itertools.pairwise(turns)) <= 51


async def test_the_age_counts_from_the_last_event_bookmarks_included(rig: Rig) -> None:
    rig.source.listing(version=9)
    async with running(rig):
        await rig.clock.advance(40)
        assert rig.reflector.age_s() == 40
        rig.source.send(BOOKMARK)
        await fakes.settle()
        assert rig.reflector.age_s() == 0


async def test_a_fault_of_the_sink_ends_the_reflector_for_the_supervisor_to_see(rig: Rig) -> None:
    def broken(raw: ports.Raw) -> None:
        raise ZeroDivisionError

    rig.sink.upsert = broken  # type: ignore[method-assign] # a sink that breaks its promise
    rig.source.listing(pod("a", 1), version=9)
    task = await rig.started()
    assert isinstance(task.exception(), ZeroDivisionError)


@pytest.mark.parametrize(
    ("version", "than", "want"),
    [
        pytest.param("10", "9", True, id="numbers, not texts"),
        pytest.param("9", "10", False, id="older"),
        pytest.param("9", "9", False, id="equal"),
        pytest.param("x", "9", True, id="not a number but different"),
        pytest.param("", "", False, id="both absent"),
    ],
)
def test_is_newer(version: str, than: str, want: bool) -> None:
    assert reflector.is_newer(version, than=than) is want


def test_random_histories_end_equal_to_the_cluster() -> None:
    """Random writes, cuts and gaps: the sink must have exactly what exists."""
    for seed in range(30):
        asyncio.run(_history(seed))


async def _history(seed: int) -> None:
    generator = random.Random(seed)
    cluster: dict[str, ports.Raw] = {}
    version = 10
    clock, source, sink = fakes.FakeClock(), Source(), Sink()
    subject = reflector.Reflector(
        source, ports.PODS, sink, time=clock, generator=generator, selector=ports.LIVE_PODS
    )
    source.listing(version=version)
    task = asyncio.create_task(subject.run())
    await fakes.settle()

    def change() -> Step:
        nonlocal version
        version += 1
        name = generator.choice("abcdef")
        if name not in cluster or generator.random() < 0.2:
            kind = "ADDED"
            cluster[name] = pod(name, version, uid=f"uid-{version}")
        elif generator.random() < 0.5:
            kind = "MODIFIED"
            cluster[name] = pod(name, version, uid=cluster[name]["metadata"]["uid"])
        else:
            gone = cluster.pop(name)
            return "DELETED", pod(name, version, uid=gone["metadata"]["uid"])
        return kind, cluster[name]

    for _ in range(40):
        event: Callable[[], Step] = change
        if generator.random() < 0.8:
            source.send(event())
        else:
            for _ in range(generator.randint(1, 4)):
                change()  # nobody sees these
            source.listing(*cluster.values(), version=version)
            source.send(GONE)
        await clock.advance(11)
        names = {name: raw["metadata"]["uid"] for name, raw in cluster.items()}
        assert sink.objects == names, f"seed {seed}"
        assert len(subject) == len(cluster)
    task.cancel()
    await asyncio.wait({task})
