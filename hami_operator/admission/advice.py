"""What to write instead of what was refused."""

from __future__ import annotations

from typing import Final

from hami_operator.devices import request, vendor

_NO_AMOUNT: Final = ("is not a quantity", "is not a whole", "is not between", "is negative")
"""How the words begin that any row has for an amount; others are a row's own."""


def on_amount(row: vendor.Vendor, problem: request.Invalid) -> str:
    """A sentence for an amount that is none; empty where the row itself says what it wants."""
    if not problem.why.startswith(_NO_AMOUNT):
        return ""
    names = row.resources
    match problem.resource:
        case names.count:
            return f"write a whole number of cards; {on_slices(row)}"
        case names.percent:
            return (
                f"write 1 to 100, the part of each card's memory; for more than one card, "
                f"{names.count}: 2 asks for two cards"
            )
        case names.memory:
            return f"write {_unit(row)}, or leave it out"
        case names.cores:
            return "write a whole number, or leave it out"
        case _:
            return "write a whole number"


def on_slices(row: vendor.Vendor) -> str:
    """How to ask for cards, and how for slices of one."""
    names = row.resources
    sizes = [name for name in (names.memory, names.percent, names.cores) if name]
    two = f"{names.count}: 2 asks for two cards"
    if not sizes:
        return two
    smaller = f"for part of a card add {' or '.join(sizes)} to {names.count}: 1"
    slices = f"for two slices of one card use two containers with {names.count}: 1 each"
    return f"{two}; {slices}; {smaller}"


def _unit(row: vendor.Vendor) -> str:
    if row.hooks.memory or row.hooks.ask:
        return "a whole number"  # the row reads units of its own
    return f"a whole number of units of {row.mib_per_unit} MiB"
