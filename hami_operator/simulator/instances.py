"""Creates instances of partitioned cards as the scheduler has reserved them. Pure."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Sequence
from typing import Final

from hami_operator import errors
from hami_operator.protocol import decision, miglist

_IDS: Final = uuid.UUID("0a4b8f0e-5d1c-4e6b-8f57-64f1d3f0c2aa")


class Mismatch(Exception):
    """List and decision do not belong together, so that nothing can be created."""


def create(text: str, *, key: str, slot: int, picks: Sequence[decision.Pick]) -> str:
    """The pod's list of reservations, with those of one slot created.

    Args:
        text: the list as the scheduler wrote it.
        key: its annotation, for messages.
        slot: of the container that is served.
        picks: what the decision gives it.

    Raises:
        Mismatch: the list is unreadable or not that of the decision.
    """
    try:
        listed = miglist.decode(text, key=key)
    except errors.DecodeError as error:
        raise Mismatch(str(error)) from None
    mine = sorted((one for one in listed if one.container == slot), key=lambda one: one.device)
    if [one.card for one in mine] != [pick.id for pick in picks]:
        reserved = ", ".join(one.card for one in mine) or "nothing"
        decided = ", ".join(pick.id for pick in picks)
        raise Mismatch(f"{key}: reserves {reserved} for container {slot}, decided is {decided}")
    return miglist.encode(_created(one) if one in mine else one for one in listed)


def _created(one: miglist.Reservation) -> miglist.Reservation:
    """Numbers as a driver gives them: unique on the card, and 0 is one of them."""
    name = f"{one.card}/{one.place.start}/{one.place.size}"
    return dataclasses.replace(
        one,
        made=miglist.Made(
            mig_uuid=f"MIG-{uuid.uuid5(_IDS, name)}",
            gpu_instance=one.place.start,
            compute_instance=0,
        ),
    )
