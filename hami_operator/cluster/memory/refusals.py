"""Why a request is not carried out: the Status objects of the API server, as one exception."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

IMMUTABLE = "field is immutable"
MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


@dataclasses.dataclass(frozen=True, slots=True)
class Cause:
    """One field that is wrong, as in ``details.causes`` of a Status with code 422."""

    field: str
    message: str
    reason: str = "FieldValueInvalid"


class Refused(Exception):
    """A request that was not carried out; `body` is what the API server answers."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.retry_after_s = retry_after_s

    def body(self) -> dict[str, Any]:
        """The Status object of this refusal."""
        details = dict(self.details or {})
        if self.retry_after_s is not None:
            details["retryAfterSeconds"] = self.retry_after_s
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "details": details,
            "code": self.code,
        }
        return {key: value for key, value in status.items() if key == "metadata" or value}


def quoted(value: object) -> str:
    """A value as the texts show it: strings in double quotes, the rest as JSON would."""
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return str(value).lower() if isinstance(value, bool) else str(value)


def wrong(field: str, value: object, why: str) -> Cause:
    """The field's value is not acceptable."""
    return Cause(field, f"Invalid value: {quoted(value)}: {why}")


def required(field: str, why: str = "") -> Cause:
    """The field must be given."""
    return Cause(field, f"Required value: {why}".rstrip(": "), "FieldValueRequired")


def forbidden_field(field: str, why: str) -> Cause:
    """The field may not be set, or not be changed."""
    return Cause(field, f"Forbidden: {why}", "FieldValueForbidden")


def too_long(field: str, limit_bytes: int) -> Cause:
    """The field holds more than ``limit_bytes``."""
    return Cause(field, f"Too long: may not be more than {limit_bytes} bytes", "FieldValueTooLong")


def bad_request(message: str) -> Refused:
    """400: the request cannot be understood."""
    return Refused(400, "BadRequest", message)


def undecodable(kind: str, version: str, why: str) -> Refused:
    """400: the body is no object of this kind."""
    return bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {why}')


def unauthorized() -> Refused:
    """401: the token is not known."""
    return Refused(401, "Unauthorized", "Unauthorized")


def forbidden(resource: str, name: str, why: str) -> Refused:
    """403: an admission rule or an authorizer says no."""
    subject = f'{resource} "{name}"' if name else resource
    plural, _, group = resource.partition(".")
    details = {"name": name, "group": group, "kind": plural}
    return Refused(403, "Forbidden", f"{subject} is forbidden: {why}", details=_given(details))


def not_found(resource: str, name: str) -> Refused:
    """404: no such object. ``resource`` is ``plural`` or ``plural.group``."""
    plural, _, group = resource.partition(".")
    details = {"name": name, "group": group, "kind": plural}
    return Refused(404, "NotFound", f'{resource} "{name}" not found', details=_given(details))


def no_such_path() -> Refused:
    """404: nothing is served at this path."""
    return Refused(404, "NotFound", "the server could not find the requested resource")


def method_not_allowed() -> Refused:
    """405: the path is served, but not with this method."""
    text = "the server does not allow this method on the requested resource"
    return Refused(405, "MethodNotAllowed", text)


def not_acceptable() -> Refused:
    """406: the client wants a form that is not offered."""
    text = "406: Not Acceptable\n\nAvailable representations: application/json"
    return Refused(406, "NotAcceptable", text)


def already_exists(resource: str, name: str) -> Refused:
    """409: the name is taken."""
    plural, _, group = resource.partition(".")
    details = {"name": name, "group": group, "kind": plural}
    text = f'{resource} "{name}" already exists'
    return Refused(409, "AlreadyExists", text, details=_given(details))


def conflict(resource: str, name: str, why: str = MODIFIED) -> Refused:
    """409: the object is not in the state that the request counts on."""
    plural, _, group = resource.partition(".")
    details = {"name": name, "group": group, "kind": plural}
    text = f'Operation cannot be fulfilled on {resource} "{name}": {why}'
    return Refused(409, "Conflict", text, details=_given(details))


def expired(message: str) -> Refused:
    """410: the version or the continue token is too old."""
    return Refused(410, "Expired", message)


def too_large(limit_bytes: int) -> Refused:
    """413: the body is larger than ``limit_bytes``."""
    text = f"Request entity too large: limit is {limit_bytes}"
    return Refused(413, "RequestEntityTooLarge", text)


def unsupported_media_type() -> Refused:
    """415: a body or patch of this type is not understood."""
    return Refused(415, "UnsupportedMediaType", "415: Unsupported Media Type")


def invalid(kind: str, name: str, causes: Iterable[Cause]) -> Refused:
    """422: fields are wrong. ``kind`` is ``Kind`` or ``Kind.group``."""
    listed = list(dict.fromkeys(causes))
    words = [f"{cause.field}: {cause.message}" for cause in listed]
    text = words[0] if len(words) == 1 else f"[{', '.join(words)}]"
    short, _, group = kind.partition(".")
    rows = [
        {"reason": cause.reason, "message": cause.message, "field": cause.field}
        for cause in listed
    ]
    details = _given({"name": name, "group": group, "kind": short}) | {"causes": rows}
    return Refused(422, "Invalid", f'{kind} "{name}" is invalid: {text}', details=details)


def patch_failed() -> Refused:
    """422: a JSON patch cannot be applied (a test failed, a path is missing)."""
    text = "the server rejected our request due to an error in our request"
    return Refused(422, "Invalid", text)


def internal(message: str) -> Refused:
    """500: the server could not do it."""
    return Refused(500, "InternalError", message)


def too_large_version(asked: int, current: int) -> Refused:
    """504: the client asks for a version that does not exist yet."""
    text = f"Timeout: Too large resource version: {asked}, current: {current}"
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    return Refused(504, "Timeout", text, details={"causes": causes}, retry_after_s=1)


def _given(details: Mapping[str, str]) -> dict[str, Any]:
    return {key: value for key, value in details.items() if value}
