"""The metrics: takes them through the recorder port, reads the others from their owners."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeVar

import prometheus_client
import structlog
from aiohttp import web
from prometheus_client import exposition, metrics_core, registry

import hami_operator
from hami_operator.server import blocks, families

Values = Callable[[], Mapping[tuple[str, ...], float]]
"""Reads a gauge: label values in the order of the family's labels, to the value."""

Metric = TypeVar("Metric")

TURN_S: Final = 0.005
"""So long a scrape works at a time."""

_CONTENT_TYPE: Final = exposition.CONTENT_TYPE_LATEST

_log = structlog.get_logger(__name__)


class Metrics:
    """Implements `ports.Recorder`; a metric that is not in the table is reported, once."""

    def __init__(
        self, table: Iterable[families.Family] = families.EVERY, *, revision: str = ""
    ) -> None:
        self.registry = prometheus_client.CollectorRegistry()
        self._unknown: set[str] = set()
        self._families = {family.name: family for family in table}
        self._counters: dict[str, prometheus_client.Counter] = {}
        self._histograms: dict[str, prometheus_client.Histogram] = {}
        self._gauges: dict[str, prometheus_client.Gauge] = {}
        self._readers: dict[str, Values] = {}
        self._blocks = blocks.Blocks(self._families.values())
        for family in self._families.values():
            self._add(family)
        self.registry.register(_Reading(self._read_families))
        self.gauge(
            "hami_operator_build_info",
            1,
            version=hami_operator.__version__,
            revision=revision,
            python_version=platform.python_version(),
        )

    def count(self, name: str, amount: float = 1.0, /, **labels: str) -> None:
        """See `ports.Recorder`."""
        if (counter := self._known(self._counters, name, labels)) is not None:
            (counter.labels(**labels) if labels else counter).inc(amount)

    def observe(self, name: str, value: float, /, **labels: str) -> None:
        """See `ports.Recorder`."""
        if (histogram := self._known(self._histograms, name, labels)) is not None:
            (histogram.labels(**labels) if labels else histogram).observe(value)

    def gauge(self, name: str, value: float, /, **labels: str) -> None:
        """See `ports.Recorder`."""
        if (gauge := self._known(self._gauges, name, labels)) is not None:
            (gauge.labels(**labels) if labels else gauge).set(value)

    def read(self, name: str, values: Values) -> None:
        """Let a gauge be read from its owner whenever somebody asks for the metrics.

        Raises:
            KeyError: no such gauge is in the table; a fault of the wiring.
        """
        if self._families[name].kind is not families.Kind.READ:
            raise KeyError(name)
        self._readers[name] = values

    def read_parts(self, parts: blocks.Parts) -> None:
        """Let the gauges that come part by part be read from there."""
        self._blocks.connect(parts)

    def collect(self) -> Iterator[metrics_core.Metric]:
        """All metrics as values."""
        yield from self.registry.collect()
        yield from self._blocks.collect()

    async def page(self) -> bytes:
        """All metrics as text; what else is to be done goes on between them."""
        pause = _Pause()
        texts = []
        for family in self.registry.collect():
            texts.append(prometheus_client.generate_latest(_One(family)))
            await pause()
        return b"".join([*texts, *await self._blocks.text(pause)])

    def routes(self) -> list[web.RouteDef]:
        """``/metrics``."""

        async def metrics(_: web.Request) -> web.Response:
            return web.Response(body=await self.page(), headers={"Content-Type": _CONTENT_TYPE})

        return [web.get("/metrics", metrics)]

    def _add(self, family: families.Family) -> None:
        name, text, labels, home = family.name, family.help, family.labels, self.registry
        match family.kind:
            case families.Kind.COUNTER:
                self._counters[name] = prometheus_client.Counter(name, text, labels, registry=home)
            case families.Kind.HISTOGRAM:
                self._histograms[name] = prometheus_client.Histogram(
                    name, text, labels, registry=home, buckets=family.buckets
                )
            case families.Kind.GAUGE:
                self._gauges[name] = prometheus_client.Gauge(name, text, labels, registry=home)
            case families.Kind.READ | families.Kind.PART:
                pass

    def _known(
        self, metrics: Mapping[str, Metric], name: str, labels: Mapping[str, str]
    ) -> Metric | None:
        """The metric; a wrong name or label must not fail the bind that counts with it."""
        metric = metrics.get(name)
        if metric is not None and set(labels) == set(self._families[name].labels):
            return metric
        if name not in self._unknown:
            self._unknown.add(name)
            _log.error("metric of unknown name or labels", metric=name, labels=sorted(labels))
        return None

    def _read_families(self) -> Iterator[metrics_core.Metric]:
        for name, values in self._readers.items():
            family = self._families[name]
            gauge = metrics_core.GaugeMetricFamily(name, family.help, labels=family.labels)
            try:
                for labels, value in values().items():
                    gauge.add_metric(labels, value)
            except Exception:
                # The other metrics are needed most when something is broken.
                _log.exception("metric cannot be read", metric=name)
                continue
            yield gauge


class _Pause:
    """Lets others work when we have kept them waiting for long enough."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._since_s = self._loop.time()

    async def __call__(self) -> None:
        if self._loop.time() - self._since_s > TURN_S:
            await asyncio.sleep(0)
            self._since_s = self._loop.time()


class _One(prometheus_client.CollectorRegistry):
    """A registry of one family."""

    def __init__(self, family: metrics_core.Metric) -> None:
        super().__init__()
        self._family = family

    def collect(self) -> Iterator[metrics_core.Metric]:
        yield self._family


class _Reading(registry.Collector):
    """Adapts a function to what the registry wants."""

    def __init__(self, read: Callable[[], Iterator[metrics_core.Metric]]) -> None:
        self._read = read

    def collect(self) -> Iterator[metrics_core.Metric]:
        """See `registry.Collector`."""
        return self._read()
