"""The annotations of a decision, row by row."""

from __future__ import annotations

import datetime
from collections.abc import Mapping

from hami_operator.devices import annotate, vendor
from hami_operator.protocol import decision, instant
from tests.unit.devices.rows import ROW, hooked, row

NOW = instant.Instant(
    monotonic_s=0.0, wall=datetime.datetime(2026, 2, 1, 8, 15, 30, tzinfo=datetime.UTC)
)
SLOTS = ((), (decision.Pick(id="c0", memory_mib=1000, cores=30, index=2),))


def written(*rows: vendor.Vendor) -> dict[str, str]:
    slots = {one.keyword: SLOTS for one in rows}
    return annotate.decision_annotations(
        rows,
        slots,
        node_name="n1",
        now=NOW,
        pod_annotations={"mode": "soft"},
        containers=("init", "main"),
        limits=({}, {"acme.io/card": "1"}),
    )


def test_both_values_hold_the_same_text() -> None:
    assert written(ROW) == {
        "acme.io/to-allocate": ";c0,Acme,1000,30:;",
        "acme.io/allocated": ";c0,Acme,1000,30:;",
    }


def test_a_row_with_one_key_gets_one_value() -> None:
    assert written(row(pod=vendor.PodKeys(allocated="acme.io/only"))) == {
        "acme.io/only": ";c0,Acme,1000,30:;"
    }


def test_every_row_gets_its_own_value() -> None:
    other = row(keyword="Other", pod=vendor.PodKeys(allocated="other.io/allocated"))
    assert written(ROW, other)["other.io/allocated"] == ";c0,Other,1000,30:;"
    assert len(written(ROW, other)) == 3


def test_a_hook_may_name_the_second_field() -> None:
    assert written(hooked(word=lambda pick: f"Card {pick.index}"))["acme.io/allocated"] == (
        ";c0,Card 2,1000,30:;"
    )


def test_plugin_keys_come_from_a_hook_that_sees_the_whole_decision() -> None:
    def keys(
        one: vendor.Vendor, slots: decision.Slots, facts: annotate.Facts
    ) -> Mapping[str, str]:
        seen = (one.keyword, facts.node_name, facts.now.unix_s, *facts.containers)
        return {"acme.io/plugin": " ".join(map(str, seen)), "mode": facts.pod_annotations["mode"]}

    found = written(hooked(annotate=keys))
    assert found["acme.io/plugin"] == "Acme n1 1769933730 init main"
    assert found["mode"] == "soft"
