"""The suite's cluster: the same tests on the in-memory API server and on a real one."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.conformance import cluster as clusters
from tests.conformance import servers


@pytest.fixture(scope="session")
def real_server(request: pytest.FixtureRequest) -> servers.Real:
    """etcd and kube-apiserver with our manifests applied; one for the whole run."""
    return servers.Real(request.getfixturevalue("control_plane"))


@pytest.fixture(
    params=[
        pytest.param("memory", id="in memory"),
        pytest.param("real", id="real API server", marks=pytest.mark.e2e),
    ]
)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[servers.Server]:
    """An API server in which our manifests are installed."""
    if request.param == "real":
        yield request.getfixturevalue("real_server")
        return
    with servers.Memory.made() as running:
        yield servers.Memory(running, tmp_path)


@pytest.fixture
async def cluster(server: servers.Server, tmp_path: Path) -> AsyncIterator[clusters.Cluster]:
    """A cluster of this test's own; empty, and without an operator."""
    async with clusters.opened(server, tmp_path) as made:
        yield made
