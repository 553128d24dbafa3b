"""Requests that are sent again, and those that are given up."""

from __future__ import annotations

import pytest

from hami_operator import errors
from hami_operator.cluster import ports
from hami_operator.simulator import patience
from tests import fakes


class Quick(fakes.FakeClock):
    """Sleeping takes no time and is noted."""

    async def sleep(self, delay_s: float) -> None:
        self.slept.append(delay_s)


ANSWER: ports.Raw = {"kind": "Pod"}
BUSY = errors.Retryable("busy")


@pytest.mark.parametrize(
    ("failures", "want", "want_slept"),
    [
        pytest.param([], ANSWER, [], id="answered at once"),
        pytest.param([BUSY, errors.Unclear("lost")], ANSWER, [0.1, 0.2], id="answered at last"),
        pytest.param(
            [errors.Retryable("later", retry_after_s=7.0)], ANSWER, [7.0], id="told how long"
        ),
        pytest.param([errors.NotFound("gone")], None, [], id="the object is gone"),
        pytest.param([errors.Invalid("bad")], None, [], id="refused for good"),
        pytest.param([BUSY] * 6, None, list(patience.DELAYS_S), id="given up"),
    ],
)
async def test_insisting(
    failures: list[errors.ApiError], want: ports.Raw | None, want_slept: list[float]
) -> None:
    left = list(failures)

    async def call() -> ports.Raw:
        if left:
            raise left.pop(0)
        return ANSWER

    time = Quick()
    assert await patience.insist(call, time=time, what="a test") == want
    assert time.slept == want_slept
    assert not left
