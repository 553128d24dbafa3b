"""One log for everything: our structlog lines and those of libraries, in one format."""

from __future__ import annotations

import logging
import sys
from typing import Any, Final, TextIO

import orjson
import structlog

QUIET: Final = {
    # kopf says a line per event here, at INFO.
    "kopf.objects": logging.WARNING,
    "aiohttp.access": logging.WARNING,
    "asyncio": logging.WARNING,
    "kubernetes_asyncio": logging.WARNING,
}


def configure(log_format: str, *, verbose: bool = False, stream: TextIO | None = None) -> None:
    """Send all log lines through one handler of the root logger.

    Args:
        log_format: ``json`` (one object per line) or ``console`` (for people).
        verbose: with DEBUG lines of ours; libraries stay as they are.
        stream: where to write; standard error by default.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*_chain(), structlog.stdlib.ExtraAdder(allow=()), object_reference],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *_end(log_format),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    logging.getLogger("hami_operator").setLevel(logging.DEBUG if verbose else logging.INFO)
    for name, level in QUIET.items():
        logging.getLogger(name).setLevel(level)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_chain(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


def object_reference(
    _logger: object, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Make the reference that kopf hangs on its records a field: ``kind namespace/name``."""
    record = event.get("_record")
    reference = getattr(record, "k8s_ref", None)
    if isinstance(reference, dict):
        path = "/".join(
            str(reference[part]) for part in ("namespace", "name") if reference.get(part)
        )
        event["object"] = f"{reference.get('kind')} {path}"
    return event


def _chain() -> list[Any]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]


def _end(log_format: str) -> list[Any]:
    if log_format == "console":
        return [structlog.dev.ConsoleRenderer(colors=False)]
    return [
        structlog.processors.format_exc_info,
        structlog.processors.JSONRenderer(serializer=_dumps),
    ]


def _dumps(event: Any, **options: Any) -> str:
    """Never fails over a value: a log line is no place to crash."""
    return orjson.dumps(event, default=options.get("default") or str, option=_OPTIONS).decode()


_OPTIONS: Final = orjson.OPT_NON_STR_KEYS
