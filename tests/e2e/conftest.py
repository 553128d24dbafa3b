"""The real control plane for the tests of this folder; a run that cannot have it fails."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.conformance.api import Api
from tests.controlplane import cluster


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests of this folder, early enough for `-m` to see it."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.e2e)


@pytest.fixture
async def api(control_plane: cluster.ControlPlane) -> AsyncIterator[Api]:
    """A client with the admin's rights."""
    async with Api(
        control_plane.url,
        headers={"Authorization": f"Bearer {control_plane.admin_token}"},
        ssl=control_plane.ssl_context(),
    ) as client:
        yield client
