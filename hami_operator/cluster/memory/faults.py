"""Failures on order: what can go wrong between a client and an API server, when a test says so."""

from __future__ import annotations

import dataclasses
import re
from typing import Final

FOR_EVER: Final = -1


@dataclasses.dataclass(kw_only=True, slots=True)
class Fault:
    """What happens to the next requests that match.

    Attributes:
        method: of the request; ``WATCH`` is a GET that watches, and ``*`` is any.
        path: what the whole path, without the query, must match.
        times: how many requests are left to hit; `FOR_EVER` for no end.
        status: answer with this instead; 0: answer truly.
        message: the text of that answer.
        retry_after_s: its ``Retry-After`` header.
        after_write: carry the request out first, then fail: the client does not learn of it.
        latency_s: wait this long before anything else.
        reset: break the connection instead of answering.
    """

    method: str
    path: re.Pattern[str]
    times: int = 1
    status: int = 0
    message: str = "injected failure"
    retry_after_s: int | None = None
    after_write: bool = False
    latency_s: float = 0.0
    reset: bool = False

    @property
    def fails(self) -> bool:
        """Whether the client gets no true answer."""
        return self.reset or self.status != 0


class Faults:
    """The failures that are waiting for their requests; the oldest that matches is taken."""

    def __init__(self) -> None:
        self._waiting: list[Fault] = []

    def add(self, fault: Fault) -> None:
        """Let the next matching requests fail."""
        self._waiting.append(fault)

    def clear(self) -> None:
        """Let everything succeed again."""
        self._waiting.clear()

    @property
    def waiting(self) -> tuple[Fault, ...]:
        """The failures that have not all happened yet."""
        return tuple(self._waiting)

    def take(self, method: str, path: str) -> Fault | None:
        """The failure of this request, if one is due; it counts as happened."""
        for fault in self._waiting:
            if fault.method in ("*", method) and fault.path.fullmatch(path):
                if fault.times != FOR_EVER:
                    fault.times -= 1
                if fault.times == 0:
                    self._waiting.remove(fault)
                return fault
        return None
