"""Gauges that come in parts, such as nodes: text is made again only for parts that changed.

A thousand nodes with eight cards have some fifty thousand samples. To make their text takes a
good part of a second, in which a scheduler would decide nothing.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from prometheus_client import metrics_core

from hami_operator.server import families

Samples = Mapping[str, Mapping[tuple[str, ...], float]]
"""Name of a family to label values, in its order, to the value."""
Pause = Callable[[], Awaitable[None]]
"""Lets others work, if it is their turn."""


class Part(NamedTuple):
    """What is measured of one thing.

    Attributes:
        key: its name.
        version: another one whenever the samples may differ.
        read: its samples now.
    """

    key: str
    version: int
    read: Callable[[], Samples]


Parts = Callable[[], Iterable[Part]]
"""All parts there are now."""

_SPECIAL: Final = re.compile(r'[\\"\n]')
_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


class Blocks:
    """Families of gauges whose samples come part by part."""

    def __init__(self, table: Iterable[families.Family]) -> None:
        self._families = {one.name: one for one in table if one.kind is families.Kind.PART}
        self._read: Parts = tuple
        self._texts: dict[str, tuple[int, Mapping[str, bytes]]] = {}

    def connect(self, parts: Parts) -> None:
        """Read the samples from there whenever somebody asks for them."""
        self._read = parts

    async def text(self, pause: Pause) -> list[bytes]:
        """All samples in the text format, family by family."""
        texts: dict[str, tuple[int, Mapping[str, bytes]]] = {}
        for part in tuple(self._read()):
            known = self._texts.get(part.key)
            if known is None or known[0] != part.version:
                known = (part.version, self._rendered(part.read()))
                await pause()
            texts[part.key] = known
        self._texts = texts
        return [piece for family in self._families.values() for piece in _joined(family, texts)]

    def collect(self) -> Iterator[metrics_core.Metric]:
        """All samples as values."""
        found: dict[str, metrics_core.GaugeMetricFamily] = {}
        for part in self._read():
            for name, samples in part.read().items():
                family = self._families[name]
                if name not in found:
                    found[name] = metrics_core.GaugeMetricFamily(
                        name, family.help, labels=family.labels
                    )
                for labels, value in samples.items():
                    found[name].add_metric(labels, value)
        yield from found.values()

    def _rendered(self, samples: Samples) -> Mapping[str, bytes]:
        return {
            name: _lines(self._families[name], each).encode() for name, each in samples.items()
        }


def _joined(
    family: families.Family, texts: Mapping[str, tuple[int, Mapping[str, bytes]]]
) -> Iterator[bytes]:
    pieces = [by_name[family.name] for _, by_name in texts.values() if family.name in by_name]
    if any(pieces):
        yield f"# HELP {family.name} {family.help}\n# TYPE {family.name} gauge\n".encode()
        yield from pieces


def _lines(family: families.Family, samples: Mapping[tuple[str, ...], float]) -> str:
    told = ",".join(f'{name}="%s"' for name in family.labels)
    line = f"{family.name}{{{told}}} %r\n"
    return "".join(line % (*_escaped(labels), float(value)) for labels, value in samples.items())


def _escaped(labels: tuple[str, ...]) -> Iterable[str]:
    if _SPECIAL.search("".join(labels)):
        return [text.translate(_ESCAPES) for text in labels]
    return labels
