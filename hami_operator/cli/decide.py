"""``hami-operator decide``: one pod per line, offline; nodes and pods in, decision out."""

from __future__ import annotations

import argparse
import gc
import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, Final

import orjson

from hami_operator import errors
from hami_operator.runtime import heap
from hami_operator.scheduling import offline

_EPILOG: Final = """\
Each line of the input is one JSON object (a file may also hold a single object over many lines):

  {"nodes": [Node...], "pods": [Pod...], "pod": Pod, "quotas": [ResourceQuota...],
   "settings": {as in the configuration file}, "now": "2026-02-01T08:15:30Z"}

Only nodes and pod must be there; objects are those of kubectl get -o json. Devices count as
alive unless their handshake is an expired Requesting_ at that time.

Each line of the output is {"node", "annotations", "labels"}, or, where no node takes the pod,
{"failed": {node: {"reason", "message"}}, "message"}, or {"error"} for a line that cannot be read;
then the exit code is 1. Equal lines give equal answers, whenever and wherever they are asked.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.add_argument(
        "-f",
        "--filename",
        required=True,
        metavar="FILE",
        help="JSON or JSON lines; - reads from standard input",
    )


def run(args: argparse.Namespace) -> int:
    """Answer every line; 1 if any could not be read, else 0."""
    settle()
    if args.filename == "-":
        return answer_all(sys.stdin.buffer, sys.stdout.buffer)
    try:
        with open(args.filename, "rb") as source:
            return answer_all(source, sys.stdout.buffer)
    except BrokenPipeError:
        raise
    except OSError as error:
        print(f"hami-operator decide: {args.filename}: {error.strerror}", file=sys.stderr)
        return 1


def settle() -> None:
    """Let the garbage collector look seldom: what a line makes goes by its reference counts."""
    heap.settle()
    gc.set_threshold(_SELDOM)


_SELDOM: Final = 100_000
"""So many more objects than before have to be there until a cycle is looked for."""


def answer_all(source: BinaryIO, sink: BinaryIO) -> int:
    """Read requests, write one line each as soon as it is known; 1 if any was unreadable."""
    code, memory = 0, offline.Memory()
    for number, text in _requests(source):
        answer = _answer(number, text, memory)
        code = 1 if "error" in answer else code
        sink.write(orjson.dumps(answer) + b"\n")
        sink.flush()
    return code


def decide_line(request: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to one request, as it is printed.

    Raises:
        errors.DecodeError: a key of the request is missing or of another type.
        errors.SettingsError: its settings cannot be used.
    """
    return dict(offline.decide(request).output)


def _requests(source: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Line numbers and texts; a first line that only begins an object is read with the rest."""
    lines = enumerate(source, start=1)
    first = next(((number, line) for number, line in lines if line.strip()), None)
    if first is None:
        return
    number, line = first
    if _is_cut(line):
        rest = [text for _, text in lines]
        whole = b"".join([line, *rest])
        if not _is_json(whole):
            yield first
            yield from _numbered(rest, number + 1)
            return
        line = whole
    yield number, line
    yield from ((at, text) for at, text in lines if text.strip())


def _numbered(lines: list[bytes], start: int) -> Iterator[tuple[int, bytes]]:
    return ((at, text) for at, text in enumerate(lines, start=start) if text.strip())


def _is_json(text: bytes) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


def _is_cut(line: bytes) -> bool:
    """Whether a line is no JSON only because it ends too early."""
    try:
        text = line.decode().strip()
        json.loads(text)
    except UnicodeDecodeError:
        return False
    except json.JSONDecodeError as error:
        return error.pos >= len(text) or "Unterminated string" in error.msg
    return False


def _answer(number: int, text: bytes, memory: offline.Memory) -> dict[str, Any]:
    try:
        request = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        return _error(number, f"is not JSON: {error.msg} (at character {error.pos})")
    if not isinstance(request, dict):
        return _error(number, "is not a JSON object")
    try:
        answer = offline.decide(request, memory)
    except errors.OperatorError as error:
        return _error(number, str(error))
    except RecursionError:
        return _error(number, "is nested too deeply")
    for warning in answer.warnings:
        print(f"line {number}: {warning}", file=sys.stderr)
    return dict(answer.output)


def _error(number: int, problem: str) -> dict[str, Any]:
    return {"error": f"line {number}: {problem}"}
