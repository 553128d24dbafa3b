"""The MIG list: what is written, what is read, and what makes it unreadable."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_operator import errors
from hami_operator.protocol import miglist, register

KEY = "hami.io/vgpu-mig-allocations"
RESERVED = miglist.Reservation(
    container=1,
    device=0,
    card="GPU-a",
    profile="2g.10gb",
    place=register.Placement(start=0, size=2),
)
ENTRY: dict[str, Any] = {
    "containerIndex": 1,
    "deviceIndex": 0,
    "gpuUUID": "GPU-a",
    "profile": "2g.10gb",
    "placement": {"start": 0, "size": 2},
}
MADE = {"migUUID": "MIG-1", "gpuInstanceID": 7, "computeInstanceID": 0}


def read(*entries: Any) -> tuple[miglist.Reservation, ...]:
    return miglist.decode(json.dumps(list(entries)), key=KEY)


def test_a_reservation_is_written_in_the_order_that_plugins_print() -> None:
    assert miglist.encode([RESERVED]) == (
        '[{"containerIndex":1,"deviceIndex":0,"gpuUUID":"GPU-a","profile":"2g.10gb",'
        '"placement":{"start":0,"size":2}}]'
    )
    assert miglist.encode([]) == "[]"


def test_a_reservation_is_read_with_what_the_plugin_made_of_it() -> None:
    assert read(ENTRY) == (RESERVED,)
    (found,) = read({**ENTRY, **MADE, "unknown": 1})
    assert found.made == miglist.Made(mig_uuid="MIG-1", gpu_instance=7, compute_instance=0)
    assert json.loads(miglist.encode([found])) == [{**ENTRY, **MADE}]


@pytest.mark.parametrize("text", [None, "", "  ", "[]"])
def test_nothing_there_is_no_reservation(text: str | None) -> None:
    assert miglist.decode(text, key=KEY) == ()


@pytest.mark.parametrize(
    ("text", "field"),
    [
        pytest.param("{", "json", id="not JSON"),
        pytest.param("{}", "json", id="no list"),
        pytest.param("[1]", "json", id="an entry that is no object"),
        pytest.param("[" * 100_000, "json", id="nested too deeply"),
        pytest.param("[" + " " * 200_000 + "]", "length", id="longer than any list"),
        pytest.param(json.dumps([ENTRY, ENTRY]), "deviceIndex", id="one device twice"),
    ],
)
def test_a_value_of_another_shape_is_unreadable(text: str, field: str) -> None:
    with pytest.raises(errors.DecodeError) as caught:
        miglist.decode(text, key=KEY)
    assert (caught.value.key, caught.value.field) == (KEY, field)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        pytest.param({"containerIndex": -1}, "containerIndex", id="negative container"),
        pytest.param({"deviceIndex": 1.5}, "deviceIndex", id="half a device"),
        pytest.param({"deviceIndex": "0"}, "deviceIndex", id="a number as text"),
        pytest.param({"gpuUUID": ""}, "gpuUUID", id="no card"),
        pytest.param({"profile": None}, "profile", id="no profile"),
        pytest.param({"placement": {"start": 6, "size": 0}}, "size", id="size 0"),
        pytest.param({"placement": {"start": -1, "size": 1}}, "start", id="negative start"),
        pytest.param({"placement": None}, "size", id="no place"),
        pytest.param({"migUUID": "MIG-1"}, "gpuInstanceID", id="one field of the plugin"),
        pytest.param(
            {"migUUID": "MIG-1", "gpuInstanceID": 1}, "computeInstanceID", id="two fields"
        ),
        pytest.param(MADE | {"gpuInstanceID": -1}, "gpuInstanceID", id="negative instance"),
    ],
)
def test_an_entry_with_a_bad_field_makes_the_list_unreadable(
    change: dict[str, Any], field: str
) -> None:
    with pytest.raises(errors.DecodeError) as caught:
        read(ENTRY | {"deviceIndex": 5}, ENTRY | change)
    assert caught.value.field == field
    assert "entry 1" in str(caught.value)


PLACES = st.builds(register.Placement, start=st.integers(0, 7), size=st.integers(1, 8))
NAMES = st.sampled_from(["GPU-a", "GPU-b", "1g.5gb"])
MADES = st.none() | st.builds(
    miglist.Made,
    mig_uuid=NAMES,
    gpu_instance=st.integers(0, 14),
    compute_instance=st.integers(0, 7),
)


@given(st.lists(st.tuples(NAMES, NAMES, PLACES, MADES), max_size=5))
def test_what_is_written_is_read(parts: list[tuple[Any, ...]]) -> None:
    listed = tuple(
        miglist.Reservation(
            container=number // 2,
            device=number % 2,
            card=card,
            profile=profile,
            place=place,
            made=made,
        )
        for number, (card, profile, place, made) in enumerate(parts)
    )
    assert miglist.decode(miglist.encode(listed), key=KEY) == listed


@given(st.text(alphabet='[]{}":,0123gpuUIDprofile -', max_size=40))
def test_no_text_raises_anything_else(text: str) -> None:
    with contextlib.suppress(errors.DecodeError):
        assert isinstance(miglist.decode(text, key=KEY), tuple)
