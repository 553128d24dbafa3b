"""Both sides of the comparison, once for the whole run."""

from collections.abc import Iterator

import pytest

from tests.controlplane import build
from tests.differential import oracle


@pytest.fixture(scope="session")
def judge(request: pytest.FixtureRequest) -> Iterator[oracle.Oracle]:
    """kube-scheduler's own code; the first run builds it and says so past pytest's capture."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    assert capture is not None
    with capture.global_and_fixture_disabled():
        build.executable("oracle")
    with oracle.Oracle() as running:
        yield running
