"""The demo: it ends well with the real operator, and with nothing less."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import io
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from hami_operator import settings
from hami_operator.cli import demo, main, screen
from hami_operator.cluster import pages, ports
from hami_operator.cluster.kubernetes import admin
from hami_operator.cluster.memory import server, store
from hami_operator.simulator import scenario

LIMIT_S = 150.0
"""On a busy machine; an idle one needs some twelve seconds."""


class Run:
    """The demo as a process of its own, kept alive until `end`."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "hami_operator", "demo", "--keep"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        self._limit = threading.Timer(LIMIT_S, self._process.kill)
        self._limit.start()
        self.lines: list[str] = []
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.rstrip("\n"))
            if line.startswith("kubectl "):
                break

    @property
    def url(self) -> str:
        """From the line that it prints for people."""
        found = re.fullmatch(r"kubectl --server (http://[\d.:]+) get pods -o wide", self.lines[-1])
        assert found is not None, "\n".join(self.lines)
        return found[1]

    def end(self) -> tuple[int, str]:
        """Interrupt it; exit code and standard error."""
        self._process.send_signal(signal.SIGINT)
        _, errors = self._process.communicate(timeout=30)
        self._limit.cancel()
        return self._process.returncode, errors


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    running = Run()
    yield running
    assert running.end() == (0, "")


def get(run: Run, path: str) -> Any:
    with urllib.request.urlopen(run.url + path, timeout=10) as answer:
        return orjson.loads(answer.read())


def test_everything_holds(run: Run) -> None:
    verdict = [line for line in run.lines if line.startswith(("ok ", "FAILED "))]
    assert len(verdict) >= 10
    assert not [line for line in verdict if line.startswith("FAILED")], "\n".join(run.lines)


def test_off_a_terminal_the_lines_are_plain(run: Run) -> None:
    assert not [line for line in run.lines if "\x1b" in line]
    assert [line for line in run.lines if re.fullmatch(r"  pods: .*\d+ running.*", line)]


def test_the_story_is_told(run: Run) -> None:
    text = "\n".join(run.lines)
    for part in (
        "minus-one: refused by the API server: ",
        "the NVIDIA plugin of sim-3 has died",
        "sim-3: NVIDIA is unavailable",
        "the NVIDIA plugin of sim-3 is back",
        "deleting exclusive-01, exclusive-02",
    ):
        assert part in text


def test_every_card_is_in_the_table_with_its_owners(run: Run) -> None:
    cards = sum(one.number for host in scenario.HOSTS for one in host.equipment)
    rows = [line for line in run.lines if re.search(r" \d+/\d+ +[█░]{10} ", line)]
    assert len(rows) == cards
    assert [line for line in rows if line.endswith(" late-01")]
    assert [line for line in rows if "nvidia-and-hcu-01" in line and "HCU" in line]


def test_those_that_wait_are_listed_with_their_reasons(run: Run) -> None:
    start = run.lines.index("waiting:")
    listed = {line.split()[0]: line for line in run.lines[start + 1 : start + 6]}
    assert set(listed) == {
        shape.name for shape in scenario.SHAPES if shape.want is scenario.Want.WAITS
    }
    assert all("0/8 nodes are available" in line for line in listed.values())


def test_the_kept_server_answers_and_holds_the_pods(run: Run) -> None:
    pods = get(run, "/api/v1/namespaces/default/pods")["items"]
    refused = [one for one in scenario.SHAPES if one.want is scenario.Want.REFUSED]
    gone = len(refused) + len(scenario.GIVE_WAY)
    assert len(pods) == len(list(scenario.every())) - gone


def test_the_devices_command_reads_the_kept_server(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["devices", "--server", run.url, "--node", "sim-1", "-o", "json"]) == 0
    found = orjson.loads(capsys.readouterr().out)
    assert [one["available"] for one in found] == [True] * 4
    assert sum(one["slots_used"] for one in found) == 22


# ---- in this process


def served() -> server.ApiServer:
    return server.ApiServer(store.Store())


async def play(operate: demo.Operate, *, step_s: float) -> tuple[bool, str]:
    out = io.StringIO()
    with served() as api:
        good = await demo.play(api.url, operate, screen.Screen(out), step_s=step_s)
    return good, out.getvalue()


async def test_everything_holds_with_locks_in_memory() -> None:
    async def operate(chosen: settings.Settings, url: str, stop: asyncio.Event) -> None:
        await demo.operate(dataclasses.replace(chosen, node_lock="memory"), url, stop)

    good, text = await play(operate, step_s=LIMIT_S / 5)
    assert good, text


# ---- operators that are not good enough


async def test_an_operator_that_does_nothing_fails() -> None:
    async def idle(_chosen: settings.Settings, _url: str, stop: asyncio.Event) -> None:
        await stop.wait()

    good, text = await play(idle, step_s=0.1)
    assert not good
    assert "FAILED  every pod that fits runs, every other says why not" in text
    assert "FAILED  a dead plugin's cards take nobody" in text
    assert "ok      no card is over-booked now" in text


async def test_an_operator_that_crashes_fails() -> None:
    async def broken(_chosen: settings.Settings, _url: str, _stop: asyncio.Event) -> None:
        return

    good, text = await play(broken, step_s=5.0)
    assert not good
    assert "the demo could not go on: the operator ended before its time" in text


async def test_an_operator_that_gives_one_card_to_all_is_found_out() -> None:
    card = scenario.HOSTS[0].equipment[0].model.cards("sim-1", 4)[0].id
    key = "hami.io/vgpu-devices-allocated"

    async def greedy(_chosen: settings.Settings, url: str, stop: asyncio.Event) -> None:
        client = await admin.Admin.connect(server=url)
        pending = ports.Selector(fields="spec.nodeName=,status.phase=Pending")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(30):
                while not stop.is_set():
                    page = await pages.whole(client, ports.PODS, selector=pending)
                    for pod in page.items:
                        await bind(client, pod["metadata"]["name"])
                    await asyncio.sleep(0.01)
        await client.close()

    async def bind(client: admin.Admin, name: str) -> None:
        decision = {key: f"{card},NVIDIA,30000,60:;", "hami.io/vgpu-node": "sim-1"}
        target = {"kind": "Node", "name": "sim-1"}
        meta = {"name": name, "annotations": decision}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
        await client.bind("default", name, binding)

    good, text = await play(greedy, step_s=0.5)
    assert not good
    assert "FAILED  no card was over-booked on the way" in text
    assert f"sim-1 {card}: " in text
