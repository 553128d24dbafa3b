"""Gauges that come part by part: their text, and what is not done twice."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterable

import pytest
from prometheus_client import parser

from hami_operator.server import blocks, families, metrics

NAME = "hami_gpu_shared_count"
OTHER = "hami_gpu_core_limit_ratio"


class Nodes:
    """Parts with a sample each; counts how often each is read."""

    def __init__(self, *names: str) -> None:
        self.versions = dict.fromkeys(names, 1)
        self.value = 1.0
        self.reads: list[str] = []

    def parts(self) -> Iterable[blocks.Part]:
        return [
            blocks.Part(name, version, functools.partial(self._read, name))
            for name, version in self.versions.items()
        ]

    def _read(self, name: str) -> blocks.Samples:
        self.reads.append(name)
        return {NAME: {(name, "GPU-0", "0", "Model", "vGPU"): self.value}}


def exporting(nodes: Nodes) -> metrics.Metrics:
    exported = metrics.Metrics()
    exported.read_parts(nodes.parts)
    return exported


async def values(exported: metrics.Metrics, name: str = NAME) -> dict[str, float]:
    text = (await exported.page()).decode()
    return {
        sample.labels["node"]: sample.value
        for family in parser.text_string_to_metric_families(text)
        if family.name == name
        for sample in family.samples
    }


async def test_only_parts_that_changed_are_read_again() -> None:
    nodes = Nodes("a", "b")
    exported = exporting(nodes)
    assert await values(exported) == {"a": 1.0, "b": 1.0}
    assert nodes.reads == ["a", "b"]
    nodes.value = 2.0
    assert await values(exported) == {"a": 1.0, "b": 1.0}
    assert nodes.reads == ["a", "b"]
    nodes.versions["b"] = 2
    assert await values(exported) == {"a": 1.0, "b": 2.0}
    assert nodes.reads == ["a", "b", "b"]


async def test_what_is_gone_is_told_no_more_and_read_anew_when_it_returns() -> None:
    nodes = Nodes("a", "b")
    exported = exporting(nodes)
    await exported.page()
    del nodes.versions["a"]
    assert await values(exported) == {"b": 1.0}
    nodes.versions["a"] = 1
    assert await values(exported) == {"b": 1.0, "a": 1.0}
    assert nodes.reads == ["a", "b", "a"]


async def test_a_family_without_samples_is_not_mentioned() -> None:
    exported = exporting(Nodes())
    assert NAME not in (await exported.page()).decode()
    assert OTHER not in (await exporting(Nodes("a")).page()).decode()


@pytest.mark.parametrize("text", ['a "word"', "a\\b", "two\nlines", 'all\\"\n', "", "ü"], ids=repr)
async def test_labels_may_hold_any_text(text: str) -> None:
    assert await values(exporting(Nodes(text))) == {text: 1.0}


@pytest.mark.parametrize("value", [0.0, 1.0, 2.0**50, 0.1, 1e-9, 3], ids=repr)
async def test_values_are_told_exactly(value: float) -> None:
    nodes = Nodes("a")
    nodes.value = value
    assert await values(exporting(nodes)) == {"a": value}


async def test_text_and_values_say_the_same() -> None:
    exported = exporting(Nodes("a", "b"))
    collected = {
        sample.labels["node"]: sample.value
        for family in exported.collect()
        if family.name == NAME
        for sample in family.samples
    }
    assert collected == await values(exported)


async def test_a_long_scrape_lets_others_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "TURN_S", -1.0)
    nodes = Nodes(*map(str, range(50)))
    seen: list[int] = []

    async def other() -> None:
        while len(nodes.reads) < 50:
            seen.append(len(nodes.reads))
            await asyncio.sleep(0)

    watching = asyncio.ensure_future(other())
    await exporting(nodes).page()
    await watching
    assert set(range(50)) <= set(seen), "a turn after each part"


@pytest.mark.parametrize("one", families.LEGACY, ids=lambda one: one.family.name)
def test_old_names_have_labels_of_todays(one: families.Legacy) -> None:
    (source,) = (family for family in families.FAMILIES if family.name == one.source)
    labels = tuple(f"of {name}" for name in source.labels)
    ((renamed, value),) = one.renamed({labels: 1.0}).items()
    assert (len(renamed), value) == (len(one.family.labels), 1.0)
    assert one.family.labels[-1] == "zone"
    assert renamed[-1] == "of zone"
