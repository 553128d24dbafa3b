"""Render a kustomization with kubectl: render.py FOLDER FILE."""

import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))

from tests.controlplane import toolchain

HEAD = "# Rendered by `make manifests` from the files beside it; edit those.\n"


def main(folder: str, target: str) -> int:
    """Write the rendered manifests, with a word on where they come from."""
    command = [str(toolchain.kubectl()), "kustomize", folder]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    pathlib.Path(target).write_text(HEAD + done.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
