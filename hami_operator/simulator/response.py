"""What a container gets from a plugin beside its devices: the limiter and its limits. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final

from hami_operator.protocol import decision
from hami_operator.simulator import kubelet

Raw = Mapping[str, Any]

HOOK: Final = "/usr/local/vgpu"
"""Where the limiter lies, on the host and in containers."""
PRELOAD: Final = "/etc/ld.so.preload"
"""The file that makes every program of a container load the limiter."""
SWITCH: Final = "CUDA_DISABLE_CONTROL"
"""A container's own variable that keeps the limiter out of it."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Response:
    """One container's part of the answer to ``Allocate``.

    Attributes:
        container: its name.
        picks: its cards.
        env: variables.
        mounts: path in the container to path on the host.
    """

    container: str
    picks: tuple[decision.Pick, ...]
    env: Mapping[str, str]
    mounts: Mapping[str, str]


def respond(
    pod: Raw, slot: int, picks: Sequence[decision.Pick], *, limited: bool = False
) -> Response:
    """What the container of a slot gets.

    Args:
        pod: the container's.
        slot: of the decision; one beyond the pod's containers has no name.
        picks: what the decision gives it, at least one.
        limited: whether the plugin brings the limiter along.
    """
    container = dict(enumerate(kubelet.containers(pod))).get(slot, {"name": ""})
    return Response(
        container=container["name"],
        picks=tuple(picks),
        env=_limits(picks) if limited else {},
        mounts=_mounts(pod, container) if limited else {},
    )


def _limits(picks: Sequence[decision.Pick]) -> dict[str, str]:
    memory = {
        f"CUDA_DEVICE_MEMORY_LIMIT_{number}": f"{pick.memory_mib}m"
        for number, pick in enumerate(picks)
    }
    visible = ",".join(pick.id for pick in picks)
    cores = str(picks[0].cores)
    return {**memory, "CUDA_DEVICE_SM_LIMIT": cores, "NVIDIA_VISIBLE_DEVICES": visible}


def _mounts(pod: Raw, container: Raw) -> dict[str, str]:
    """The directory of a container is named by pod and container, as the monitor expects it."""
    own = f"{HOOK}/containers/{pod['metadata']['uid']}_{container['name']}"
    mounts = {HOOK: own, f"{HOOK}/libvgpu.so": f"{HOOK}/libvgpu.so"}
    return mounts if _is_off(container) else {**mounts, PRELOAD: f"{HOOK}/ld.so.preload"}


def _is_off(container: Raw) -> bool:
    variables = container.get("env") or ()
    return any(one["name"] == SWITCH and one.get("value") == "true" for one in variables)
