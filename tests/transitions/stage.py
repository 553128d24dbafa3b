"""A world on a stage: events in, and out come the effects and how the state differs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from hami_operator import settings
from hami_operator.devices import registry
from hami_operator.protocol import keys, register
from hami_operator.scheduling import effects, ledger, queue, world
from tests import builders
from tests.moments import at

OURS = "hami-scheduler"
AL = "hami.io/vgpu-devices-allocated"
TO = "hami.io/vgpu-devices-to-allocate"
ROWS = registry.default()
TIMEOUT_S = 300.0


def gpus(name: str, count: int = 1, **facts: Any) -> builders.NodeBuilder:
    """A roomy node with NVIDIA cards that stay silent."""
    cards = builders.cards(count, **facts)
    made = builders.roomy(name).allocatable({"nvidia.com/gpu": 10 * count})
    return made.register("NVIDIA", cards, form=register.Form.JSON, handshake=None)


def wants(name: str, mem: int = 1000, count: int = 1) -> builders.PodBuilder:
    """A pending pod of ours with one container that asks for GPU memory."""
    limits = {"nvidia.com/gpu": count, "nvidia.com/gpumem": mem}
    return builders.pod(name).scheduler(OURS).container("c", limits=limits)


def placed(pod: builders.PodBuilder, node: str, allocated: str) -> builders.PodBuilder:
    """The pod as our bind leaves it."""
    version = int(pod.raw()["metadata"]["resourceVersion"]) + 1
    decided = {keys.VGPU_NODE: node, AL: allocated, TO: allocated}
    decided |= {keys.BIND_PHASE: "allocating", keys.BIND_TIME: "1772366400"}
    return pod.version(version).on(node).annotate(decided)


@dataclasses.dataclass(frozen=True)
class State:
    """What a test compares: who holds what, and who waits where."""

    held: frozenset[tuple[str, str, str]]
    waiting: frozenset[tuple[str, str]]

    def __sub__(self, before: State) -> tuple[dict[str, str], dict[str, str]]:
        """What differs: names with how they are held now, and where they wait now."""
        held = {name: f"{node} {how}" for name, node, how in self.held - before.held}
        waiting = dict(self.waiting - before.waiting)
        for name in {one[0] for one in before.held - self.held} - held.keys():
            held[name] = "free"
        for name in {one[0] for one in before.waiting - self.waiting} - waiting.keys():
            waiting[name] = "left"
        return held, waiting


class Stage:
    """A world that leads and has seen all sources, unless told otherwise."""

    def __init__(self, *, active: bool = True, **given: Any) -> None:
        self.world = world.World(ROWS, dataclasses.replace(settings.Settings(), **given))
        self.seconds = 0.0
        if active:
            self.lead()

    def lead(self) -> list[str]:
        """Begin a term and list all sources."""
        self.world.take_over(self.now)
        told = [self.world.synced(source, self.now) for source in sorted(world.SOURCES)]
        return brief(effect for each in told for effect in each)

    @property
    def now(self) -> Any:
        return at(self.seconds)

    def node(self, *nodes: builders.NodeBuilder) -> list[str]:
        """Nodes as the watch shows them."""
        return brief(e for one in nodes for e in self.world.node_seen(one.read(), self.now))

    def pod(self, *pods: builders.PodBuilder) -> list[str]:
        """Pods as the watch shows them."""
        return brief(e for one in pods for e in self.world.pod_seen(one.read(), self.now))

    def quota(self, *objects: dict[str, Any]) -> list[str]:
        """ResourceQuotas as the watch shows them."""
        return brief(e for one in objects for e in self.world.quota_seen(one, self.now))

    def gone(self, *names: str) -> list[str]:
        """Pods that are deleted."""
        return brief(e for name in names for e in self.world.pod_gone(f"uid-{name}", self.now))

    def wait(self, seconds: float) -> list[str]:
        """Time passes, with one tick at its end."""
        self.seconds += seconds
        return brief(self.world.tick(self.now))

    def attempts(self) -> tuple[effects.Effect, ...]:
        """Try pods until none is due."""
        told: list[effects.Effect] = []
        while found := self.world.attempt(self.now):
            told += found
        return tuple(told)

    def run(self) -> list[str]:
        """The same, in short."""
        return brief(self.attempts())

    def bind(self) -> dict[str, str]:
        """Try pods until none is due, and let every bind land and be seen; pod to node."""
        landed = {}
        for order in self.attempts():
            if isinstance(order, effects.Bind):
                self.land(order)
                landed[order.pod.name] = order.node
        return landed

    def land(self, order: effects.Bind) -> list[str]:
        """The bind lands, and the watch shows the pod on its node."""
        told = brief(self.world.bind_done(order.pod.uid))
        bound = dataclasses.replace(
            order.pod,
            resource_version=str(int(order.pod.resource_version) + 1),
            node_name=order.node,
            annotations={**order.pod.annotations, **order.decision.annotations},
        )
        return [*told, *brief(self.world.pod_seen(bound, self.now))]

    def order(self) -> effects.Bind:
        """The one bind that the attempts which are due order."""
        (only,) = (one for one in self.attempts() if isinstance(one, effects.Bind))
        return only

    @property
    def state(self) -> State:
        held = frozenset(
            (entry.name, entry.node, _how(entry)) for entry in self.world.ledger.entries()
        )
        waiting = frozenset((item.pod.name, item.place.value) for item in self.world.queue.items())
        return State(held=held, waiting=waiting)

    def usage(self, node: str, word: str = "NVIDIA") -> dict[str, tuple[int, int]]:
        """Card to slots and MiB taken, of cards that are used."""
        taken = self.world.ledger.card_usage(node, word)
        return {card: (one.used, one.memory_mib) for card, one in taken.items()}

    def place(self, name: str) -> queue.Place | None:
        item = self.world.queue.get(f"uid-{name}")
        return None if item is None else item.place


def _how(entry: ledger.Entry) -> str:
    return f"{entry.state.value}{' foreign' if entry.foreign else ''}"


def brief(told: Iterable[effects.Effect]) -> list[str]:
    """Effects in a few words each; attempts and corrections are for metrics and left out."""
    return [_BRIEF[type(effect)](effect) for effect in told if type(effect) in _BRIEF]


_BRIEF: dict[type, Callable[[Any], str]] = {
    effects.PodEvent: lambda effect: f"{effect.pod.name}: {effect.reason}",
    effects.NodeEvent: lambda effect: f"{effect.node}: {effect.reason}",
    effects.QuotaEvent: lambda effect: f"{effect.namespace}/{effect.name}: {effect.reason}",
    effects.Condition: lambda effect: (
        f"{effect.pod.name}: condition {effect.reason}"
        + ("" if effect.nominated is None else f", promised {effect.nominated or 'nothing'}")
    ),
    effects.Evict: lambda effect: f"evict {effect.pod.name} from {effect.node}",
    effects.Bind: lambda effect: f"bind {effect.pod.name} to {effect.node}",
    effects.LockChanged: lambda effect: f"{effect.node}: lock changed",
    effects.StaleLock: lambda effect: f"{effect.node}: stale lock {effect.value}",
}
