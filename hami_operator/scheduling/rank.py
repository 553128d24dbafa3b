"""What a pod's place among others rests on: who may push whom off a node, and who goes first."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from hami_operator.scheduling import fields

if TYPE_CHECKING:
    from hami_operator.scheduling import pod as pods

YIELDS: Final = "DisruptionTarget"
PREEMPTED: Final = "PreemptionByScheduler"

_NEVER: Final = "Never"
_LATEST: Final = datetime.datetime.max.replace(tzinfo=datetime.UTC)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Rank:
    """What is read of a pod for preemption, its priority aside.

    Attributes:
        preempts: it may push others off a node.
        started: when kubelet took it on; None before that.
        nominated_node: where it was promised room.
        yields: a scheduler has told it to make room.
    """

    preempts: bool = True
    started: datetime.datetime | None = None
    nominated_node: str = ""
    yields: bool = False


NONE: Final = Rank()


def read(spec: Mapping[str, Any], status: Mapping[str, Any], found: fields.Fields) -> Rank:
    """Read an API object's specification and status."""
    preempts = found.text(spec, "preemptionPolicy", "spec.") != _NEVER
    started = moment(status.get("startTime"))
    nominated = found.text(status, "nominatedNodeName", "status.")
    conditions = found.items(status, "conditions", "status.") if "conditions" in status else ()
    yields = any(
        (item.get("type"), item.get("status"), item.get("reason")) == (YIELDS, "True", PREEMPTED)
        for _, item in conditions
    )
    if preempts and started is None and not nominated and not yields:
        return NONE
    return Rank(preempts=preempts, started=started, nominated_node=nominated, yields=yields)


def moment(value: object) -> datetime.datetime | None:
    """A time of the API; it only orders pods among equals, so an unreadable one is none."""
    try:
        found = datetime.datetime.fromisoformat(str(value or ""))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=datetime.UTC)


def importance(pod: pods.Pod) -> tuple[int, datetime.datetime, str, str]:
    """Sorts the most important pod first: higher priority, then longer on its node."""
    return -pod.priority, pod.rank.started or _LATEST, pod.namespace, pod.name
