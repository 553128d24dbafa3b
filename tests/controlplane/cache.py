"""The per-user folder that keeps what is expensive to make, safe for several runs at once."""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from tests.controlplane import process

POLL_S = 0.2


def root() -> Path:
    """Return the cache folder of the control plane, outside the repository."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base).absolute() / "hami-operator" / "controlplane"


@contextlib.contextmanager
def exclusive(folder: Path, *, timeout_s: float) -> Iterator[None]:
    """Create the folder and hold its lock: only one process at a time makes what belongs in it.

    The kernel frees the lock of a process that dies.

    Raises:
        TimeoutError: another process held it all the time.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        _acquire(lock.fileno(), folder=folder, timeout_s=timeout_s)
        yield


def _acquire(descriptor: int, *, folder: Path, timeout_s: float) -> None:
    started = reported = time.monotonic()
    while not _try_lock(descriptor):
        now = time.monotonic()
        if now - started >= timeout_s:
            raise TimeoutError(f"{folder}: locked by another process for {timeout_s:.0f} s")
        if now - reported >= process.REPORT_EVERY_S:
            reported = now
            process.report(f"waiting for another process to fill {folder}: {now - started:.0f} s")
        time.sleep(POLL_S)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
