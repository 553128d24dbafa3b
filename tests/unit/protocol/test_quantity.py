"""Quantities: what is read, what is refused, and that the arithmetic is exact."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_operator import errors
from hami_operator.protocol import quantity

SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("0", 0, id="nothing"),
        pytest.param("-0", 0, id="nothing, with a sign"),
        pytest.param("+", 0, id="a sign without digits is nothing"),
        pytest.param("m", 0, id="a suffix without digits is nothing"),
        pytest.param("1.5Gi", 1610612736, id="a fraction of a binary unit"),
        pytest.param("250m", Fraction(1, 4), id="thousandths"),
        pytest.param("1E", 10**18, id="E alone is exa"),
        pytest.param("1E3", 1000, id="E with digits is an exponent"),
        pytest.param("1e-3", Fraction(1, 1000), id="a negative exponent"),
        pytest.param("12E", 12 * 10**18, id="decimal units are not capped"),
        pytest.param("8Ei", 2**63 - 1, id="binary units are capped"),
        pytest.param("-8Ei", 1 - 2**63, id="binary units are capped below zero too"),
        pytest.param("0.1n", Fraction(1, 10**9), id="finer than a billionth is rounded up"),
        pytest.param("-0.1n", Fraction(-1, 10**9), id="and away from zero below it"),
        pytest.param("1e-400", Fraction(1, 10**9), id="far finer too"),
        pytest.param("0e-400", 0, id="but nothing stays nothing"),
        pytest.param("1e100", 10**100, id="large, and still an amount"),
        pytest.param("0.3333333333Ki", Fraction(341333333300, 10**9), id="rounded after scaling"),
        pytest.param(5, 5, id="an integer of JSON"),
        pytest.param(0.5, Fraction(1, 2), id="a number of JSON with a fraction"),
        pytest.param(1e30, 10**30, id="a number of JSON with an exponent"),
    ],
)
def test_reads(text: Any, want: Fraction | int) -> None:
    assert quantity.parse(text) == want
    assert quantity.truncated(text) == int(want)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing at all"),
        pytest.param("1K", id="a unit that does not exist"),
        pytest.param("1e3Ki", id="exponent and unit"),
        pytest.param(" 1", id="a blank before"),
        pytest.param("1\n", id="a newline after"),
        pytest.param("1_000", id="digits in groups"),
        pytest.param("1e", id="an exponent without digits"),
        pytest.param("0x10", id="hexadecimal"),
        pytest.param("--1", id="two signs"),
        pytest.param("1e101", id="beyond any amount"),
        pytest.param("1e99999999999", id="an exponent beyond bounds"),
        pytest.param("9" * 401, id="longer than any amount"),
        pytest.param(True, id="a boolean"),
        pytest.param(None, id="null"),
        pytest.param(float("nan"), id="not a number"),
        pytest.param(float("inf"), id="infinite"),
        pytest.param(["1"], id="a list"),
    ],
)
def test_refuses(text: Any) -> None:
    with pytest.raises(errors.DecodeError):
        quantity.parse(text)


@pytest.mark.parametrize(
    ("text", "want_milli", "want_whole"),
    [
        pytest.param("1500m", 1500, 2, id="half a unit is rounded up"),
        pytest.param("-1500m", -1500, -2, id="away from zero"),
        pytest.param("2500u", 3, 1, id="half a thousandth is rounded up"),
        pytest.param("2", 2000, 2, id="whole stays whole"),
    ],
)
def test_rounds_away_from_zero(text: str, want_milli: int, want_whole: int) -> None:
    value, billionths = quantity.parse(text), quantity.nanos(text)
    assert (quantity.milli(value), quantity.whole(value)) == (want_milli, want_whole)
    assert quantity.milli_of(billionths) == want_milli
    assert quantity.whole_of(billionths) == want_whole


def test_is_whole() -> None:
    assert quantity.is_whole(quantity.parse("1000m"))
    assert not quantity.is_whole(quantity.parse("1001m"))


@given(st.integers(-(10**12), 10**12), st.sampled_from(sorted(SUFFIXES)))
def test_a_decimal_quantity_is_its_digits_times_its_unit(digits: int, suffix: str) -> None:
    assert quantity.parse(f"{digits}{suffix}") == digits * Fraction(10) ** SUFFIXES[suffix]


@given(st.integers(-(2**62), 2**62), st.integers(0, 5))
def test_a_binary_quantity_is_capped_and_otherwise_exact(digits: int, power: int) -> None:
    suffix = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][power]
    exact = digits * 2 ** (10 * (power + 1))
    cap = 2**63 - 1
    assert quantity.parse(f"{digits}{suffix}") == max(-cap, min(cap, exact))


@given(st.fractions(min_value=-(10**9), max_value=10**9))
def test_rounding_is_the_nearest_not_smaller_size(value: Fraction) -> None:
    milli, whole = quantity.milli(value), quantity.whole(value)
    assert abs(value) * 1000 <= abs(milli) < abs(value) * 1000 + 1
    assert abs(value) <= abs(whole) < abs(value) + 1
    assert milli * value >= 0
    assert whole * value >= 0


@given(st.text(max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        value = quantity.parse(text)
    except errors.DecodeError:
        return
    assert (value * 10**9).denominator == 1


@given(st.integers(0, 10**30))
def test_written_billionths_are_read_back(billionths: int) -> None:
    assert quantity.nanos(f"{billionths}n") == billionths
