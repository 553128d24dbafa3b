"""Watches of kinds that most clusters never need for our pods: each begins when a pod needs it."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from hami_operator.cluster import ports
from hami_operator.runtime import reflector
from hami_operator.scheduling import objects

RESOURCES: Final[Mapping[objects.Kind, ports.Resource]] = {
    objects.Kind.CLAIM: ports.CLAIMS,
    objects.Kind.VOLUME: ports.VOLUMES,
    objects.Kind.CLASS: ports.STORAGE_CLASSES,
    objects.Kind.CSI_NODE: ports.CSI_NODES,
    objects.Kind.CSI_DRIVER: ports.CSI_DRIVERS,
    objects.Kind.CAPACITY: ports.CSI_CAPACITIES,
    objects.Kind.ATTACHMENT: ports.ATTACHMENTS,
    objects.Kind.NAMESPACE: ports.NAMESPACES,
    objects.Kind.RESOURCE_CLAIM: ports.RESOURCE_CLAIMS,
    objects.Kind.DEVICE_CLASS: ports.DEVICE_CLASSES,
    objects.Kind.POD_GROUP: ports.POD_GROUPS,
    objects.Kind.NATIVE_GROUP: ports.NATIVE_GROUPS,
}

_DYNAMIC: Final = "resource.k8s.io"
_BETAS: Final = (((1, 34), "v1"), ((1, 33), "v1beta2"))
"""Since when a server has a version of ``resource.k8s.io``; older ones have ``v1beta1``."""

_log = structlog.get_logger(__name__)


def resources(server: tuple[int, int]) -> Mapping[objects.Kind, ports.Resource]:
    """Every kind in the version that a server of this release has."""
    version = next((name for since, name in _BETAS if server >= since), "v1beta1")
    return {
        kind: dataclasses.replace(one, version=version) if one.group == _DYNAMIC else one
        for kind, one in RESOURCES.items()
    }


class Watches:
    """One task per kind, which waits until the kind is wanted.

    The tasks are there from the start: kopf cancels what is started later.

    Args:
        build: makes the reflector of a kind.
    """

    def __init__(self, build: Callable[[objects.Kind], reflector.Reflector]) -> None:
        self._reflectors = {kind: build(kind) for kind in objects.Kind}
        self._wanted = {kind: asyncio.Event() for kind in objects.Kind}

    def widen(self, kinds: frozenset[objects.Kind]) -> None:
        """Begin to watch; harmless for kinds that are watched already."""
        for kind in sorted(kinds, key=lambda one: one.value):
            if not self._wanted[kind].is_set():
                _log.info("watching, since a pod depends on it", resource=kind.value)
                self._wanted[kind].set()

    async def run(self, kind: objects.Kind) -> None:
        """Wait until the kind is wanted, then keep it up to date for ever."""
        await self._wanted[kind].wait()
        await self._reflectors[kind].run()
