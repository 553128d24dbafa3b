"""Usage of a card with one pick more; the ledger and the allocator both count with it."""

from __future__ import annotations

from hami_operator.devices import usage, vendor
from hami_operator.protocol import decision


def charge(row: vendor.Vendor, used: usage.Usage, pick: decision.Pick) -> usage.Usage:
    """The usage after ``pick``: a slot, its memory and its cores more, or as the row says."""
    return row.hooks.account(used, pick) if row.hooks.account else used.add(pick)
