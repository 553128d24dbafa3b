"""What all tests share: the real control plane, one for the whole run."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane import build, cluster

# Checks that several test modules share explain themselves as those in the modules do.
pytest.register_assert_rewrite("tests.conformance.cluster", "tests.conformance.servers")


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
