"""Letting a write end although its task is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import structlog

Answer = TypeVar("Answer")

_log = structlog.get_logger(__name__)


async def finish(work: Coroutine[Any, Any, Answer]) -> Answer:
    """Run ``work`` to its end, and only then let a cancellation through.

    For the last write alone: it must be bounded by itself, as all calls of the client are.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.warning("last write failed while stopping", error=str(error))
        raise
