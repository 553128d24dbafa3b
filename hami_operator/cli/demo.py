"""``hami-operator demo``: the main job on a simulated fleet, with an API server in memory."""

from __future__ import annotations

import argparse
import asyncio
import io
import pathlib
import shutil
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final, TextIO

from hami_operator import clock, errors, settings
from hami_operator.cli import devices, logs, report, screen
from hami_operator.cli import run as operator
from hami_operator.cluster import pages, ports
from hami_operator.cluster.kubernetes import admin
from hami_operator.cluster.memory import server
from hami_operator.simulator import feed, fleet, machine, scenario, story

Operate = Callable[[settings.Settings, str, asyncio.Event], Awaitable[None]]
"""Runs the operator against the server of that URL until the event is set."""

_FRAME_S: Final = 0.2
_LINE_S: Final = 2.0
_LOG_LINES: Final = 40
SETTINGS: Final = {
    # A dead plugin is noticed in seconds here and in minutes elsewhere.
    "handshake_interval": "1s",
    "device_timeout": "4s",
    "leader_elect": False,
    "http_bind": "127.0.0.1:0",
    "log_format": "console",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    parser.add_argument(
        "--keep", action="store_true", help="go on until interrupted, for a look with kubectl"
    )
    parser.add_argument(
        "--port", type=int, default=0, help="of the API server in memory (default: any free one)"
    )
    parser.add_argument("--log", metavar="FILE", help="write the operator's log there")


def run(args: argparse.Namespace) -> int:
    """Play the demo; 0 only if everything held."""
    with _log(args.log) as log, server.ApiServer(port=args.port) as api:
        logs.configure("console", stream=log)
        good = asyncio.run(play(api.url, operate, screen.Screen(sys.stdout), keep=args.keep))
        if not good and isinstance(log, io.StringIO):
            lines = log.getvalue().splitlines()[-_LOG_LINES:]
            print("the end of the operator's log:", *lines, sep="\n", file=sys.stderr)
    return 0 if good else 1


def _log(path: str | None) -> TextIO:
    return pathlib.Path(path).open("w", encoding="utf-8") if path else io.StringIO()


async def operate(chosen: settings.Settings, url: str, stop: asyncio.Event) -> None:
    """The real operator, in this process."""
    await operator.operate(chosen, server=url, stop_flag=stop)


async def play(
    url: str,
    operate: Operate,
    shown: screen.Screen,
    *,
    keep: bool = False,
    step_s: float = story.STEP_S,
) -> bool:
    """The demo against the API server at ``url``; whether everything held.

    Args:
        url: of the server, which must be empty.
        operate: runs the operator.
        shown: where people look.
        keep: go on, once all is played, until the operator ends.
        step_s: how long a step may take.
    """
    client = await admin.Admin.connect(server=url)
    try:
        return await Demo(client, url, shown, step_s=step_s).play(operate, keep=keep)
    except* errors.OperatorError as group:
        shown.clear()
        for error in _leaves(group):
            shown.tell(f"the demo could not go on: {error}")
    finally:
        await client.close()
    return False


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


class Demo:
    """The fleet, a view of everything, and what is played with them.

    Args:
        client: acts as users, kubelets and plugins.
        url: what the client is connected to.
        shown: where people look.
        step_s: how long a step may take.
    """

    def __init__(
        self, client: admin.Admin, url: str, shown: screen.Screen, *, step_s: float
    ) -> None:
        self._client = client
        self._url = url
        self._shown = shown
        self._time = clock.SystemClock()
        self._settings = settings.load(SETTINGS)
        behaviour = machine.Behaviour(period_s=5.0, init_s=0.3, heartbeat_s=0.0)
        self._fleet = fleet.Fleet(scenario.HOSTS, client, behaviour=behaviour, time=self._time)
        self._sight = story.Sight(step_s=step_s)

    async def play(self, operate: Operate, *, keep: bool) -> bool:
        """Start all, play, conclude; the fleet outlives the operator, which stops in order."""
        await self._fleet.install()
        async with asyncio.TaskGroup() as tasks:
            serving = [self._fleet.serve(), *(source.run() for source in self._feeds())]
            stage = [tasks.create_task(each, name="stage") for each in serving]
            await self._fleet.started.wait()
            good = await self._with_operator(operate, keep=keep)
            for task in stage:
                task.cancel()
        return good

    def _feeds(self) -> Iterator[feed.Feed]:
        for resource, sink in (
            (ports.NODES, self._sight.nodes),
            (ports.PODS, self._sight.pods),
            (ports.EVENTS, self._sight.events),
        ):
            yield feed.Feed(self._client, resource, sink, time=self._time)

    async def _with_operator(self, operate: Operate, *, keep: bool) -> bool:
        stop = asyncio.Event()
        over = False

        async def run() -> None:
            await operate(self._settings, self._url, stop)
            if not over:
                raise errors.OperatorError("the operator ended before its time")

        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(run(), name="operator")
            good = await self._perform()
            over = True
            if keep:
                self._shown.tell(f"\nkubectl --server {self._url} get pods -o wide")
                await asyncio.wait([running])
            stop.set()
        return good

    async def _perform(self) -> bool:
        """Play the story with its board below, then show how all stands."""
        self._shown.tell(
            f"{len(self._fleet.machines)} simulated nodes; operator and API server in one process"
        )
        plot = story.Story(
            self._client,
            self._fleet,
            self._sight,
            chosen=self._settings,
            tell=self._shown.tell,
            time=self._time,
        )
        async with asyncio.TaskGroup() as tasks:
            board = tasks.create_task(self._board(), name="board")
            checks = await plot.play()
            board.cancel()
        self._shown.clear()
        await self._conclude(checks)
        return not any(check.problems for check in checks)

    async def _board(self) -> None:
        """Redraw the board, or say a line now and then."""
        said = ""
        while True:
            pods = self._sight.pods.all()
            now = report.summary(pods)
            if self._shown.live:
                nodes = self._sight.nodes.all()
                self._shown.draw(report.board(nodes, pods, self._fleet.machines))
            elif pods and now != said:
                self._shown.tell(f"  {now}")
            said = now
            await self._time.sleep(_FRAME_S if self._shown.live else _LINE_S)

    async def _conclude(self, checks: Sequence[story.Check]) -> None:
        found = await devices.cluster(self._client, self._settings, self._time)
        pods = (await pages.whole(self._client, ports.PODS)).items
        width = shutil.get_terminal_size().columns if self._shown.live else 0
        for line in (
            "",
            *report.cards(found, width=width),
            "",
            "waiting:",
            *report.waiting(pods),
            "",
            *report.verdict(checks),
            report.summary(pods),
        ):
            self._shown.tell(line)
