"""The register codec: three encodings, one list for both directions, and malformed entries."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_operator.protocol import decision, fields, register

Form = register.Form
PROFILES = (
    register.Profile(
        name="1g.5gb",
        memory_mib=5120,
        cores=14,
        slices=1,
        placements=(register.Placement(start=0, size=1), register.Placement(start=6, size=1)),
    ),
)


def card(id: str = "GPU-a", index: int = 0, **facts: Any) -> register.Card:
    usual: dict[str, Any] = {"count": 10, "memory_mib": 7680, "cores": 100, "model": "T4"}
    return register.Card(id=id, index=index, **(usual | facts))


BOTH_WAYS = [
    pytest.param(
        "GPU-a,10,7680,100,T4,0,true:GPU-b,10,7680,100,T4,1,false:",
        Form.TEXT,
        7,
        (card(mode="hami-core"), card("GPU-b", 1, numa=1, mode="hami-core", healthy=False)),
        id="seven text fields, the position is the index",
    ),
    pytest.param(
        "GPU-a,10,7680,100,T4,0,true,3,mps:GPU-b,10,7680,100,T4,-1,true,5,:",
        Form.TEXT,
        9,
        (card(index=3, mode="mps"), card("GPU-b", 5, numa=-1)),
        id="nine text fields",
    ),
    pytest.param(
        '[{"id":"GPU-a","count":10,"devmem":7680,"devcore":100,"type":"T4","health":true}]',
        Form.JSON,
        0,
        (card(),),
        id="JSON without zero values",
    ),
    pytest.param(
        '[{"id":"GPU-a","index":-1,"count":7,"devmem":7680,"devcore":100,"type":"T4","numa":-1,'
        '"mode":"mig","migProfiles":[{"name":"1g.5gb","memoryMB":5120,"core":14,"sliceCount":1,'
        '"placements":[{"start":0,"size":1},{"start":6,"size":1}]}],"health":true,'
        '"custominfo":{"NetworkID":1}}]',
        Form.JSON,
        0,
        (
            card(
                index=-1,
                count=7,
                numa=-1,
                mode="mig",
                mig_profiles=PROFILES,
                custom={"NetworkID": 1},
            ),
        ),
        id="JSON with everything",
    ),
]


@pytest.mark.parametrize(("text", "form", "width", "cards"), BOTH_WAYS)
def test_a_value_is_read(
    text: str, form: Form, width: int, cards: tuple[register.Card, ...]
) -> None:
    assert register.decode(text) == register.Register(form=form, cards=cards)


@pytest.mark.parametrize(("text", "form", "width", "cards"), BOTH_WAYS)
def test_a_value_is_written(
    text: str, form: Form, width: int, cards: tuple[register.Card, ...]
) -> None:
    assert register.encode(cards, form, width=width) == text


@pytest.mark.parametrize(
    "text",
    [None, "", "  ", ":", ":::", "null", " null ", "[]", " [ ] "],
)
def test_an_empty_list_is_no_card_and_no_finding(text: str | None) -> None:
    assert register.decode(text) == register.Register(form=Form.EMPTY)


def finding(entry: int, field: str) -> register.Finding:
    return register.Finding(entry=entry, field=field)


GOOD = "GPU-z,10,7680,100,T4,0,true"


@pytest.mark.parametrize(
    ("piece", "want"),
    [
        pytest.param("garbage", "fields", id="one field"),
        pytest.param("GPU-a,10,7680,100,T4,0,true,1", "fields", id="eight fields"),
        pytest.param("GPU-a,10,7680,100,T4,0,true,1,m,x", "fields", id="ten fields"),
        pytest.param(",10,7680,100,T4,0,true", "id", id="no id"),
        pytest.param("a;b,10,7680,100,T4,0,true", "id", id="an id with a separator"),
        pytest.param("a\tb,10,7680,100,T4,0,true", "id", id="an id with a control character"),
        pytest.param("GPU-a,ten,7680,100,T4,0,true", "count", id="count is a word"),
        pytest.param("GPU-a,-1,7680,100,T4,0,true", "count", id="count is negative"),
        pytest.param("GPU-a,10, 7680,100,T4,0,true", "devmem", id="memory with a blank"),
        pytest.param("GPU-a,10,2147483648,100,T4,0,true", "devmem", id="memory beyond 32 bits"),
        pytest.param("GPU-a,10,7680,1e2,T4,0,true", "devcore", id="cores with an exponent"),
        pytest.param("GPU-a,10,7680,+1,T4,0,true", "devcore", id="cores with a sign"),
        pytest.param("GPU-a,10,7680,100,T4,-2,true", "numa", id="NUMA below unknown"),
        pytest.param("GPU-a,10,7680,100,T4,0,yes", "health", id="health in other words"),
        pytest.param("GPU-a,10,7680,100,T4,0,true,x,m", "index", id="index is a word"),
        pytest.param("GPU-z,10,7680,100,T4,0,true", "id", id="an id twice"),
        pytest.param(",x,x,x,T4,x,x", "id", id="the first bad field is named"),
    ],
)
def test_a_malformed_text_entry_is_named_and_the_others_stay(piece: str, want: str) -> None:
    read = register.decode(f"{GOOD}:{piece}:GPU-y,10,7680,100,T4,0,true:")

    assert [card.id for card in read.cards] == ["GPU-z", "GPU-y"]
    assert read.findings == (finding(1, want),)


@pytest.mark.parametrize(
    ("entry", "want"),
    [
        pytest.param("null", "json", id="no object"),
        pytest.param("[1]", "json", id="a list"),
        pytest.param("{}", "id", id="no id"),
        pytest.param('{"id":null}', "id", id="a null id"),
        pytest.param('{"id":7}', "id", id="an id that is a number"),
        pytest.param('{"id":"a:b"}', "id", id="an id with a separator"),
        pytest.param('{"id":"\\ud800"}', "id", id="an id that is no text"),
        pytest.param('{"id":"z"}', "id", id="an id twice"),
        pytest.param('{"id":"a","count":"10"}', "count", id="a number as text"),
        pytest.param('{"id":"a","count":true}', "count", id="a truth value as number"),
        pytest.param('{"id":"a","count":1.0}', "count", id="a fraction that is whole"),
        pytest.param('{"id":"a","devmem":1e3}', "devmem", id="an exponent"),
        pytest.param('{"id":"a","devmem":-0}', "devmem", id="zero with a sign"),
        pytest.param('{"id":"a","devcore":' + "9" * 5000 + "}", "devcore", id="a huge number"),
        pytest.param('{"id":"a","type":1}', "type", id="a model that is a number"),
        pytest.param('{"id":"a","numa":-2}', "numa", id="NUMA below unknown"),
        pytest.param('{"id":"a","health":"true"}', "health", id="health as text"),
        pytest.param('{"id":"a","health":1}', "health", id="health as number"),
        pytest.param('{"id":"a","index":2147483648}', "index", id="index beyond 32 bits"),
        pytest.param('{"id":"a","mode":[]}', "mode", id="a mode that is a list"),
        pytest.param('{"id":"a","migProfiles":{}}', "migProfiles", id="profiles are no list"),
        pytest.param('{"id":"a","migProfiles":[1]}', "migProfiles", id="a profile is no object"),
        pytest.param('{"id":"a","migProfiles":[{}]}', "migProfiles", id="a profile has no name"),
        pytest.param(
            '{"id":"a","migProfiles":[{"name":"1g","placements":[{"start":0}]}]}',
            "migProfiles",
            id="a place without size",
        ),
        pytest.param('{"id":"a","custominfo":[]}', "custominfo", id="free facts are no object"),
    ],
)
def test_a_malformed_json_entry_is_named_and_the_others_stay(entry: str, want: str) -> None:
    read = register.decode(f'[{{"id":"z","index":0}},{entry},{{"id":"y","index":1}}]')

    assert [card.id for card in read.cards] == ["z", "y"]
    assert read.findings == (finding(1, want),)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('[{"id":"a"', id="broken off"),
        pytest.param("[NaN]", id="a number that is none"),
        pytest.param("[1]]", id="something behind the list"),
        pytest.param("[" * 100_000, id="nested without end"),
        pytest.param('["\x01"]', id="a bare control character"),
    ],
)
def test_what_is_no_json_array_is_one_finding(text: str) -> None:
    assert register.decode(text) == register.Register(
        form=Form.JSON, findings=(finding(0, "json"),)
    )


def test_an_object_alone_is_text_of_the_wrong_shape() -> None:
    assert register.decode('{"id":"a"}').findings == (finding(0, "fields"), finding(1, "fields"))


def test_json_keys_are_matched_without_case_and_the_last_counts() -> None:
    read = register.decode('[{"id":"a","ID":"b","Id":"c","COUNT":3,"count":null,"Health":true}]')
    assert read.cards == (register.Card(id="c", index=0, count=0, healthy=True),)


def test_the_last_of_a_repeated_key_counts_wherever_the_first_stood() -> None:
    read = register.decode('[{"id":"a","ID":"b","id":"c"}]')
    assert [card.id for card in read.cards] == ["c"]


def test_absent_json_keys_mean_nothing_and_so_unhealthy() -> None:
    assert register.decode('[{"id":"a","unknown":1}]').cards == (
        register.Card(id="a", index=0, healthy=False),
    )


def test_an_id_counts_as_repeated_only_after_a_well_formed_entry() -> None:
    read = register.decode('[{"id":"a","count":-1},{"id":"a","count":2}]')
    assert [card.count for card in read.cards] == [2]
    assert read.findings == (finding(0, "count"),)


def test_cards_are_sorted_by_index_then_id_whatever_the_order_of_the_value() -> None:
    entries = [{"id": "c", "index": 2}, {"id": "b"}, {"id": "a", "index": 2}, {"id": "d"}]
    for value in (entries, entries[::-1]):
        read = register.decode(json.dumps(value))
        assert [card.id for card in read.cards] == ["b", "d", "a", "c"]


def test_the_index_of_seven_fields_counts_malformed_pieces_but_no_empty_ones() -> None:
    read = register.decode(f"::bad::{GOOD}:")
    assert [(card.id, card.index) for card in read.cards] == [("GPU-z", 1)]
    assert read.findings == (finding(0, "fields"),)


def test_leading_zeros_are_digits_like_others() -> None:
    assert register.decode(f"GPU-a,{'0' * 5000}7,7680,100,T4,00,true").cards[0].count == 7


@pytest.mark.parametrize(
    ("bad", "width"),
    [
        pytest.param(card(model="a:b"), 7, id="a model with a colon"),
        pytest.param(card(model="a,b"), 7, id="a model with a comma"),
        pytest.param(card(mode="a,b"), 9, id="a mode with a comma"),
    ],
)
def test_a_card_that_text_cannot_carry_is_not_written(bad: register.Card, width: int) -> None:
    with pytest.raises(ValueError, match="text fields"):
        register.encode([bad], Form.TEXT, width=width)


NUMBERS = st.integers(min_value=0, max_value=2**31 - 1)
IDS = st.text(min_size=1, max_size=12).filter(lambda text: not decision.FORBIDDEN.search(text))
WORDS = st.text(
    alphabet=st.characters(exclude_characters=",:", exclude_categories=["Cs"]), max_size=12
)
CARDS = st.builds(
    register.Card,
    id=IDS,
    index=NUMBERS | st.just(-1),
    count=NUMBERS,
    memory_mib=NUMBERS,
    cores=NUMBERS,
    model=WORDS,
    numa=NUMBERS | st.just(-1),
    mode=WORDS.map(str.strip),
    healthy=st.booleans(),
)
LISTS = st.lists(CARDS, min_size=1, max_size=5, unique_by=lambda one: one.id)


def in_order(cards: list[register.Card]) -> tuple[register.Card, ...]:
    return tuple(sorted(cards, key=lambda one: (one.index, one.id)))


@given(LISTS)
def test_reading_undoes_writing_json(cards: list[register.Card]) -> None:
    text = register.encode(cards, Form.JSON)
    assert register.decode(text) == register.Register(form=Form.JSON, cards=in_order(cards))


def opens_a_text(cards: list[register.Card]) -> bool:
    """No blank and no bracket in front, which would make the value another one."""
    first = cards[0].id
    return first == first.lstrip() and not first.startswith("[")


@given(LISTS.filter(opens_a_text))
def test_reading_undoes_writing_nine_fields(cards: list[register.Card]) -> None:
    text = register.encode(cards, Form.TEXT, width=9)
    assert register.decode(text) == register.Register(form=Form.TEXT, cards=in_order(cards))


def well_formed(one: register.Card) -> bool:
    numbers = (one.count, one.memory_mib, one.cores, one.index + 1, one.numa + 1)
    return bool(one.id) and all(0 <= number <= 2**31 for number in numbers)


def check_any(text: str) -> None:
    read = register.decode(text)
    assert all(map(well_formed, read.cards))
    assert len({one.id for one in read.cards}) == len(read.cards)
    if read.form is Form.EMPTY:
        assert (read.cards, read.findings) == ((), ())
    else:
        assert read.cards or read.findings


@given(
    st.lists(
        st.sampled_from([*"[]{}:,;\"'- \\", "true", "0", "-1", "99999999999", "id", "é", GOOD]),
        max_size=30,
    ).map("".join)
)
def test_any_text_gives_good_cards_or_findings(text: str) -> None:
    check_any(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["id", "count", "devmem", "numa", "migProfiles", "name", "x"]),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(st.lists(JSON, min_size=1, max_size=6))
def test_any_json_gives_good_cards_or_findings(value: list[Any]) -> None:
    check_any(json.dumps(value))


def _by_the_slow_parser(text: str) -> object:
    return json.loads(
        text,
        parse_int=fields._integer,
        parse_constant=fields._refuse,
        object_pairs_hook=fields._last_wins,
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('[{"id":"a","count":1}]', id="as plugins write it"),
        pytest.param('[{"id":"a","id":"b"}]', id="a repeated key"),
        pytest.param('[{"id": "a"}]', id="spaces"),
        pytest.param('[{"count":-0}]', id="a negative zero"),
        pytest.param('[{"count":1e2},{"count":1.50}]', id="unusual numbers"),
        pytest.param('[{"custominfo":{"bytes":85899345920}}]', id="a long number inside"),
        pytest.param('[{"id":"\\u0061\\ud800"}]', id="escapes"),
        pytest.param("[]", id="nothing"),
    ],
)
def test_the_fast_parser_says_what_the_slow_one_says(text: str) -> None:
    slow, fast = _by_the_slow_parser(text), fields.parse_json(text)
    assert repr(fast) == repr(slow)


@given(st.lists(st.dictionaries(st.text(max_size=4), st.integers() | st.floats(0, 9), max_size=3)))
def test_long_numbers_of_flat_objects_differ_in_type_alone(value: list[Any]) -> None:
    text = json.dumps(value, separators=(",", ":"))
    assert fields.parse_json(text) == _by_the_slow_parser(text)
