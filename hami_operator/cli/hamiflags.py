"""Flags and variables of HAMi's scheduler, so that its image can be exchanged for ours.

Those that mean a setting of ours give it. The others are accepted as well, and `unheeded` says of
each that was given why it has no effect.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from typing import Any, Final

from hami_operator import errors, settings

LOCK_TIMEOUT: Final = "HAMI_NODELOCK_EXPIRE"
"""Variable with the default of ``node_lock_timeout``."""
DEBUG_LEVEL: Final = 5
"""From this ``-v`` on debug lines are written; HAMi's chart gives 4 as a matter of course."""

SPELLINGS: Final[Mapping[str, str]] = {
    "--cert_file": "cert_file",
    "--key_file": "key_file",
    "--metrics-bind-address": "metrics_bind",
    "--leader-elect-resource-name": "lease_name",
    "--leader-elect-resource-namespace": "namespace",
}
"""Flag to the setting that it gives, where ours is spelt otherwise."""

_ALL_ACTIVE: Final = "all device backends are active"
_ROWS: Final = "names of resources are read from device_config and vendors"
_NO_EFFECT: Final[Mapping[str, str]] = {
    "--enable-ascend": _ALL_ACTIVE,
    "--enable-iluvatar": _ALL_ACTIVE,
    "--profiling": "nothing is profiled",
    "--kube-qps": "requests are not limited, which API priority and fairness does",
    "--kube-burst": "requests are not limited, which API priority and fairness does",
    "--kube-timeout": "every request has a limit of its own",
    "--node-lock-retry-timeout": "binds wait for the lock in a queue, up to node_lock_timeout",
    **dict.fromkeys(
        (
            *("--resource-name", "--resource-mem", "--resource-mem-percentage"),
            *("--resource-cores", "--resource-priority", "--overwrite-env"),
            *("--cambricon-mlu-name", "--cambricon-mlu-memory", "--cambricon-mlu-cores"),
            *("--dcu-name", "--dcu-memory", "--dcu-cores"),
            *("--iluvatar-name", "--iluvatar-memory", "--iluvatar-cores"),
            *("--mthreads-name", "--mthreads-memory", "--mthreads-cores"),
        ),
        _ROWS,
    ),
}
"""Flag to why it has no effect."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the flags; ``--help`` does not list them, since ours mean the same."""
    for flag, key in SPELLINGS.items():
        parser.add_argument(flag, dest=key, help=argparse.SUPPRESS)
    parser.add_argument("--http_bind", dest="their_bind", help=argparse.SUPPRESS)
    for flag in _NO_EFFECT:
        parser.add_argument(flag, dest=flag, nargs="?", const="", help=argparse.SUPPRESS)
    parser.add_argument("--debug", dest="verbose", nargs="?", const=True, type=_is_true,
                        help=argparse.SUPPRESS)  # fmt: skip
    parser.add_argument("-v", "--v", dest="verbose", type=_is_detailed, help=argparse.SUPPRESS)


def _is_true(text: str) -> bool:
    return text.lower() in ("true", "1", "t")


def _is_detailed(text: str) -> bool:
    return int(text) >= DEBUG_LEVEL


def inherited(environ: Mapping[str, str]) -> Mapping[str, Any]:
    """Settings by variables of HAMi's; one that cannot be read gives nothing."""
    try:
        text = environ.get(LOCK_TIMEOUT)
        return {"node_lock_timeout": settings.duration_s(text, field=LOCK_TIMEOUT)} if text else {}
    except errors.SettingsError:
        return {}


def bound(args: argparse.Namespace, *sources: Mapping[str, Any]) -> Mapping[str, Any]:
    """What ``--http_bind`` means: where their one server listens, which has TLS or has not.

    Args:
        args: as parsed.
        sources: all settings that are given otherwise; a certificate makes it the webhook's.
    """
    if args.their_bind is None:
        return {}
    secure = any(source.get("cert_file") for source in sources)
    return {"webhook_bind" if secure else "http_bind": args.their_bind}


def unheeded(args: argparse.Namespace, environ: Mapping[str, str]) -> Iterable[str]:
    """One line for each flag and variable that was given in vain."""
    for flag, why in _NO_EFFECT.items():
        if getattr(args, flag, None) is not None:
            yield f"{flag} has no effect: {why}"
    if environ.get(LOCK_TIMEOUT) and not inherited(environ):
        yield f"{LOCK_TIMEOUT} has no effect: {environ[LOCK_TIMEOUT]!r} is not a duration"
