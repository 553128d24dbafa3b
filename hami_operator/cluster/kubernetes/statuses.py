"""HTTP status to typed error: what happened, and may the request be sent again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from hami_operator import errors

_BY_STATUS: Final[Mapping[int, type[errors.ApiError]]] = {
    401: errors.Unauthorized,
    403: errors.Forbidden,
    404: errors.NotFound,
    409: errors.Conflict,
    410: errors.Gone,
    422: errors.Invalid,
    429: errors.Retryable,  # turned away before anything was done
}


def error(
    status: int, body: bytes, *, retry_after: str | None, is_write: bool, what: str
) -> errors.ApiError:
    """The error for an answer above 299.

    Args:
        status: of the answer.
        body: a ``Status`` object, or whatever a proxy in between wrote.
        retry_after: the header of that name.
        is_write: a write that failed with 5xx may have taken effect; a read may be repeated.
        what: the request in words.
    """
    answer = _decode(body)
    text = str(answer.get("message") or body[:200].decode("utf-8", "replace") or "no text")
    return _kind(status, is_write=is_write, told_to_wait=retry_after is not None)(
        f"{what}: {status}: {text}",
        status=status,
        reason=str(answer.get("reason") or ""),
        retry_after_s=_seconds(retry_after) or _seconds(_details(answer)),
    )


def from_event(status: Mapping[str, Any], *, what: str) -> errors.ApiError:
    """The error for an ``ERROR`` event inside a watch."""
    code = status.get("code")
    return error(
        code if isinstance(code, int) else 500,
        orjson.dumps(status),
        retry_after=None,
        is_write=False,
        what=what,
    )


def _kind(status: int, *, is_write: bool, told_to_wait: bool) -> type[errors.ApiError]:
    if status < 500:
        return _BY_STATUS.get(status, errors.ApiError)
    # With Retry-After, 503 comes from a filter that turned the request away.
    refused = status == 503 and told_to_wait
    return errors.Unclear if is_write and not refused else errors.Retryable


def _decode(body: bytes) -> Mapping[str, Any]:
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _details(answer: Mapping[str, Any]) -> object:
    details = answer.get("details")
    return details.get("retryAfterSeconds") if isinstance(details, dict) else None


def _seconds(value: object) -> float | None:
    """Seconds from a header; its other form, a date, would need a clock that agrees."""
    text = str(value).strip()
    return float(text) if text.isascii() and text.isdigit() else None
