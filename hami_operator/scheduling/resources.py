"""What a pod requests of a node: the arithmetic, and what the names mean.

Amounts inside a pod are billionths, exact; the pod's total is rounded once, to thousandths for
cpu and to whole units for everything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from hami_operator.protocol import quantity
from hami_operator.scheduling import containers

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"
PLAIN: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)
_NATIVE: Final = "kubernetes.io/"


def total(
    requests: Iterable[tuple[containers.Kind, Mapping[str, int]]],
    *,
    pod_level: Mapping[str, int],
    overhead: Mapping[str, int],
) -> dict[str, int]:
    """The request of a pod in billionths.

    Args:
        requests: of each container, init containers and sidecars in their order before the apps.
        pod_level: replaces the containers' total for cpu, memory and huge pages.
        overhead: of the pod's runtime class, added at the end.
    """
    running: dict[str, int] = {}  # sidecars so far; with the apps: all that runs for good
    peak: dict[str, int] = {}  # the most that any single init container needs
    for kind, amounts in requests:
        if kind is containers.Kind.INIT:
            for name, amount in amounts.items():
                peak[name] = max(peak.get(name, 0), amount + running.get(name, 0))
        else:
            for name, amount in amounts.items():
                running[name] = running.get(name, 0) + amount
    if peak:
        running = {name: max(running.get(name, 0), peak.get(name, 0)) for name in running | peak}
    running.update({name: pod_level[name] for name in pod_level if is_pod_level(name)})
    for name, amount in overhead.items():
        running[name] = running.get(name, 0) + amount
    return running


def rounded(billionths: Mapping[str, int]) -> dict[str, int]:
    """Comparable amounts: cpu in thousandths, all else in units, rounded up; no zeros."""
    return {name: comparable(name, amount) for name, amount in billionths.items() if amount > 0}


def comparable(name: str, billionths: int) -> int:
    """One amount of ``rounded``."""
    return quantity.milli_of(billionths) if name == CPU else quantity.whole_of(billionths)


def is_pod_level(name: str) -> bool:
    """Whether a pod can ask for the resource as a whole, over its containers' heads."""
    return name in {CPU, MEMORY} or name.startswith("hugepages-")


def is_extended(name: str) -> bool:
    """Whether it is a resource of somebody else than Kubernetes, e.g. a device."""
    return "/" in name and _NATIVE not in name and not name.startswith("requests.")


def is_scalar(name: str) -> bool:
    """Whether it is compared although it is none of cpu, memory and ephemeral storage."""
    return (
        is_extended(name)
        or _NATIVE in name
        or name.startswith(("hugepages-", "attachable-volumes-"))
    )
