"""The types of the fields that the server itself looks at: the typed decoder, as far as needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Shape = Any
"""A type, ``[shape]`` for a list of it, or a mapping of field names to shapes."""

_TEXTS: Final = [str]
_OBJECTS: Final[Shape] = [{}]
METADATA: Final[Shape] = {
    "name": str,
    "generateName": str,
    "namespace": str,
    "uid": str,
    "resourceVersion": str,
    "finalizers": _TEXTS,
    "ownerReferences": [{"apiVersion": str, "kind": str, "name": str, "uid": str}],
}
_AMOUNTS: Final[Shape] = {"limits": {}, "requests": {}}
_CONTAINERS: Final[Shape] = [
    {"name": str, "image": str, "resources": _AMOUNTS, "ports": _OBJECTS, "env": _OBJECTS}
]
_SERIES: Final[Shape] = {"count": int}
OBJECTS: Final[Mapping[str, Shape]] = {
    "pods": {
        "spec": {
            "nodeName": str,
            "schedulerName": str,
            "priorityClassName": str,
            "priority": int,
            "terminationGracePeriodSeconds": int,
            "tolerations": _OBJECTS,
            "schedulingGates": [{"name": str}],
            "nodeSelector": {},
            "overhead": {},
            "resources": _AMOUNTS,
            "initContainers": _CONTAINERS,
            "containers": _CONTAINERS,
            "ephemeralContainers": _CONTAINERS,
        },
        "status": {"phase": str, "conditions": _OBJECTS},
    },
    "nodes": {
        "spec": {"taints": _OBJECTS},
        "status": {"capacity": {}, "allocatable": {}, "conditions": _OBJECTS},
    },
    "leases.coordination.k8s.io": {
        "spec": {"holderIdentity": str, "leaseDurationSeconds": int, "leaseTransitions": int}
    },
    "resourcequotas": {"spec": {"hard": {}}, "status": {"hard": {}, "used": {}}},
    "events": {
        "involvedObject": {"namespace": str, "name": str},
        "reportingComponent": str,
        "reportingInstance": str,
        "action": str,
        "reason": str,
        "message": str,
        "type": str,
        "series": _SERIES,
    },
}
_DELETE_OPTIONS: Final[Shape] = {
    "gracePeriodSeconds": int,
    "preconditions": {"uid": str, "resourceVersion": str},
}
MESSAGES: Final[Mapping[str, Shape]] = {
    "Binding": {
        "metadata": {**METADATA, "labels": {}, "annotations": {}},
        "target": {"kind": str, "name": str},
    },
    "Eviction": {"metadata": METADATA, "deleteOptions": _DELETE_OPTIONS},
    "DeleteOptions": _DELETE_OPTIONS,
}
"""What is sent to subresources, and with DELETE: never stored."""
ANY_OBJECT: Final[Shape] = {"spec": {}, "status": {}}
_JSON_NAMES: Final = {
    bool: "bool", int: "number", float: "number", str: "string", list: "array", dict: "object",
}  # fmt: skip


def fault(value: Any, shape: Shape, field: str) -> str:
    """What is wrong with the type of a value or of a field in it; empty if nothing is."""
    if value is None:
        return ""
    if isinstance(shape, Mapping):
        if not isinstance(value, dict):
            return mistyped(value, field, "object")
        inside = ((value[name], sub, name) for name, sub in shape.items() if name in value)
    elif isinstance(shape, list):
        if not isinstance(value, list) or None in value:
            return mistyped(value, field, "array")
        inside = ((item, shape[0], "") for item in value)
    else:
        fits = isinstance(value, shape) and not isinstance(value, bool)
        return "" if fits else mistyped(value, field, _JSON_NAMES[shape])
    faults = (fault(item, sub, f"{field}.{name}".strip(".")) for item, sub, name in inside)
    return next(filter(None, faults), "")


def mistyped(value: Any, field: str, wanted: str) -> str:
    """How the server words a field of the wrong type."""
    found = _JSON_NAMES[type(value)]
    return f"json: cannot unmarshal {found} into Go struct field {field} of type {wanted}"
