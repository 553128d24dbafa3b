"""The independent check against the engine, for every row and every way of asking."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from hami_operator.devices import fit, vendor
from hami_operator.protocol import register
from hami_operator.simulator import audit, takings
from tests.conformance import samples, test_vendors

BUILT_IN = [row for row in samples.REGISTRY if row.pod.allocated in takings.COUNTED_BY]
ASKS = [
    pytest.param(row, samples.limits(row, asked), id=f"{row.keyword}: {asked}")
    for row in BUILT_IN
    for asked in samples.of(row).asks
]
ENOUGH = 60


def filled(row: vendor.Vendor, limits: samples.Limits) -> list[dict[str, Any]]:
    """Pods as they are bound one after the other, until nothing is left or it is enough."""
    here = test_vendors.Cluster(row)
    found = []
    for number in itertools.islice(itertools.count(), ENOUGH):
        asked = test_vendors.asked(row, limits)
        answer = fit.fit(row, asked, here.cards(), test_vendors.context(row))
        if isinstance(answer, fit.NoFit):
            break
        builder = test_vendors.pod(f"p{number}", row, limits)
        slots = ((), answer.picks, ())
        here.books.assume(builder.read(), samples.NODE, {row.keyword: slots})
        written = test_vendors.decided(builder.read(), slots, row)
        found.append(builder.on(samples.NODE).annotate(dict(written.annotations)).raw())
    return found


@pytest.mark.parametrize(("row", "limits"), ASKS)
def test_what_the_engine_gives_away_is_never_too_much_and_twice_of_it_is(
    row: vendor.Vendor, limits: samples.Limits
) -> None:
    node = samples.node(row, form=register.Form.JSON).raw()
    once = filled(row, limits)
    assert once
    assert list(audit.findings([node], once)) == []
    if len(once) < ENOUGH:
        assert list(audit.findings([node], [*once, *once])) != []
