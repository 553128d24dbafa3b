"""The MIG list of a pod: which instance of which card serves which device of which container.

The scheduler reserves a profile and a place; the plugin creates the instance and adds three
fields that tell what it made.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from hami_operator import errors
from hami_operator.protocol import decision, fields, register


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Made:
    """What the plugin made of a reservation."""

    mig_uuid: str
    gpu_instance: int
    compute_instance: int


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Reservation:
    """One instance.

    Attributes:
        container: slot of the decision that it serves.
        device: position in that slot.
        card: id of the card.
        profile: name of its size.
        place: where it lies on the card.
        made: None until the plugin has made it.
    """

    container: int
    device: int
    card: str
    profile: str
    place: register.Placement
    made: Made | None = None


def encode(reservations: Iterable[Reservation]) -> str:
    """The value of the annotation."""
    return json.dumps([_json(one) for one in reservations], separators=(",", ":"))


def _json(one: Reservation) -> Mapping[str, Any]:
    made = one.made and {
        "migUUID": one.made.mig_uuid,
        "gpuInstanceID": one.made.gpu_instance,
        "computeInstanceID": one.made.compute_instance,
    }
    return {
        "containerIndex": one.container,
        "deviceIndex": one.device,
        "gpuUUID": one.card,
        "profile": one.profile,
        "placement": {"start": one.place.start, "size": one.place.size},
        **(made or {}),
    }


def decode(text: str | None, *, key: str) -> tuple[Reservation, ...]:
    """Read a list that anybody may have written; nothing there is no reservation.

    Args:
        text: the annotation's value.
        key: the annotation, for the error.

    Raises:
        errors.DecodeError: the list is unreadable; no part of it may be believed then.
    """
    value = (text or "").strip()
    if not value:
        return ()
    if len(value) > decision.MAX_BYTES:
        raise errors.DecodeError(key, "length", f"more than {decision.MAX_BYTES} bytes")
    try:
        listed = fields.parse_json(value)
    except (ValueError, RecursionError) as error:
        raise errors.DecodeError(key, "json", "is not JSON") from error
    if not isinstance(listed, list):
        raise errors.DecodeError(key, "json", "is not a list")
    found = tuple(_reservation(item, key, number) for number, item in enumerate(listed))
    if len({(one.container, one.device) for one in found}) < len(found):
        raise errors.DecodeError(key, "deviceIndex", "names one device twice")
    return found


def _reservation(item: Any, key: str, number: int) -> Reservation:
    if not isinstance(item, dict):
        raise errors.DecodeError(key, "json", f"entry {number} is not an object")
    place = item.get("placement")
    where = place if isinstance(place, dict) else {}
    parts = {name: read(item.get(name)) for name, read in _READERS.items()}
    parts |= {name: read(where.get(name)) for name, read in _PLACE.items()}
    bad = [name for name, part in parts.items() if part is None]
    if bad:
        raise errors.DecodeError(key, bad[0], f"is missing or malformed in entry {number}")
    return Reservation(
        container=parts["containerIndex"],
        device=parts["deviceIndex"],
        card=parts["gpuUUID"],
        profile=parts["profile"],
        place=register.Placement(start=parts["start"], size=parts["size"]),
        made=_made(item, key, number),
    )


def _size(value: object) -> int | None:
    return _INDEX(value) or None


_INDEX: Final = fields.JSON_READERS["count"]
_NAME: Final = fields.JSON_READERS["id"]
_READERS: Final = {
    "containerIndex": _INDEX,
    "deviceIndex": _INDEX,
    "gpuUUID": _NAME,
    "profile": _NAME,
}
_PLACE: Final = {"start": _INDEX, "size": _size}
_MADE: Final = {"migUUID": _NAME, "gpuInstanceID": _INDEX, "computeInstanceID": _INDEX}


def _made(item: Mapping[str, Any], key: str, number: int) -> Made | None:
    """The plugin's three fields: all of them or none, and 0 is a number as any other."""
    given = [name for name in _MADE if item.get(name) not in (None, "")]
    if not given:
        return None
    values = {name: read(item.get(name)) for name, read in _MADE.items()}
    bad = [name for name in _MADE if name not in given or values[name] is None]
    if bad:
        raise errors.DecodeError(key, bad[0], f"is missing or malformed in entry {number}")
    return Made(
        mig_uuid=values["migUUID"],
        gpu_instance=values["gpuInstanceID"],
        compute_instance=values["computeInstanceID"],
    )
