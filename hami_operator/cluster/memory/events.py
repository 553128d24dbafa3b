"""Events: one kind of object, two shapes (core/v1 and events.k8s.io/v1), and their rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hami_operator.cluster.memory import metadata, refusals, resources

_NEW_NAMES: Final = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
_OLD_NAMES: Final = {new: old for old, new in _NEW_NAMES.items()}
_IMMUTABLE: Final = (
    "involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count",
    "type", "eventTime", "action", "related", "reportingController", "reportingInstance",
)  # fmt: skip
_UNSET: Final = ("firstTimestamp", "lastTimestamp", "count", "source")
_LIMITS: Final = {"reportingInstance": 128, "action": 128, "reason": 128, "message": 1024}


def to_new(obj: Mapping[str, Any]) -> dict[str, Any]:
    """A stored Event (core/v1) in the shape of events.k8s.io/v1."""
    return {_NEW_NAMES.get(key, key): value for key, value in obj.items()}


def to_core(obj: Mapping[str, Any]) -> dict[str, Any]:
    """An Event of events.k8s.io/v1 in the shape in which it is stored (core/v1)."""
    return {_OLD_NAMES.get(key, key): value for key, value in obj.items()}


def check_create(obj: Mapping[str, Any], resource: resources.Resource) -> list[refusals.Cause]:
    """What is wrong with a new Event; the rules of events.k8s.io/v1 are the stricter ones."""
    causes = _check_always(obj)
    if resource is not resources.NEW_EVENTS:
        return causes
    causes += _check_series(obj)
    if not obj.get("eventTime"):
        causes.append(refusals.required("eventTime"))
    if obj.get("type") not in ("Normal", "Warning"):
        why = f"has invalid value: {obj.get('type', '')}"
        causes.append(refusals.wrong("type", "", why))
    causes += [refusals.wrong(name, "", "needs to be unset") for name in _UNSET if obj.get(name)]
    return causes


def check_update(
    new: Mapping[str, Any], old: Mapping[str, Any], resource: resources.Resource
) -> list[refusals.Cause]:
    """What is wrong with the change of an Event: by the new API only a series may grow."""
    causes = _check_always(new)
    if resource is not resources.NEW_EVENTS:
        return causes
    if new.get("series") != old.get("series"):
        causes += _check_series(new)
    for name in _IMMUTABLE:
        stored = "reportingComponent" if name == "reportingController" else name
        if new.get(stored) != old.get(stored):
            causes.append(refusals.wrong(name, new.get(stored, ""), refusals.IMMUTABLE))
    return causes


def _check_always(obj: Mapping[str, Any]) -> list[refusals.Cause]:
    causes = _check_namespace(obj)
    if not obj.get("eventTime"):
        return causes
    controller = obj.get("reportingComponent", "")
    if not controller:
        causes.append(refusals.required("reportingController"))
    elif why := metadata.qualified_name_fault(controller):
        causes.append(refusals.wrong("reportingController", controller, why))
    for name, limit in _LIMITS.items():
        value = obj.get(name) or ""
        if not value and name != "message":
            causes.append(refusals.required(name))
        if len(value.encode()) > limit:
            causes.append(refusals.wrong(name, "", f"can have at most {limit} characters"))
    return causes


def _check_namespace(obj: Mapping[str, Any]) -> list[refusals.Cause]:
    own = obj["metadata"].get("namespace", "")
    theirs = (obj.get("involvedObject") or {}).get("namespace", "")
    if theirs:
        fits = theirs == own or bool(obj.get("eventTime"))
    else:
        fits = own == "default" or (bool(obj.get("eventTime")) and own == "kube-system")
    if fits:
        return []
    why = "does not match event.namespace"
    return [refusals.wrong("involvedObject.namespace", theirs, why)]


def _check_series(obj: Mapping[str, Any]) -> list[refusals.Cause]:
    series = obj.get("series")
    if series is None:
        return []
    causes = []
    if series.get("count", 0) < 2:
        causes.append(refusals.wrong("series.count", "", "should be at least 2"))
    if not series.get("lastObservedTime"):
        causes.append(refusals.required("series.lastObservedTime"))
    return causes
