"""The operator as users run it: a process of its own, seen through its log and its metrics."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import aiohttp
from prometheus_client import parser

from tests.controlplane import process

START_S: Final = 60.0
"""Until it serves, leads and has seen everything; interpreters start slowly on a busy machine."""
COMMAND: Final = ("hami_operator",)

_BUGS: Final = ("metric of unknown name or labels", "Traceback (most recent call last):")

Samples = Mapping[tuple[str, frozenset[tuple[str, str]]], float]


class Operator:
    """One replica.

    Attributes:
        log_path: its log, one JSON object a line.
        may_end: whether the test has seen to its end; else it must run as long as the test.
    """

    def __init__(
        self,
        kubeconfig: Path,
        folder: Path,
        *flags: str,
        name: str = "operator",
        env: Mapping[str, str] | None = None,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self.name = name
        self.log_path = folder / f"{name}.log"
        self.may_end = False
        clean = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("HAMI_OPERATOR_", "POD_", "KUBERNETES_"))
        }
        self._process = process.Process(
            name,
            [
                sys.executable,
                "-m",
                *command,
                "run",
                f"--kubeconfig={kubeconfig}",
                "--http-bind=127.0.0.1:0",
                *flags,
            ],
            log_path=self.log_path,
            env={**clean, **(env or {})},
        )

    # ---- what it says

    def lines(self) -> list[dict[str, Any]]:
        """What it has logged; what is no JSON comes as ``{"event": text}``."""
        text = self.log_path.read_text(errors="replace") if self.log_path.exists() else ""
        return [_line(one) for one in text.splitlines() if one]

    def said(self, event: str) -> list[dict[str, Any]]:
        """The lines of one event."""
        return [line for line in self.lines() if line.get("event") == event]

    @property
    def decides(self) -> bool:
        """Whether it leads and has seen everything."""
        return bool(self.said("deciding"))

    @property
    def url(self) -> str:
        """Base URL of health and metrics, once it serves."""
        return "http://{host}:{port}".format(**self.said("serving")[0])

    async def metrics(self) -> Samples:
        """Its metrics: name and labels to value."""
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{self.url}/metrics") as answer,
        ):
            text = await answer.text()
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in parser.text_string_to_metric_families(text)
            for sample in family.samples
        }

    async def metric(self, name: str, **labels: str) -> float:
        """One metric, summed over the labels that are not given; 0 where there is none."""
        wanted = set(labels.items())
        return sum(
            value for (found, has), value in (await self.metrics()).items()
            if found == name and wanted <= has
        )  # fmt: skip

    async def readiness(self) -> int:
        """Status of ``/readyz``."""
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{self.url}/readyz") as answer,
        ):
            return answer.status

    # ---- life

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.exit_code()

    def complaints(self) -> list[str]:
        """What must never be in the log of a sound operator, and an end that nobody asked for."""
        found = [
            str(line["event"])
            for line in self.lines()
            if self._is_crash(line) or line.get("event") in _BUGS
        ]
        if not self.may_end and self.exit_code() is not None:
            found.append(f"{self.name} ended with exit code {self.exit_code()}")
        return found

    def _is_crash(self, line: Mapping[str, Any]) -> bool:
        """Whether a line of ours tells of an exception, other than the end that a test wanted."""
        ours = str(line.get("logger")).startswith("hami_operator.")
        wanted = self.may_end and line.get("event") == "task failed"
        return ours and "exception" in line and not wanted

    def failure(self, text: str) -> AssertionError:
        """An error with the end of the log."""
        return AssertionError(str(self._process.failure(text)))

    def terminate(self) -> None:
        """Ask it to stop, as kubelet does."""
        self.may_end = True
        os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """End it at once, and see that it is gone."""
        self.may_end = True
        os.kill(self.pid, signal.SIGKILL)
        self._process.wait(timeout_s=10)

    def wait(self, timeout_s: float) -> int:
        """Exit code, once it has ended.

        Raises:
            AssertionError: it still runs.
        """
        self.may_end = True
        try:
            return self._process.wait(timeout_s=timeout_s)
        except subprocess.TimeoutExpired:
            raise self.failure(f"has not ended within {timeout_s:.0f} s") from None

    def stop(self) -> None:
        """End it, politely where that works."""
        self.may_end = True
        self._process.stop()


def _line(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {"event": text}
    return found if isinstance(found, dict) else {"event": text}
