"""What the world wants done: frozen orders, carried out by the runtime and by nobody here."""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hami_operator import errors
    from hami_operator.scheduling import objects, preparation, written
    from hami_operator.scheduling import pod as pods


class EventType(enum.Enum):
    """The two types that the API knows for Events."""

    NORMAL = "Normal"
    WARNING = "Warning"


class Result(enum.Enum):
    """How one attempt ended, in the words of the attempts metric."""

    SCHEDULED = "scheduled"
    UNSCHEDULABLE = "unschedulable"
    ERROR = "error"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class PodRef:
    """Which pod is meant: the UID tells pods of the same name apart."""

    uid: str
    namespace: str
    name: str

    @classmethod
    def of(cls, pod: pods.Pod) -> PodRef:
        """The reference to ``pod``."""
        return cls(uid=pod.uid, namespace=pod.namespace, name=pod.name)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class NodeEvent:
    """Order: tell of something that happened to a Node, as an Event on it and in the log."""

    node: str
    type: EventType
    reason: str
    message: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class PodEvent:
    """Order: tell of something that happened to a pod, as an Event on it and in the log."""

    pod: PodRef
    type: EventType
    reason: str
    message: str
    action: str = "Scheduling"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class QuotaEvent:
    """Order: tell of something about a ResourceQuota, as an Event on it and in the log."""

    uid: str
    namespace: str
    name: str
    type: EventType
    reason: str
    message: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Condition:
    """Order: set the pod's condition ``PodScheduled``; given only when it would change.

    Attributes:
        status: ``False`` always; the API server itself writes ``True`` when it binds.
        reason: ``Unschedulable`` (autoscalers act on exactly this word) or ``SchedulerError``.
        nominated: the node that it was promised, to be written along with it; empty to take
            away what stands there, None to leave it.
        generation: of the specification that this is about; 0 where the server tells none.
    """

    pod: PodRef
    status: str
    reason: str
    message: str
    nominated: str | None = None
    generation: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Bind:
    """Order: bind ``pod`` to ``node``; the ledger has reserved what ``decision`` says.

    To be answered by `World.bind_done` or `World.bind_failed`, exactly once.

    Attributes:
        preparation: what has to be done for the pod's claims before; None for most pods.
    """

    pod: pods.Pod
    node: str
    decision: written.Decision
    preparation: preparation.Preparation | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Evict:
    """Order: end a pod, so that others find room.

    The watch shows when it is gone; to be answered by `World.evict_failed` where it stays.

    Attributes:
        pod: who is to go.
        node: where it is.
        reason: of the condition that says why it ends.
        message: of that condition.
        tell: what is told once it ends.
    """

    pod: PodRef
    node: str
    reason: str
    message: str
    tell: PodEvent


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """One attempt is over; for metrics.

    Attributes:
        reasons: the typed reasons that refused the pod, one per node that gave it.
    """

    pod: PodRef
    result: Result
    reasons: tuple[errors.Reason, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class LockChanged:
    """A node's lock, or what decides about taking it, changed: whoever waits looks again."""

    node: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class StaleLock:
    """Order: remove a lock whose holder needs it no more and whose plugin left it behind.

    To be judged again against the node as it is when the write is made.
    """

    node: str
    key: str
    value: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Correction:
    """The ledger met something that our own decisions do not explain; for metrics.

    Attributes:
        kind: ``foreign``, ``unreadable``, ``mismatch``, ``bypassed``, ``differs``, ``unknown`` or
            ``negative``.
        bug: what happened, where it is our own fault; for the log.
    """

    kind: str
    node: str
    word: str = ""
    bug: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Watch:
    """Order: from now on watch these kinds of objects, since a pod depends on them."""

    kinds: frozenset[objects.Kind]


Effect = (
    NodeEvent
    | PodEvent
    | QuotaEvent
    | Condition
    | Bind
    | Evict
    | Attempt
    | LockChanged
    | StaleLock
    | Correction
    | Watch
)
