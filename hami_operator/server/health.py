"""Liveness and readiness as routes."""

from __future__ import annotations

from collections.abc import Callable

import orjson
from aiohttp import web


class Readiness:
    """Named conditions that must all hold before this replica is of use, leader or not."""

    def __init__(self) -> None:
        self._conditions: dict[str, Callable[[], bool]] = {}

    def require(self, reason: str, condition: Callable[[], bool]) -> None:
        """Not ready, for ``reason``, while ``condition()`` is false."""
        self._conditions[reason] = condition

    def missing(self) -> tuple[str, ...]:
        """The reasons why this replica is not ready, in the order of their registration."""
        return tuple(reason for reason, holds in self._conditions.items() if not holds())


def routes(readiness: Readiness) -> list[web.RouteDef]:
    """``/healthz`` and ``/readyz``."""

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok")  # an answer at all proves that the loop turns

    async def readyz(_: web.Request) -> web.Response:
        missing = readiness.missing()
        if not missing:
            return web.Response(text="ok")
        return web.Response(
            status=503, body=orjson.dumps({"missing": missing}), content_type="application/json"
        )

    return [web.get("/healthz", healthz), web.get("/readyz", readyz)]
