"""Everything that can go wrong, typed: exceptions, and the reasons why a pod waits."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterable, Iterator


class OperatorError(Exception):
    """Parent of every error that hami-operator raises on purpose."""


class SettingsError(OperatorError):
    """A setting cannot be used; the message names the field.

    Attributes:
        field: the setting.
        problem: what is wrong with it.
    """

    def __init__(self, field: str, problem: str, others: Iterable[SettingsError] = ()) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem
        self._others = tuple(others)

    @property
    def every(self) -> tuple[SettingsError, ...]:
        """This error and those found with it."""
        return (self, *self._others)


class Gathered:
    """Everything that is wrong with some settings, so that it can be told at once."""

    def __init__(self) -> None:
        self.faults: list[SettingsError] = []

    @contextlib.contextmanager
    def gathering(self) -> Iterator[None]:
        """Take what the block raises; what stands after it goes on."""
        try:
            yield
        except SettingsError as error:
            self.faults += error.every

    def tell(self) -> None:
        """Raise all of it as one error, if there is any."""
        if self.faults:
            first, *others = self.faults
            raise SettingsError(first.field, first.problem, others) from first


class DecodeError(OperatorError):
    """A text that somebody else wrote cannot be read; the message names key and field."""

    def __init__(self, key: str, field: str, problem: str) -> None:
        super().__init__(f"{key}: {field}: {problem}")
        self.key = key
        self.field = field


class ApiError(OperatorError):
    """The API server refused a request, for good.

    Attributes:
        status: HTTP status, 0 where there was no answer.
        reason: the server's machine-readable word, e.g. ``AlreadyExists``.
        retry_after_s: what the server asked us to wait, None where it did not say.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.retry_after_s = retry_after_s


class Unauthorized(ApiError):
    """401: the credentials are not (or no longer) accepted."""


class Forbidden(ApiError):
    """403: the ServiceAccount lacks a permission."""


class NotFound(ApiError):
    """404: the object is gone."""


class Conflict(ApiError):
    """409: the object is not what we thought it was; read it and judge anew."""


class Gone(ApiError):
    """410: the version or continue token is too old; list afresh."""


class Invalid(ApiError):
    """422: the server understood the request and refuses its content."""


class Retryable(ApiError):
    """The request did not take effect and may be sent again, after ``retry_after_s`` if given."""


class Unclear(ApiError):
    """The request may or may not have taken effect (5xx, time-out, connection lost): read."""


class Fenced(OperatorError):
    """A write was not sent, since leadership ends before it could be answered."""


class Reason(enum.Enum):
    """Why a card, a node or a pod was refused.

    The value is the word that users search for and metrics count (protocol of the device
    plugins' scheduler); ``words`` says the same to people.
    """

    __hash__ = object.__hash__  # each is one object; that of enum hashes its name every time

    CARD_NOT_HEALTHY = "CardNotHealth"
    CARD_UNHEALTHY = "CardUnhealthy"
    CARD_CORDONED = "CardCordoned"
    CARD_TYPE_MISMATCH = "CardTypeMismatch"
    CARD_UUID_MISMATCH = "CardUuidMismatch"
    CARD_SLOTS_EXHAUSTED = "CardTimeSlicingExhausted"
    CARD_INSUFFICIENT_MEMORY = "CardInsufficientMemory"
    CARD_INSUFFICIENT_CORES = "CardInsufficientCore"
    CARD_COMPUTE_EXHAUSTED = "CardComputeUnitsExhausted"
    CARD_MIG_INFEASIBLE = "CardMigTopologyInfeasible"
    CARD_CUSTOM_RULE = "CardNotFoundCustomFilterRule"
    CARD_APP_CLASS_MISMATCH = "CardAppClassMismatch"
    CARD_QOS_POLICY_MISMATCH = "CardQosPolicyMismatch"
    EXCLUSIVE_CONFLICT = "ExclusiveDeviceAllocateConflict"
    NUMA_NOT_FIT = "NumaNotFit"
    QUOTA_NOT_FIT = "ResourceQuotaNotFit"
    TOO_FEW_CARDS_FIT = "AllocatedCardsInsufficientRequest"
    NODE_INSUFFICIENT_DEVICE = "NodeInsufficientDevice"
    NODE_UNREGISTERED = "NodeUnregistered"
    NODE_UNFIT = "NodeUnfitPod"
    MODE_NOT_FIT = "ModeNotFit"
    DEVICE_TYPE_UNKNOWN = "DeviceTypeUnknown"
    TYPE_EXPIRED = "DeviceTypeExpired"
    TYPE_NOT_ALLOCATABLE = "DeviceTypeNotAllocatable"
    REGISTER_UNREADABLE = "DeviceRegisterUnreadable"
    DECISION_UNREADABLE = "DecisionUnreadable"
    INVALID_REQUEST = "InvalidDeviceRequest"
    INVALID_POD = "InvalidPod"
    GANG_INCOMPLETE = "GangIncomplete"
    FILTER_NOT_BUILT = "FilterNotBuilt"
    DECISION_TOO_LARGE = "DecisionTooLarge"
    NODE_LOCKED = "NodeLockContention"

    @property
    def word(self) -> str:
        """The word as logs, events and metrics carry it."""
        return self.value

    @property
    def words(self) -> str:
        """The same for people, to be read after a number of nodes."""
        return _WORDS[self]


_WORDS = {
    Reason.CARD_NOT_HEALTHY: "card(s) are unhealthy",
    Reason.CARD_UNHEALTHY: "card(s) are unhealthy",
    Reason.CARD_CORDONED: "card(s) are cordoned by an administrator",
    Reason.CARD_TYPE_MISMATCH: "card(s) are not of a model or mode that the pod allows",
    Reason.CARD_UUID_MISMATCH: "card(s) are not among the UUIDs that the pod allows",
    Reason.CARD_SLOTS_EXHAUSTED: "card(s) have no free slot",
    Reason.CARD_INSUFFICIENT_MEMORY: "card(s) have too little free memory",
    Reason.CARD_INSUFFICIENT_CORES: "card(s) have too few free cores",
    Reason.CARD_COMPUTE_EXHAUSTED: "card(s) have all their cores given away",
    Reason.CARD_MIG_INFEASIBLE: "card(s) have no free place for a MIG profile",
    Reason.CARD_CUSTOM_RULE: "card(s) are refused by a rule of their vendor",
    Reason.CARD_APP_CLASS_MISMATCH: "card(s) serve another application class",
    Reason.CARD_QOS_POLICY_MISMATCH: "card(s) serve another QoS policy",
    Reason.EXCLUSIVE_CONFLICT: "card(s) are in use, and the pod wants them alone",
    Reason.NUMA_NOT_FIT: "card(s) do not lie together as the pod demands",
    Reason.QUOTA_NOT_FIT: "the namespace's quota has no room",
    Reason.TOO_FEW_CARDS_FIT: "fewer cards fit than one container asks for",
    Reason.NODE_INSUFFICIENT_DEVICE: "fewer cards of the type are registered than asked for",
    Reason.NODE_UNREGISTERED: "no device was ever registered",
    Reason.NODE_UNFIT: "the node does not fit the pod",
    Reason.MODE_NOT_FIT: "no device works in the mode that the pod demands",
    Reason.DEVICE_TYPE_UNKNOWN: "the device type is not configured",
    Reason.TYPE_EXPIRED: "the device plugin has stopped answering",
    Reason.TYPE_NOT_ALLOCATABLE: "kubelet offers no device of the type",
    Reason.REGISTER_UNREADABLE: "the device register cannot be read",
    Reason.DECISION_UNREADABLE: "a running pod's decision cannot be read",
    Reason.INVALID_REQUEST: "the pod asks for an amount that no device can have",
    Reason.INVALID_POD: "the pod's specification cannot be read",
    Reason.GANG_INCOMPLETE: "the pods of the gang do not all find room at once",
    Reason.FILTER_NOT_BUILT: "the pod needs a rule that this scheduler does not know",
    Reason.DECISION_TOO_LARGE: "the decision does not fit into the pod's annotations",
    Reason.NODE_LOCKED: "the node serves another pod's devices",
}
