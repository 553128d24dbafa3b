"""``hami-operator run``: start everything, watch over it, stop in order."""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import socket
import uuid
from typing import Final

import structlog

import hami_operator
from hami_operator import clock, errors
from hami_operator import settings as all_settings
from hami_operator.cli import hamiflags, logs, options, wiring
from hami_operator.cluster import kubernetes
from hami_operator.handlers import registry as handlers
from hami_operator.handlers import serving
from hami_operator.server import metrics

FIRST_TRIES: Final = 10
"""The API server may still be starting when we are; after so many tries we give up."""
FIRST_PAUSE_S: Final = 1.0

_log = structlog.get_logger(__name__)


def configure(parser: argparse.ArgumentParser) -> None:
    """Flags of this command."""
    parser.add_argument("--kubeconfig", metavar="FILE", help="default: the pod's ServiceAccount")
    parser.add_argument("--context", metavar="NAME", help="context of the kubeconfig")
    parser.add_argument(
        "--server", metavar="URL", help="an API server that asks for no credentials"
    )
    parser.add_argument("--verbose", action="store_true", help="also write debug lines")
    options.configure(parser)


def run(args: argparse.Namespace) -> int:
    """Run until a signal comes; 0 after an ordered stop, 1 where something ended unasked."""
    settings = options.load(args, os.environ)
    logs.configure(settings.log_format, verbose=args.verbose)
    for line in hamiflags.unheeded(args, os.environ):
        _log.warning(line)
    return asyncio.run(
        operate(settings, kubeconfig=args.kubeconfig, context=args.context, server=args.server)
    )


async def operate(
    settings: all_settings.Settings,
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    server: str | None = None,
    stop_flag: asyncio.Event | None = None,
) -> int:
    """Run one operator to its end; 0 where that was asked for.

    Args:
        settings: validated.
        kubeconfig: see `kubernetes.Client.connect`.
        context: likewise.
        server: likewise.
        stop_flag: ends the operator in order, beside signals.

    Raises:
        errors.SettingsError: it is not said which API server, or how to speak to it.
        errors.ApiError: the API server was not there in time.
    """
    time, measured = clock.SystemClock(), metrics.Metrics()
    client = await kubernetes.Client.connect(
        kubeconfig=kubeconfig, context=context, server=server, recorder=measured, time=time
    )
    given = wiring.Given(
        settings=settings,
        client=client,
        server_version=await _first_contact(client, time),
        identity=f"{os.environ.get('POD_NAME') or socket.gethostname()}_{uuid.uuid4()}",
        time=time,
        generator=random.Random(),  # noqa: S311 - jitter
        metrics=measured,
    )
    return await _serve(wiring.Wiring(given), given, stop_flag or asyncio.Event())


async def _serve(wired: wiring.Wiring, given: wiring.Given, flag: asyncio.Event) -> int:
    _log.info(
        "starting",
        version=hami_operator.__version__,
        scheduler=given.settings.scheduler_name,
        server=".".join(map(str, given.server_version)),
        identity=given.identity,
    )
    await wired.server.start()
    wired.start()
    wired.supervisor.when_stopping(flag.set)
    try:
        await _serve_kopf(wired, given, flag)
    except BaseException:
        await wired.drain()  # kopf may have given up before its cleanup
        await wired.close()
        raise
    stop = await wired.supervisor.wait_stop()
    await wired.close()
    _log.info("stopped", reason=stop.reason)
    return 0 if stop.asked else 1


async def _serve_kopf(wired: wiring.Wiring, given: wiring.Given, flag: asyncio.Event) -> None:
    async def drain() -> None:
        await wired.drain()
        flag.set()

    registry = handlers.build(
        given.settings,
        intake=wired.intake,
        login=given.client.connection,
        drain=drain,
        time=given.time,
    )
    await serving.serve(
        registry, identity=given.identity, stop_flag=flag, ready_flag=asyncio.Event()
    )


async def _first_contact(client: kubernetes.Client, time: clock.Clock) -> tuple[int, int]:
    """Version of the API server, which may need a moment."""
    for _ in range(FIRST_TRIES):
        try:
            return await client.version()
        except (errors.Unclear, errors.Retryable) as error:
            _log.warning("API server not reached", error=str(error))
            await time.sleep(FIRST_PAUSE_S)
    return await client.version()
