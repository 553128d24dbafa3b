"""For every row a node that its device plugin has equipped, and containers that ask for it.

Rows of the configuration are among them: a made-up vendor comes from the YAML file beside.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Mapping
from typing import Any, Final

import yaml

from hami_operator.devices import registry, vendor
from hami_operator.protocol import register
from tests import builders

CONFIGURED: Final[Mapping[str, Any]] = yaml.safe_load(
    (pathlib.Path(__file__).parent / "acme.yaml").read_text(encoding="utf-8")
)["vendors"]
REGISTRY: Final = registry.build(overrides=CONFIGURED)
NODE: Final = "n1"
CARDS: Final = 8

Limits = Mapping[str, str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sample:
    """What the tests need to know of a row, beside the row itself.

    Attributes:
        card: facts of its registered cards, where they are not the usual ones.
        annotations: of a node that lists its devices in a form of its own.
        capacity: of a node that only shows capacity; resource to amount.
        labels: of the node.
        asks: resources by their names in the row, one mapping per container that fits alone.
    """

    card: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    annotations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    capacity: Mapping[str, int] = dataclasses.field(default_factory=dict)
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    asks: tuple[Mapping[str, int], ...] = ({"count": 1}, {"count": 2})


_SHARED: Final = (
    {"count": 1},
    {"count": 2},
    {"count": 1, "memory": 4, "cores": 10},
    {"count": 2, "memory": 4, "cores": 100},
)
_CHIP: Final = Sample(card={"cores": 20}, asks=({"count": 1, "memory": 3000}, *_SHARED[:2]))
_SGPU: Final = json.dumps(
    [
        {
            "uuid": f"GPU-{index}",
            "totalDevCount": 16,
            "totalCompute": 100,
            "totalVRam": 65536,
            "healthy": True,
            "qosPolicy": "",
            "linkZone": 1 + index // 4,
        }
        for index in range(CARDS)
    ]
)
_DRS: Final = json.dumps(
    {
        "devices": [{"index": str(i), "minor": str(i), "capacity": 6} for i in range(CARDS)],
        "profiles": {"1g.6gb": "0", "3g.20gb": "1", "6g.40gb": "2"},
    }
)

SAMPLES: Final[Mapping[str, Sample]] = {
    "AMD": Sample(
        card={"cores": 304, "model": "AMD Instinct MI300X VF"},
        asks=(*_SHARED[:3], {"count": 1, "cores": 25}),
    ),
    "AWSNeuron": Sample(
        capacity={"aws.amazon.com/neuron": CARDS, "aws.amazon.com/neuroncore": 2 * CARDS},
        labels={"node.kubernetes.io/instance-type": "inf2.24xlarge"},
        asks=({"count": 1}, {"count": 2}, {"cores": 1}, {"cores": 2}, {"cores": 4}),
    ),
    "Biren": Sample(),
    "Enflame": Sample(
        annotations={"enflame.com/gcu-drs-capacity": _DRS},
        asks=({"count": 1}, {"count": 3}, {"memory": 10}, {"memory": 6, "cores": 60}),
    ),
    "GCU": Sample(capacity={"enflame.com/gcu": CARDS}),
    "MLU": Sample(
        capacity={
            "cambricon.com/mlu.smlu.vcore": 100 * CARDS,
            "cambricon.com/mlu.smlu.vmemory": 96 * CARDS,
        },
        asks=_SHARED[:3],
    ),
    "Metax-GPU": Sample(capacity={"metax-tech.com/gpu": CARDS}),
    "Metax-SGPU": Sample(annotations={"metax-tech.com/node-gpu-devices": _SGPU}, asks=_SHARED),
    "Mthreads": Sample(
        capacity={"mthreads.com/sgpu-core": 16 * CARDS, "mthreads.com/sgpu-memory": 96 * CARDS},
        asks=({"count": 1}, {"count": 2}, {"count": 1, "memory": 32, "cores": 8}),
    ),
    "NVIDIA": Sample(
        asks=(*_SHARED, {"count": 2, "percent": 50}), card={"model": "NVIDIA A100-SXM4-40GB"}
    ),
    "Vastai": Sample(card={"custom": {"AIC": "7", "DeviceStrategy": "die"}}),
    "XPU": Sample(
        card={"memory_mib": 98304}, asks=({"count": 1}, {"count": 2}, {"count": 1, "memory": 1})
    ),
    "kunlun": Sample(capacity={"kunlunxin.com/xpu": CARDS}, asks=({"count": 2}, {"count": 8})),
    **{row.keyword: _CHIP for row in REGISTRY if row.keyword.startswith("Ascend")},
    "Ascend910C": Sample(card={"cores": 20}),
}
_USUAL: Final = Sample(asks=_SHARED)


def of(row: vendor.Vendor) -> Sample:
    """What is known of a row."""
    return SAMPLES.get(row.keyword, _USUAL)


def cards(row: vendor.Vendor, number: int = CARDS) -> tuple[register.Card, ...]:
    """Cards as the row's plugin may register them."""
    usual: dict[str, Any] = {"count": 4, "memory_mib": 65536, "cores": 100, "model": row.keyword}
    facts = usual | dict(of(row).card)
    return tuple(register.Card(id=f"card-{i}", index=i, **facts) for i in range(number))


def node(row: vendor.Vendor, *, form: register.Form = register.Form.JSON) -> builders.NodeBuilder:
    """A node that the row's plugin has equipped, with everything else that pods need."""
    sample, made = of(row), builders.roomy(NODE)
    made = made.annotate(sample.annotations).merge("metadata.labels", sample.labels)
    if sample.capacity:
        amounts = {name: str(amount) for name, amount in sample.capacity.items()}
        made = made.capacity(amounts).allocatable(amounts)
    elif not sample.annotations:
        written = {row.node.register: register.encode(cards(row), form, width=9)}
        if row.node.handshake:
            written[row.node.handshake] = builders.ANSWERED
        made = made.annotate(written)
    return made.allocatable(
        {row.resources.count: str(sample.capacity.get(row.resources.count, 64))}
    )


def limits(row: vendor.Vendor, asked: Mapping[str, int]) -> Limits:
    """Limits of a container that asks so."""
    return {getattr(row.resources, name): str(amount) for name, amount in asked.items()}
