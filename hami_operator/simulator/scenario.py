"""The demo as data: its nodes, its pods, and what must become of each of them."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Mapping
from typing import Any, Final

from hami_operator import errors
from hami_operator.devices import registry
from hami_operator.protocol import keys
from hami_operator.simulator import catalogue, kubelet

NAMESPACE: Final = "default"
Limits = Mapping[str, str]


def _host(name: str, **equipment: int) -> catalogue.Host:
    return catalogue.Host(
        name=name,
        equipment=tuple(
            catalogue.Equipment(model=catalogue.MODELS[family.replace("_", "-")], number=number)
            for family, number in equipment.items()
        ),
    )


HOSTS: Final = (
    _host("sim-1", nvidia=4),
    _host("sim-2", nvidia=4, hcu=2),
    _host("sim-3", nvidia_text=4, mlu=2),
    _host("sim-4", mlu=4),
    _host("sim-5", mlu_capacity=4),
    _host("sim-6", hcu=4),
    _host("sim-7", dcu=4),
    _host("sim-8", mthreads=4),
)
MORTAL: Final = ("sim-3", "NVIDIA")
"""The plugin that dies and returns: one with a text register, so the handshake must tell."""


class Want(enum.Enum):
    """What must become of a pod."""

    RUNS = "it is bound and runs"
    WAITS = "it waits, and its condition says why"
    REFUSED = "the API server does not take it"


class Act(enum.Enum):
    """When a pod is created."""

    FIRST = "at the beginning"
    WHILE_DEAD = "while the plugin is dead"
    AFTER = "when the cards that it wants are taken"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """Some pods that are alike.

    Attributes:
        name: what their names begin with.
        copies: how many.
        apps: limits of each app container.
        inits: limits of each init container.
        sidecars: limits of each sidecar.
        annotations: what the user writes on them.
        node: where they must go; empty for anywhere.
        run_for_s: they end by themselves after so long.
        act: when they are created.
        want: what must become of them.
        because: the words that must stand in the condition of a pod that waits.
    """

    name: str
    copies: int = 1
    apps: tuple[Limits, ...]
    inits: tuple[Limits, ...] = ()
    sidecars: tuple[Limits, ...] = ()
    annotations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    node: str = ""
    run_for_s: float | None = None
    act: Act = Act.FIRST
    want: Want = Want.RUNS
    because: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the pods."""
        if self.copies == 1:
            return (self.name,)
        return tuple(f"{self.name}-{number + 1:02}" for number in range(self.copies))


_ROWS: Final = registry.default()


def _ask(
    word: str, count: Any = 1, *, memory: Any = "", cores: Any = "", part: Any = ""
) -> Limits:
    """Limits for cards of one row; memory in the units of its resource."""
    names = _ROWS.by_word[word].resources
    asked = {names.count: count, names.memory: memory, names.cores: cores, names.percent: part}
    return {name: str(amount) for name, amount in asked.items() if name and amount != ""}


_NVIDIA: Final = _ROWS.by_word["NVIDIA"].selection
_NOTHING: Final[Limits] = {"cpu": "100m"}

SHAPES: Final = (
    # Whole cards first: later ones find no card that is empty.
    Shape(name="exclusive", copies=2, apps=(_ask("NVIDIA", part=100, cores=100),)),
    Shape(
        name="alone",
        apps=(_ask("NVIDIA", memory=2000, cores=10),),
        annotations={keys.GPU_POLICY: "mutex"},
    ),
    Shape(name="mt-pair", copies=2, apps=(_ask("Mthreads", 2, memory=64, cores=16),)),
    # Two families in one pod, in one container and in two; few nodes have both.
    Shape(
        name="nvidia-and-hcu",
        copies=3,
        apps=(_ask("NVIDIA", memory=1000, cores=5), _ask("HCU", memory=4000, cores=10)),
    ),
    Shape(
        name="nvidia-and-mlu",
        copies=2,
        apps=({**_ask("NVIDIA", memory=1000, cores=5), **_ask("MLU", memory=4, cores=5)},),
    ),
    Shape(
        name="v100",
        copies=4,
        apps=(_ask("NVIDIA", memory=8000),),
        annotations={_NVIDIA.use_type: "v100"},
    ),
    # Fractions.
    Shape(name="slice", copies=22, apps=(_ask("NVIDIA", memory=4000, cores=10),)),
    Shape(name="quarter", copies=8, apps=(_ask("NVIDIA", part=25, cores=20),)),
    Shape(name="mlu", copies=16, apps=(_ask("MLU", memory=32, cores=8),)),
    Shape(name="hcu", copies=8, apps=(_ask("HCU", memory=12000, cores=20),)),
    Shape(name="dcu", copies=8, apps=(_ask("DCU", memory=6000, cores=30),)),
    Shape(name="mt", copies=8, apps=(_ask("Mthreads", memory=16, cores=2),)),
    # Several cards, several containers.
    Shape(name="pair", copies=4, apps=(_ask("NVIDIA", 2, memory=3000, cores=10),)),
    Shape(name="mlu-pair", copies=2, apps=(_ask("MLU", 2, memory=8, cores=10),)),
    Shape(
        name="two-of-three",
        copies=4,
        apps=(
            _NOTHING,
            _ask("NVIDIA", memory=3000, cores=5),
            _ask("NVIDIA", memory=5000, cores=5),
        ),
    ),
    Shape(
        name="init",
        copies=4,
        inits=(_ask("NVIDIA", memory=9000, cores=10),),
        apps=(_ask("NVIDIA", memory=2000, cores=10),),
    ),
    Shape(
        name="sidecar",
        copies=3,
        sidecars=(_ask("NVIDIA", memory=1000, cores=5),),
        apps=(_ask("NVIDIA", memory=2000, cores=5), _NOTHING),
    ),
    Shape(name="plain", copies=4, apps=(_NOTHING,)),
    Shape(name="job", copies=6, apps=(_ask("NVIDIA", memory=1000, cores=5),), run_for_s=2.0),
    # Wrong requests. The API server itself refuses some.
    Shape(name="one-and-a-half", apps=(_ask("NVIDIA", "1.5"),), want=Want.REFUSED),
    Shape(name="minus-one", apps=(_ask("NVIDIA", "-1"),), want=Want.REFUSED),
    Shape(
        name="percent-150",
        apps=(_ask("NVIDIA", part=150),),
        want=Want.WAITS,
        because="nvidia.com/gpumem-percentage: '150'",
    ),
    Shape(
        name="beyond-32-bits",
        apps=(_ask("HCU", memory="3G"),),
        want=Want.WAITS,
        because="hygon.com/hcumem: '3G'",
    ),
    Shape(
        name="nine-cards",
        apps=(_ask("NVIDIA", 9, memory=100),),
        want=Want.WAITS,
        because=errors.Reason.NODE_INSUFFICIENT_DEVICE.word,
    ),
    Shape(
        name="unknown-card",
        apps=(_ask("NVIDIA", memory=100),),
        annotations={_NVIDIA.use_uuid[0]: "GPU-of-nobody"},
        want=Want.WAITS,
        because=errors.Reason.CARD_UUID_MISMATCH.word,
    ),
    Shape(
        name="too-large",
        apps=(_ask("NVIDIA", memory=81920),),
        want=Want.WAITS,
        because=errors.Reason.CARD_INSUFFICIENT_MEMORY.word,
    ),
    # While the plugin of sim-3 is dead: its type takes nobody, the other type of the node does.
    Shape(
        name="needs-the-dead",
        node=MORTAL[0],
        apps=(_ask("NVIDIA", memory=1000, cores=5),),
        act=Act.WHILE_DEAD,
        because=errors.Reason.TYPE_EXPIRED.word,
    ),
    Shape(
        name="beside-the-dead",
        node=MORTAL[0],
        apps=(_ask("MLU", memory=4, cores=5),),
        act=Act.WHILE_DEAD,
    ),
    # These want cards for themselves, and there are none until others end.
    Shape(
        name="late",
        copies=2,
        apps=(_ask("NVIDIA", part=100, cores=100),),
        act=Act.AFTER,
        because=errors.Reason.CARD_INSUFFICIENT_MEMORY.word,
    ),
)
GIVE_WAY: Final = ("exclusive-01", "exclusive-02")
"""Pods that are deleted so that the late ones find a card."""


def of(act: Act) -> Iterator[tuple[str, Shape]]:
    """Name and shape of each pod that is created then."""
    return ((name, shape) for shape in SHAPES if shape.act is act for name in shape.names)


def every() -> Iterator[tuple[str, Shape]]:
    """Name and shape of all pods."""
    return ((name, shape) for shape in SHAPES for name in shape.names)


def manifest(name: str, shape: Shape, scheduler: str) -> dict[str, Any]:
    """The pod as a user would write it."""
    annotations = dict(shape.annotations)
    if shape.run_for_s is not None:
        annotations[kubelet.RUN_FOR] = str(shape.run_for_s)
    inits = [_container(f"init-{place}", one) for place, one in enumerate(shape.inits)]
    inits += [
        _container(f"sidecar-{place}", one) | {"restartPolicy": "Always"}
        for place, one in enumerate(shape.sidecars)
    ]
    apps = [_container(f"app-{place}", one) for place, one in enumerate(shape.apps)]
    spec: dict[str, Any] = {"schedulerName": scheduler, "containers": apps}
    if inits:
        spec["initContainers"] = inits
    if shape.node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": shape.node}
    meta = {"name": name, "namespace": NAMESPACE, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def _container(name: str, limits: Limits) -> dict[str, Any]:
    image = "registry.k8s.io/pause:3.10"
    return {"name": name, "image": image, "resources": {"limits": dict(limits)}}
