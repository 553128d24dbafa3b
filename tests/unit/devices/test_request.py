"""Container resources: what they ask for, and what nobody can have."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_operator.devices import registry, request, vendor
from tests.unit.devices.rows import ROW, hooked, row, wanted

LARGEST = 2**31 - 1


def read(one: vendor.Vendor = ROW, **amounts: Any) -> request.Request | request.Invalid | None:
    limits = {f"acme.io/{name}": value for name, value in amounts.items()}
    return request.read(one, limits=limits, requests={})


@pytest.mark.parametrize(
    ("one", "amounts", "want"),
    [
        pytest.param(ROW, {}, None, id="nothing"),
        pytest.param(ROW, {"memory": "5"}, None, id="memory alone asks for nothing"),
        pytest.param(ROW, {"card": "0", "memory": "-1"}, None, id="no card of a bad size"),
        pytest.param(ROW, {"card": "1"}, wanted(1, 0, percent=100), id="the whole card"),
        pytest.param(ROW, {"card": 1}, wanted(1, 0, percent=100), id="a number, not a text"),
        pytest.param(
            ROW, {"card": "2", "memory": "0"}, wanted(2, 0, percent=100), id="memory 0 is none"
        ),
        pytest.param(ROW, {"card": "1", "memory": "2k"}, wanted(1, 2000), id="a suffix"),
        pytest.param(ROW, {"card": "1", "memory": "2.0k"}, wanted(1, 2000), id="a whole decimal"),
        pytest.param(ROW, {"card": "1", "memory": "1Ki"}, wanted(1, 1024), id="a binary suffix"),
        pytest.param(ROW, {"card": "1", "percent": "33"}, wanted(1, 0, percent=33), id="percent"),
        pytest.param(
            ROW, {"card": "1", "percent": "0"}, wanted(1, 0, percent=100), id="percent 0 is none"
        ),
        pytest.param(
            ROW, {"card": "1", "memory": "5", "percent": "33"}, wanted(1, 5), id="memory wins"
        ),
        pytest.param(
            ROW, {"card": "1", "cores": "30"}, wanted(1, 0, percent=100, cores=30), id="cores"
        ),
        pytest.param(
            row(default_cores=100),
            {"card": "1"},
            wanted(1, 0, percent=100, cores=100),
            id="default cores",
        ),
        pytest.param(
            row(default_cores=100),
            {"card": "1", "cores": "0"},
            wanted(1, 0, percent=100),
            id="no cores are not the default",
        ),
        pytest.param(
            row(default_memory_mib=700), {"card": "1"}, wanted(1, 700), id="default memory"
        ),
        pytest.param(
            row(default_memory_mib=700),
            {"card": "1", "percent": "10"},
            wanted(1, 0, percent=10),
            id="percent wins over default memory",
        ),
        pytest.param(
            row(memory_unit_mib=256, memory_factor=2),
            {"card": "1", "memory": "3"},
            wanted(1, 1536),
            id="unit and factor",
        ),
        pytest.param(
            row(memory_factor=0), {"card": "1", "memory": "3"}, wanted(1, 3), id="factor 0 is 1"
        ),
        pytest.param(
            ROW,
            {"card": LARGEST, "memory": LARGEST, "cores": LARGEST},
            wanted(LARGEST, LARGEST, cores=LARGEST),
            id="the largest numbers",
        ),
    ],
)
def test_what_a_container_asks(
    one: vendor.Vendor, amounts: dict[str, Any], want: request.Request | None
) -> None:
    assert read(one, **amounts) == want


@pytest.mark.parametrize(
    ("amounts", "want"),
    [
        pytest.param({"card": "-1"}, "acme.io/card", id="negative"),
        pytest.param({"card": "1.5"}, "acme.io/card", id="a fraction"),
        pytest.param({"card": "NaN"}, "acme.io/card", id="no number"),
        pytest.param({"card": ""}, "acme.io/card", id="an empty text"),
        pytest.param({"card": "1e30"}, "acme.io/card", id="absurd"),
        pytest.param({"card": "2147483648"}, "acme.io/card", id="beyond 32 bits"),
        pytest.param({"card": True}, "acme.io/card", id="a truth value"),
        pytest.param({"card": "1", "memory": "16Gi"}, "acme.io/memory", id="bytes for MiB"),
        pytest.param({"card": "1", "memory": "500m"}, "acme.io/memory", id="half a MiB"),
        pytest.param({"card": "1", "percent": "101"}, "acme.io/percent", id="more than a card"),
        pytest.param({"card": "1", "cores": "ten"}, "acme.io/cores", id="a word"),
        pytest.param({"card": "x", "memory": "y"}, "acme.io/card", id="the count comes first"),
    ],
)
def test_what_nobody_can_have_names_resource_and_value(amounts: dict[str, Any], want: str) -> None:
    found = read(**amounts)

    assert isinstance(found, request.Invalid)
    assert found.resource == want
    assert found.value == str(amounts[want.removeprefix("acme.io/")])
    assert want in found.text()
    assert repr(found.value) in found.text()


def test_a_factor_does_not_lead_beyond_32_bits() -> None:
    found = read(row(memory_factor=2), card="1", memory="1073741824")
    assert found == request.Invalid(
        resource="acme.io/memory", value="1073741824", why="is not between 0 and 1073741823"
    )


def test_a_unit_does_not_make_a_fraction_whole() -> None:
    assert isinstance(read(row(memory_unit_mib=512), card="1", memory="500m"), request.Invalid)


@pytest.mark.parametrize(
    ("one", "limits", "requests", "want"),
    [
        pytest.param(ROW, {"card": "1"}, {"card": "2", "memory": "5"}, (1, 5), id="limits win"),
        pytest.param(ROW, {}, {"card": "2", "memory": "5"}, (2, 5), id="requests will do"),
        pytest.param(ROW, {"card": "0"}, {"card": "2"}, None, id="a limit of 0 is a limit"),
        pytest.param(row(read_requests=False), {}, {"card": "2"}, None, id="limits only"),
    ],
)
def test_requests_stand_in_for_limits_where_the_row_says_so(
    one: vendor.Vendor, limits: dict[str, str], requests: dict[str, str], want: Any
) -> None:
    found = request.read(
        one,
        limits={f"acme.io/{name}": value for name, value in limits.items()},
        requests={f"acme.io/{name}": value for name, value in requests.items()},
    )
    assert (found and (found.count, found.memory_mib)) == want  # type: ignore[union-attr]  # no row is invalid


def test_an_empty_name_matches_nothing() -> None:
    nameless = row(resources=vendor.Resources(count="acme.io/card"))
    found = request.read(nameless, limits={"acme.io/card": "1", "": "7"}, requests={})
    assert found == wanted(1, 0, percent=100)


def test_a_hook_has_the_last_word() -> None:
    def halve(one: vendor.Vendor, found: request.Request, asked: request.Asked) -> request.Request:
        detail = {"raw": asked.raw("acme.io/memory")}
        return dataclasses.replace(found, memory_mib=found.memory_mib // 2, detail=detail)

    assert read(hooked(request=halve), card="1", memory="8") == wanted(1, 4, detail={"raw": "8"})


AMOUNTS = (
    st.text(alphabet="0123456789.-+eEkKMGi mn", max_size=12)
    | st.integers()
    | st.floats()
    | st.booleans()
)


@given(
    st.sampled_from(list(registry.default())),
    st.lists(AMOUNTS, min_size=5, max_size=5),
    st.booleans(),
)
def test_any_amount_is_a_request_within_limits_or_named(
    one: vendor.Vendor, amounts: list[Any], in_limits: bool
) -> None:
    named = dict(zip(one.resources.names, amounts, strict=False))
    found = request.read(
        one, limits=named if in_limits else {}, requests={} if in_limits else named
    )
    if isinstance(found, request.Invalid):
        assert found.resource in one.resources.names
    elif found is not None:
        assert 1 <= found.count <= LARGEST
        assert 0 <= found.memory_mib <= LARGEST
        assert 0 <= found.cores <= LARGEST
        by_number = one.hooks.ask or one.hooks.request is request.count_alone
        assert by_number or found.memory_mib > 0 or found.percent in range(1, 101)
