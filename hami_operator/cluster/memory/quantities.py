"""Quantities (``500m``, ``1Gi``) as the API server reads them and writes them back.

The server stores each quantity in one canonical form, so a client reads ``1Gi`` where ``1024Mi``
was written. This is a reader of its own, so that a fault in the operator's is not mirrored here.
"""

from __future__ import annotations

import fractions
import math
import re
from typing import Any, Final

SYNTAX: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_TEXT = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?", re.ASCII)
_DECIMAL: Final = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_DECIMAL_SUFFIX: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_NANO: Final = 10**9
_CAP: Final = 2**63 - 1


class BadQuantity(ValueError):
    """The value is no quantity."""


def parse(value: object) -> fractions.Fraction:
    """The number behind a quantity.

    Raises:
        BadQuantity: it does not follow the grammar.
    """
    return _read(value)[0]


def canonical(value: object) -> str:
    """The form in which the API server stores the quantity.

    Raises:
        BadQuantity: it does not follow the grammar.
    """
    number, suffix = _read(value)
    if suffix.endswith("i") and abs(number) >= 1024 and number.denominator == 1:
        return _binary(int(number))
    return _decimal(number, exponent=suffix[:1] if suffix[1:] and suffix[0] in "eE" else "")


def canonical_list(values: Any) -> Any:
    """All quantities of a resource list (name to quantity) in canonical form."""
    if not isinstance(values, dict):
        return values
    return {name: canonical(value) for name, value in values.items()}


def _read(value: object) -> tuple[fractions.Fraction, str]:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise BadQuantity(SYNTAX)
    text = value.strip() if isinstance(value, str) else repr(value)
    match = _TEXT.fullmatch(text)
    if not text or match is None:
        raise BadQuantity(SYNTAX)
    sign, whole, part, suffix = match.groups("")
    number = fractions.Fraction(int(whole + part or "0"), 10 ** len(part)) * _scale(suffix)
    number = fractions.Fraction(math.ceil(number * _NANO), _NANO)
    if suffix.endswith("i"):
        number = min(number, fractions.Fraction(_CAP))
    return (-number if sign == "-" else number), suffix


def _scale(suffix: str) -> fractions.Fraction:
    if suffix in _DECIMAL:
        return fractions.Fraction(10) ** _DECIMAL[suffix]
    if suffix in _BINARY:
        return fractions.Fraction(1024) ** _BINARY.index(suffix)
    exponent = int(suffix[1:])
    if abs(exponent) > 400:
        raise BadQuantity(SYNTAX)
    return fractions.Fraction(10) ** exponent


def _binary(number: int) -> str:
    step = 0
    while number % 1024 == 0 and step < len(_BINARY) - 1:
        number //= 1024
        step += 1
    return f"{number}{_BINARY[step]}"


def _decimal(number: fractions.Fraction, *, exponent: str) -> str:
    if not number:
        return "0"
    power = -9
    digits = int(number * _NANO)
    while digits % 1000 == 0:
        digits //= 1000
        power += 3
    if not exponent and power in _DECIMAL_SUFFIX:
        return f"{digits}{_DECIMAL_SUFFIX[power]}"
    return f"{digits}e{power}" if power else str(digits)
