"""NVIDIA: instances of partitioned cards, links, quota of instances."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from hami_operator.devices import fit, partition, usage
from hami_operator.protocol import register
from tests.unit.devices import family
from tests.unit.devices.rows import candidate, taken
from tests.unit.devices.test_choices import A100, MIG, profile

WORD = "NVIDIA"
LIST = "hami.io/vgpu-mig-allocations"
PAIRS = "hami.io/node-nvidia-score"


def asked(count: int = 1, memory_mib: int = 0, **facts: Any) -> Any:
    percent = facts.pop("percent", None if memory_mib else 100)
    return family.wanted(WORD, count, memory_mib=memory_mib, percent=percent, **facts)


def instances(answer: fit.Fit | fit.NoFit) -> list[tuple[str, str, int, int, int]]:
    assert isinstance(answer, fit.Fit), answer.text()
    found = []
    for pick in answer.picks:
        part = pick.custom[partition.CUSTOM]
        found.append((pick.id, part.profile, part.place.start, pick.memory_mib, pick.cores))
    return found


# --- partitioned cards -----------------------------------------------------------------------


def test_a_card_serves_several_devices_of_one_container_from_places_that_do_not_overlap() -> None:
    assert instances(family.place(WORD, asked(3, 4000), [MIG])) == [
        ("GPU-a", "1g.5gb", 6, 5120, 14),
        ("GPU-a", "1g.5gb", 5, 5120, 14),
        ("GPU-a", "1g.5gb", 4, 5120, 14),
    ]


@pytest.mark.parametrize(
    ("memory", "want"),
    [
        pytest.param(20480, ("3g.20gb", 20480), id="half the card is a profile of just that"),
        pytest.param(19968, ("4g.20gb", 21000), id="else the next larger one"),
    ],
)
def test_a_percentage_is_resolved_before_a_profile_is_chosen(
    memory: int, want: tuple[str, int]
) -> None:
    listed = (profile("3g.20gb", memory, 0, size=4), profile("4g.20gb", 21000, 0, size=4))
    card = candidate("GPU-a", count=7, memory_mib=40960, mode="mig", mig_profiles=listed)
    ((_, name, _, memory_mib, _),) = instances(family.place(WORD, asked(percent=50), [card]))
    assert (name, memory_mib) == want


def test_a_whole_card_is_the_profile_of_the_whole_card() -> None:
    whole = profile("7g.40gb", 40960, 0, size=8)
    card = candidate("GPU-a", count=7, memory_mib=40960, mode="mig", mig_profiles=(*A100, whole))
    assert instances(family.place(WORD, asked(), [card])) == [("GPU-a", "7g.40gb", 0, 40960, 98)]
    assert family.told(family.place(WORD, asked(), [MIG])) == "1/1 CardMigTopologyInfeasible"


def test_the_fourth_pod_of_two_is_refused_by_place_and_not_by_memory() -> None:
    card = dataclasses.replace(MIG.card, count=10)
    standing = usage.CardUsage(card)
    for _ in range(3):
        answer = family.place(WORD, asked(2, 4000), [standing])
        assert isinstance(answer, fit.Fit)
        for pick in answer.picks:
            standing = partition.charge(standing, pick, {})
    assert family.told(family.place(WORD, asked(2, 4000), [standing])) == (
        "1/1 AllocatedCardsInsufficientRequest, 1/1 CardMigTopologyInfeasible"
    )


@pytest.mark.parametrize(
    ("mode", "want"),
    [
        pytest.param(None, "GPU-a", id="no wish: the first that fits"),
        pytest.param("mig", "GPU-a", id="a partitioned card"),
        pytest.param("hami-core", "GPU-c", id="a shared card"),
        pytest.param("hami-core,mig", "GPU-a", id="either"),
        pytest.param("mps", "2/2 CardTypeMismatch", id="neither is a mismatch of type"),
    ],
)
def test_a_mixed_node_gives_the_kind_of_card_that_is_wanted(mode: str | None, want: str) -> None:
    shared = candidate("GPU-c", mode="hami-core")
    wishes = {"nvidia.com/vgpu-mode": mode} if mode else {}
    answer = family.place(WORD, asked(1, 4000), [MIG, shared], pod_annotations=wishes)
    assert family.told(answer) == want


def test_after_a_partitioned_card_a_shared_one_gives_what_was_asked_again() -> None:
    shared = candidate("GPU-c", mode="hami-core")
    full = candidate(
        "GPU-a", count=7, memory_mib=40960, mode="mig", mig_profiles=(profile("1g.5gb", 5120, 0),)
    )
    answer = family.place(WORD, asked(2, 4000, cores=10), [full, shared])
    assert isinstance(answer, fit.Fit)
    assert [(pick.id, pick.memory_mib, pick.cores) for pick in answer.picks] == [
        ("GPU-a", 5120, 14),
        ("GPU-c", 4000, 10),
    ]
    assert partition.CUSTOM not in answer.picks[1].custom


def test_a_quota_is_asked_for_the_profile_and_not_for_less() -> None:
    questions: list[tuple[int, int]] = []

    def fits(picks: Any, memory_mib: int, cores: int, card: str) -> bool:
        questions.append((memory_mib, cores))
        return False

    answer = family.place(WORD, asked(1, 4000), [MIG], quota_fits=fits)
    assert family.told(answer) == "1/1 ResourceQuotaNotFit"
    family.place(WORD, asked(1, 40000), [MIG], quota_fits=fits)
    family.place(WORD, asked(1, 4000), [candidate("GPU-c")], quota_fits=fits)
    assert questions == [(5120, 14), (40000, 0), (4000, 0)]


# --- what a decision says --------------------------------------------------------------------


def test_the_list_is_written_only_with_instances_and_in_slot_order() -> None:
    place = register.Placement(start=6, size=1)
    part = partition.Instance(profile="1g.5gb", place=place)
    given = family.pick("GPU-a", custom={partition.CUSTOM: part})
    shared = family.pick("GPU-c", 1)

    listed = json.loads(family.written(WORD, ((given,), (), (shared, given)))[LIST])

    assert [(one["containerIndex"], one["deviceIndex"]) for one in listed] == [(0, 0), (2, 1)]
    assert LIST not in family.written(WORD, ((shared,),))


# --- links -----------------------------------------------------------------------------------


def linked(numa: dict[str, int], **facts: Any) -> list[usage.CardUsage]:
    return [candidate(id, numa=node, **facts) for id, node in numa.items()]


SCORES = json.dumps(
    [
        {"uuid": "a", "score": {"b": 10, "c": 100, "d": 1}},
        {"uuid": "b", "score": {"a": 10, "c": 1, "d": 50}},
        {"uuid": "c", "score": {"a": 100, "b": 1, "d": 1}},
        {"uuid": "d", "score": {"a": 1, "b": 50, "c": 1}},
    ]
)


@pytest.mark.parametrize(
    ("count", "numa_bind", "want"),
    [
        pytest.param(1, "", "d", id="one: the loneliest"),
        pytest.param(2, "", "a c", id="two: the best pair"),
        pytest.param(2, "true", "a b", id="two of one NUMA node: the first node with enough"),
        pytest.param(1, "true", "a", id="one of one NUMA node: the loneliest there"),
        pytest.param(
            3,
            "true",
            "2/4 AllocatedCardsInsufficientRequest, 2/4 NumaNotFit",
            id="no NUMA node has three",
        ),
        pytest.param(4, "", "a b c d", id="all of them in their order"),
        pytest.param(5, "", "NodeInsufficientDevice", id="more than there are"),
    ],
)
def test_cards_are_chosen_by_their_links(count: int, numa_bind: str, want: str) -> None:
    answer = family.place(
        WORD,
        asked(count, 1000),
        linked({"a": 0, "b": 0, "c": 1, "d": 1}),
        policy=("topology-aware",),
        node_annotations={PAIRS: SCORES},
        pod_annotations={"nvidia.com/numa-bind": numa_bind} if numa_bind else {},
    )
    assert family.told(answer) == want


def test_numa_nodes_are_judged_alone_even_where_their_cards_alternate() -> None:
    answer = family.place(
        WORD,
        asked(2, 1000),
        linked({"a": 0, "b": 1, "c": 0}),
        policy=("topology-aware",),
        pod_annotations={"nvidia.com/numa-bind": "1"},
    )
    assert family.told(answer) == "a c"


def test_nothing_fits_where_no_card_is_collected() -> None:
    cards = [candidate("a", healthy=False)]
    answer = family.place(WORD, asked(1, 1000), cards, policy=("topology-aware",))
    assert family.told(answer) == "1/1 CardNotHealth"


def test_links_that_cannot_be_read_count_as_none_and_are_told() -> None:
    listed = [candidate("a"), candidate("b", index=1), candidate("c", index=2)]
    answer = family.place(
        WORD,
        asked(2, 1000),
        listed,
        policy=("topology-aware",),
        node_annotations={PAIRS: "{"},
    )
    value = register.encode([one.card for one in listed], register.Form.JSON)
    key = family.ROWS[WORD].node.register

    found = family.devices(WORD, annotations={key: value, PAIRS: "{"})

    assert family.told(answer) == "a b"
    assert found.findings == (register.Finding(entry=0, field=PAIRS),)
    assert len(found.cards) == 3
    assert family.devices(WORD, annotations={key: value, PAIRS: SCORES}).findings == ()


def test_a_choice_among_too_many_sets_says_that_it_has_not_seen_all() -> None:
    many = [candidate(f"{number:02}", index=number) for number in range(30)]
    answer = family.place(
        WORD,
        asked(8, 1000),
        many,
        policy=("topology-aware",),
        node_annotations={PAIRS: json.dumps([{"uuid": "00", "score": {"07": 5}}])},
    )
    assert isinstance(answer, fit.Fit)
    assert [pick.custom.get(fit.NOTE) for pick in answer.picks] == [
        "topology-aware: only the first 200000 sets of cards were compared",
        *[None] * 7,
    ]


def test_a_quota_bounds_the_chosen_cards_and_not_all_that_are_collected() -> None:
    listed = [candidate("a"), candidate("b"), candidate("c"), candidate("d", used=taken(1, 9500))]
    scores_ = json.dumps([{"uuid": "b", "score": {"c": 9}}])

    def room(limit: int) -> Any:
        def fits(picks: Any, memory_mib: int, cores: int, card: str) -> bool:
            return memory_mib + sum(pick.memory_mib for pick in picks) <= limit

        return fits

    def chosen(limit: int) -> str:
        answer = family.place(
            WORD,
            asked(2, 1000),
            listed,
            policy=("topology-aware",),
            node_annotations={PAIRS: scores_},
            quota_fits=room(limit),
        )
        return family.told(answer)

    assert chosen(2000) == "b c"
    assert chosen(1999) == "1/4 AllocatedCardsInsufficientRequest, 3/4 ResourceQuotaNotFit"


def test_a_set_of_cards_of_different_sizes_is_checked_against_the_quota_as_a_whole() -> None:
    listed = [candidate("a", memory_mib=1000), candidate("b"), candidate("c")]

    def fits(picks: Any, memory_mib: int, cores: int, card: str) -> bool:
        return memory_mib + sum(pick.memory_mib for pick in picks) <= 11_000

    answer = family.place(
        WORD,
        asked(2, percent=100),
        listed,
        policy=("topology-aware",),
        node_annotations={PAIRS: json.dumps([{"uuid": "b", "score": {"c": 9}}])},
        quota_fits=fits,
    )
    assert family.told(answer) == "2/3 ResourceQuotaNotFit"
