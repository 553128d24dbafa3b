"""Tables: what ``kubectl get`` prints, made by the server."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from hami_operator.cluster.memory import records, resources

Object = Mapping[str, Any]
Cell = Callable[[Object, datetime.datetime], object]
NONE: Final = "<none>"
_UNKNOWN: Final = "<unknown>"
_ROLE_PREFIX: Final = "node-role.kubernetes.io/"


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """One column; priority 1 is shown by ``-o wide`` only."""

    name: str
    cell: Cell
    priority: int = 0

    def definition(self) -> dict[str, Any]:
        """The column as the head of a Table describes it."""
        return {
            "name": self.name,
            "type": "string",
            "format": "name" if self.name == "Name" else "",
            "description": "",
            "priority": self.priority,
        }


def render(
    found: list[records.Record],
    resource: resources.Resource,
    *,
    now: datetime.datetime,
    metadata: Mapping[str, Any],
) -> bytes:
    """A Table with one row per record."""
    columns = COLUMNS.get(resource.bucket, _COMMON)
    rows = b",".join(
        b'{"cells":'
        + orjson.dumps([column.cell(record.obj, now) for column in columns])
        + b',"object":'
        + record.metadata_json()
        + b"}"
        for record in found
    )
    head = {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": [column.definition() for column in columns],
    }
    return orjson.dumps(head)[:-1] + b',"rows":[' + rows + b"]}"


def age(text: str | None, now: datetime.datetime) -> str:
    """The time since then, as kubectl writes it: 12s, 5m10s, 3h, 4d."""
    if not text:
        return _UNKNOWN
    seconds = int((now - datetime.datetime.fromisoformat(text)).total_seconds())
    if seconds < 120:
        return f"{max(seconds, 0)}s"
    minutes, rest = divmod(seconds, 60)
    if minutes < 10:
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    return f"{minutes // 60}h" if minutes < 48 * 60 else f"{minutes // 1440}d"


def _get(obj: Object, *path: str) -> Any:
    value: Any = obj
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _field(*path: str, default: str = NONE) -> Cell:
    return lambda obj, now: _get(obj, *path) or default


def _name(obj: Object, now: datetime.datetime) -> object:
    return obj["metadata"]["name"]


def _age(obj: Object, now: datetime.datetime) -> object:
    return age(obj["metadata"].get("creationTimestamp"), now)


def _ready(pod: Object, now: datetime.datetime) -> object:
    statuses = _get(pod, "status", "containerStatuses") or ()
    ready = sum(1 for status in statuses if status.get("ready"))
    return f"{ready}/{len(_get(pod, 'spec', 'containers') or ())}"


def _pod_status(pod: Object, now: datetime.datetime) -> object:
    if pod["metadata"].get("deletionTimestamp"):
        return "Terminating"
    status = pod.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition.get("reason") == "SchedulingGated":
            return "SchedulingGated"
    return status.get("reason") or status.get("phase") or _UNKNOWN


def _restarts(pod: Object, now: datetime.datetime) -> object:
    statuses = _get(pod, "status", "containerStatuses") or ()
    return str(sum(status.get("restartCount", 0) for status in statuses))


def _node_status(node: Object, now: datetime.datetime) -> object:
    words = [
        "Ready" if condition.get("status") == "True" else "NotReady"
        for condition in _get(node, "status", "conditions") or ()
        if condition.get("type") == "Ready"
    ] or ["Unknown"]
    if _get(node, "spec", "unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _roles(node: Object, now: datetime.datetime) -> object:
    labels = node["metadata"].get("labels") or {}
    roles = sorted(
        key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)
    )
    return ",".join(roles) or NONE


def _address(kind: str) -> Cell:
    def cell(node: Object, now: datetime.datetime) -> object:
        for address in _get(node, "status", "addresses") or ():
            if address.get("type") == kind:
                return address.get("address")
        return NONE

    return cell


def _last_seen(event: Object, now: datetime.datetime) -> object:
    moment = (
        _get(event, "series", "lastObservedTime")
        or event.get("lastTimestamp")
        or event.get("eventTime")
        or event["metadata"].get("creationTimestamp")
    )
    return age(moment, now)


def _subject(event: Object, now: datetime.datetime) -> object:
    subject = event.get("involvedObject") or {}
    return f"{subject.get('kind', '').lower()}/{subject.get('name', '')}"


_COMMON: Final = (Column("Name", _name), Column("Age", _age))
COLUMNS: Final[Mapping[str, tuple[Column, ...]]] = {
    "pods": (
        Column("Name", _name),
        Column("Ready", _ready),
        Column("Status", _pod_status),
        Column("Restarts", _restarts),
        Column("Age", _age),
        Column("IP", _field("status", "podIP"), 1),
        Column("Node", _field("spec", "nodeName"), 1),
        Column("Nominated Node", _field("status", "nominatedNodeName"), 1),
    ),
    "nodes": (
        Column("Name", _name),
        Column("Status", _node_status),
        Column("Roles", _roles),
        Column("Age", _age),
        Column("Version", _field("status", "nodeInfo", "kubeletVersion", default="")),
        Column("Internal-IP", _address("InternalIP"), 1),
        Column("OS-Image", _field("status", "nodeInfo", "osImage", default=_UNKNOWN), 1),
    ),
    "events": (
        Column("Last Seen", _last_seen),
        Column("Type", _field("type", default="")),
        Column("Reason", _field("reason", default="")),
        Column("Object", _subject),
        Column("Message", _field("message", default="")),
        Column("Name", _name, 1),
    ),
    "leases.coordination.k8s.io": (
        Column("Name", _name),
        Column("Holder", _field("spec", "holderIdentity", default="")),
        Column("Age", _age),
    ),
    "namespaces": (
        Column("Name", _name),
        Column("Status", _field("status", "phase", default="")),
        Column("Age", _age),
    ),
}
