"""Which toleration covers which taint."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_operator.scheduling import fields, tolerations
from hami_operator.scheduling.tolerations import Taint, Toleration

TAINT = Taint(key="k", value="v", effect="NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "want"),
    [
        pytest.param(Toleration(key="k", value="v", effect="NoSchedule"), True, id="all equal"),
        pytest.param(Toleration(key="k", value="v"), True, id="an empty effect covers all"),
        pytest.param(Toleration(key="k", value="v", effect="NoExecute"), False, id="other effect"),
        pytest.param(Toleration(key="x", value="v"), False, id="another key"),
        pytest.param(Toleration(key="k", value="x"), False, id="another value"),
        pytest.param(Toleration(key="k", operator="Exists", value="x"), True, id="Exists"),
        pytest.param(Toleration(operator="Exists"), True, id="tolerates everything"),
        pytest.param(Toleration(key="k", operator="exists"), False, id="an unknown operator"),
        pytest.param(Toleration(key="k", operator="Gt", value="1"), False, id="Gt is off"),
    ],
)
def test_covers(toleration: Toleration, want: bool) -> None:
    assert toleration.covers(TAINT) is want


@pytest.mark.parametrize(
    ("operator", "taint", "bound", "want"),
    [
        pytest.param("Gt", "7", "5", True, id="greater"),
        pytest.param("Gt", "5", "5", False, id="not greater"),
        pytest.param("Lt", "-7", "0", True, id="less, with a sign"),
        pytest.param("Lt", "7", "5", False, id="not less"),
        pytest.param("Gt", "7", "+5", False, id="a plus sign is no number"),
        pytest.param("Gt", "07", "5", False, id="a leading zero is no number"),
        pytest.param("Gt", "", "5", False, id="empty is no number"),
        pytest.param("Gt", "7.0", "5", False, id="a fraction is no number"),
        pytest.param("Gt", str(2**63), "5", False, id="beyond int64"),
        pytest.param("Ge", "7", "5", False, id="an unknown operator"),
    ],
)
def test_comparison_operators(operator: str, taint: str, bound: str, want: bool) -> None:
    toleration = Toleration(key="k", operator=operator, value=bound)
    assert toleration.covers(Taint(key="k", value=taint), comparison=True) is want


def test_the_first_uncovered_taint_is_told() -> None:
    taints = [Taint(key="a"), Taint(key="b"), Taint(key="c")]
    own = [Toleration(key="a", operator="Exists")]
    assert tolerations.untolerated(taints, own) == Taint(key="b")
    assert tolerations.untolerated(taints[:1], own) is None
    assert tolerations.untolerated([], []) is None


def test_reads_what_the_api_gives() -> None:
    found = fields.Fields()
    raw = {
        "taints": [{"key": "a", "effect": "NoExecute", "timeAdded": "2026"}, {"key": 5}],
        "tolerations": [{"operator": "Exists", "tolerationSeconds": 300}, "odd"],
    }
    assert tolerations.read_taints(raw, "spec.", found) == (
        Taint(key="a", effect="NoExecute"),
        Taint(key="", effect=""),
    )
    assert tolerations.read_tolerations(raw, "spec.", found) == (Toleration(operator="Exists"),)
    assert [str(one) for one in found.findings] == [
        "spec.taints[1].key: is not a text",
        "spec.tolerations[1]: is not an object",
    ]


@given(st.text(max_size=3), st.text(max_size=3), st.sampled_from(["NoSchedule", "NoExecute"]))
def test_a_copy_of_the_taint_and_exists_without_key_both_cover(
    key: str, value: str, effect: str
) -> None:
    taint = Taint(key=key, value=value, effect=effect)
    assert Toleration(key=key, value=value, effect=effect).covers(taint)
    assert Toleration(operator="Exists").covers(taint)


@given(st.integers(-(10**20), 10**20), st.integers(-(10**20), 10**20))
def test_comparison_agrees_with_integers(value: int, bound: int) -> None:
    inside = all(-(2**63) <= number < 2**63 for number in (value, bound))
    taint = Taint(key="k", value=str(value))
    greater = Toleration(key="k", operator="Gt", value=str(bound))
    less = Toleration(key="k", operator="Lt", value=str(bound))
    assert greater.covers(taint, comparison=True) is (inside and value > bound)
    assert less.covers(taint, comparison=True) is (inside and value < bound)
