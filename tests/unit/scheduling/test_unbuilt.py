"""Which rules of a pod are recognised although they are not built."""

from __future__ import annotations

from typing import Any

import pytest

from tests import builders

POD = builders.pod("p").container()


@pytest.mark.parametrize(
    ("path", "value", "want"),
    [
        pytest.param("spec.priority", 1, (), id="a plain pod"),
        pytest.param("spec.schedulingGroup", {"podGroupName": "g"}, (), id="a group is built"),
        pytest.param(
            "spec.workloadRef",
            {"name": "w", "podGroup": "g"},
            ("GangScheduling by spec.workloadRef",),
            id="a workload",
        ),
    ],
)
def test_unbuilt(path: str, value: Any, want: tuple[str, ...]) -> None:
    assert POD.put(path, value).read().unbuilt == want
