"""The handlers, and the explicit list of what kopf may call.

Events only: each other kind of handler makes kopf write to the objects, set finalizers or keep
indexes that cost a wake-up per pair of objects.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

import kopf
import structlog

from hami_operator import clock
from hami_operator import settings as settings_module
from hami_operator.cluster import kubernetes, ports
from hami_operator.handlers import session, storages

WAITER: Final = "pause-waiter for "
"""How kopf names the tasks that wait for a watch to be paused."""
LOGIN_S: Final = 600.0
"""kopf asks for credentials again after so long, since tokens are replaced in place."""
FINALIZER: Final = "hami.io/never-used"
"""Never set. kopf *removes* the configured one from all objects, so its default is dangerous."""
PAGE: Final = 500
REQUEST_S: Final = 30.0

_log = structlog.get_logger(__name__)


class Intake(Protocol):
    """Where events go; the type is None for what kopf listed, else as in a watch."""

    def node_event(self, type_: str | None, raw: ports.Raw) -> None:
        """A Node was listed, added, changed or deleted."""
        ...

    def pending_event(self, type_: str | None, raw: ports.Raw) -> None:
        """A pending pod of ours was listed, added or changed, or is pending no more."""
        ...


class Handlers:
    """What kopf calls. Nothing here raises, returns a value or touches ``patch``."""

    def __init__(
        self,
        *,
        settings: settings_module.Settings,
        intake: Intake,
        login: Callable[[], Awaitable[kubernetes.Connection]],
        drain: Callable[[], Awaitable[object]],
        time: clock.Clock,
    ) -> None:
        self._settings = settings
        self._intake = intake
        self._login = login
        self._drain = drain
        self._time = time

    async def startup(self, settings: kopf.OperatorSettings, **_: Any) -> None:
        """Keep kopf from writing, scanning, posting and peering."""
        configure(settings, scheduler_name=self._settings.scheduler_name)

    async def login(self, **_: Any) -> kopf.AiohttpSession:
        """Lend our credentials for a while."""
        expiration = self._time.wall() + datetime.timedelta(seconds=LOGIN_S)
        return session.build(await self._login(), expiration=expiration)

    async def node(self, event: Mapping[str, Any], **_: Any) -> None:
        """A Node changed."""
        _hand_over(self._intake.node_event, event)

    async def pending_pod(self, event: Mapping[str, Any], **_: Any) -> None:
        """A pending pod of ours changed; DELETED may also mean that it was bound."""
        _hand_over(self._intake.pending_event, event)

    async def cleanup(self, **_: Any) -> None:
        """Stop in order while kopf waits; what it finds running afterwards, it cancels."""
        try:
            await self._drain()
        except Exception:
            _log.exception("drain failed")
        _end_waiters()


def build(
    settings: settings_module.Settings,
    *,
    intake: Intake,
    login: Callable[[], Awaitable[kubernetes.Connection]],
    drain: Callable[[], Awaitable[object]],
    time: clock.Clock,
) -> kopf.OperatorRegistry:
    """A registry of our own with everything that kopf may call.

    Where reflectors watch Nodes and pods (``node_source: reflector``), kopf remains as the shell
    that starts and stops, and watches nothing.
    """
    calls = Handlers(settings=settings, intake=intake, login=login, drain=drain, time=time)
    registry = kopf.OperatorRegistry()
    permanent = kopf.ErrorsMode.PERMANENT
    kopf.on.startup(registry=registry, id="startup", errors=permanent)(calls.startup)
    kopf.on.login(registry=registry, id="login")(calls.login)
    kopf.on.cleanup(registry=registry, id="cleanup", errors=permanent)(calls.cleanup)
    if settings.node_source == "kopf":
        kopf.on.event("v1", "nodes", registry=registry, id="node")(calls.node)
        kopf.on.event("v1", "pods", registry=registry, id="pod")(calls.pending_pod)
    return registry


def configure(settings: kopf.OperatorSettings, *, scheduler_name: str) -> None:
    """The settings without which kopf writes to objects or watches every pod of the cluster."""
    settings.persistence.diffbase_storage = storages.NoDiffBase()
    settings.persistence.progress_storage = storages.NoProgress()
    settings.persistence.finalizer = FINALIZER
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.peering.standalone = True
    pending = f"spec.schedulerName={scheduler_name},spec.nodeName="
    settings.watching.field_selectors["v1", "pods"] = pending
    settings.watching.chunk_size = PAGE
    settings.networking.request_timeout = REQUEST_S
    settings.networking.trust_env = False


def _end_waiters() -> None:
    """End what kopf may have left of its watches, which have all ended when it cleans up.

    A watch that is cancelled while it hands an event over leaves its waiter behind, and kopf
    would wait five seconds for it: so much longer would our Lease be held.
    """
    for task in asyncio.all_tasks():
        if task.get_name().startswith(WAITER):
            task.cancel()


def _hand_over(take: Callable[[str | None, ports.Raw], None], event: Mapping[str, Any]) -> None:
    """Report a fault of ours here: kopf would log it as one of the object and go on."""
    try:
        take(event["type"], dict(event["object"]))
    except Exception:
        _log.exception("event lost", type=event.get("type"))
