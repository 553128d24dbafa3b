"""From what the store returns to the bytes of an answer, in the form that the client accepts."""

from __future__ import annotations

import datetime
import enum
import functools
from collections.abc import Iterable
from typing import Any, Final

import orjson

from hami_operator.cluster.memory import pages, records, refusals, resources, tables

JSON_TYPES: Final = ("application/json", "application/*", "*/*", "")
INITIAL_EVENTS_END: Final = {"k8s.io/initial-events-end": "true"}


class Form(enum.Enum):
    """How objects are shown."""

    WHOLE = enum.auto()
    METADATA = enum.auto()
    TABLE = enum.auto()


_FORMS: Final = {
    "": Form.WHOLE,
    "PartialObjectMetadata": Form.METADATA,
    "PartialObjectMetadataList": Form.METADATA,
    "Table": Form.TABLE,
}


@functools.lru_cache(maxsize=256)
def form_of(accept: str) -> Form:
    """The first form in an Accept header that is offered.

    Raises:
        refusals.Refused: 406, there is none.
    """
    for choice in accept.split(","):
        media_type, *parameters = (part.strip() for part in choice.split(";"))
        values = dict(parameter.split("=", 1) for parameter in parameters if "=" in parameter)
        form = _FORMS.get(values.get("as", ""))
        if media_type in JSON_TYPES and form and values.get("v", "v1") == "v1":
            return form
    raise refusals.not_acceptable()


def one(
    record: records.Record, resource: resources.Resource, form: Form, now: datetime.datetime
) -> bytes:
    """One object."""
    if form is Form.WHOLE:
        return record.json(resource)
    if form is Form.METADATA:
        return record.metadata_json()
    metadata = {"resourceVersion": str(record.version)}
    return tables.render([record], resource, now=now, metadata=metadata)


def many(
    page: pages.Page, resource: resources.Resource, form: Form, now: datetime.datetime
) -> bytes:
    """A list."""
    metadata: dict[str, Any] = {"resourceVersion": str(page.version)}
    if page.token:
        metadata["continue"] = page.token
        if page.remaining is not None:
            metadata["remainingItemCount"] = page.remaining
    if form is Form.TABLE:
        return tables.render(page.records, resource, now=now, metadata=metadata)
    if form is Form.METADATA:
        kind, api_version = "PartialObjectMetadataList", "meta.k8s.io/v1"
        items = (record.metadata_json() for record in page.records)
    else:
        kind, api_version = f"{resource.kind}List", resource.api_version
        items = (record.item(resource) for record in page.records)
    head = {"kind": kind, "apiVersion": api_version, "metadata": metadata}
    return orjson.dumps(head)[:-1] + b',"items":[' + b",".join(items) + b"]}"


def lines(
    events: Iterable[records.WatchEvent],
    resource: resources.Resource,
    form: Form,
    now: datetime.datetime,
) -> list[bytes]:
    """Events of a watch, one line each; the object in it is encoded once for all watches."""
    return [_line(event.type, one(event.record, resource, form, now)) for event in events]


def bookmark(version: int, resource: resources.Resource, *, initial_end: bool = False) -> bytes:
    """The line that says how far the watch is."""
    metadata: dict[str, Any] = {"resourceVersion": str(version)}
    if initial_end:
        metadata["annotations"] = INITIAL_EVENTS_END
    obj = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
    return _line("BOOKMARK", orjson.dumps(obj))


def error_line(refused: refusals.Refused) -> bytes:
    """The line with which a watch ends that cannot go on."""
    return _line("ERROR", orjson.dumps(refused.body()))


def _line(kind: str, body: bytes) -> bytes:
    return b'{"type":"' + kind.encode() + b'","object":' + body + b"}\n"


def success(details: dict[str, Any] | None = None, *, code: int | None = None) -> bytes:
    """A Status that says yes."""
    status: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
    }
    if details:
        status["details"] = details
    if code:
        status["code"] = code
    return orjson.dumps(status)
