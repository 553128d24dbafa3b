"""How the demo judges a pod."""

from __future__ import annotations

from typing import Any

import pytest

from hami_operator.devices import registry
from hami_operator.simulator import scenario, story
from tests import builders

RUNS = scenario.Shape(name="p", apps=({},))
ENDS = scenario.Shape(name="p", apps=({},), run_for_s=1.0)
WAITS = scenario.Shape(name="p", apps=({},), want=scenario.Want.WAITS, because="Word")
REFUSED = scenario.Shape(name="p", apps=({},), want=scenario.Want.REFUSED)


def pending(message: str = "") -> Any:
    made = builders.pod("p")
    if message:
        made = made.condition("PodScheduled", "False", message=message)
    return made.raw()


def on(phase: str, **status: Any) -> Any:
    made = builders.pod("p").on("n1").condition("PodScheduled", "True").raw()
    return {**made, "status": {**made["status"], "phase": phase, **status}}


@pytest.mark.parametrize(
    ("pod", "shape", "refused", "want"),
    [
        pytest.param(on("Running"), RUNS, False, "", id="runs as it must"),
        pytest.param(pending(), RUNS, False, "is Pending: ", id="was not bound yet"),
        pytest.param(
            pending("no room"), RUNS, False, "is Pending: no room", id="waits though it fits"
        ),
        pytest.param(
            on("Failed", message="boom"), RUNS, False, "is Failed: boom", id="was not served"
        ),
        pytest.param(on("Running"), ENDS, False, "is Running: ", id="has not ended yet"),
        pytest.param(on("Succeeded"), ENDS, False, "", id="has ended as it must"),
        pytest.param(on("Succeeded"), RUNS, False, "is Succeeded: ", id="has ended too early"),
        pytest.param(None, RUNS, False, "is not there", id="is missing"),
        pytest.param(None, RUNS, True, "the API server refused it", id="was refused and fits"),
        pytest.param(pending("2 Word"), WAITS, False, "", id="waits and says why"),
        pytest.param(
            pending("2 Other"), WAITS, False, "waits without Word: '2 Other'", id="another reason"
        ),
        pytest.param(pending(), WAITS, False, "waits without Word: ''", id="waits in silence"),
        pytest.param(
            on("Running"), WAITS, False, "must not be bound, and is on n1", id="bound though wrong"
        ),
        pytest.param(None, REFUSED, True, "", id="refused as it must be"),
        pytest.param(
            pending(), REFUSED, False, "the API server took it", id="accepted though wrong"
        ),
    ],
)
def test_verdicts(pod: Any, shape: scenario.Shape, refused: bool, want: str) -> None:
    assert story.judge(pod, shape, refused=refused) == want


def test_what_is_allowed_on_nodes_and_pods_is_the_protocol_and_the_users_keys() -> None:
    allowed = set(story.allowed_annotations(registry.default()))
    assert {"hami.io/mutex.lock", "hami.io/vgpu-node", "nvidia.com/use-gputype"} <= allowed
    assert not any("kopf" in key for key in allowed)
