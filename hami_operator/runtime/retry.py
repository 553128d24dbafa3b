"""Sending a request again where the server said that it may be sent again."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from hami_operator import clock, errors

TRIES: Final = 4
"""How often a request is sent at most, the first time included."""

LONGEST_PAUSE_S: Final = 10.0
"""No pause is longer, whatever ``Retry-After`` says."""

Answer = TypeVar("Answer")


def pause_s(
    attempt: int,
    error: errors.ApiError | None,
    *,
    generator: random.Random,
    first_s: float = 0.1,
    jitter: float = 0.5,
) -> float:
    """Seconds to wait after failed attempt ``attempt`` (from 0): doubled each time, with jitter.

    What the server asked for is a lower bound; `LONGEST_PAUSE_S` is the upper one.
    """
    delay_s = first_s * 2.0**attempt * (1 + jitter * generator.random())
    asked_s = error.retry_after_s if error is not None else None
    return min(max(delay_s, asked_s or 0.0), LONGEST_PAUSE_S)


async def send(
    request: Callable[[], Awaitable[Answer]],
    *,
    time: clock.Clock,
    generator: random.Random,
    tries: int = TRIES,
    idempotent: bool = False,
) -> Answer:
    """Send a request, and again while the server answers that it did not take effect.

    Args:
        request: sends it once.
        time: the clock.
        generator: of the jitter.
        tries: how often it is sent at most.
        idempotent: it may be sent again also where nobody knows whether it took effect.

    Raises:
        errors.ApiError: what the last attempt raised; what cannot be repeated, at once.
    """
    for attempt in range(tries - 1):
        try:
            return await request()
        except (errors.Retryable, errors.Unclear) as error:
            if isinstance(error, errors.Unclear) and not idempotent:
                raise
            await time.sleep(pause_s(attempt, error, generator=generator))
    return await request()
