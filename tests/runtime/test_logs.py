"""One log: ours and the libraries' lines in one format."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import kopf
import pytest
import structlog

from hami_operator.cli import logs


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """Where the log goes; all of logging and structlog is put back afterwards."""
    names = ["hami_operator", *logs.QUIET]
    root = logging.getLogger()
    before = root.handlers[:], root.level, {name: logging.getLogger(name).level for name in names}
    yield io.StringIO()
    root.handlers[:], level, levels = before
    root.setLevel(level)
    for name, old in levels.items():
        logging.getLogger(name).setLevel(old)
    structlog.reset_defaults()


def lines(stream: io.StringIO) -> list[dict]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_our_lines_are_one_json_object_each(stream: io.StringIO) -> None:
    logs.configure("json", stream=stream)
    structlog.get_logger("hami_operator.x").info("placed", node="n1", cards=["a"], n=2)
    (line,) = lines(stream)
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "placed",
        "level": "info",
        "logger": "hami_operator.x",
        "node": "n1",
        "cards": ["a"],
        "n": 2,
    }


def test_lines_of_libraries_have_the_same_shape(stream: io.StringIO) -> None:
    logs.configure("json", stream=stream)
    logging.getLogger("some.library").warning("took %s s", 3)
    (line,) = lines(stream)
    assert (line["event"], line["level"], line["logger"]) == (
        "took 3 s",
        "warning",
        "some.library",
    )


def test_kopf_lines_name_their_object(stream: io.StringIO) -> None:
    logs.configure("json", stream=stream)
    reference = {"kind": "Pod", "namespace": "ns", "name": "p", "uid": "u"}
    extra = {"k8s_ref": reference, "settings": kopf.OperatorSettings(), "k8s_skip": True}
    logging.getLogger("kopf.objects").warning("odd", extra=extra)
    node = {"k8s_ref": {"kind": "Node", "namespace": None, "name": "n"}}
    logging.getLogger("kopf.objects").error("odd", extra=node)
    first, second = lines(stream)
    assert (first["object"], second["object"]) == ("Pod ns/p", "Node n")
    assert set(first) == {"event", "level", "logger", "timestamp", "object"}


@pytest.mark.parametrize(
    ("name", "level", "want"),
    [
        pytest.param("kopf.objects", logging.INFO, 0, id="kopf's line per event is dropped"),
        pytest.param("kopf.objects", logging.WARNING, 1, id="its warnings are not"),
        pytest.param("kopf.activities.startup", logging.INFO, 1, id="nor what else it says"),
        pytest.param("aiohttp.access", logging.INFO, 0, id="no line per probe"),
        pytest.param("hami_operator.x", logging.DEBUG, 0, id="no details of ours"),
    ],
)
def test_levels(stream: io.StringIO, name: str, level: int, want: int) -> None:
    logs.configure("json", stream=stream)
    logging.getLogger(name).log(level, "text")
    assert len(lines(stream)) == want


def test_verbose_shows_details_of_ours_alone(stream: io.StringIO) -> None:
    logs.configure("json", verbose=True, stream=stream)
    structlog.get_logger("hami_operator.x").debug("shown")
    structlog.get_logger("other").debug("hidden")
    assert [line["event"] for line in lines(stream)] == ["shown"]


def test_exceptions_are_told_in_one_line_of_json(stream: io.StringIO) -> None:
    logs.configure("json", stream=stream)
    try:
        raise ValueError("broken")
    except ValueError as error:
        structlog.get_logger("hami_operator.x").error("failed", exc_info=error)
        logging.getLogger("library").exception("failed too")
    first, second = lines(stream)
    assert "ValueError: broken" in first["exception"]
    assert "ValueError: broken" in second["exception"]


def test_values_that_json_does_not_know_do_not_lose_the_line(stream: io.StringIO) -> None:
    logs.configure("json", stream=stream)
    structlog.get_logger("hami_operator.x").info("odd", value=object(), keys={1: "a"}, n={3})
    (line,) = lines(stream)
    assert line["event"] == "odd"
    assert line["keys"] == {"1": "a"}


def test_the_console_form_is_text_for_people(stream: io.StringIO) -> None:
    logs.configure("console", stream=stream)
    structlog.get_logger("hami_operator.x").info("placed", node="n1")
    logging.getLogger("library").info("hello")
    first, second = stream.getvalue().splitlines()
    assert "placed" in first
    assert "node=n1" in first
    assert "hello" in second
    with pytest.raises(json.JSONDecodeError):
        json.loads(first)


def test_configuring_again_does_not_double_the_lines(stream: io.StringIO) -> None:
    logs.configure("json", stream=io.StringIO())
    logs.configure("json", stream=stream)
    structlog.get_logger("hami_operator.x").info("once")
    assert len(lines(stream)) == 1
