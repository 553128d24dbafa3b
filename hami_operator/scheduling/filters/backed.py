"""Extended resources that a DeviceClass maps to dynamic allocation of devices.

Where nodes offer such a resource by a device plugin, it is counted like any other. Where none
does, kube-scheduler would choose devices for it, which this scheduler does not: the pod waits,
and its text says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hami_operator.scheduling import objects, rejection, resourceclaims, surroundings
from hami_operator.scheduling import pod as pods
from hami_operator.scheduling.filters import check, resources

_WANTED: Final = frozenset({objects.Kind.DEVICE_CLASS})


def prefilter(
    pod: pods.Pod, options: check.Options, around: surroundings.Surroundings
) -> rejection.Rejection | None:
    """Rejects a pod that asks for a resource which is to be had from a DeviceClass alone.

    The DeviceClasses are watched once a pod asks for a resource that no node offers; until they
    are listed, each node says that the resource is short there.
    """
    names = _absent(pod, options, around)
    if not names or around.objects.lacks(_WANTED):
        return None
    for name in names:
        found = _class(name, around.objects.device_classes)
        if found is not None:
            text = (
                f"cannot allocate all claims: {name} stands for devices of DeviceClass {found}, "
                "which this scheduler does not choose"
            )
            return rejection.final(resources.NAME, text)
    return None


def _absent(pod: pods.Pod, options: check.Options, around: surroundings.Surroundings) -> list[str]:
    """What the pod asks for beside Kubernetes' own resources, and no node offers."""
    if not any("/" in name for name in pod.requests):
        return []
    asked = (name for name, _ in resources.compared(pod, options))
    return [
        name
        for name in asked
        if "/" in name
        and name not in options.where_offered
        and not any(one.node.amounts.get(name) for one in around.nodes)
    ]


def _class(name: str, known: Iterable[resourceclaims.Class]) -> str | None:
    """The DeviceClass that a resource stands for; the first by name where several say so."""
    return min((one.name for one in known if name in one.resources), default=None)


def helps(pod: pods.Pod, new: resourceclaims.Class | None) -> bool:
    """Whether a DeviceClass changes what is said of the pod; None: all are listed now."""
    return new is None or any(name in pod.requests for name in new.resources)
