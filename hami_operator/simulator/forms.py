"""What plugins write on nodes beside registers: lists of their own, links between cards."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from hami_operator.simulator import models

PROFILES: Final[Mapping[str, str]] = {"1g.6gb": "0", "3g.20gb": "1", "6g.40gb": "2"}
"""Sizes in which a sliced card is given: name to the number that the driver knows it by."""


def shared_gpus(cards: models.Cards) -> str:
    """GPUs with what is free of them, and the zone in which their links are fast."""
    return _json(
        [
            {
                "uuid": card.id,
                "model": card.model,
                "totalDevCount": card.count,
                "totalCompute": card.cores,
                "totalVRam": card.memory_mib,
                "numa": card.numa,
                "healthy": card.healthy,
                "qosPolicy": "",
                "linkZone": 1 + card.index // 4,
            }
            for card in cards
        ]
    )


def sliced(cards: models.Cards) -> str:
    """Cards by their slices; the form has no health, so that sick ones are left out."""
    devices = [
        {"index": str(card.index), "minor": str(card.index), "capacity": card.count}
        for card in cards
        if card.healthy
    ]
    return _json({"devices": devices, "profiles": PROFILES if devices else {}})


def pair_links(cards: models.Cards) -> tuple[str, ...]:
    """Cards 0 and 1, 2 and 3, … have a fast link between them, all others a slow one."""
    scores = [
        {
            "uuid": one.id,
            "score": {
                other.id: 200 if one.index // 2 == other.index // 2 else 20
                for other in cards
                if other is not one
            },
        }
        for one in cards
    ]
    return (_json(scores),)


def topology(cards: models.Cards) -> tuple[str, ...]:
    """What is lost for later jobs, and what is won, by taking so many cards."""
    numbers = [number for number in (1, 2, 4, 8) if number <= len(cards)]
    losses = {str(number): 10 * (len(cards) - number) for number in numbers}
    scores = {str(number): 100 * (number - 1) for number in numbers}
    return _json(losses), _json(scores)


def soft_split(cards: models.Cards) -> tuple[str, ...]:
    """The node lets pods have a share of the cores."""
    return ("true",)


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
