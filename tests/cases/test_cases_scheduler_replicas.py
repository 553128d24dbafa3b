"""One test per row of the scheduler's cases about replicas: readiness, and labels of roles."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import aiohttp
import pytest
from structlog import testing

from hami_operator import clock, errors, settings
from hami_operator.cli import wiring
from hami_operator.cluster import kubernetes
from hami_operator.cluster.memory import server, store
from hami_operator.runtime import rolelabels
from hami_operator.server import metrics
from tests import builders, fakes
from tests.cases import loader, scheduler_cluster, uncovered
from tests.runtime import bench

Case = Mapping[str, Any]


def _is_ours(row: Case) -> bool:
    when, given = row["when"], row["given"]
    health = when["op"] == "http" and when["path"] in ("/healthz", "/readyz")
    return health or (when["op"] == "tick" and "leader" in given)


ROWS: Final = [
    row
    for row in (loader.rows(scheduler_cluster.FILE) if scheduler_cluster.DOCUMENT["cases"] else [])
    if _is_ours(row)
]
TRIES: Final = 1000
"""Looks at a status, until what was started has listed everything."""
NOBODY: Final = "http://127.0.0.1:9"
"""An address where no API server is, so that nothing is ever listed."""


@contextlib.asynccontextmanager
async def _replica(*, leader: bool, synced: bool) -> AsyncIterator[wiring.Wiring]:
    """The operator's parts at work, without kopf."""
    with server.ApiServer(store.Store()) as api:
        namespace = {"metadata": {"name": "hami-system"}}
        api.call(api.store.create, "namespaces", namespace)
        if not leader:
            api.call(api.store.create, "leases", _lease("other"), namespace="hami-system")
        client = await kubernetes.Client.connect(server=api.url if synced else NOBODY)
        built = wiring.Wiring(
            wiring.Given(
                settings=settings.Settings(
                    http_bind="127.0.0.1:0",
                    node_source="reflector",
                    leader_elect=synced,  # without an API server nobody can win an election
                ),
                client=client,
                server_version=(1, 36),
                identity="me_1",
                time=clock.SystemClock(),
                generator=random.Random(0),
                metrics=metrics.Metrics(),
            )
        )
        await built.server.start()
        built.start()
        try:
            yield built
        finally:
            await built.drain()
            await built.close()


def _lease(holder: str) -> dict[str, Any]:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 3600}
    return {"metadata": {"name": "hami-scheduler"}, "spec": spec}


async def _status(port: int, method: str, path: str) -> int:
    url = f"http://127.0.0.1:{port}{path}"
    async with aiohttp.ClientSession() as session, session.request(method, url) as answer:
        return answer.status


async def _http(stated: Case, when: Case, want: Case) -> None:
    assert stated.keys() <= {"leader", "synced", "mode"}
    assert {*when} == {"op", "method", "path"}
    assert {*want} == {"status"}
    leads = stated.get("leader", True)
    async with _replica(leader=leads, synced=stated.get("synced", True)) as built:
        place = (built.server.port, when["method"], when["path"])
        await fakes.eventually(lambda: built.leadership.leading is leads)
        for _ in range(TRIES):
            if await _status(*place) == want["status"]:
                break
            await asyncio.sleep(0.01)
        assert await _status(*place) == want["status"]


async def _tick(stated: Case, when: Case, want: Case) -> None:
    """Labels of roles: the leader's own cannot be written."""
    assert stated.keys() == {"settings", "leader", "api"}
    assert stated["settings"] == {"leader_role_label": True}
    assert want.keys() <= {"alive", "logged", "decisions"}
    async with bench.running(**stated["settings"]) as on:
        on.add_node()
        for step in stated["api"]["patch_pod_label"]:
            on.api.fail("PATCH pods/me", errors.ApiError(step["error"]))
        me = builders.pod("me").container("c").on("n1").phase("Running")
        on.add(me.merge("metadata.labels", dict([rolelabels.COMPONENT])))
        labels = rolelabels.RoleLabels(
            on.world.known_pods,
            on.api,
            namespace="default",
            own="me",
            is_leading=lambda: stated["leader"],
            time=on.clock,
        )
        on.spawn("roles", labels.run())
        with testing.capture_logs() as logs:
            await on.run(rolelabels.INTERVAL_S)
        assert [one["log_level"] for one in logs if "role" in one["event"]] == [want["logged"]]
        assert ("roles" in on.running_tasks()) is want["alive"]
        on.add(on.ask())
        await on.run(1.0)
        assert (on.node_of() == "n1") is (want["decisions"] == "go on")


_RUN: Final = {"http": _http, "tick": _tick}


@pytest.mark.parametrize("case", loader.params(ROWS, uncovered.SCHEDULER))
async def test_row(case: Case) -> None:
    stated = scheduler_cluster.given(case)
    await _RUN[case["when"]["op"]](stated, case["when"], case["expect"])


@pytest.mark.parametrize(
    ("leader", "synced", "path", "status"),
    [
        pytest.param(True, False, "/readyz", 503, id="nothing is listed, so it is not ready"),
        pytest.param(True, False, "/healthz", 200, id="nothing is listed, and it lives"),
        pytest.param(False, True, "/healthz", 200, id="a follower lives"),
    ],
)
async def test_the_rows_can_tell(leader: bool, synced: bool, path: str, status: int) -> None:
    await _http(
        {"leader": leader, "synced": synced},
        {"op": "http", "method": "GET", "path": path},
        {"status": status},
    )


def test_rows_are_there_unless_another_folder_is_run() -> None:
    assert ROWS or loader.OTHER
