"""How a bind ended, as a value: a failed bind is nothing exceptional."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping

from hami_operator.scheduling import pod as pods


class Ending(enum.Enum):
    """How a bind ended, and with it what becomes of the pod."""

    BOUND = "the pod is on its node, with its decision"
    GONE = "the pod is gone, ends, or is another one of the same name: drop it"
    TAKEN = "somebody else has bound the pod: drop it"
    GATED = "the pod was gated meanwhile: park it until the gates are gone"
    CONTENDED = "the node lock did not become free in time: queue the pod again"
    REFUSED = "the API server refuses what we send: queue it again, and say so loudly"
    FAILED = "something broke: queue the pod again"
    STOPPED = "this process stops: the next one starts afresh"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """The end of one bind.

    Attributes:
        ending: what happened.
        message: for people, empty where all went well.
        late_labels: labels that the API server did not take with the Binding.
        found: the pod as it was read last, where it had to be read.
    """

    ending: Ending
    message: str = ""
    late_labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    found: pods.Pod | None = None

    @property
    def is_bound(self) -> bool:
        """Whether the pod is where the decision put it."""
        return self.ending is Ending.BOUND
