"""The device plugins of one node as kubelet calls them: what they read and write for a call."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any, Final

import structlog

from hami_operator import clock, errors
from hami_operator.cluster import ports
from hami_operator.cluster.kubernetes import admin
from hami_operator.devices import registry, vendor
from hami_operator.protocol import bindphase
from hami_operator.simulator import allocation, kubelet, patience, plugin, response

Raw = ports.Raw
Granted = allocation.Granted
Refused = allocation.Refused

UNLOCK_ATTEMPTS: Final = 5

_log = structlog.get_logger(__name__)


class Service:
    """Serves one call at a time.

    Args:
        node: its name.
        plugins: keyword to the plugin as it is now; ordered failures are counted down in it.
        client: talks to the API server as the plugins do.
        rows: the vendor rows.
        waiting: pods that kubelet has not admitted yet, in order of arrival.
        time: the clock.
    """

    def __init__(
        self,
        node: str,
        plugins: MutableMapping[str, plugin.Plugin],
        client: admin.Admin,
        rows: registry.Registry,
        *,
        waiting: Callable[[], Sequence[Raw]],
        time: clock.Clock,
    ) -> None:
        self._node = node
        self._plugins = plugins
        self._client = client
        self._rows = rows
        self._waiting = waiting
        self._time = time
        self._served: dict[tuple[str, str], int] = {}

    async def allocate(
        self, word: str, calls: Sequence[kubelet.Call]
    ) -> tuple[response.Response, ...] | Refused:
        """One ``Allocate`` of one plugin; kubelet asks for one container at a time.

        Args:
            word: keyword of the plugin's row.
            calls: the containers of the request.
        """
        if self._plugins[word].delay_s:
            await self._time.sleep(self._plugins[word].delay_s)
        one = self._plugins[word]  # it may have died meanwhile
        if not one.alive:
            return Refused(why="rpc error: code = Unavailable", marks=False)
        node = await self._get_node()
        pod = await self._find(one.row, node)
        if isinstance(pod, Refused):
            return pod
        answer = await self._write(one.row, pod, await self._serve(one, pod, calls))
        await self._finish(one.row, node, pod, answer)
        if isinstance(answer, Refused):
            return answer
        return tuple(self._respond(one, pod, each) for each in answer)

    def _respond(self, one: plugin.Plugin, pod: Raw, granted: Granted) -> response.Response:
        limited = one.model.limited
        given = response.respond(pod, granted.slot, granted.picks, limited=limited)
        ids = [pick.id for pick in given.picks]
        where = {"pod": patience.words(pod), "container": given.container}
        _log.debug("allocated", node=self._node, **where, cards=ids, env=given.env)
        return given

    async def find(self, word: str) -> Raw | Refused:
        """The pod that a plugin would serve now."""
        return await self._find(self._plugins[word].row, await self._get_node())

    def forget(self, uid: str) -> None:
        """A pod is gone."""
        for key in [key for key in self._served if key[0] == uid]:
            del self._served[key]

    # ---- who is served

    async def _find(self, row: vendor.Vendor, node: Raw | None) -> Raw | Refused:
        gone = Refused(why=f"node {self._node} cannot be read", marks=False)
        holder = allocation.holder(row, node) if node is not None else gone
        if isinstance(holder, Refused):
            return holder
        if holder is None:
            found = await self._listed(row)
            if isinstance(found, Refused):
                return found
            holder = found["metadata"]["namespace"], found["metadata"]["name"]
        pod = await patience.insist(
            lambda: self._client.get_pod(*holder), time=self._time, what=f"pod {holder}"
        )
        return pod or Refused(why=f"pod {'/'.join(holder)} is gone", marks=False)

    async def _listed(self, row: vendor.Vendor) -> Mapping[str, Any] | Refused:
        if not allocation.shares_lock(row):
            return allocation.oldest_unserved(row, self._waiting(), self._served)
        here = ports.Selector(fields=f"spec.nodeName={self._node}")
        try:
            page = await self._client.list_page(ports.PODS, selector=here)
        except errors.ApiError as error:
            return Refused(why=str(error), marks=False)
        return allocation.first_waiting(self._node, page.items)

    # ---- what it gets

    async def _serve(
        self, one: plugin.Plugin, pod: Raw, calls: Sequence[kubelet.Call]
    ) -> tuple[Granted, ...] | Refused:
        """Take a segment for each container; the first that has none ends the request."""
        if one.failing:
            self._plugins[one.row.keyword] = dataclasses.replace(one, failing=one.failing - 1)
            return Refused(why="rpc error: code = Unknown desc = told to fail")
        granted: list[Granted] = []
        for call in calls:
            answer = allocation.allocate(one, self._rows, pod, self._served, call)
            answer = await self._create(one.row, pod, answer)
            if isinstance(answer, Refused):
                return answer
            key = (pod["metadata"]["uid"], one.row.keyword)
            self._served[key] = self._served.get(key, 0) + 1
            if answer.remaining is not None:
                pod = _annotated(pod, one.row.pod.to_allocate, answer.remaining)
            granted.append(answer)
        return tuple(granted)

    async def _create(
        self, row: vendor.Vendor, pod: Raw, answer: Granted | Refused
    ) -> Granted | Refused:
        """Write the instances that were made, if the pod is still the one that was read."""
        if isinstance(answer, Refused) or answer.made is None:
            return answer
        version = {"resourceVersion": pod["metadata"]["resourceVersion"]}
        if await self._annotate(pod, dict.fromkeys(row.pod.plugin, answer.made), **version):
            return answer
        return Refused(why=f"{patience.words(pod)} was changed while its instances were made")

    async def _write(
        self, row: vendor.Vendor, pod: Raw, answer: tuple[Granted, ...] | Refused
    ) -> tuple[Granted, ...] | Refused:
        """Write once what is left; a plugin that cannot has failed."""
        if isinstance(answer, Refused) or answer[-1].remaining is None:
            return answer
        if await self._annotate(pod, {row.pod.to_allocate: answer[-1].remaining}):
            return answer
        return Refused(why=f"{row.pod.to_allocate} of {patience.words(pod)} cannot be written")

    # ---- what it writes afterwards

    async def _finish(
        self,
        row: vendor.Vendor,
        node: Raw | None,
        pod: Raw,
        answer: tuple[Granted, ...] | Refused,
    ) -> None:
        """Set the phase, and give the lock back even where that fails."""
        if isinstance(answer, Refused):
            phase = bindphase.Phase.FAILED if answer.marks else None
        else:
            phase = bindphase.Phase.SUCCESS if answer[-1].finished else None
        if phase is not None:
            await self._annotate(pod, allocation.marks(row, pod, phase))
            await self._unlock(row, node, pod)

    async def _annotate(self, pod: Raw, annotations: Mapping[str, str], **given: str) -> bool:
        """Whether the annotations were written."""
        meta = pod["metadata"]
        body = {"metadata": {"uid": meta["uid"], **given, "annotations": annotations}}
        written = await patience.insist(
            lambda: self._client.patch_pod(meta["namespace"], meta["name"], body),
            time=self._time,
            what=f"annotations of {patience.words(pod)}",
        )
        return written is not None

    async def _unlock(self, row: vendor.Vendor, node: Raw | None, pod: Raw) -> None:
        """Remove the lock if it is still the pod's."""
        for _ in range(UNLOCK_ATTEMPTS):
            key = allocation.releasable(row, node, pod) if node is not None else None
            if node is None or key is None:
                return
            version = node["metadata"]["resourceVersion"]
            body = {"metadata": {"resourceVersion": version, "annotations": {key: None}}}
            try:
                await self._client.patch_node(self._node, body)
            except errors.ApiError as error:
                _log.debug("lock not released yet", node=self._node, error=str(error))
                node = await self._get_node()
            else:
                return
        _log.warning("lock not released", node=self._node, pod=patience.words(pod))

    async def _get_node(self) -> Raw | None:
        return await patience.insist(
            lambda: self._client.get_node(self._node),
            time=self._time,
            what=f"node {self._node}",
        )


def _annotated(pod: Raw, key: str, value: str) -> Raw:
    meta = pod["metadata"]
    annotations = {**meta["annotations"], key: value}
    return {**pod, "metadata": {**meta, "annotations": annotations}}
