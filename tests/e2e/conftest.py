"""The real control plane for the tests of this folder; a run that cannot have it fails."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.conformance.api import Api
from tests.controlplane import build, cluster


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests of this folder, early enough for `-m` to see it."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.e2e)


@pytest.fixture(scope="session")
def built_control_plane(request: pytest.FixtureRequest) -> Path:
    """Folder of the binaries; the first run builds them and says so past pytest's capture."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    assert capture is not None
    with capture.global_and_fixture_disabled():
        return build.ensure(
            ("etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager")
        )


@pytest.fixture(scope="session")
def control_plane(built_control_plane: Path) -> Iterator[cluster.ControlPlane]:
    """One etcd and one API server for the whole run: use fresh names and leave no pods behind."""
    with cluster.ControlPlane() as running:
        yield running


@pytest.fixture
async def api(control_plane: cluster.ControlPlane) -> AsyncIterator[Api]:
    """A client with the admin's rights."""
    async with Api(
        control_plane.url,
        headers={"Authorization": f"Bearer {control_plane.admin_token}"},
        ssl=control_plane.ssl_context(),
    ) as client:
        yield client
