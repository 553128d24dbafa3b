"""Quantities: what is one, and how the server stores it."""

from __future__ import annotations

import fractions
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies

from hami_operator.cluster.memory import quantities


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param("0", "0", id="zero"),
        pytest.param("", None, id="the empty text is no quantity"),
        pytest.param("500m", "500m", id="milli stays milli"),
        pytest.param("1500m", "1500m", id="a mixed number stays in milli"),
        pytest.param("2000m", "2", id="whole milli becomes whole"),
        pytest.param(0.5, "500m", id="a JSON fraction becomes milli"),
        pytest.param(1, "1", id="a JSON integer becomes text"),
        pytest.param(3000, "3k", id="thousands become kilo"),
        pytest.param("1024Mi", "1Gi", id="binary climbs to the largest suffix"),
        pytest.param("1.5Gi", "1536Mi", id="binary has no fraction"),
        pytest.param("0.5Ki", "512", id="less than a kibi is a plain number"),
        pytest.param("1e3", "1e3", id="an exponent stays an exponent"),
        pytest.param("1E30", "1e30", id="a large exponent has no suffix"),
        pytest.param("12E", "12E", id="exa"),
        pytest.param("1e-3", "1e-3", id="a negative exponent"),
        pytest.param("100e0", "100", id="an exponent of nothing"),
        pytest.param("8Ei", "9223372036854775807", id="binary is capped at an int64"),
        pytest.param("0.1n", "1n", id="finer than nano is rounded up"),
        pytest.param("-1", "-1", id="negative"),
        pytest.param("1.", "1", id="a point without a fraction"),
        pytest.param(" 1 ", "1", id="blanks outside are dropped"),
        pytest.param(".", "0", id="no digit at all reads as zero"),
        pytest.param("NaN", None, id="not a number"),
        pytest.param("1K", None, id="a capital K is no suffix"),
        pytest.param("1 Gi", None, id="a blank inside"),
        pytest.param("1e3Ki", None, id="an exponent and a suffix"),
        pytest.param("1e999", None, id="an absurd exponent"),
        pytest.param(True, None, id="a truth value"),
        pytest.param(None, None, id="null"),
        pytest.param([], None, id="a list"),
        pytest.param("\u0661", None, id="a digit of another script"),
    ],
)
def test_canonical(given: Any, want: str | None) -> None:
    if want is None:
        with pytest.raises(quantities.BadQuantity, match="quantities must match"):
            quantities.canonical(given)
    else:
        assert quantities.canonical(given) == want


@hypothesis.given(strategies.integers(-(10**15), 10**15), strategies.sampled_from("num kMG"))
def test_the_canonical_form_means_the_same_and_is_stable(number: int, suffix: str) -> None:
    text = f"{number}{suffix.strip()}"
    stored = quantities.canonical(text)
    assert quantities.parse(stored) == quantities.parse(text)
    assert quantities.canonical(stored) == stored


@hypothesis.given(strategies.integers(0, 2**40), strategies.sampled_from(["Ki", "Mi"]))
def test_binary_forms_mean_the_same(number: int, suffix: str) -> None:
    text = f"{number}{suffix}"
    assert quantities.parse(quantities.canonical(text)) == quantities.parse(text)


def test_a_resource_list_is_converted_and_anything_else_left_alone() -> None:
    assert quantities.canonical_list({"cpu": 0.5}) == {"cpu": "500m"}
    assert quantities.canonical_list("odd") == "odd"
    assert quantities.parse("250m") == fractions.Fraction(1, 4)
