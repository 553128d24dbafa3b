"""The comparison of Nodes: ghosts go, missed ones come, and what is newer stays."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hami_operator import errors
from hami_operator.cluster import ports
from hami_operator.runtime import resync
from tests import fakes

Known = resync.Known


def known(**nodes: int | tuple[str, int]) -> dict[str, Known]:
    pairs = {
        name: value if isinstance(value, tuple) else (f"uid-{name}", value)
        for name, value in nodes.items()
    }
    return {name: Known(uid, str(version)) for name, (uid, version) in pairs.items()}


def node(name: str, value: Known) -> ports.Raw:
    return {"metadata": {"name": name, "uid": value.uid, "resourceVersion": value.version}}


@pytest.mark.parametrize(
    ("ours", "existing", "want_missed", "want_ghosts"),
    [
        pytest.param(known(a=1), known(a=1), (), (), id="equal pictures"),
        pytest.param(known(), known(a=1, b=2), ("a", "b"), (), id="nodes that nobody told of"),
        pytest.param(known(a=1), known(a=2), ("a",), (), id="a change that nobody told of"),
        pytest.param(known(a=3), known(a=2), (), (), id="ours is newer than the list's"),
        pytest.param(known(a=5, b=9), known(a=5), (), ("b",), id="a delete that nobody told of"),
        pytest.param(
            known(a=1, b=11), known(a=1), (), (), id="a node that came after the list is no ghost"
        ),
        pytest.param(
            known(a=10), known(), (), ("a",), id="one as old as the list and not in it is gone"
        ),
        pytest.param(
            known(a=("old", 5)),
            known(a=("new", 8)),
            ("a",),
            ("a",),
            id="another UID is a delete and an add",
        ),
        pytest.param(
            known(a=("newer", 12)),
            known(a=("new", 8)),
            (),
            (),
            id="a node re-created after the list stays",
        ),
        pytest.param(known(a=9), known(a=10), ("a",), (), id="versions compare as numbers"),
    ],
)
def test_compare(
    ours: dict[str, Known],
    existing: dict[str, Known],
    want_missed: tuple[str, ...],
    want_ghosts: tuple[str, ...],
) -> None:
    before = (dict(ours), dict(existing))
    difference = resync.compare(ours, existing, "10")
    assert difference == resync.Difference(missed=want_missed, ghosts=want_ghosts)
    assert len(difference) == len(want_missed) + len(want_ghosts)
    assert (ours, existing) == before


class Cluster:
    """Lists and reads Nodes; pages of two."""

    def __init__(self, **nodes: int | tuple[str, int]) -> None:
        self.nodes = known(**nodes)
        self.version = 10
        self.reads: list[str] = []
        self.lists = 0
        self.failures: list[errors.ApiError] = []

    async def list_page(
        self,
        resource: ports.Resource,
        *,
        selector: ports.Selector = ports.EVERYTHING,
        limit: int = 500,
        token: str = "",
        metadata_only: bool = False,
    ) -> ports.Page:
        assert (resource, selector, metadata_only) == (ports.NODES, ports.EVERYTHING, True)
        if not token:
            self.lists += 1
            if self.failures:
                raise self.failures.pop(0)
        start = int(token or "0")
        items = [node(*pair) for pair in list(self.nodes.items())[start : start + 2]]
        more = str(start + 2) if start + 2 < len(self.nodes) else ""
        return ports.Page(items=items, version=str(self.version), token=more)

    async def get_node(self, name: str) -> ports.Raw:
        self.reads.append(name)
        if name not in self.nodes:
            raise errors.NotFound("no such node", status=404)
        return node(name, self.nodes[name])


class Picture:
    """What a watch told us, and what resync adds to it."""

    def __init__(self, **nodes: int | tuple[str, int]) -> None:
        self.nodes = known(**nodes)
        self.events: list[str] = []

    def node_event(self, kind: str, raw: ports.Raw) -> None:
        metadata = raw["metadata"]
        self.events.append(f"{kind} {metadata['name']}/{metadata['uid']}")
        if kind == "DELETED":
            self.nodes.pop(metadata["name"], None)
        else:
            self.nodes[metadata["name"]] = Known(metadata["uid"], metadata["resourceVersion"])


class Counted(ports.NoRecorder):
    def __init__(self) -> None:
        self.counts: dict[str, float] = {}

    def count(self, name: str, amount: float = 1.0, /, **labels: str) -> None:
        assert name == "hami_ledger_corrections_total"
        self.counts[labels["kind"]] = self.counts.get(labels["kind"], 0) + amount


class Rig:
    def __init__(self, cluster: Cluster, picture: Picture) -> None:
        self.clock = fakes.FakeClock()
        self.cluster = cluster
        self.picture = picture
        self.counted = Counted()
        self.subject = resync.Resync(
            cluster,
            cluster,
            known=lambda: picture.nodes,
            node_event=picture.node_event,
            time=self.clock,
            recorder=self.counted,
        )

    def is_synced(self) -> bool:
        return self.subject.synced

    async def once(self, seconds: float = 20) -> Any:
        task = asyncio.create_task(self.subject.once())
        await self.clock.advance(seconds)
        return await task


async def test_an_equal_picture_is_complete_at_once_and_costs_one_list() -> None:
    rig = Rig(Cluster(a=1, b=2, c=3), Picture(a=1, b=2, c=3))
    assert not rig.is_synced()
    assert await rig.once(0) == resync.Difference()
    assert rig.is_synced()
    await rig.subject.wait_synced()
    assert (rig.picture.events, rig.cluster.reads, rig.clock.slept) == ([], [], [])


async def test_the_watch_gets_time_to_catch_up_while_it_makes_progress() -> None:
    names = {f"n{index}": index + 1 for index in range(5)}
    rig = Rig(Cluster(**names), Picture())
    task = asyncio.create_task(rig.subject.once())
    for name, version in names.items():
        await rig.clock.advance(4)
        rig.picture.nodes |= known(**{name: version})
        assert not rig.is_synced()
    await rig.clock.advance(1)
    assert task.done()
    assert rig.cluster.reads == []
    assert rig.is_synced()


async def test_what_the_watch_does_not_bring_is_read_and_what_it_hides_is_deleted() -> None:
    rig = Rig(Cluster(a=4, b=("new", 8), c=3), Picture(b=("old", 2), ghost=5, c=3))
    await rig.once()
    assert rig.picture.events == [
        "DELETED b/old", "DELETED ghost/uid-ghost", "MODIFIED a/uid-a", "MODIFIED b/new",
    ]  # fmt: skip
    assert rig.picture.nodes == rig.cluster.nodes
    assert rig.counted.counts == {}  # the first comparison corrects nothing, it completes


async def test_later_corrections_are_counted() -> None:
    rig = Rig(Cluster(a=1), Picture(a=1))
    await rig.once(0)
    rig.cluster.nodes = known(a=4, b=6)
    rig.picture.nodes |= known(x=2)
    await rig.once()
    assert rig.counted.counts == {"node_missed": 2, "node_ghost": 1}
    assert rig.picture.nodes == rig.cluster.nodes


async def test_a_node_that_vanishes_between_list_and_read_is_deleted_where_we_know_it() -> None:
    rig = Rig(Cluster(a=4, b=5), Picture(a=1))
    task = asyncio.create_task(rig.subject.once())
    await rig.clock.advance(1)
    rig.cluster.nodes = {}
    await rig.clock.advance(20)
    await task
    assert rig.picture.events == ["DELETED a/uid-a"]


async def test_what_arrives_while_others_are_read_is_not_read_again() -> None:
    names = {f"n{index:02}": index + 1 for index in range(30)}
    rig = Rig(Cluster(**names), Picture())
    original = rig.cluster.get_node

    async def arriving(name: str) -> ports.Raw:
        rig.picture.nodes = dict(rig.cluster.nodes)
        return await original(name)

    rig.cluster.get_node = arriving  # type: ignore[method-assign] # the watch wakes up
    await rig.once()
    assert len(rig.cluster.reads) == resync.BATCH


async def test_it_compares_every_five_minutes_and_soon_again_after_a_failure() -> None:
    rig = Rig(Cluster(a=1), Picture(a=1))
    rig.cluster.failures = [errors.Retryable("503"), errors.Forbidden("403")]
    task = asyncio.create_task(rig.subject.run())
    await rig.clock.advance(29)
    assert (rig.cluster.lists, rig.is_synced()) == (2, False)
    await rig.clock.advance(2)
    assert (rig.cluster.lists, rig.is_synced()) == (3, True)
    await rig.clock.advance(600)
    assert rig.cluster.lists == 5
    task.cancel()


async def test_a_fault_of_ours_is_not_swallowed() -> None:
    rig = Rig(Cluster(a=1), Picture())

    def broken(kind: str, raw: ports.Raw) -> None:
        raise ZeroDivisionError

    rig.subject = resync.Resync(
        rig.cluster,
        rig.cluster,
        known=lambda: {},
        node_event=broken,
        time=rig.clock,
        recorder=rig.counted,
    )
    task = asyncio.create_task(rig.subject.run())
    await rig.clock.advance(20)
    assert isinstance(task.exception(), ZeroDivisionError)
