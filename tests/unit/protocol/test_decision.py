"""The decision codec: one list for both directions, and what cannot be read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_operator import errors
from hami_operator.protocol import decision

KEY = "hami.io/some-devices-allocated"


def pick(id: str, memory_mib: int = 1000, cores: int = 30) -> decision.Pick:
    return decision.Pick(id=id, memory_mib=memory_mib, cores=cores)


BOTH_WAYS = [
    pytest.param(
        "GPU-a,NVIDIA,3000,50:;GPU-b,NVIDIA,4000,60:;",
        ((pick("GPU-a", 3000, 50),), (pick("GPU-b", 4000, 60),)),
        id="two containers with a card each",
    ),
    pytest.param(
        ";GPU-b,NVIDIA,4000,60:;",
        ((), (pick("GPU-b", 4000, 60),)),
        id="an init container without devices keeps its slot",
    ),
    pytest.param(
        "GPU-a,NVIDIA,1000,30:GPU-b,NVIDIA,1000,30:;",
        ((pick("GPU-a"), pick("GPU-b")),),
        id="two cards in one container",
    ),
    pytest.param(
        "GPU-a,NVIDIA,1000,30:;;", ((pick("GPU-a"),), ()), id="the last container has none"
    ),
    pytest.param(";", ((),), id="one container without devices"),
    pytest.param(
        "c,NVIDIA,2147483647,2147483647:;",
        ((pick("c", 2**31 - 1, 2**31 - 1),),),
        id="the largest numbers",
    ),
]


@pytest.mark.parametrize(("text", "slots"), BOTH_WAYS)
def test_a_value_is_written(text: str, slots: decision.Slots) -> None:
    assert decision.encode(slots, "NVIDIA") == text


@pytest.mark.parametrize(("text", "slots"), BOTH_WAYS)
def test_a_value_is_read(text: str, slots: decision.Slots) -> None:
    assert decision.decode(text, key=KEY) == slots


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("", ((),), id="an empty text is one empty slot"),
        pytest.param("a,N,1000,30", ((pick("a"),),), id="closing marks may be missing"),
        pytest.param("a,N,1000,30,x,y:;", ((pick("a"),),), id="further fields do not count"),
        pytest.param(",,0,0:;", ((),), id="an entry without id is no device"),
        pytest.param(":::;", ((),), id="empty entries are none"),
        pytest.param("a,any word,1000,30:;", ((pick("a"),),), id="the word does not matter"),
        pytest.param(";;;", ((), (), ()), id="only the piece after the last mark is dropped"),
    ],
)
def test_what_others_write_is_read(text: str, want: decision.Slots) -> None:
    assert decision.decode(text, key=KEY) == want


@pytest.mark.parametrize(
    ("text", "want_field"),
    [
        pytest.param("uuid,type,100:;", "fields", id="a missing field"),
        pytest.param("garbage", "fields", id="no fields at all"),
        pytest.param("a,N,abc,30:;", "memory", id="memory is a word"),
        pytest.param("a,N,-1,30:;", "memory", id="memory is negative"),
        pytest.param("a,N,1_0,30:;", "memory", id="memory with an underscore"),
        pytest.param("a,N,\uff11,30:;", "memory", id="digits of another script"),
        pytest.param("a,N,1,2.5:;", "cores", id="cores are a fraction"),
        pytest.param("a,N,1, 2:;", "cores", id="cores with a blank"),
        pytest.param("a,N,2147483648,0:;", "memory", id="memory beyond 32 bits"),
        pytest.param("a,N,1,99999999999:;", "cores", id="cores of eleven digits"),
        pytest.param(",,x,0:;", "memory", id="no id and no number either"),
        pytest.param("a,N,1,2:" * 4097, "length", id="too many devices"),
        pytest.param("\u00e4" * 70_000, "length", id="too many bytes in fewer characters"),
        pytest.param(";" * 140_000, "length", id="too many characters"),
    ],
)
def test_an_unreadable_value_names_its_key_and_field(text: str, want_field: str) -> None:
    with pytest.raises(errors.DecodeError) as caught:
        decision.decode(text, key=KEY)
    assert (caught.value.key, caught.value.field) == (KEY, want_field)


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(pick("a:b"), id="an id with a separator"),
        pytest.param(pick(""), id="no id"),
        pytest.param(pick("a\n"), id="an id with a control character"),
        pytest.param(pick("a", 2**31), id="memory beyond 32 bits"),
        pytest.param(pick("a", 1, -1), id="negative cores"),
    ],
)
def test_what_no_register_yields_is_never_written(bad: decision.Pick) -> None:
    with pytest.raises(ValueError, match=r"cannot be written|beyond 32 bits"):
        decision.encode(((bad,),), "NVIDIA")


def test_a_word_with_a_separator_is_never_written() -> None:
    with pytest.raises(ValueError, match="cannot be written"):
        decision.encode(((pick("a"),),), "NVIDIA;")


def test_the_word_may_depend_on_the_device() -> None:
    slots = ((pick("a"), pick("b")),)
    assert decision.encode(slots, lambda one: f"model {one.id}") == (
        "a,model a,1000,30:b,model b,1000,30:;"
    )


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("a,NVIDIA,1,1:;", True, id="a device is left"),
        pytest.param(";a,NVIDIA,1,1:;;", True, id="the first container is served"),
        pytest.param(";;;", False, id="all are served"),
        pytest.param("", False, id="an empty text"),
        pytest.param(None, False, id="no annotation"),
        pytest.param("a,MLU,1,1:;", False, id="devices of another type"),
    ],
)
def test_unserved_devices_are_seen_as_plugins_see_them(text: str | None, want: bool) -> None:
    assert decision.unserved(text, "NVIDIA") is want


NUMBERS = st.integers(min_value=0, max_value=2**31 - 1)
IDS = st.text(min_size=1, max_size=20).filter(lambda text: not decision.FORBIDDEN.search(text))
PICKS = st.builds(decision.Pick, id=IDS, memory_mib=NUMBERS, cores=NUMBERS)
SLOTS = st.lists(st.lists(PICKS, max_size=4).map(tuple), min_size=1, max_size=5).map(tuple)


@given(SLOTS)
def test_reading_undoes_writing(slots: decision.Slots) -> None:
    assert decision.decode(decision.encode(slots, "HCU"), key=KEY) == slots


@given(st.text(alphabet=st.sampled_from("a1,:;- 9\ud800é"), max_size=60))
def test_any_text_gives_slots_of_good_numbers_or_an_error(text: str) -> None:
    try:
        slots = decision.decode(text, key=KEY)
    except errors.DecodeError:
        return
    for one in (one for slot in slots for one in slot):
        assert one.id
        assert 0 <= one.memory_mib < 2**31
        assert 0 <= one.cores < 2**31
