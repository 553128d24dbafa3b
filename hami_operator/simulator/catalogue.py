"""What simulated nodes can be equipped with: one entry per product and way of showing it.

Keys, resources and units come from the vendor's row; an entry adds only what a plugin would find
out about its cards.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from hami_operator import errors
from hami_operator.protocol import decision, register
from hami_operator.simulator import forms, models

_Model = models.Model
_Shown = models.Shown


def _instance(name: str, memory_mib: int, cores: int, *starts: int, size: int) -> register.Profile:
    places = tuple(register.Placement(start=start, size=size) for start in starts)
    return register.Profile(
        name=name,
        memory_mib=memory_mib,
        cores=cores,
        slices=int(name[0]),
        placements=places,
    )


def _network(index: int) -> Mapping[str, Any]:
    """Four cards each lie in a network of their own."""
    return {"NetworkID": index // 4}


def _one_network(index: int) -> Mapping[str, Any]:
    return {"NetworkID": 0}


def _die(index: int) -> Mapping[str, Any]:
    """Two dies on each card."""
    return {"AIC": str(index // 2), "DeviceStrategy": "die"}


def _slices(pick: decision.Pick) -> int:
    """The decision says in percent how many sixths it gives."""
    return max(6 * pick.cores // 100, 1)


def _single_cores(pick: decision.Pick) -> int:
    """Cores are a mask."""
    return pick.cores.bit_count()


def _model(word: str, shown: _Shown, product: str, prefix: str, **facts: Any) -> _Model:
    """A product whose plugin registers its cards."""
    return _Model(word=word, shown=shown, product=product, prefix=prefix, **facts)


def _nvidia(shown: _Shown, product: str, memory_mib: int, **facts: Any) -> _Model:
    facts |= {"memory_mib": memory_mib, "limited": True}
    return _model("NVIDIA", shown, product, "GPU", **facts)


def _iluvatar(word: str) -> _Model:
    return _model(word, _Shown.NINE, word, "GPU", memory_mib=32768)


def _chip(word: str, memory_mib: int, cores: int, **facts: Any) -> _Model:
    facts |= {"memory_mib": memory_mib, "cores": cores, "count": 4}
    return _model(word, _Shown.JSON, word, word, **facts)


def _capacity(word: str, count: int, memory_mib: int, **facts: Any) -> _Model:
    """A product that shows in the capacity of its nodes alone."""
    return _Model(word=word, shown=_Shown.CAPACITY, count=count, memory_mib=memory_mib, **facts)


_INSTANCES: Final = (
    _instance("1g.5gb", 5120, 14, *range(7), size=1),
    _instance("2g.10gb", 10240, 28, 0, 2, 4, size=2),
    _instance("3g.20gb", 20480, 42, 0, 4, size=4),
    _instance("7g.40gb", 40960, 100, 0, size=8),
)
_A100: Final = "NVIDIA A100-SXM4-40GB"

MODELS: Final[Mapping[str, models.Model]] = {
    "nvidia": _nvidia(_Shown.JSON, _A100, 40960, mode="hami-core"),
    "nvidia-text": _nvidia(_Shown.SEVEN, "NVIDIA-Tesla V100-PCIE-32GB", 32768),
    "nvidia-legacy": _nvidia(
        _Shown.NINE, "NVIDIA-NVIDIA A30", 24576, mode="hami-core", legacy=True
    ),
    "nvidia-linked": _nvidia(
        _Shown.JSON, "NVIDIA H100-SXM5-80GB", 81920, mode="hami-core", notes=forms.pair_links
    ),
    "nvidia-mig": _nvidia(_Shown.JSON, _A100, 40960, mode="mig", count=7, profiles=_INSTANCES),
    "mlu": _model("MLU", _Shown.SEVEN, "MLU-MLU370-X4", "MLU", memory_mib=23296),
    "mlu-capacity": _capacity(
        "MLU", 100, 24576, offers={"count": 100, "cores": 100, "memory": 96}
    ),
    "hcu": _model(
        "HCU", _Shown.NINE, "HCU-K100_AI", "HCU", count=4, memory_mib=65520, mode="hami"
    ),
    "dcu": _model("DCU", _Shown.SEVEN, "DCU-Z100L", "DCU", count=4, memory_mib=16368),
    "mr-v100": _iluvatar("MR-V100"),
    "mr-v50": _iluvatar("MR-V50"),
    "bi-v150": _iluvatar("BI-V150"),
    "bi-v100": _iluvatar("BI-V100"),
    "mthreads": _capacity(
        "Mthreads", 100, 49152, cores=16, offers={"count": 100, "cores": 16, "memory": 96}
    ),
    "metax-gpu": _capacity("Metax-GPU", 1, 65536, notes=forms.topology),
    "metax-sgpu": _model(
        "Metax-SGPU",
        _Shown.OWN,
        "C500",
        "GPU",
        count=16,
        memory_mib=65536,
        listed=forms.shared_gpus,
    ),
    "ascend910a": _chip("Ascend910A", 32768, 30, facts=_network),
    "ascend910b2": _chip("Ascend910B2", 65536, 24, facts=_network),
    "ascend910b3": _chip("Ascend910B3", 65536, 20, facts=_network),
    "ascend910b4-1": _chip("Ascend910B4-1", 65536, 20, facts=_network),
    "ascend910b4": _chip("Ascend910B4", 32768, 20, facts=_network),
    "ascend910b4-soft": _chip("Ascend910B4", 32768, 100, facts=_network, notes=forms.soft_split),
    "ascend910c": _chip("Ascend910C", 65536, 20, facts=_one_network),
    "ascend310p": _chip("Ascend310P", 21527, 8),
    "gcu": _capacity("GCU", 1, 100),
    "enflame": _model(
        "Enflame",
        _Shown.OWN,
        "",
        "",
        count=6,
        memory_mib=40960,
        listed=forms.sliced,
        offers={"count": 6, "memory": 40, "cores": 100},
        asked={"count": _slices, "memory": None, "cores": None},
    ),
    "kunlun": _capacity("kunlun", 100, 98304, offers={"count": 1}),
    "xpu": _model("XPU", _Shown.JSON, "P800", "P800", count=4, memory_mib=98304),
    "aws-neuron": _capacity(
        "AWSNeuron",
        2,
        0,
        cores=0b11,
        offers={"count": 1, "cores": 2},
        asked={"count": models.each, "cores": _single_cores},
        labels={"node.kubernetes.io/instance-type": "inf2.24xlarge"},
    ),
    "amd": _model(
        "AMD", _Shown.JSON, "AMD Instinct MI300X VF", "GPU", memory_mib=196608, cores=304
    ),
    "vastai": _model("Vastai", _Shown.JSON, "VA16", "VA", count=1, memory_mib=32768, facts=_die),
    "biren": _model("Biren", _Shown.JSON, "Biren-BR104", "BR104", count=1, memory_mib=32768),
}
"""All entries, by the names that the command line uses."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Equipment:
    """Cards of one model in a node."""

    model: models.Model
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


def find(name: str) -> models.Model:
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

    Args:
        count: how many nodes.
        families: entries of the catalogue; ``nvidia+hcu`` is a node with cards of both.
        cards: how many of each entry.
        prefix: what the names begin with.

    Raises:
        errors.SettingsError: a family that the catalogue does not have, or two of one row.
    """
    chosen = [_equipment(family, cards) for family in families]
    width = max(2, len(str(count)))
    return tuple(
        Host(
            name=f"{prefix}{number + 1:0{width}}",
            equipment=chosen[number % len(chosen)],
        )
        for number in range(count)
    )


def _equipment(family: str, cards: int) -> tuple[Equipment, ...]:
    found = [find(name.strip()) for name in family.split("+")]
    if len({model.word for model in found}) < len(found):
        raise errors.SettingsError("families", f"{family!r} names cards of one type twice")
    return tuple(Equipment(model=model, number=cards) for model in found)
