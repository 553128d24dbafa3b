"""Letting a write end although its task is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

import structlog

PATIENCE_S: Final = 0.8
"""How long a write may go on after the cancellation; less than a cancelled task has to end.

Nobody cancels a bind before the drain has waited for it. A server that has not answered by then
must not keep the process from giving its Lease up.
"""

Answer = TypeVar("Answer")

_log = structlog.get_logger(__name__)


async def finish(work: Coroutine[Any, Any, Answer]) -> Answer:
    """Run ``work`` to its end, and only then let a cancellation through.

    For the last write alone. One that takes longer than `PATIENCE_S` is cut off: whether it took
    effect is then as unknown as after a lost answer.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        _, late = await asyncio.wait({task}, timeout=PATIENCE_S)
        if late:
            _log.warning("last write cut off while stopping")
            task.cancel()
            await asyncio.wait({task})
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.warning("last write failed while stopping", error=str(error))
        raise
