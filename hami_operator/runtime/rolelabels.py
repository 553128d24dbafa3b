"""Labels that say which replica leads, for a Service that selects the leader by them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import structlog

from hami_operator import clock, errors
from hami_operator.cluster import ports
from hami_operator.scheduling import pod as pods

ROLE: Final = "hami.io/scheduler-role"
COMPONENT: Final = ("app.kubernetes.io/component", "hami-scheduler")
"""The label of all replicas."""
INTERVAL_S: Final = 5.0

_log = structlog.get_logger(__name__)


class RoleLabels:
    """The leader labels itself and all other replicas; what fails is tried at the next look.

    Args:
        known: the pods of the cluster, as last seen.
        writer: writes labels.
        namespace: of the replicas.
        own: name of this process's pod.
        is_leading: whether it leads.
        time: the clock.
    """

    def __init__(
        self,
        known: Callable[[], Iterable[pods.Pod]],
        writer: ports.PodWriter,
        *,
        namespace: str,
        own: str,
        is_leading: Callable[[], bool],
        time: clock.Clock,
    ) -> None:
        self._known = known
        self._writer = writer
        self._namespace = namespace
        self._own = own
        self._is_leading = is_leading
        self._time = time

    async def run(self) -> None:
        """Look for ever."""
        while True:
            if self._is_leading():
                await self.tick()
            await self._time.sleep(INTERVAL_S)

    async def tick(self) -> None:
        """Label the replicas whose label is not what it should be."""
        for pod, role in tuple(self._wrong()):
            body: Mapping[str, object] = {"uid": pod.uid, "labels": {ROLE: role}}
            try:
                await self._writer.patch_pod(pod.namespace, pod.name, {"metadata": body})
            except errors.NotFound:
                continue  # the replica is gone
            except (errors.ApiError, errors.Fenced) as error:
                _log.error("role not written", pod="/".join(pod.key), role=role, error=str(error))

    def _wrong(self) -> Iterator[tuple[pods.Pod, str]]:
        name, value = COMPONENT
        for pod in self._known():
            if pod.namespace == self._namespace and pod.labels.get(name) == value:
                role = "leader" if pod.name == self._own else "follower"
                if pod.labels.get(ROLE) != role:
                    yield pod, role
