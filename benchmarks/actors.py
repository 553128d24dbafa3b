"""The schedulers that are compared, behind one face, and the nodes that they share."""

from __future__ import annotations

import asyncio
import dataclasses
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import aiohttp
import yaml

from benchmarks import fleet
from tests.conformance import operators, servers
from tests.controlplane import build, cluster, commands, process

START_S: Final = 60.0
POLL_S: Final = 0.05
FLOOR: Final = "kube-scheduler"

_WORDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "annotation": {"node_lock": "annotation"},
    "memory": {"node_lock": "memory"},
    "kopf": {"node_source": "kopf"},
    "reflector": {"node_source": "reflector"},
    "auto": {"decision_carrier": "auto"},
    "patch": {"decision_carrier": "patch"},
    "binpack": {"node_scheduler_policy": "binpack"},
    "spread": {"node_scheduler_policy": "spread"},
    "shipped": {},
    "bare": {"vendors": {"NVIDIA": {"lock": "none"}}},
}
"""Word of a variant to what it sets; ``bare`` also does without device plugins."""


class VariantError(ValueError):
    """A variant that nobody knows."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Variant:
    """One configuration.

    Attributes:
        name: words with ``+`` between them, or `FLOOR`.
        settings: of our operator.
        bare: pods are served by kubelets without device plugins.
    """

    name: str
    settings: dict[str, Any]
    bare: bool = False

    @classmethod
    def parse(cls, name: str) -> Variant:
        """Read a variant.

        Raises:
            VariantError: a word is unknown.
        """
        if name == FLOOR:
            return cls(name=name, settings={})
        words = name.split("+")
        if unknown := [word for word in words if word not in _WORDS]:
            known = f"{FLOOR}, or some of {', '.join(_WORDS)} with + between them"
            raise VariantError(f"{name}: unknown {', '.join(unknown)}; a variant is {known}")
        settings: dict[str, Any] = {}
        for word in words:
            settings |= _WORDS[word]
        return cls(name=name, settings=settings, bare="bare" in words)


class Scheduler(Protocol):
    """A scheduler that runs."""

    @property
    def pid(self) -> int:
        """Process id."""
        ...

    @property
    def user(self) -> str:
        """How the audit log knows it: its user, or the begin of its user agent."""
        ...

    def stop(self) -> None:
        """End it."""
        ...


class Operator:
    """Our operator, as its ServiceAccount, on the rights of the shipped manifests."""

    def __init__(self, kubeconfig: Path, folder: Path, variant: Variant, profile: str) -> None:
        file = folder / f"{variant.name}.yaml"
        file.write_text(yaml.safe_dump(variant.settings))
        profiled = ("cProfile", "-o", profile, "-m", "hami_operator")
        self._running = operators.Operator(
            kubeconfig,
            folder,
            f"--config={file}",
            name=f"{variant.name}-{time.monotonic_ns()}",
            command=profiled if profile else operators.COMMAND,
        )

    @property
    def pid(self) -> int:
        """See `Scheduler`."""
        return self._running.pid

    @property
    def user(self) -> str:
        """See `Scheduler`."""
        return servers.USER

    async def ready(self) -> None:
        """Wait until it decides."""
        deadline = time.monotonic() + START_S
        while not self._running.decides:
            if self._running.exit_code() is not None or time.monotonic() > deadline:
                raise self._running.failure("does not decide")
            await asyncio.sleep(POLL_S)

    def stop(self) -> None:
        """See `Scheduler`."""
        self._running.stop()


class KubeScheduler:
    """kube-scheduler without client limits; it takes pods of the default scheduler's name."""

    def __init__(self, plane: cluster.ControlPlane, folder: Path) -> None:
        port = plane.ports.scheduler
        self._url = f"https://{commands.HOST}:{port}"
        made = commands.scheduler(port=port, kubeconfig=plane.kubeconfig_path, cert_dir=folder)
        lifted = ["--kube-api-qps=1000", "--kube-api-burst=2000"]
        self._running = process.Process(
            FLOOR,
            [build.ensure((FLOOR,)) / FLOOR, *made, *lifted],
            log_path=folder / f"{FLOOR}.log",
        )

    @property
    def pid(self) -> int:
        """See `Scheduler`."""
        return self._running.pid

    @property
    def user(self) -> str:
        """See `Scheduler`."""
        return FLOOR

    async def ready(self) -> None:
        """Wait until it has seen everything."""
        deadline = time.monotonic() + START_S
        while await self._get("/readyz") != 200:
            if self._running.exit_code() is not None or time.monotonic() > deadline:
                raise self._running.failure("is not ready")
            await asyncio.sleep(POLL_S)

    def stop(self) -> None:
        """See `Scheduler`."""
        self._running.stop()

    async def _get(self, path: str) -> int:
        try:
            # It made its certificate itself, a moment ago.
            async with (
                aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session,
                session.get(self._url + path, timeout=aiohttp.ClientTimeout(total=5)) as answer,
            ):
                return answer.status
        except aiohttp.ClientError:
            return 0


class Fleet:
    """The process of the simulated nodes, in one mode at a time."""

    def __init__(self, plane: cluster.ControlPlane, *, nodes: int, cards: int) -> None:
        self._plane = plane
        self._size = [f"--nodes={nodes}", f"--cards={cards}"]
        self._mode = ""
        self._running: process.Process | None = None

    @property
    def pid(self) -> int:
        """Process id."""
        assert self._running is not None
        return self._running.pid

    async def serve(self, mode: str) -> None:
        """Serve in a mode, see `fleet`."""
        if mode == self._mode:
            return
        self.stop()
        log_path = self._plane.directory / f"{mode}.log"
        log_path.unlink(missing_ok=True)
        self._mode = mode
        self._running = process.Process(
            mode,
            [
                sys.executable,
                *("-m", fleet.__name__, mode),
                f"--kubeconfig={self._plane.kubeconfig_path}",
                *self._size,
            ],
            log_path=log_path,
        )
        await self._ready(self._running, log_path)

    async def _ready(self, running: process.Process, log_path: Path) -> None:
        deadline = time.monotonic() + START_S
        while fleet.READY not in process.tail(log_path).splitlines():
            if running.exit_code() is not None or time.monotonic() > deadline:
                raise running.failure("does not serve")
            await asyncio.sleep(POLL_S)

    def stop(self) -> None:
        """End it; its nodes stay."""
        if self._running is not None:
            self._running.stop()
