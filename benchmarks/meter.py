"""What processes use: CPU time as the kernel counts it, requests as the API server logs them."""

from __future__ import annotations

import collections
import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import orjson

_READS: Final = frozenset({"get", "list"})
_LEASES: Final = "leases"


def cpu_s(pid: int) -> float:
    """CPU time of a process so far, all threads, in seconds."""
    stat = Path(f"/proc/{pid}/stat").read_text()
    # The name in parentheses may hold anything; the figures follow it.
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Requests:
    """Requests that have been answered, without watches and Leases.

    Attributes:
        counts: verb, resource and status to how many.
    """

    counts: Mapping[str, int]

    @property
    def reads(self) -> int:
        """How many of them change nothing."""
        return sum(self.counts.values()) - self.writes

    @property
    def writes(self) -> int:
        """How many of them may change something."""
        each = self.counts.items()
        return sum(number for words, number in each if words.split()[0] not in _READS)


class Audit:
    """Reads an audit log as it grows.

    Args:
        path: one JSON object per line.
        user: whose requests count: a user, or the begin of a user agent.
    """

    def __init__(self, path: Path, user: str) -> None:
        self._path = path
        self._user = user
        self._offset = path.stat().st_size if path.exists() else 0

    def take(self) -> Requests:
        """What was logged since the last look, or since the beginning."""
        with self._path.open("rb") as log:
            log.seek(self._offset)
            *lines, rest = log.read().split(b"\n")
            self._offset = log.tell() - len(rest)
        events = [event for line in lines if self._counts(event := orjson.loads(line))]
        return Requests(counts=collections.Counter(map(_words, events)))

    def _counts(self, event: Mapping[str, Any]) -> bool:
        subject = event.get("objectRef") or {}
        if event["verb"] == "watch" or subject.get("resource") in {None, _LEASES}:
            return False
        agent = str(event.get("userAgent", ""))
        return event["user"]["username"] == self._user or agent.startswith(self._user)


def _words(event: Mapping[str, Any]) -> str:
    subject = event["objectRef"]
    resource = "/".join(filter(None, (subject["resource"], subject.get("subresource"))))
    return f"{event['verb']} {resource} {event['responseStatus']['code']}"
