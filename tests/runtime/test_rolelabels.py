"""The leader labels the replicas with their roles, and nothing depends on it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import pytest
from structlog import testing

from hami_operator import errors
from hami_operator.runtime import rolelabels
from tests import builders
from tests.runtime import bench

ROLE = "hami.io/scheduler-role"
COMPONENT = {"app.kubernetes.io/component": "hami-scheduler"}
PATCH = "PATCH pods/me"


def replica(name: str, **labels: str) -> builders.PodBuilder:
    made = builders.pod(name).container("c").on("n1").phase("Running")
    return made.merge("metadata.labels", {**COMPONENT, **labels})


@contextlib.asynccontextmanager
async def labelling(*, leads: bool = True) -> AsyncIterator[bench.Bench]:
    async with bench.running() as on:
        on.add_node()
        labels = rolelabels.RoleLabels(
            on.world.known_pods,
            on.api,
            namespace="default",
            own="me",
            is_leading=lambda: leads,
            time=on.clock,
        )
        on.spawn("roles", labels.run())
        yield on


def roles(on: bench.Bench, *names: str) -> dict[str, str]:
    found = {name: on.pod(name)["metadata"].get("labels", {}).get(ROLE, "none") for name in names}
    return {name: str(role) for name, role in found.items()}


async def test_the_leader_labels_itself_and_the_others() -> None:
    async with labelling() as on:
        on.add(replica("me"))
        on.add(replica("other", **{ROLE: "leader"}))
        on.add(builders.pod("stranger").container("c").on("n1"))
        await on.run(rolelabels.INTERVAL_S)
        want = {"me": "leader", "other": "follower", "stranger": "none"}
        assert roles(on, *want) == want
        on.api.calls.clear()
        await on.run(10 * rolelabels.INTERVAL_S)
        assert not [call for call in on.api.calls if call.startswith("PATCH pods")]


async def test_a_replica_that_comes_later_is_labelled_too() -> None:
    async with labelling() as on:
        await on.run(rolelabels.INTERVAL_S)
        on.add(replica("late"))
        await on.run(rolelabels.INTERVAL_S)
        assert roles(on, "late") == {"late": "follower"}


async def test_pods_of_other_namespaces_are_left_alone() -> None:
    async with labelling() as on:
        on.store.create("namespaces", {"metadata": {"name": "other"}})
        made = builders.pod("twin", "other").container("c").on("n1").phase("Running")
        on.add(made.merge("metadata.labels", COMPONENT))
        await on.run(rolelabels.INTERVAL_S)
        found = on.store.get("pods", ("other", "twin")).copy("pods")
        assert ROLE not in found["metadata"]["labels"]


async def test_a_follower_writes_nothing() -> None:
    async with labelling(leads=False) as on:
        on.add(replica("me"))
        await on.run(10 * rolelabels.INTERVAL_S)
        assert roles(on, "me") == {"me": "none"}


@pytest.mark.parametrize(
    ("error", "want_logged"),
    [
        pytest.param(errors.ApiError("boom"), ["role not written"], id="an error is logged"),
        pytest.param(errors.Fenced("over"), ["role not written"], id="a lost term too"),
        pytest.param(errors.NotFound("gone", status=404), [], id="a replica that is gone is not"),
    ],
)
async def test_what_fails_is_tried_again(error: Exception, want_logged: list[str]) -> None:
    async with labelling() as on:
        on.api.fail(PATCH, error)
        on.add(replica("me"))
        with testing.capture_logs() as logs:
            await on.run()
            assert roles(on, "me") == {"me": "none"}
            await on.run(rolelabels.INTERVAL_S)
        assert roles(on, "me") == {"me": "leader"}
        assert [one["event"] for one in logs if one["log_level"] == "error"] == want_logged
