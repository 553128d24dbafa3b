"""What this process knows about node locks beyond the watch: its own writes and reads.

The watch needs a moment to show what we wrote; until then the answer to our write counts. And a
lock value bears no UID, so for whom a value was set is remembered here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol

from hami_operator.protocol import instant, nodelock
from hami_operator.scheduling import locks, nodes
from hami_operator.scheduling import pod as pods


class Watched(Protocol):
    """What the watch tells about nodes, locks and their holders."""

    def lock_facts(self, node: str) -> locks.Facts:
        """The locks of a node, and who is being served there."""
        ...

    def is_binding(self, uid: str) -> bool:
        """Whether a bind of ours for that pod is under way."""
        ...

    def pod(self, uid: str) -> pods.Pod | None:
        """A pod as it was last seen; None if it has ended or was never seen."""
        ...

    def known_pods(self) -> tuple[pods.Pod, ...]:
        """Every pod that has not ended."""
        ...


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """One lock of one node as we know it now.

    Attributes:
        value: the annotation, None where it is absent.
        version: resourceVersion of the Node that it was read from.
        first_seen: since when we know this very value.
        at_start: it may be older than that.
    """

    value: str | None
    version: str
    first_seen: instant.Instant
    at_start: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Answer:
    version: str
    annotations: Mapping[str, str]
    at: instant.Instant


class Book:
    """Newest known lock values, and for whom this process has set them."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        self._answers: dict[str, _Answer] = {}
        self._set: dict[tuple[str, str], tuple[str, nodelock.Claim]] = {}

    def look(self, node: str, key: str, now: instant.Instant) -> Seen:
        """The lock as the watch has it, or as the API server has told us since."""
        facts = self._watched.lock_facts(node)
        watched = facts.values.get(key)
        answer = self._answers.get(node)
        if answer is None or not nodes.is_older(facts.resource_version, answer.version):
            self._answers.pop(node, None)
            if watched is None:
                return Seen(value=None, version=facts.resource_version, first_seen=now)
            return Seen(
                value=watched.text,
                version=facts.resource_version,
                first_seen=watched.first_seen,
                at_start=watched.at_start,
            )
        value = answer.annotations.get(key)
        if watched is not None and watched.text == value:
            first_seen, at_start = watched.first_seen, watched.at_start
        else:
            first_seen, at_start = answer.at, False
        return Seen(value=value, version=answer.version, first_seen=first_seen, at_start=at_start)

    def answered(self, node: str, raw: Mapping[str, Any], now: instant.Instant) -> None:
        """The API server has shown us the Node."""
        metadata = raw.get("metadata") or {}
        self._answers[node] = _Answer(
            version=str(metadata.get("resourceVersion") or ""),
            annotations=metadata.get("annotations") or {},
            at=now,
        )

    def set(self, node: str, key: str, value: str, claim: nodelock.Claim) -> None:
        """We set the lock, or found it set, for that pod."""
        self._set[node, key] = (value, claim)

    def unset(self, node: str, key: str, claim: nodelock.Claim) -> None:
        """That pod has no lock there any more; one that we set for another pod stays known."""
        known = self._set.get((node, key))
        if known is not None and known[1].uid == claim.uid:
            del self._set[node, key]

    def claim(self, node: str, key: str, value: str | None) -> nodelock.Claim | None:
        """For whom we set this very value; None where we did not."""
        known = self._set.get((node, key))
        return known[1] if known is not None and known[0] == value else None

    def sets(self) -> tuple[tuple[str, str, str, nodelock.Claim], ...]:
        """Node, key, value and pod of every lock that we set and know nothing newer about."""
        return tuple(
            (node, key, value, claim) for (node, key), (value, claim) in self._set.items()
        )
