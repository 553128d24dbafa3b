"""Nodes and pods of the recipes for faults that people met with schedulers of this kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hami_operator.protocol import keys, register
from hami_operator.scheduling import effects
from tests import builders
from tests.transitions.stage import OURS, Stage

REG = "hami.io/node-nvidia-register"
HS = "hami.io/node-handshake-nvidia"
MODE = "nvidia.com/vgpu-mode"
GPU_POLICY, NODE_POLICY = keys.GPU_POLICY, keys.NODE_POLICY
MIB = 24576
"""Memory of a card of these nodes."""


def card(letter: str = "A", index: int = 0, **facts: Any) -> register.Card:
    """A Tesla T4 that ten pods may share."""
    usual: dict[str, Any] = {
        "count": 10,
        "memory_mib": MIB,
        "cores": 100,
        "model": "NVIDIA Tesla T4",
    }
    usual |= {"mode": "hami-core"}
    return register.Card(id=f"GPU-{letter}", index=index, **(usual | facts))


def cards(number: int, **facts: Any) -> tuple[register.Card, ...]:
    """``GPU-A``, ``GPU-B``, …"""
    return tuple(card("ABCDEFGH"[index], index, **facts) for index in range(number))


def silent(*given: register.Card, name: str = "n1") -> builders.NodeBuilder:
    """A node whose plugin registers as JSON and never answers; kubelet offers its slots."""
    made = builders.roomy(name).label("kubernetes.io/hostname", name)
    made = made.allocatable({"nvidia.com/gpu": 10 * len(given)})
    return made.annotate({REG: register.encode(given, register.Form.JSON)})


def answering(
    *given: register.Card, name: str = "n1", handshake: str | None = builders.ANSWERED
) -> builders.NodeBuilder:
    """The same as text of seven fields, with a plugin that answers."""
    made = silent(*given, name=name)
    made = made.annotate({REG: register.encode(given, register.Form.TEXT, width=7)})
    return made if handshake is None else made.annotate({HS: handshake})


def amounts(gpu: int | None = 1, **more: Any) -> dict[str, Any]:
    """Limits by the words behind ``nvidia.com/``, ``_`` for ``-``."""
    given = more if gpu is None else {"gpu": gpu, **more}
    return {f"nvidia.com/{name.replace('_', '-')}": value for name, value in given.items()}


def asks(name: str, gpu: int | None = 1, **more: Any) -> builders.PodBuilder:
    """A pending pod of ours with one container."""
    return builders.pod(name).scheduler(OURS).container(limits=amounts(gpu, **more))


def bare(name: str) -> builders.PodBuilder:
    """A pending pod of ours without containers yet."""
    return builders.pod(name).scheduler(OURS)


def start(*nodes: builders.NodeBuilder, pods: tuple[builders.PodBuilder, ...] = ()) -> Stage:
    """A process that finds all this when it starts, and leads."""
    stage = Stage(active=False)
    stage.node(*nodes)
    stage.pod(*pods)
    stage.lead()
    return stage


def tried(stage: Stage, *pods: builders.PodBuilder) -> str:
    """The pods come and are tried: what conditions say, one after the other."""
    stage.pod(*pods)
    told = stage.attempts()
    return "\n".join(one.message for one in told if isinstance(one, effects.Condition))


def decided(stage: Stage, *pods: builders.PodBuilder) -> dict[str, str]:
    """The pods come and are bound: each one's value for the plugin."""
    stage.pod(*pods)
    found = {}
    for order in stage.attempts():
        if isinstance(order, effects.Bind):
            found[order.pod.name] = value(order)
            stage.land(order)
    return found


def value(order: effects.Bind) -> str:
    """What the plugin is told; what usage is read from is the same text."""
    written: Mapping[str, str | None] = order.decision.annotations
    text = written["hami.io/vgpu-devices-to-allocate"]
    assert text is not None
    assert written["hami.io/vgpu-devices-allocated"] == text
    return text


def messages(told: Any) -> str:
    """What events and conditions say."""
    return "\n".join(one.message for one in told if hasattr(one, "message"))
