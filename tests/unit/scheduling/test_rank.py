"""What of a pod counts for preemption."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from hami_operator.scheduling import rank
from tests import builders

NINE = datetime.datetime(2026, 3, 1, 9, tzinfo=datetime.UTC)
TOLD = {"reason": "PreemptionByScheduler"}


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(builders.pod("p"), {}, id="nothing is said"),
        pytest.param(
            builders.pod("p").put("spec.preemptionPolicy", "PreemptLowerPriority"),
            {},
            id="the usual policy",
        ),
        pytest.param(
            builders.pod("p").put("spec.preemptionPolicy", "Never"),
            {"preempts": False},
            id="a pod that pushes nobody off",
        ),
        pytest.param(
            builders.pod("p").started("2026-03-01T09:00:00Z"), {"started": NINE}, id="a start"
        ),
        pytest.param(
            builders.pod("p").put("status.nominatedNodeName", "n1"),
            {"nominated_node": "n1"},
            id="a promise",
        ),
        pytest.param(
            builders.pod("p").condition("DisruptionTarget", "True", **TOLD),
            {"yields": True},
            id="told to make room",
        ),
        pytest.param(
            builders.pod("p").condition("DisruptionTarget", "False", **TOLD),
            {},
            id="no longer told to",
        ),
        pytest.param(
            builders.pod("p").condition(
                "DisruptionTarget", "True", reason="EvictionByEvictionAPI"
            ),
            {},
            id="drained, which is another matter",
        ),
    ],
)
def test_what_is_read(pod: builders.PodBuilder, want: dict[str, Any]) -> None:
    assert pod.read().rank == rank.Rank(**want)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("2026-03-01T09:00:00Z", NINE, id="RFC 3339"),
        pytest.param("2026-03-01T09:00:00", NINE, id="without a zone it is UTC"),
        pytest.param("soon", None, id="not a time"),
        pytest.param(None, None, id="absent"),
        pytest.param(7, None, id="not a text"),
    ],
)
def test_moments(text: object, want: datetime.datetime | None) -> None:
    assert rank.moment(text) == want


def test_the_most_important_first_by_priority_then_age_then_name() -> None:
    made = [
        builders.pod("waiting").priority(1),
        builders.pod("old").priority(1).started("2026-03-01T09:00:00Z"),
        builders.pod("young").priority(1).started("2026-03-01T10:00:00Z"),
        builders.pod("low"),
        builders.pod("high").priority(2),
        builders.pod("also").priority(1),
    ]
    ranked = sorted((one.read() for one in made), key=rank.importance)
    assert [one.name for one in ranked] == ["high", "old", "young", "also", "waiting", "low"]
