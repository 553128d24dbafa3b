"""What to write instead of what was refused."""

from __future__ import annotations

from hami_operator.devices import request, vendor


def on_amount(row: vendor.Vendor, problem: request.Invalid) -> str:
    """A sentence for an amount that the row cannot take."""
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
