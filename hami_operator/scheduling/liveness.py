"""How long each device plugin has owed us an answer (D1-D3).

Ages are differences on our own monotonic clock. The time of day is read once, for values that
were there before we looked: how long they had stood by then. So neither a node's clock nor a
jump of ours moves an age afterwards.
"""

from __future__ import annotations

import dataclasses

from hami_operator.protocol import handshake, instant


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Sign:
    """One handshake value, and since when it stands.

    Attributes:
        seen_s: monotonic time of our first look at it.
        stood_s: seconds it had stood before that look, as far as the value says so itself.
    """

    value: str | None
    kind: handshake.Kind
    seen_s: float
    stood_s: float

    def age_s(self, now: instant.Instant) -> float:
        """Seconds for which the value has stood unchanged."""
        return now.monotonic_s - self.seen_s + self.stood_s


class Liveness:
    """The last handshake value of every (node, word) and its age."""

    def __init__(self) -> None:
        self._signs: dict[str, dict[str, Sign]] = {}

    def see(
        self, node: str, word: str, value: str | None, now: instant.Instant, *, at_start: bool
    ) -> None:
        """Note the value that the node carries; the age of a known value goes on.

        Args:
            node: name of the node.
            word: device type.
            value: the handshake annotation, None where the node has none.
            now: time of the look.
            at_start: the value may be older than our first look, so its own time counts.
        """
        signs = self._signs.setdefault(node, {})
        known = signs.get(word)
        if known is None or known.value != value:
            signs[word] = _sign(value, now, at_start=at_start)

    def restart(self, now: instant.Instant) -> None:
        """Start all ages anew from the values found, as after a restart (new leadership)."""
        for signs in self._signs.values():
            for word, sign in signs.items():
                signs[word] = _sign(sign.value, now, at_start=True)

    def age_s(self, node: str, word: str, now: instant.Instant) -> float | None:
        """Seconds for which the value has stood; None where nothing was seen."""
        sign = self._signs.get(node, {}).get(word)
        return None if sign is None else sign.age_s(now)

    def expired(self, node: str, word: str, timeout_s: float, now: instant.Instant) -> bool:
        """Whether our question has stood unanswered for more than ``timeout_s``."""
        sign = self._signs.get(node, {}).get(word)
        if sign is None or not handshake.TRANSITIONS[sign.kind].can_expire:
            return False
        return sign.age_s(now) > timeout_s

    def must_ask(self, node: str, word: str) -> bool:
        """Whether the value is to be replaced by a question at the next tick (D2)."""
        sign = self._signs.get(node, {}).get(word)
        return sign is not None and handshake.TRANSITIONS[sign.kind].ask

    def forget(self, node: str, word: str | None = None) -> None:
        """Drop what is known of a node, or of one device type on it."""
        if word is None:
            self._signs.pop(node, None)
        else:
            self._signs.get(node, {}).pop(word, None)


def _sign(value: str | None, now: instant.Instant, *, at_start: bool) -> Sign:
    asked = handshake.requested_at(value) if at_start and value is not None else None
    stood_s = max(0.0, (now.wall - asked).total_seconds()) if asked is not None else 0.0
    return Sign(
        value=value,
        kind=handshake.classify(value),
        seen_s=now.monotonic_s,
        stood_s=stood_s,
    )
