"""What admission says of a pod."""

from __future__ import annotations

import dataclasses
import enum
from typing import Final

from hami_operator.admission import pod

LONGEST: Final = 1024
"""Characters of a message; texts of users may be longer than anybody reads."""


class Cause(enum.Enum):
    """Why a pod is refused: status code and reason, as the API server gives them on."""

    INVALID = (422, "Invalid")
    FORBIDDEN = (403, "Forbidden")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Allowed:
    """The pod may come in.

    Attributes:
        raw: the object as it is to be; the very object that came where nothing changes.
        message: for the audit log; mostly empty.
        warnings: for whoever creates the pod.
    """

    raw: pod.Raw
    message: str = ""
    warnings: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Denied:
    """The pod may not come in.

    Attributes:
        message: what is wrong with it, and what to write instead.
        cause: what kind of refusal it is.
    """

    message: str
    cause: Cause = Cause.INVALID


Verdict = Allowed | Denied


def shortened(text: str) -> str:
    """The text, cut where nobody would read on."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
