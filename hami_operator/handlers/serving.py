"""Runs kopf inside our loop."""

from __future__ import annotations

import asyncio

import kopf


async def serve(
    registry: kopf.OperatorRegistry,
    *,
    identity: str,
    stop_flag: asyncio.Event,
    ready_flag: asyncio.Event,
) -> None:
    """Run until a signal comes or ``stop_flag`` is set; cleanup has ended when this returns.

    Start it last and once per process: when it ends, kopf cancels every task of the loop that
    was created after it. Set ``stop_flag`` at the end of the drain in any case, else a stop by
    signal takes five seconds longer. Do not cancel it: cleanup would be skipped.

    Args:
        registry: made by `registry.build`.
        identity: who we are. Left alone, kopf asks for the name of the user, and a container's
            user has none.
        stop_flag: ends kopf in order.
        ready_flag: set when the startup handler has run.

    Raises:
        Exception: what made kopf give up, e.g. a watch that was refused again and again.
    """
    await kopf.operator(
        registry=registry,
        clusterwide=True,
        standalone=True,
        identity=identity,  # type: ignore[arg-type] # its type is a str that kopf does not export
        stop_flag=stop_flag,
        ready_flag=ready_flag,
    )
