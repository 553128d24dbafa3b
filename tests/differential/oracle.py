"""What kube-scheduler thinks of a pod, asked without an API server.

The program is in `tests/controlplane/go/oracle`, with a description of both formats. It runs
kube-scheduler's own code.
"""

import contextlib
import dataclasses
import queue
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from concurrent import futures
from pathlib import Path
from typing import Any

import orjson

from tests.controlplane import build, process

Scenario = Mapping[str, Any]
TIMEOUT_S = 600.0
END_TIMEOUT_S = 10.0


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Refusal:
    """A plugin's answer other than success."""

    plugin: str
    code: str
    reasons: tuple[str, ...]

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> "Refusal":
        """Return a refusal from its JSON."""
        return cls(
            plugin=answer["plugin"], code=answer["code"], reasons=tuple(answer["reasons"] or ())
        )


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What kube-scheduler says of a scenario.

    Attributes:
        id: the scenario's.
        feasible: names of the nodes that no plugin refuses, sorted.
        refusals: node name -> its first refusing plugin; empty if `prefilter` is given.
        prefilter: the plugin that refused the pod before any node was asked.
        message: why it would not be placed, as in the pod's condition before the words on
            preemption; empty if it would, or if it never came out of the queue.
        scores: feasible node -> plugin -> points, normalised and weighted.
        error: why the scenario could not be run; everything else is empty then.
    """

    id: str
    feasible: tuple[str, ...] = ()
    refusals: Mapping[str, Refusal] = dataclasses.field(default_factory=dict)
    prefilter: Refusal | None = None
    message: str = ""
    scores: Mapping[str, Mapping[str, int]] = dataclasses.field(default_factory=dict)
    error: str = ""

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> "Verdict":
        """Return a verdict from its JSON."""
        prefilter = answer["prefilter"]
        return cls(
            id=answer["id"],
            feasible=tuple(answer["feasible"]),
            refusals={node: Refusal.of(text) for node, text in answer["refusals"].items()},
            prefilter=Refusal.of(prefilter) if prefilter else None,
            message=answer["message"],
            scores=answer["scores"],
            error=answer.get("error", ""),
        )


class Oracle:
    """A running oracle. It keeps nothing between scenarios and dies with the `with` block."""

    def __init__(self) -> None:
        self._log = tempfile.NamedTemporaryFile(prefix="oracle-", suffix=".log")  # noqa: SIM115
        self._running = subprocess.Popen(
            [build.executable("oracle")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        assert self._running.stdin is not None
        assert self._running.stdout is not None
        self._questions = self._running.stdin
        self._answers = self._running.stdout

    def __enter__(self) -> "Oracle":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, scenarios: Iterable[Scenario], *, timeout_s: float = TIMEOUT_S) -> list[Verdict]:
        """Return one verdict per scenario, in their order.

        Scenarios are drawn while earlier ones are judged, so a generator is fine; it runs in
        another thread.

        Raises:
            ProcessError: the program ended, or was ended because it took too long. It answers
                no more then.
        """
        bound = threading.Timer(timeout_s, self._running.kill)
        bound.start()
        try:
            return list(self._verdicts(scenarios))
        finally:
            bound.cancel()

    def close(self) -> None:
        """End the program. Does nothing when it has ended."""
        self._running.kill()
        self._running.wait(END_TIMEOUT_S)
        for pipe in (self._questions, self._answers):
            # What nobody will read any more is lost.
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        self._log.close()

    def _verdicts(self, scenarios: Iterable[Scenario]) -> Iterator[Verdict]:
        # A thread of its own writes: with both pipes full, each side would wait for the other.
        asked: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        with futures.ThreadPoolExecutor(1) as threads:
            writing = threads.submit(self._write, scenarios, asked)
            while (name := asked.get()) is not None:
                yield self._read(name)
            # Raises what drawing a scenario has raised.
            writing.result()

    def _write(self, scenarios: Iterable[Scenario], asked: queue.SimpleQueue[str | None]) -> None:
        try:
            for scenario in scenarios:
                asked.put(scenario["id"])
                self._questions.write(orjson.dumps(scenario) + b"\n")
                self._questions.flush()
        except BrokenPipeError:
            # Whoever reads finds the end as well, and says so.
            pass
        finally:
            asked.put(None)

    def _read(self, name: str) -> Verdict:
        line = self._answers.readline()
        if not line.endswith(b"\n"):
            self._running.kill()
            log = process.tail(Path(self._log.name))
            raise process.ProcessError(
                f"the oracle ended or was ended, as too slow, before its answer to {name}\n{log}"
            )
        return Verdict.of(orjson.loads(line))
