"""The request of a pod: which containers count, and what the names mean."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_operator.protocol import quantity
from hami_operator.scheduling import resources
from hami_operator.scheduling.containers import Kind
from tests import builders

NAMES = st.sampled_from(["cpu", "memory", "example.com/a"])
AMOUNTS = st.dictionaries(NAMES, st.integers(0, 10**12))
INITS = st.lists(st.tuples(st.sampled_from([Kind.INIT, Kind.SIDECAR]), AMOUNTS), max_size=4)
APPS = st.lists(st.tuples(st.just(Kind.APP), AMOUNTS), max_size=3)


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(builders.pod("p").container(), {}, id="nothing asked"),
        pytest.param(
            builders.pod("p")
            .container(requests={"memory": "500m"})
            .container(requests={"memory": "500m"}),
            {"memory": 1},
            id="the total is rounded, not the parts",
        ),
        pytest.param(
            builders.pod("p").container(requests={"cpu": "0", "memory": "0"}),
            {},
            id="zeros are left out",
        ),
        pytest.param(
            builders.pod("p").init(requests={"cpu": "3"}).sidecar(requests={"cpu": "2"}),
            {"cpu": 3000},
            id="a sidecar after an init container does not add to it",
        ),
        pytest.param(
            builders.pod("p").sidecar(requests={"cpu": "2"}).init(requests={"cpu": "3"}),
            {"cpu": 5000},
            id="a sidecar before it does",
        ),
        pytest.param(
            builders.pod("p")
            .container(requests={"cpu": "1", "example.com/a": "2"})
            .put("spec.resources", {"requests": {"cpu": "4", "example.com/a": "9"}}),
            {"cpu": 4000, "example.com/a": 2},
            id="the pod as a whole cannot ask for devices",
        ),
        pytest.param(
            builders.pod("p")
            .container(requests={"cpu": "1"})
            .put("spec.resources", {"requests": {"cpu": "4"}})
            .put("spec.overhead", {"cpu": "500m"}),
            {"cpu": 4500},
            id="overhead adds to what the whole pod asks for",
        ),
        pytest.param(
            builders.pod("p")
            .container()
            .append("spec.ephemeralContainers", builders.container("e", requests={"cpu": "1"})),
            {},
            id="ephemeral containers count for nothing",
        ),
    ],
)
def test_requests(pod: builders.PodBuilder, want: Mapping[str, int]) -> None:
    assert pod.read().requests == want


@pytest.mark.parametrize(
    ("name", "extended", "scalar"),
    [
        ("nvidia.com/gpu", True, True),
        ("kubernetes.io/x", False, True),
        ("sub.kubernetes.io/x", False, True),
        ("requests.nvidia.com/gpu", False, False),
        ("hugepages-2Mi", False, True),
        ("attachable-volumes-csi", False, True),
        ("storage", False, False),
        ("cpu", False, False),
    ],
)
def test_names(name: str, extended: bool, scalar: bool) -> None:
    assert resources.is_extended(name) is extended
    assert resources.is_scalar(name) is scalar


def _naive(inits: list[tuple[Kind, dict[str, int]]], apps: list[dict[str, int]], name: str) -> int:
    sides = [amounts.get(name, 0) for kind, amounts in inits if kind is Kind.SIDECAR]
    lasting = sum(sides) + sum(one.get(name, 0) for one in apps)
    peaks = [0]
    for index, (kind, amounts) in enumerate(inits):
        before = sum(one.get(name, 0) for k, one in inits[:index] if k is Kind.SIDECAR)
        peaks.append(before + amounts.get(name, 0))
        del kind
    return max(lasting, *peaks)


@given(INITS, APPS)
def test_the_total_agrees_with_the_rule_as_written(
    inits: list[tuple[Kind, dict[str, int]]], apps: list[tuple[Kind, dict[str, int]]]
) -> None:
    total = resources.total([*inits, *apps], pod_level={}, overhead={})
    for name in ("cpu", "memory", "example.com/a"):
        assert total.get(name, 0) == _naive(inits, [one for _, one in apps], name)


@given(INITS, APPS, AMOUNTS, AMOUNTS)
def test_more_containers_never_ask_for_less(
    inits: list[tuple[Kind, dict[str, int]]],
    apps: list[tuple[Kind, dict[str, int]]],
    more: dict[str, int],
    overhead: dict[str, int],
) -> None:
    small = resources.total([*inits, *apps], pod_level={}, overhead={})
    large = resources.total([*inits, *apps, (Kind.APP, more)], pod_level={}, overhead=overhead)
    assert all(large[name] >= amount for name, amount in small.items())


@given(AMOUNTS)
def test_rounding_never_loses_a_request(amounts: dict[str, int]) -> None:
    rounded = resources.rounded(amounts)
    assert set(rounded) == {name for name, amount in amounts.items() if amount}
    for name, amount in rounded.items():
        unit = quantity.BILLION // 1000 if name == "cpu" else quantity.BILLION
        assert amounts[name] <= amount * unit < amounts[name] + unit
