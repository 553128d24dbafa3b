"""Sending again: only what did not take effect, with growing, bounded pauses."""

from __future__ import annotations

import asyncio
import random

import pytest

from hami_operator import errors
from hami_operator.runtime import retry
from tests import fakes


class NoJitter(random.Random):
    def random(self) -> float:
        return 0.0


def refused(retry_after_s: float | None = None) -> errors.Retryable:
    return errors.Retryable("busy", status=429, retry_after_s=retry_after_s)


@pytest.mark.parametrize(
    ("answers", "want", "want_slept"),
    [
        pytest.param(["ok"], "ok", [], id="an answer is returned at once"),
        pytest.param(
            [refused(), refused(), "ok"], "ok", [0.1, 0.2], id="pauses double while it is refused"
        ),
        pytest.param(
            [refused(3.0), "ok"], "ok", [3.0], id="the server's Retry-After is waited out"
        ),
        pytest.param(
            [refused(3600.0), "ok"], "ok", [10.0], id="an absurd Retry-After is cut to 10 s"
        ),
        pytest.param(
            [refused()] * 9, errors.Retryable, [0.1, 0.2, 0.4], id="the fourth refusal is final"
        ),
        pytest.param(
            [errors.Unclear("lost"), "ok"],
            errors.Unclear,
            [],
            id="what may have taken effect is not sent again",
        ),
        pytest.param([errors.Conflict("409")], errors.Conflict, [], id="a conflict is no repeat"),
    ],
)
async def test_send(
    answers: list[object], want: str | type[Exception], want_slept: list[float]
) -> None:
    clock = fakes.FakeClock()
    given = iter(answers)

    async def request() -> object:
        answer = next(given)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async with asyncio.TaskGroup() as group:
        sending = group.create_task(_outcome(request, clock))
        await clock.advance(60.0)
        result = await sending
    assert clock.slept == pytest.approx(want_slept)
    if isinstance(want, str):
        assert result == want
    else:
        assert isinstance(result, want)


async def _outcome(request: object, clock: fakes.FakeClock) -> object:
    try:
        return await retry.send(request, time=clock, generator=NoJitter())  # type: ignore[arg-type]
    except errors.ApiError as error:
        return error


def test_jitter_lengthens_a_pause_by_up_to_half() -> None:
    generator = random.Random(7)
    pauses = [retry.pause_s(1, None, generator=generator) for _ in range(200)]
    assert min(pauses) >= 0.2
    assert max(pauses) <= 0.3
    assert max(pauses) - min(pauses) > 0.05
