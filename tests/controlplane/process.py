"""Child processes of the tests: they log into a file, end within a bound and never outlive us."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

REPORT_EVERY_S = 15.0

# Asks the kernel to kill the process when its parent dies (prctl 1 is PR_SET_PDEATHSIG), then
# becomes the wanted program. A `preexec_fn` would do the same, but forks a threaded interpreter.
# The kernel means the *thread* that started the process: start servers from one that lives on.
_DIE_WITH_PARENT = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)
if os.getppid() != int(sys.argv[1]): sys.exit("the parent died first")
try: os.execvp(sys.argv[2], sys.argv[2:])
except OSError as error: sys.exit(f"{sys.argv[2]}: {error}")
"""


class ProcessError(Exception):
    """A child process failed, or took too long; the message ends with the last lines it wrote."""


def report(text: str) -> None:
    """Tell the person who waits what is going on."""
    print(f"control plane: {text}", file=sys.stderr, flush=True)


def tail(path: Path, *, lines: int = 30) -> str:
    """Return the last lines of a log file, or a remark that it is not there."""
    try:
        text = path.read_text(errors="replace")
    except OSError as error:
        return f"(no log: {error})"
    return "\n".join(text.splitlines()[-lines:])


class Process:
    """A running child, named for people, in a session of its own so that Ctrl-C spares it."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        log_path: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self.name = name
        self.log_path = log_path
        launcher = [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid())]
        with log_path.open("ab") as log:
            self._popen = subprocess.Popen(
                [*launcher, *map(str, command)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=None if env is None else dict(env),
                cwd=cwd,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Process id, which the launcher hands on to the program."""
        return self._popen.pid

    def exit_code(self) -> int | None:
        """Return the exit code, or None while it runs."""
        return self._popen.poll()

    def wait(self, *, timeout_s: float) -> int:
        """Wait for the end and return the exit code.

        Raises:
            subprocess.TimeoutExpired: it still runs.
        """
        return self._popen.wait(timeout_s)

    def failure(self, text: str) -> ProcessError:
        """Return an error that says what went wrong and shows the end of the log."""
        return ProcessError(
            f"{self.name} {text}\n--- end of {self.log_path}\n{tail(self.log_path)}"
        )

    def stop(self, *, grace_s: float = 15.0) -> None:
        """End it and what it started: politely, then by force. Does nothing when it has ended."""
        if self.exit_code() is None:
            self._signal(signal.SIGTERM)
            try:
                self.wait(timeout_s=grace_s)
            except subprocess.TimeoutExpired:
                self._signal(signal.SIGKILL)
                self.wait(timeout_s=grace_s)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)


def run_reported(
    name: str,
    command: Sequence[str | Path],
    *,
    log_path: Path,
    timeout_s: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> None:
    """Run a long command to its end and say every few seconds that it still runs.

    Raises:
        ProcessError: it failed or took longer than `timeout_s`.
    """
    started = time.monotonic()
    report(f"{name}: started (log: {log_path})")
    child = Process(name, command, log_path=log_path, env=env, cwd=cwd)
    try:
        code = _wait_reported(child, started=started, timeout_s=timeout_s)
    finally:
        child.stop(grace_s=5.0)
    if code is None:
        raise child.failure(f"did not end within {timeout_s:.0f} s")
    if code != 0:
        raise child.failure(f"failed with exit code {code}")
    report(f"{name}: done after {time.monotonic() - started:.0f} s")


def _wait_reported(child: Process, *, started: float, timeout_s: float) -> int | None:
    while (left_s := started + timeout_s - time.monotonic()) > 0:
        try:
            return child.wait(timeout_s=min(REPORT_EVERY_S, left_s))
        except subprocess.TimeoutExpired:
            report(f"{child.name}: {time.monotonic() - started:.0f} s so far")
    return None
