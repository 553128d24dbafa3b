"""A total below zero is a bug of ours: it is counted, logged as an error, and mended."""

from __future__ import annotations

import pytest
from structlog import testing

from hami_operator.scheduling import effects
from tests.runtime import bench
from tests.transitions import stage as stages

TEXT = "usage of GPU-0 on n1 had fallen below zero, and was added up again"


def spoil(books: object) -> None:
    """As a bug would: the totals forget a pod that is still there."""
    card = books._tables["n1"].cards["NVIDIA"]["GPU-0"]  # type: ignore[attr-defined]
    card.used = card.memory_mib = card.cores = 0


@pytest.mark.parametrize("leads", [True, False])
def test_it_is_told_by_whoever_finds_it(leads: bool) -> None:
    stage = stages.Stage()
    stage.node(stages.gpus("n1"))
    for name in ("a", "b"):
        stage.pod(stages.placed(stages.wants(name), "n1", "GPU-0,NVIDIA,1000,0:;"))
    if not leads:
        stage.world.step_down()
    spoil(stage.world.ledger)
    stage.world.pod_gone("uid-a", stage.now)
    found = [one for one in stage.world.tick(stage.now) if isinstance(one, effects.Correction)]
    assert found == [effects.Correction(kind="negative", node="", bug=TEXT)]
    assert stage.world.ledger.card_usage("n1", "NVIDIA")["GPU-0"].memory_mib == 1000
    assert not [one for one in stage.world.tick(stage.now) if isinstance(one, effects.Correction)]


async def test_it_is_counted_and_logged_as_an_error() -> None:
    async with bench.running() as on:
        on.add_node()
        for name in ("a", "b"):
            on.add(on.ask(name))
            await on.run(1.0)
            on.serve(name)
            await on.run(1.0)
        assert (on.node_of("a"), on.node_of("b")) == ("n1", "n1")
        spoil(on.world.ledger)
        on.delete_pod("a")
        with testing.capture_logs() as logs:
            await on.run(2.0)
        errors = [one["event"] for one in logs if one["log_level"] == "error"]
        assert [text for text in errors if "below zero" in text] == [TEXT]
        assert on.metrics.counts["hami_ledger_corrections_total{kind=negative}"] == 1
        assert on.world.ledger.card_usage("n1", "NVIDIA")["GPU-0"].memory_mib == 1000
