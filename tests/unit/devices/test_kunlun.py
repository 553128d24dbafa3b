"""Kunlun: wings of four, links across them, slices of one size per card."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from hami_operator.devices import fit, usage
from tests.unit.devices import family
from tests.unit.devices.rows import candidate

WHOLE: dict[str, Any] = {"memory_mib": 98304, "count": 100}
LINKED = ({0, 4}, {1, 5}, {2, 6}, {3, 7})


def free(*indexes: int, word: str = "kunlun", of: int = 8) -> list[usage.CardUsage]:
    """All cards of a node, of which only these are unused."""
    busy = usage.Usage(1, 98304, 100)
    return [
        candidate(
            f"{word}-{index}",
            index=index,
            used=usage.UNUSED if index in indexes else busy,
            **WHOLE,
        )
        for index in reversed(range(of))
    ]


def given(cards: list[usage.CardUsage], count: int, **context: Any) -> list[int] | str:
    answer = family.place("kunlun", family.ask("kunlun", count=str(count)), cards, **context)
    if isinstance(answer, fit.NoFit):
        return answer.text()
    assert {(pick.memory_mib, pick.cores) for pick in answer.picks} == {(98304, 100)}
    return [pick.index for pick in answer.picks]


NONE = "1/8 NumaNotFit"


@pytest.mark.parametrize(
    ("unused", "count", "want"),
    [
        pytest.param(range(8), 8, list(range(8)), id="eight"),
        pytest.param(range(1, 8), 8, NONE, id="eight of seven"),
        pytest.param(range(8), 1, [0], id="one of two full wings: the left"),
        pytest.param((0, 1, 2, 3, 6), 1, [6], id="one: a wing of one goes first"),
        pytest.param((0, 1, 4, 5, 6), 1, [4], id="one: a wing of three before one of two"),
        pytest.param((0, 1, 2, 3, 4, 5), 1, [4], id="one: a wing of two before one of four"),
        pytest.param((0, 1, 2, 4, 5), 2, [4, 5], id="two: the smallest wing that has two"),
        pytest.param((0, 1, 2, 3, 4, 5, 6), 2, [4, 5], id="two: three before four"),
        pytest.param((3, 7), 2, [3, 7], id="two across: linked"),
        pytest.param((3, 6), 2, NONE, id="two across: not linked"),
        pytest.param((4, 5, 6, 7, 0, 1), 4, [4, 5, 6, 7], id="four: a whole wing"),
        pytest.param((0, 1, 4, 5), 4, [0, 1, 4, 5], id="four of four across"),
        pytest.param((0, 1, 2, 4, 6), 4, [0, 2, 4, 6], id="four of five across"),
        pytest.param((0, 1, 4, 6), 4, NONE, id="four that are no square"),
        pytest.param((0, 1, 2, 4, 5, 6), 4, [0, 1, 4, 5], id="four of six: the rest is linked"),
        pytest.param((1, 2, 3, 4, 5, 6), 4, [1, 2, 5, 6], id="four of six: else the last"),
        pytest.param(range(8), 3, NONE, id="three"),
        pytest.param(range(8), 5, NONE, id="five"),
        pytest.param((), 1, NONE, id="none"),
    ],
)
def test_which_cards_lie_together(unused: Any, count: int, want: list[int] | str) -> None:
    assert given(free(*unused), count) == want


def test_the_order_of_the_candidates_does_not_matter() -> None:
    for unused in itertools.combinations(range(8), 5):
        cards = free(*unused)
        for count in (1, 2, 4):
            assert given(cards, count) == given(cards[::-1], count)


def test_cards_beyond_two_wings_are_not_used() -> None:
    assert given(free(8, 9, of=10), 1) == "1/10 NumaNotFit"
    assert given([candidate("x", index=-1, **WHOLE)], 1) == "1/1 NumaNotFit"


def test_more_than_there_are() -> None:
    assert given(free(0, of=1), 2) == "NodeInsufficientDevice"


def test_both_pairs_of_keys_select_and_are_blamed() -> None:
    wishes = {
        "hami.io/use-xpu-uuid": "kunlun-1,kunlun-2",
        "baidu.com/nouse-gpuuuid": "kunlun-1",
    }
    assert given(free(*range(8)), 1, pod_annotations=wishes) == [2]
    assert given(free(0, 1), 1, pod_annotations=wishes) == "2/8 CardUuidMismatch"


@pytest.mark.parametrize(
    ("before", "taken", "want"),
    [
        pytest.param([], [0], 0.0, id="the first card breaks an empty node"),
        pytest.param([], [0, 1, 2, 3], 2000.0, id="a wing of an empty node"),
        pytest.param([0], [1], 2000.0, id="no more broken than before"),
        pytest.param([0, 1, 2, 3], [4, 5], 1000.0, id="a little more"),
        pytest.param([0, 4], [1, 2], 1000.0, id="anything else"),
    ],
)
def test_a_node_scores_by_how_broken_its_wings_become(
    before: list[int], taken: list[int], want: float
) -> None:
    standing = tuple(
        candidate(f"k-{index}", index=index, used=usage.Usage(int(index in before)))
        for index in range(8)
    )
    slots = (tuple(family.pick(f"k-{index}", index) for index in taken), ())
    assert family.node_score("kunlun", slots, before=standing) == want
    assert family.node_score("kunlun", slots, before=standing, node_policy="spread") == -want


def test_the_plugin_is_told_of_the_last_container_alone() -> None:
    slots = ((family.pick("a", 3),), (family.pick("b", 5), family.pick("c", 6)), ())
    assert family.written("kunlun", slots)["BAIDU_COM_DEVICE_IDX"] == "5,6"


# --- slices ----------------------------------------------------------------------------------


def xpu(index: int = 0, used: int = 0, memory_mib: int = 0, **facts: Any) -> usage.CardUsage:
    return candidate(
        f"x-{index}", index=index, used=usage.Usage(used, memory_mib, 0), **(WHOLE | facts)
    )


@pytest.mark.parametrize(
    ("memory", "want"),
    [
        (None, (98304, 100)),
        ("0", (24576, 25)),
        ("24576", (24576, 25)),
        ("24577", (49152, 50)),
        ("49153", (98304, 100)),
        ("2147483647", (98304, 100)),
    ],
)
def test_slices_come_in_three_sizes(memory: str | None, want: tuple[int, int]) -> None:
    found = family.ask("XPU", count="1", **({"memory": memory} if memory else {}))
    assert found is not None
    assert (found.memory_mib, found.cores) == want  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("cards", "context", "want"),
    [
        pytest.param([xpu(0, 2, 49152)], {}, "x-0", id="beside its like"),
        pytest.param([xpu(0, 1, 49152)], {}, "1/1 NumaNotFit", id="beside another size"),
        pytest.param([xpu(0, 4, 98304)], {}, "1/1 NumaNotFit", id="full"),
        pytest.param([xpu(healthy=False)], {}, "1/1 NumaNotFit", id="sick"),
        pytest.param(
            [xpu(0, 1, 24576)],
            {"policy": ("mutex",)},
            "1/1 ExclusiveDeviceAllocateConflict",
            id="used, and the pod wants to be alone",
        ),
        pytest.param(
            [xpu(0, 1, 49152)],
            {"policy": ("mutex",)},
            "1/1 NumaNotFit",
            id="alone, but the size would not fit either",
        ),
        pytest.param(
            [xpu(0), xpu(1)],
            {"quota_fits": lambda *_: False},
            "2/2 ResourceQuotaNotFit",
            id="no quota",
        ),
        pytest.param(
            [xpu(0), xpu(1, healthy=False)],
            {"pod_annotations": {"baidu.com/use-gpuuuid": "x-9"}},
            "2/2 CardUuidMismatch",
            id="others are wanted",
        ),
    ],
)
def test_one_size_of_slice_per_card(
    cards: list[usage.CardUsage], context: dict[str, Any], want: str
) -> None:
    asked = family.ask("XPU", count="1", memory="24576")
    assert family.told(family.place("XPU", asked, cards, **context)) == want


def test_several_slices_are_asked_of_the_quota_together() -> None:
    def fits(picks: Any, memory_mib: int, cores: int, card: str) -> bool:
        return memory_mib + sum(pick.memory_mib for pick in picks) <= 2 * 24576

    cards = [xpu(index) for index in range(4)]
    two, four = (family.ask("XPU", count=count, memory="1") for count in ("2", "4"))
    assert family.told(family.place("XPU", two, cards, quota_fits=fits)) == "x-0 x-1"
    assert family.told(family.place("XPU", four, cards, quota_fits=fits)) == (
        "4/4 ResourceQuotaNotFit"
    )


def test_admission_leaves_memory_alone_that_is_not_in_limits() -> None:
    answer = family.admitted("XPU", {"kunlunxin.com/vxpu": "1"})
    assert answer == family.admitted("XPU", {"kunlunxin.com/vxpu": "1"})
    assert "x" in family.denial(
        family.admitted("XPU", {"kunlunxin.com/vxpu": "1", "kunlunxin.com/vxpu-memory": "x"})
    )
