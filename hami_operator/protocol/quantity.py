"""Kubernetes quantities, exact: ``1.5Gi``, ``250m``, ``1E6``.

Every quantity is a whole number of billionths (the API rounds anything finer away from zero), so
that sums are sums of integers. A float never takes part.
"""

from __future__ import annotations

import functools
import re
from fractions import Fraction
from typing import Final

from hami_operator import errors

BILLION: Final = 10**9
_MILLION: Final = 10**6
_QUANTITY: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>\d*)(?P<point>\.?)(?P<part>\d*)"
    r"(?:(?P<suffix>[numkMGTPE]|[KMGTPE]i)|[eE](?P<exponent>[+-]?\d{1,10}))?",
    re.ASCII,
)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0} | {
    suffix: 3 * power for power, suffix in enumerate("kMGTPE", start=1)
}
_BINARY: Final = {f"{suffix}i": 2 ** (10 * power) for power, suffix in enumerate("KMGTPE", 1)}
# A text beyond these bounds is no amount of anything; refusing it bounds the arithmetic.
_MAX_LENGTH: Final = 400
_MAX_EXPONENT: Final = 100
_CAP: Final = (2**63 - 1) * BILLION  # of quantities with a binary suffix only


def parse(value: str | float) -> Fraction:
    """The exact value of a quantity, as text or as a plain number of JSON.

    Raises:
        errors.DecodeError: not a quantity.
    """
    return Fraction(nanos(value), BILLION)


def nanos(value: object) -> int:
    """The same in billionths, an integer, for arithmetic on hot paths.

    Raises:
        errors.DecodeError: not a quantity.
    """
    if isinstance(value, str):
        return _nanos(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise errors.DecodeError("quantity", "type", f"{value!r} is neither text nor a number")
    return _nanos(repr(value))


def milli(value: Fraction) -> int:
    """Thousandths, rounded away from zero: how cpu is compared."""
    return _away(value.numerator * 1000, value.denominator)


def whole(value: Fraction) -> int:
    """Units, rounded away from zero: how everything but cpu is compared."""
    return _away(value.numerator, value.denominator)


def truncated(value: object) -> int:
    """Units, with what is left of one dropped, above and below zero alike.

    Raises:
        errors.DecodeError: not a quantity.
    """
    billionths = nanos(value)
    units = abs(billionths) // BILLION
    return units if billionths >= 0 else -units


def is_whole(value: Fraction) -> bool:
    """Whether there is no fraction of a unit in it."""
    return value.denominator == 1


def milli_of(billionths: int) -> int:
    """``milli`` of what ``nanos`` gave."""
    return _away(billionths, _MILLION)


def whole_of(billionths: int) -> int:
    """``whole`` of what ``nanos`` gave."""
    return _away(billionths, BILLION)


def _away(numerator: int, denominator: int) -> int:
    """Divide and round away from zero; the denominator is positive."""
    if numerator < 0:
        return -_ceiling(-numerator, denominator)
    return _ceiling(numerator, denominator)


@functools.lru_cache(maxsize=16384)
def _nanos(text: str) -> int:
    found = _QUANTITY.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    if found is None or not text:
        raise errors.DecodeError("quantity", "text", f"{text[:64]!r} is not a quantity")
    digits = int((found["whole"] + found["part"]) or "0")
    suffix = found["suffix"] or ""
    if suffix in _BINARY:
        size = _ceiling(digits * _BINARY[suffix] * BILLION, 10 ** len(found["part"]))
        size = min(size, _CAP)
    else:
        exponent = _DECIMAL[suffix] + int(found["exponent"] or "0")
        size = _scaled(digits, exponent - len(found["part"]) + 9, text)
    return -size if found["sign"] == "-" else size


def _scaled(digits: int, exponent: int, text: str) -> int:
    """``digits`` times a power of ten, anything finer than 1 rounded up."""
    if digits == 0:
        return 0
    if exponent > _MAX_EXPONENT + 9:
        raise errors.DecodeError("quantity", "exponent", f"{text[:64]!r} is beyond any amount")
    if exponent >= 0:
        return digits * int(10**exponent)
    return _ceiling(digits, 10 ** min(-exponent, _MAX_LENGTH))


def _ceiling(numerator: int, denominator: int) -> int:
    return -(-numerator // denominator)
