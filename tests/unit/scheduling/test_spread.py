"""Topology spread constraints as they are read."""

from __future__ import annotations

from typing import Any

import pytest

from hami_operator.scheduling import labels, spread
from tests import builders

WEB = {"matchLabels": {"app": "web"}}
POD = builders.pod("p").label("app", "web").label("rev", "2")


def read(**more: Any) -> tuple[spread.Constraint, ...]:
    item = {"maxSkew": 2, "topologyKey": "zone", "labelSelector": WEB, **more}
    return POD.append("spec.topologySpreadConstraints", item).read().spread


@pytest.mark.parametrize(
    ("more", "want"),
    [
        pytest.param({}, {}, id="defaults"),
        pytest.param({"whenUnsatisfiable": "ScheduleAnyway"}, {"required": False}, id="soft"),
        pytest.param({"whenUnsatisfiable": "DoNotSchedule"}, {}, id="hard"),
        pytest.param({"minDomains": 3}, {"min_domains": 3}, id="more domains"),
        pytest.param({"nodeAffinityPolicy": "Ignore"}, {"honors_affinity": False}, id="anywhere"),
        pytest.param({"nodeTaintsPolicy": "Honor"}, {"honors_taints": True}, id="not tainted"),
        pytest.param(
            {"matchLabelKeys": ["rev", "none"]},
            {"selector": labels.read({"matchLabels": {"rev": "2", "app": "web"}})},
            id="its own revision, where it says one",
        ),
        pytest.param(
            {"matchLabelKeys": ["app"]}, {}, id="what the API server has merged stays once"
        ),
        pytest.param({"matchLabelKeys": "rev"}, {}, id="keys that are no list"),
    ],
)
def test_read(more: dict[str, Any], want: dict[str, Any]) -> None:
    common: dict[str, Any] = {"max_skew": 2, "topology_key": "zone", "selector": labels.read(WEB)}
    assert read(**more) == (spread.Constraint(**(common | want)),)


@pytest.mark.parametrize(
    ("selector", "counts", "itself"),
    [
        pytest.param(WEB, True, True, id="some"),
        pytest.param({}, False, True, id="an empty selector counts nobody but the pod itself"),
        pytest.param(None, False, False, id="none counts nobody"),
    ],
)
def test_who_counts(selector: Any, counts: bool, itself: bool) -> None:
    (constraint,) = read(labelSelector=selector)
    own = POD.read().labels
    assert constraint.counted.matches(own) is counts
    assert constraint.selector.matches(own) is itself


def test_a_selector_that_does_not_parse_is_told() -> None:
    odd = {"topologyKey": "zone", "labelSelector": {"matchLabels": 5}}
    pod = POD.append("spec.topologySpreadConstraints", odd).read()
    (finding,) = pod.findings
    assert finding.field == "spec.topologySpreadConstraints[0].labelSelector"
