"""Sends a request again until it is answered, within bounds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from hami_operator import clock, errors
from hami_operator.cluster import ports

DELAYS_S: Final = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)

_log = structlog.get_logger(__name__)


async def insist(
    call: Callable[[], Awaitable[ports.Raw]], *, time: clock.Clock, what: str
) -> ports.Raw | None:
    """The answer of an idempotent request.

    Returns:
        None where the object is gone, or where the request failed for good (then it is logged):
        simulated nodes go on whatever happens to one object.
    """
    for delay_s in DELAYS_S:
        try:
            return await call()
        except errors.NotFound:
            return None
        except (errors.Retryable, errors.Unclear) as error:
            await time.sleep(error.retry_after_s or delay_s)
        except errors.ApiError as error:
            _log.warning("request refused", what=what, error=str(error))
            return None
    _log.warning("request given up", what=what)
    return None


def words(pod: ports.Raw) -> str:
    """A pod by its names, for logs and refusals."""
    return f"pod {pod['metadata']['namespace']}/{pod['metadata']['name']}"
