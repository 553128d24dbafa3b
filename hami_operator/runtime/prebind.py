"""What is done for a pod's claims before it is bound: written, waited for, and given back.

The wait holds no worker. What is written to volumes and their claims stays where the wait comes to
nothing, as with kube-scheduler: whoever makes the volume takes it back, and the next attempt goes
on from there. A place in a claim of devices is given back, and so is the name of the node on the
pod, which says during the wait where the pod is expected.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import structlog

from hami_operator import clock, errors
from hami_operator.cluster import ports
from hami_operator.runtime import outcome, retry, shield
from hami_operator.scheduling import effects, preparation, resourceclaims, storage

POLL_S: Final = 1.0
TIMEOUT_S: Final = 600.0
"""So long kube-scheduler waits for volumes as well."""
TRIES: Final = 3

_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
_log = structlog.get_logger(__name__)

Written = Mapping[tuple[str, str], str]


class ObjectPort(ports.ObjectReader, ports.ObjectWriter, Protocol):
    """What preparing a bind asks of the API server."""


class Preparer:
    """Carries out `preparation.Preparation` values.

    Args:
        api: writes.
        progress: how far a preparation is, by what the watches know.
        is_waiting: whether the pod with this UID still waits for its node.
        claims: ResourceClaims in the version that the server has.
    """

    def __init__(
        self,
        api: ObjectPort,
        *,
        progress: Callable[[preparation.Preparation, Written], preparation.Progress | str],
        is_waiting: Callable[[str], bool],
        time: clock.Clock,
        generator: random.Random,
        claims: ports.Resource = ports.RESOURCE_CLAIMS,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._api = api
        self._progress = progress
        self._is_waiting = is_waiting
        self._time = time
        self._generator = generator
        self._claims = claims
        self._timeout_s = timeout_s
        self._nominated: set[str] = set()

    async def prepare(self, order: effects.Bind) -> outcome.Outcome | None:
        """Do all that has to be done; None where the pod may be bound now."""
        wanted = order.preparation
        if wanted is None:
            return None
        try:
            written = await self._write(wanted)
            problem = await self._wait(order, wanted, written)
            if problem is None:
                for claim in wanted.reserved:
                    await self._reserve(order, claim)
        except errors.NotFound as error:
            return _failed(f"a claim of the pod is gone: {error}")
        except errors.Fenced as error:
            return outcome.Outcome(ending=outcome.Ending.STOPPED, message=str(error))
        except errors.ApiError as error:
            return _failed(f"the pod's claims are not ready: {error}")
        return problem

    async def undo(self, order: effects.Bind) -> None:
        """Give back what the pod that is not bound holds; harmless if it holds nothing."""
        if order.pod.uid in self._nominated:
            self._nominated.discard(order.pod.uid)
            await self._name_node(order, order.pod.rank.nominated_node)
        for claim in order.preparation.reserved if order.preparation is not None else ():
            try:
                await self._release(order, claim)
            except errors.NotFound:
                continue
            except (errors.ApiError, errors.Fenced) as error:
                _log.warning("place in a claim not given back", claim=claim.name, error=str(error))

    # ---- volumes

    async def _write(self, wanted: preparation.Preparation) -> Written:
        """Say which volume is for which claim; the versions of the claims that were written."""
        for claim, volume in wanted.matched:
            if volume.claim is None:
                await self._patch(ports.VOLUMES, "", volume.name, _claimed(claim, volume))
        written = {}
        for claim in wanted.provisioned:
            if claim.selected_node == wanted.node:
                continue
            body = _selected(claim, wanted.node)
            raw = await self._patch(ports.CLAIMS, claim.namespace, claim.name, body)
            written[claim.key] = str((raw.get("metadata") or {}).get("resourceVersion") or "")
        return written

    async def _wait(
        self, order: effects.Bind, wanted: preparation.Preparation, written: Written
    ) -> outcome.Outcome | None:
        uid = order.pod.uid
        deadline_s = self._time.monotonic() + self._timeout_s
        while True:
            state = self._progress(wanted, written)
            if isinstance(state, str):
                return _failed(state)
            if not self._is_waiting(uid):
                return outcome.Outcome(ending=outcome.Ending.GONE, message="the pod is gone")
            if state is preparation.Progress.DONE:
                return None
            if uid not in self._nominated:
                self._nominated = {uid, *filter(self._is_waiting, self._nominated)}
                await self._name_node(order, order.node)
            if self._time.monotonic() >= deadline_s:
                return _failed(f"the pod's volumes were not bound within {self._timeout_s:g} s")
            await self._time.sleep(POLL_S)

    async def _name_node(self, order: effects.Bind, node: str) -> None:
        """Say on the pod where it is expected; it is bound just as well without."""
        body = {"metadata": {"uid": order.pod.uid}, "status": {"nominatedNodeName": node or None}}
        namespace, name = order.pod.key
        try:
            await retry.send(
                lambda: shield.finish(
                    self._api.patch_object(ports.PODS, namespace, name, body, subresource="status")
                ),
                time=self._time,
                generator=self._generator,
            )
        except (errors.ApiError, errors.Fenced) as error:
            _log.info("node not named on its pod", pod=f"{namespace}/{name}", error=str(error))

    # ---- claims of devices

    async def _reserve(self, order: effects.Bind, claim: resourceclaims.Claim) -> None:
        mine = {"resource": "pods", "name": order.pod.name, "uid": order.pod.uid}
        await self._change_users(claim, order.pod.uid, mine)

    async def _release(self, order: effects.Bind, claim: resourceclaims.Claim) -> None:
        await shield.finish(self._change_users(claim, order.pod.uid, None))

    async def _change_users(
        self, claim: resourceclaims.Claim, uid: str, mine: Mapping[str, str] | None
    ) -> None:
        """Read the list, change our own entry, and write it under the version that was read."""
        for attempt in range(TRIES):
            raw = await self._api.get_object(self._claims, claim.namespace, claim.name)
            body = _users(raw, uid, mine)
            if body is None:
                return
            try:
                await self._api.patch_object(
                    self._claims, claim.namespace, claim.name, body, subresource="status"
                )
            except errors.Conflict:
                if attempt + 1 == TRIES:
                    raise
            else:
                return

    async def _patch(
        self, resource: ports.Resource, namespace: str, name: str, body: ports.Body
    ) -> ports.Raw:
        """Merge-patch under the version that was decided on; repeating it changes nothing."""
        return await retry.send(
            lambda: shield.finish(self._api.patch_object(resource, namespace, name, body)),
            time=self._time,
            generator=self._generator,
        )


def _claimed(claim: storage.Claim, volume: storage.Volume) -> ports.Body:
    return {
        "metadata": {
            "uid": volume.uid,
            "resourceVersion": volume.version,
            "annotations": {_BY_CONTROLLER: "yes"},
        },
        "spec": {
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": claim.namespace,
                "name": claim.name,
                "uid": claim.uid,
            }
        },
    }


def _selected(claim: storage.Claim, node: str) -> ports.Body:
    return {
        "metadata": {
            "uid": claim.uid,
            "resourceVersion": claim.version,
            "annotations": {storage.SELECTED_NODE: node},
        }
    }


def _users(raw: ports.Raw, uid: str, mine: Mapping[str, str] | None) -> ports.Body | None:
    """The whole list with our entry as wanted; None where it is so already."""
    status: dict[str, Any] = raw.get("status") or {}
    users = list(status.get("reservedFor") or ())
    others = [user for user in users if user.get("uid") != uid]
    if (mine is None) is (len(others) == len(users)):
        return None
    metadata = raw.get("metadata") or {}
    kept = {key: metadata.get(key) for key in ("uid", "resourceVersion")}
    wanted = others if mine is None else [*users, dict(mine)]
    return {"metadata": kept, "status": {"reservedFor": wanted or None}}


def _failed(message: str) -> outcome.Outcome:
    return outcome.Outcome(ending=outcome.Ending.FAILED, message=message)
