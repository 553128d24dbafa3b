"""The command ``hami-operator``: pick a sub-command, turn errors into exit codes."""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from typing import Final

import hami_operator
from hami_operator import errors

COMMANDS: Final = {
    "run": "run the operator against a cluster",
    "demo": "show the main job on a simulated fleet; needs no cluster",
    "simulate": "run simulated device plugins against a cluster",
    "devices": "list cards with usage, health and owners",
    "vendors": "list and show device backends, check a configuration file",
    "webhook-certs": "make the certificate of the admission webhook, and keep it",
    "decide": "decide one pod per line, offline: nodes and pods in, decision out",
}


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    top = argparse.ArgumentParser(
        prog="hami-operator",
        description="Shares GPUs and other AI accelerators between pods, over the HAMi protocol.",
    )
    version = f"hami-operator {hami_operator.__version__}"
    top.add_argument("--version", action="version", version=version)
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, words in COMMANDS.items():
        commands.add_parser(name, help=words, description=words[0].upper() + words[1:] + ".")
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the return value is the exit code.

    2 stands for wrong arguments or settings, 1 for a job that failed, 0 for success, 141 for a
    reader of the output who left early.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _dispatch(arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        return _unheard()
    except errors.OperatorError as error:
        print(f"hami-operator: {error}", file=sys.stderr)
        return 2 if isinstance(error, errors.SettingsError) else 1
    except KeyboardInterrupt:
        return 130


def _unheard() -> int:
    """Whoever read our output has gone, which is no error of ours; what is left is dropped."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
    return 128 + signal.SIGPIPE


def _dispatch(arguments: list[str]) -> int:
    """Import only the module of the command at hand: ``decide`` needs no kopf."""
    top = parser()
    name = arguments[0] if arguments else ""
    if name not in COMMANDS:
        top.parse_args(arguments)  # prints help, the version, or what is wrong, and exits
        return 2
    module = importlib.import_module(f"hami_operator.cli.{name.replace('-', '_')}")
    words = COMMANDS[name]
    command = argparse.ArgumentParser(
        prog=f"hami-operator {name}", description=words[0].upper() + words[1:] + "."
    )
    module.configure(command)
    return int(module.run(command.parse_args(arguments[1:])))
