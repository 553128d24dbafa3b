"""What a pod holds on its node while it is resized in place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests import builders

INFEASIBLE = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}


def status(name: str, allocated: Any = None, running: Any = None) -> dict[str, Any]:
    return {
        "name": name,
        "allocatedResources": allocated,
        "resources": {"requests": running} if running else None,
    }


ONE = builders.pod("p").container("c", requests={"cpu": "2", "example.com/a": "1"}).on("n")
TWO = (
    builders.pod("p")
    .container("a", requests={"cpu": "1"})
    .container("b", requests={"cpu": "2"})
    .on("n")
)


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(ONE, {"cpu": 2000, "example.com/a": 1}, id="no status yet"),
        pytest.param(
            ONE.append("status.containerStatuses", status("c", {"cpu": "3"}, {"cpu": "1"})),
            {"cpu": 3000, "example.com/a": 1},
            id="what is allocated is most",
        ),
        pytest.param(
            ONE.append("status.containerStatuses", status("c", {"cpu": "3"}, {"cpu": "4"})),
            {"cpu": 4000, "example.com/a": 1},
            id="what runs is most",
        ),
        pytest.param(
            ONE.append("status.containerStatuses", status("c", None, {"cpu": "1"})),
            {"cpu": 2000, "example.com/a": 1},
            id="what is specified is most",
        ),
        pytest.param(
            ONE.append("status.containerStatuses", status("c", {"cpu": "1"}, {"cpu": "1"})).append(
                "status.conditions", INFEASIBLE
            ),
            {"cpu": 1000},
            id="an infeasible resize leaves the specification out",
        ),
        pytest.param(
            TWO.append(
                "status.containerStatuses",
                status("a", {"cpu": "2"}, {"cpu": "2"}),
                status("b", {"cpu": "1"}, {"cpu": "1"}),
            ),
            {"cpu": 4000},
            id="containers that are resized at once hold the sum of what each may hold",
        ),
        pytest.param(
            TWO.append(
                "status.containerStatuses",
                status("a", {"cpu": "2"}),
                status("b", {"cpu": "1"}),
            ),
            {"cpu": 3000},
            id="where nothing is said of what runs, the largest sum counts",
        ),
        pytest.param(
            TWO.append(
                "status.containerStatuses",
                status("a", {"cpu": "2"}, {"cpu": "3"}),
                status("b", {"cpu": "1"}, {"cpu": "1"}),
            ).append("status.conditions", INFEASIBLE),
            {"cpu": 4000},
            id="each container without its specification once that is infeasible",
        ),
        pytest.param(
            TWO.append("status.containerStatuses", status("a", {"cpu": "5"}, {"cpu": "5"})),
            {"cpu": 7000},
            id="a container without status counts as specified",
        ),
        pytest.param(
            builders.pod("p")
            .init("i", requests={"cpu": "2"})
            .sidecar("s", requests={"cpu": "1"})
            .on("n")
            .append("status.initContainerStatuses", status("i", {"cpu": "9"}))
            .append("status.initContainerStatuses", status("s", {"cpu": "3"})),
            {"cpu": 3000},
            id="sidecars are resized, plain init containers are not",
        ),
        pytest.param(
            ONE.put("spec.resources", {"requests": {"cpu": "4"}})
            .append("status.containerStatuses", status("c", {"cpu": "2"}))
            .put("status.allocatedResources", {"cpu": "6"}),
            {"cpu": 6000, "example.com/a": 1},
            id="the pod as a whole is resized",
        ),
        pytest.param(
            ONE.put("spec.overhead", {"cpu": "1"}).append(
                "status.containerStatuses", status("c", {"cpu": "3"})
            ),
            {"cpu": 4000, "example.com/a": 1},
            id="overhead adds to each total",
        ),
    ],
)
def test_held(pod: builders.PodBuilder, want: Mapping[str, int]) -> None:
    assert pod.read().held == want


def test_the_request_is_what_is_specified() -> None:
    pod = ONE.append("status.containerStatuses", status("c", {"cpu": "9"})).read()
    assert pod.requests == {"cpu": 2000, "example.com/a": 1}
    assert pod.held["cpu"] == 9000
