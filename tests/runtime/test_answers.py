"""What answers, errors and streams of the API server mean."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_operator import errors
from hami_operator.cluster import ports
from hami_operator.cluster.kubernetes import answers, statuses, stream

STATUS = (
    b'{"kind":"Status","status":"Failure","message":"no room","reason":"TooManyRequests",'
    b'"details":{"retryAfterSeconds":3}}'
)


@pytest.mark.parametrize(
    ("status", "is_write", "header", "want"),
    [
        pytest.param(400, True, None, errors.ApiError, id="a bad request is our fault for good"),
        pytest.param(401, True, None, errors.Unauthorized, id="not known"),
        pytest.param(403, True, None, errors.Forbidden, id="not allowed"),
        pytest.param(404, True, None, errors.NotFound, id="gone"),
        pytest.param(409, True, None, errors.Conflict, id="not what we thought"),
        pytest.param(410, False, None, errors.Gone, id="too old a version"),
        pytest.param(415, True, None, errors.ApiError, id="another content type"),
        pytest.param(422, True, None, errors.Invalid, id="refused content"),
        pytest.param(429, True, "1", errors.Retryable, id="turned away before anything was done"),
        pytest.param(429, True, None, errors.Retryable, id="turned away without advice"),
        pytest.param(500, True, None, errors.Unclear, id="a write that failed inside"),
        pytest.param(500, True, "1", errors.Unclear, id="even if it says when to come again"),
        pytest.param(500, False, None, errors.Retryable, id="a read may be repeated"),
        pytest.param(503, True, None, errors.Unclear, id="a write and no server: who knows"),
        pytest.param(503, True, "1", errors.Retryable, id="a filter turned the write away"),
        pytest.param(504, True, None, errors.Unclear, id="a time-out on the way"),
        pytest.param(302, False, None, errors.ApiError, id="a redirect is not followed"),
    ],
)
def test_status_to_error(
    status: int, is_write: bool, header: str | None, want: type[errors.ApiError]
) -> None:
    error = statuses.error(status, STATUS, retry_after=header, is_write=is_write, what="patch x")
    assert type(error) is want
    assert str(error) == f"patch x: {status}: no room"
    assert (error.status, error.reason) == (status, "TooManyRequests")


@pytest.mark.parametrize(
    ("header", "body", "want"),
    [
        pytest.param("7", STATUS, 7.0, id="the header comes first"),
        pytest.param(None, STATUS, 3.0, id="then the details"),
        pytest.param("Wed, 21 Oct 2026 07:28:00 GMT", b"{}", None, id="a date is not used"),
        pytest.param(None, b"<html>bad gateway</html>", None, id="a page of a proxy"),
        pytest.param(None, b'{"details":{"retryAfterSeconds":"soon"}}', None, id="not a number"),
        pytest.param(None, b'{"details":[]}', None, id="details of another shape"),
    ],
)
def test_retry_after(header: str | None, body: bytes, want: float | None) -> None:
    error = statuses.error(429, body, retry_after=header, is_write=True, what="x")
    assert error.retry_after_s == want


@pytest.mark.parametrize(
    ("body", "want"),
    [
        pytest.param(b"upstream broke", "x: 502: upstream broke", id="text"),
        pytest.param(b"", "x: 502: no text", id="nothing"),
        pytest.param(b"[1]", "x: 502: [1]", id="JSON that is no object"),
        pytest.param(b"\xff\xfe", "x: 502: \ufffd\ufffd", id="bytes that are no text"),
        pytest.param(b"a" * 500, "x: 502: " + "a" * 200, id="a long page is cut"),
    ],
)
def test_message_without_a_status_object(body: bytes, want: str) -> None:
    assert str(statuses.error(502, body, retry_after=None, is_write=True, what="x")) == want


@pytest.mark.parametrize(
    ("line", "want", "text"),
    [
        pytest.param(
            b'{"type":"ERROR","object":{"code":410,"message":"too old","reason":"Expired"}}',
            errors.Gone,
            "w: 410: too old",
            id="an expired version",
        ),
        pytest.param(
            b'{"type":"ERROR","object":{"code":429,"message":"slow"}}',
            errors.Retryable,
            "w: 429: slow",
            id="another error",
        ),
        pytest.param(
            b'{"type":"ERROR","object":{"message":"odd"}}',
            errors.Retryable,
            "w: 500: odd",
            id="an error without code",
        ),
        pytest.param(b'{"type":"ERROR"}', errors.Gone, "unreadable", id="an error without object"),
        pytest.param(b'{"type":"ERROR","object":3}', errors.Gone, "unknown type", id="no Status"),
        pytest.param(b"{half", errors.Gone, "unreadable", id="a torn line"),
        pytest.param(b"[]", errors.Gone, "unreadable", id="a list"),
        pytest.param(b'{"type":"MOVED","object":{}}', errors.Gone, "'MOVED'", id="a new type"),
        pytest.param(b'{"type":"ADDED","object":null}', errors.Gone, "ADDED", id="no object"),
    ],
)
def test_events_that_end_a_watch(line: bytes, want: type[errors.ApiError], text: str) -> None:
    with pytest.raises(want) as caught:
        answers.event(line, what="w")
    assert type(caught.value) is want
    assert text in str(caught.value)


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED", "BOOKMARK"])
def test_events(kind: str) -> None:
    line = b'{"type":"%s","object":{"metadata":{"name":"a"}}}' % kind.encode()
    assert answers.event(line, what="w") == (kind, {"metadata": {"name": "a"}})


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b'{"a"', id="a torn object"),
    ],
)
def test_an_answer_that_is_no_object_is_unclear(data: bytes) -> None:
    with pytest.raises(errors.Unclear, match="get x"):
        answers.one_object(data, what="get x")


@pytest.mark.parametrize(
    ("found", "want"),
    [
        pytest.param(
            {"metadata": {"resourceVersion": "5", "continue": "t"}, "items": [{}]},
            ports.Page(items=[{}], version="5", token="t"),
            id="a page with more to come",
        ),
        pytest.param(
            {"metadata": {"resourceVersion": "5"}, "items": None},
            ports.Page(items=[], version="5"),
            id="null for an empty list",
        ),
        pytest.param({}, ports.Page(items=[], version=""), id="an empty answer"),
    ],
)
def test_pages(found: dict, want: ports.Page) -> None:
    assert answers.page(found) == want


@pytest.mark.parametrize(
    ("value", "want"),
    [("35", 35), ("35+", 35), ("1", 1), ("", 0), (None, 0)],
)
def test_version_numbers(value: object, want: int) -> None:
    assert answers.number(value) == want


@given(
    lines=st.lists(st.binary(min_size=1).filter(lambda line: line.strip() and b"\n" not in line)),
    cuts=st.lists(st.integers(min_value=1, max_value=7)),
)
def test_lines_come_out_whole_however_the_stream_is_cut(
    lines: list[bytes], cuts: list[int]
) -> None:
    data = b"".join(line + b"\n" for line in lines)
    splitter, found, at = stream.Lines(), [], 0
    for size in [*cuts, len(data)]:
        found += splitter.feed(data[at : at + size])
        at += size
    assert found == lines


def test_a_line_above_any_readers_limit_comes_out_whole() -> None:
    splitter = stream.Lines()
    parts = [b"x" * 65536] * 20
    assert [splitter.feed(part) for part in parts] == [[]] * 20
    assert splitter.feed(b"y\nz") == [b"x" * 65536 * 20 + b"y"]
    assert splitter.feed(b"\n\n \n") == [b"z"]


def test_a_line_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "LONGEST_LINE", 100)
    splitter = stream.Lines()
    splitter.feed(b"x" * 100)
    with pytest.raises(stream.LineTooLong):
        splitter.feed(b"x")


@pytest.mark.parametrize(
    ("resource", "where", "want"),
    [
        pytest.param(ports.PODS, {}, "/api/v1/pods", id="all pods"),
        pytest.param(
            ports.PODS,
            {"namespace": "ns", "name": "p", "subresource": "binding"},
            "/api/v1/namespaces/ns/pods/p/binding",
            id="a subresource",
        ),
        pytest.param(ports.NODES, {"name": "n"}, "/api/v1/nodes/n", id="a cluster-wide object"),
        pytest.param(
            ports.LEASES,
            {"namespace": "ns"},
            "/apis/coordination.k8s.io/v1/namespaces/ns/leases",
            id="a kind with a group",
        ),
    ],
)
def test_paths(resource: ports.Resource, where: dict[str, str], want: str) -> None:
    assert resource.path(**where) == want
