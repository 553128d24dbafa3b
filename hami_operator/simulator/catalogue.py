"""What simulated nodes can be equipped with: one entry per product and way of showing it.

Keys, resources and units come from the vendor's row; an entry adds only what a plugin would find
out about its cards.
"""

from __future__ import annotations

import dataclasses
import enum
import uuid
from collections.abc import Mapping
from typing import Final

from hami_operator import errors
from hami_operator.protocol import register

_IDS: Final = uuid.UUID("7c9e6a52-0f6f-4c1c-9d8e-3c1a5b0d2f41")


class Shown(enum.Enum):
    """How a plugin publishes its cards."""

    SEVEN = "a register of seven text fields"
    NINE = "a register of nine text fields"
    JSON = "a register in JSON"
    CAPACITY = "capacity of the node alone"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Model:
    """One product.

    Attributes:
        word: keyword of the vendor's row.
        shown: how its plugin publishes it.
        product: model text of the register.
        prefix: what its card ids begin with.
        count: how many containers may share a card.
        memory_mib: memory of a card.
        cores: cores of a card, in the unit of the row.
        mode: mode text of the register.
        legacy: an old plugin, which uses the row's older handshake key.
    """

    word: str
    shown: Shown
    product: str = ""
    prefix: str = ""
    count: int = 10
    memory_mib: int
    cores: int = 100
    mode: str = ""
    legacy: bool = False

    def cards(self, node: str, number: int) -> tuple[register.Card, ...]:
        """Cards with ids that are the same in every run and differ between nodes."""
        return tuple(
            register.Card(
                id=f"{self.prefix}-{uuid.uuid5(_IDS, f'{node}/{self.word}/{index}')}",
                index=index,
                count=self.count,
                memory_mib=self.memory_mib,
                cores=self.cores,
                model=self.product,
                numa=2 * index // max(number, 2),
                mode=self.mode,
            )
            for index in range(number)
        )


MODELS: Final[Mapping[str, Model]] = {
    "nvidia": Model(
        word="NVIDIA",
        shown=Shown.JSON,
        product="NVIDIA A100-SXM4-40GB",
        prefix="GPU",
        memory_mib=40960,
        mode="hami-core",
    ),
    "nvidia-text": Model(
        word="NVIDIA",
        shown=Shown.SEVEN,
        product="NVIDIA-Tesla V100-PCIE-32GB",
        prefix="GPU",
        memory_mib=32768,
    ),
    "nvidia-legacy": Model(
        word="NVIDIA",
        shown=Shown.NINE,
        product="NVIDIA-NVIDIA A30",
        prefix="GPU",
        memory_mib=24576,
        mode="hami-core",
        legacy=True,
    ),
    "mlu": Model(
        word="MLU",
        shown=Shown.SEVEN,
        product="MLU-MLU370-X4",
        prefix="MLU",
        memory_mib=23296,
    ),
    "mlu-capacity": Model(word="MLU", shown=Shown.CAPACITY, count=100, memory_mib=24576),
    "hcu": Model(
        word="HCU",
        shown=Shown.NINE,
        product="HCU-K100_AI",
        prefix="HCU",
        count=4,
        memory_mib=65520,
        mode="hami",
    ),
    "dcu": Model(
        word="DCU",
        shown=Shown.SEVEN,
        product="DCU-Z100L",
        prefix="DCU",
        count=4,
        memory_mib=16368,
    ),
    "mthreads": Model(
        word="Mthreads", shown=Shown.CAPACITY, count=100, memory_mib=49152, cores=16
    ),
}
"""All entries, by the names that the command line uses."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Equipment:
    """Cards of one model in a node."""

    model: Model
    number: int = 4


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Host:
    """A node to simulate.

    Attributes:
        name: its name.
        equipment: its cards, at most one entry per vendor row.
        labels: labels beside those of every node.
        cpu: CPUs that it offers.
        memory: memory that it offers.
        pods: how many pods it runs at most.
    """

    name: str
    equipment: tuple[Equipment, ...]
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    cpu: str = "64"
    memory: str = "512Gi"
    pods: str = "110"


def find(name: str) -> Model:
    """The entry called ``name``.

    Raises:
        errors.SettingsError: there is none; the message lists those that exist.
    """
    if name not in MODELS:
        raise errors.SettingsError("families", f"{name!r} is none of {', '.join(MODELS)}")
    return MODELS[name]


def hosts(
    count: int, families: tuple[str, ...], *, cards: int = 4, prefix: str = "sim-"
) -> tuple[Host, ...]:
    """Equal shares of nodes for each family: ``sim-01``, ``sim-02``, … in turn.

    Raises:
        errors.SettingsError: a family that the catalogue does not have.
    """
    models = [find(name) for name in families]
    width = max(2, len(str(count)))
    return tuple(
        Host(
            name=f"{prefix}{number + 1:0{width}}",
            equipment=(Equipment(model=models[number % len(models)], number=cards),),
        )
        for number in range(count)
    )
