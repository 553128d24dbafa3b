"""Twenty nodes of four families and 200 pods for them, as data."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, Final

from hami_operator.devices import registry
from hami_operator.protocol import keys
from hami_operator.simulator import catalogue
from tests import builders

ROWS: Final = registry.default()
WORDS: Final = ("NVIDIA", "MLU", "HCU", "DCU", "Mthreads")
"""The device types of the four families."""
LONG_NAME: Final = 72
"""A node name of so many characters is valid; as a label value it is not."""
FAMILIES: Final[tuple[Mapping[str, int], ...]] = (
    {"nvidia": 4},
    {"nvidia": 4},
    {"nvidia-text": 4},
    {"nvidia-legacy": 4},
    {"mlu": 4},
    {"mlu-capacity": 4},
    {"hcu": 4},
    {"dcu": 4},
    {"mthreads": 4},
    {"nvidia-text": 2, "hcu": 2},
)
"""Equipment of the nodes, taken in turn: model of the catalogue to number of cards."""


def hosts(prefix: str, count: int = 20) -> tuple[catalogue.Host, ...]:
    """Nodes whose names begin with the prefix; the last one has a name of 72 characters."""
    names = [f"{prefix}{number:02}" for number in range(count)]
    names[-1] = names[-1].ljust(LONG_NAME, "x")
    return tuple(
        host(name, **{model.replace("-", "_"): cards for model, cards in equipment.items()})
        for name, equipment in zip(names, _in_turn(count), strict=True)
    )


def host(name: str, **equipment: int) -> catalogue.Host:
    """A node with cards of some models, e.g. ``nvidia_text=2``."""
    return catalogue.Host(
        name=name,
        labels={"kubernetes.io/hostname": name[:63]},
        equipment=tuple(
            catalogue.Equipment(model=catalogue.find(model.replace("_", "-")), number=cards)
            for model, cards in equipment.items()
        ),
    )


def _in_turn(count: int) -> Iterator[Mapping[str, int]]:
    for number in range(count):
        yield FAMILIES[number % len(FAMILIES)]


def ask(word: str, count: Any = 1, *, memory: Any = 8, cores: Any = "") -> dict[str, str]:
    """Limits for a little, or more, of some cards; memory in the units of its resource."""
    names = ROWS.by_word[word].resources
    asked = {names.count: count, names.memory: memory, names.cores: cores}
    return {name: str(amount) for name, amount in asked.items() if name and amount != ""}


def whole(word: str, count: int = 1) -> dict[str, str]:
    """Limits for all of some cards: no memory asked for means all of it."""
    return ask(word, count, memory="", cores=16 if word == "Mthreads" else 100)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """Some pods that are alike.

    Attributes:
        name: what their names begin with.
        copies: how many.
        build: a pod of any name, to be renamed.
        fits: whether there is room for all of them.
    """

    name: str
    copies: int
    build: builders.PodBuilder
    fits: bool = True

    def pods(self) -> Iterator[builders.PodBuilder]:
        """All of them."""
        for number in range(self.copies):
            yield self.build.put("metadata.name", f"{self.name}-{number:02}")


_POD: Final = builders.pod("")
_IDLE: Final = {"cpu": "10m"}


def _apps(*limits: Mapping[str, str]) -> builders.PodBuilder:
    made = _POD
    for one in limits:
        made = made.container(limits=one)
    return made


SHAPES: Final = (
    Shape(name="slice", copies=56, build=_apps(ask("NVIDIA", memory=4000, cores=10))),
    Shape(name="pair", copies=12, build=_apps(ask("NVIDIA", 2, memory=3000, cores=5))),
    Shape(
        name="second-and-third",
        copies=12,
        build=_apps(_IDLE, ask("NVIDIA", memory=3000), ask("NVIDIA", memory=5000)),
    ),
    Shape(
        name="init",
        copies=8,
        build=_apps(ask("NVIDIA", memory=2000)).init(limits=ask("NVIDIA", memory=6000)),
    ),
    Shape(
        name="sidecar",
        copies=6,
        build=_apps(ask("NVIDIA", memory=2000), _IDLE).sidecar(limits=ask("NVIDIA", memory=1000)),
    ),
    Shape(
        name="two-families",
        copies=4,
        build=_apps(ask("NVIDIA", memory=1000), ask("HCU", memory=4000, cores=10)),
    ),
    Shape(name="mlu", copies=32, build=_apps(ask("MLU", memory=16, cores=10))),
    Shape(name="hcu", copies=22, build=_apps(ask("HCU", memory=8000, cores=20))),
    Shape(name="dcu", copies=14, build=_apps(ask("DCU", memory=4000, cores=20))),
    Shape(name="mt", copies=16, build=_apps(ask("Mthreads", memory=16, cores=2))),
    Shape(name="plain", copies=8, build=_apps(_IDLE)),
    Shape(name="nine-cards", copies=4, build=_apps(ask("NVIDIA", 9, memory=100)), fits=False),
    Shape(name="too-large", copies=4, build=_apps(ask("MLU", memory=400)), fits=False),
    Shape(
        name="nobodys",
        copies=2,
        build=_apps(ask("NVIDIA", memory=100)).annotate(
            {ROWS.by_word["NVIDIA"].selection.use_uuid[0]: "GPU-of-nobody"}
        ),
        fits=False,
    ),
)


def protocol_keys() -> frozenset[str]:
    """Every annotation key of the protocol, on Nodes and on pods, and what users may set."""
    found = {keys.NODE_LOCK, *ROWS.owned_pod_keys}
    for row in ROWS:
        found |= {row.node.register, row.node.handshake, row.node.legacy_handshake, row.lock}
        found |= {row.selection.use_type, row.selection.skip_type}
        found |= {*row.selection.use_uuid, *row.selection.skip_uuid}
    return frozenset(found)
