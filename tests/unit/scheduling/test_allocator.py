"""Concrete cards on one node for all containers of a pod."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hami_operator import errors
from hami_operator.devices import account, registry, request, usage
from hami_operator.protocol import decision, register
from hami_operator.scheduling import allocator, demand, effective, policy, quota, snapshot
from hami_operator.scheduling import rejection as rejections
from hami_operator.scheduling.pod import Kind
from tests import builders

REGISTRY = registry.default()
Reason = errors.Reason


def gpu(count: int = 1, memory_mib: int | None = 1000, cores: int = 0) -> dict[str, str]:
    limits = {"nvidia.com/gpu": str(count), "nvidia.com/gpucores": str(cores)}
    return limits if memory_mib is None else limits | {"nvidia.com/gpumem": str(memory_mib)}


def view(
    cards: Mapping[str, Sequence[register.Card]] | None = None,
    taken: Mapping[str, usage.Usage] | None = None,
    unavailable: Mapping[str, Reason] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> snapshot.NodeView:
    every = {
        word: tuple(usage.CardUsage(one, (taken or {}).get(one.id, usage.UNUSED)) for one in each)
        for word, each in ({"NVIDIA": builders.cards(2)} if cards is None else cards).items()
    }
    return snapshot.NodeView(
        node=builders.roomy("n").annotate(annotations).read(),
        cards=every,
        unavailable=unavailable or {},
        base=snapshot.totals(every),
    )


def allocate(
    pod: builders.PodBuilder,
    on: snapshot.NodeView,
    *,
    accounts: quota.Accounts | None = None,
    counts_request: bool = True,
    card_policy: str = "spread",
) -> Mapping[str, decision.Slots] | rejections.Rejection:
    read = pod.read()
    wishes = policy.read(read.annotations, node_setting="binpack", card_setting=card_policy)
    order = allocator.prepare(
        read,
        demand.read(read, REGISTRY),
        wishes,
        registry=REGISTRY,
        accounts=accounts,
        counts_request=counts_request,
    )
    return allocator.allocate(order, on)


def ids(found: Any, word: str = "NVIDIA") -> list[list[str]]:
    """Card ids per container, or the node's own words."""
    if isinstance(found, rejections.Rejection):
        return [[found.detail]]
    return [[pick.id for pick in slot] for slot in found[word]]


def test_a_decision_has_a_slot_for_every_container() -> None:
    pod = (
        builders.pod("p").init(limits=gpu(1, 500)).container("idle").container("c", limits=gpu(2))
    )
    pick = decision.Pick
    assert allocate(pod, view()) == {
        "NVIDIA": (
            (pick(id="GPU-1", memory_mib=500, cores=0, index=1),),
            (),
            (
                pick(id="GPU-1", memory_mib=1000, cores=0, index=1),
                pick(id="GPU-0", memory_mib=1000, cores=0, index=0),
            ),
        )
    }


def test_each_type_of_a_container_takes_cards_of_its_own() -> None:
    cards = {"NVIDIA": builders.cards(1), "HCU": builders.cards(1, word="HCU")}
    pod = builders.pod("p").container(limits=gpu() | {"hygon.com/hcunum": "1"}).container("idle")
    found = allocate(pod, view(cards))
    assert (ids(found), ids(found, "HCU")) == ([["GPU-0"], []], [["HCU-0"], []])


def test_a_pod_without_devices_needs_no_cards() -> None:
    assert allocate(builders.pod("p").container(), view({})) == {}


BOTH = builders.pod("p").container(limits=gpu(1, 20000)).container(limits=gpu(1, 20000))


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(BOTH, [["GPU-1"], ["GPU-0"]], id="apps see what the apps before them got"),
        pytest.param(
            builders.pod("p").init(limits=gpu(1, 20000)).container(limits=gpu(1, 20000)),
            [["GPU-1"], ["GPU-1"]],
            id="an init runs alone, so its card is free again for the app",
        ),
        pytest.param(
            builders.pod("p").init(limits=gpu(1, 20000)).init(limits=gpu(1, 20000)).container(),
            [["GPU-1"], ["GPU-1"], []],
            id="inits run one after the other",
        ),
        pytest.param(
            builders.pod("p").init(limits=gpu(1, 20000)).sidecar(limits=gpu(1, 20000)).container(),
            [["GPU-0"], ["GPU-1"], []],
            id="a sidecar stays beside every init, even one before it",
        ),
        pytest.param(
            builders.pod("p").sidecar(limits=gpu(1, 20000)).container(limits=gpu(1, 20000)),
            [["GPU-1"], ["GPU-0"]],
            id="a sidecar stays beside the apps",
        ),
        pytest.param(
            BOTH.container(limits=gpu(1, 20000)),
            [["2/2 CardInsufficientMemory"]],
            id="three apps do not fit on two cards",
        ),
        pytest.param(
            builders.pod("p").init(limits=gpu(1, 40000)).container(limits=gpu(3)),
            [["2/2 CardInsufficientMemory"]],
            id="inits are placed before apps, so theirs is the reason",
        ),
        pytest.param(
            builders.pod("p").init(limits=gpu(3)).sidecar(limits=gpu(1, 40000)).container(),
            [["2/2 CardInsufficientMemory"]],
            id="sidecars are placed before inits, so theirs is the reason",
        ),
    ],
)
def test_containers_are_placed_as_they_run(pod: builders.PodBuilder, want: Any) -> None:
    assert ids(allocate(pod, view())) == want


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(
            builders.pod("p")
            .container(limits={"mthreads.com/vgpu": "1"})
            .container(limits={"mthreads.com/vgpu": "1"}),
            [["2/2 AllocatedCardsInsufficientRequest"]],
            id="whole cards for two containers",
        ),
        pytest.param(
            builders.pod("p")
            .container(limits={"mthreads.com/vgpu": "1", "mthreads.com/sgpu-memory": "2"})
            .container(limits={"mthreads.com/vgpu": "1", "mthreads.com/sgpu-memory": "2"}),
            [["m-1"], ["m-1"]],
            id="the second follows the first",
        ),
    ],
)
def test_a_rule_sees_the_cards_of_the_containers_before(
    pod: builders.PodBuilder, want: Any
) -> None:
    cards = [
        register.Card(id=f"m-{index}", index=index, count=100, memory_mib=4096, cores=16)
        for index in range(2)
    ]
    found = allocate(pod, view({"Mthreads": cards}), card_policy="binpack")
    if want == [["2/2 AllocatedCardsInsufficientRequest"]]:
        want = [["1/2 CardInsufficientMemory, 1/2 CardNotFoundCustomFilterRule"]]
    assert ids(found, "Mthreads") == want


def test_a_type_that_is_not_configured_is_named() -> None:
    wanted = request.Request(word="nonsense", count=1)
    order = allocator.prepare(
        builders.pod("p").container().read(),
        demand.build({"nonsense": (wanted,)}, (Kind.APP,)),
        policy.read({}, node_setting="binpack", card_setting="spread"),
        registry=REGISTRY,
    )
    assert allocator.allocate(order, view()) == rejections.Rejection(
        plugin="Devices",
        texts=("the device type is not configured (DeviceTypeUnknown)",),
        resolvable=False,
        reasons=(Reason.DEVICE_TYPE_UNKNOWN,),
        detail="Device type not found",
    )


ONE = builders.pod("p").container(limits=gpu(1, 1000, 10))
FULL = usage.Usage(1, 32768, 0)


@pytest.mark.parametrize(
    ("on", "want"),
    [
        pytest.param(
            view({"HCU": builders.cards(1)}),
            (("NodeInsufficientDevice",), (Reason.NODE_INSUFFICIENT_DEVICE,), False),
            id="no card of the type",
        ),
        pytest.param(
            view({}, unavailable={"NVIDIA": Reason.TYPE_EXPIRED}),
            (("NodeInsufficientDevice",), (Reason.TYPE_EXPIRED,), False),
            id="the type is unavailable: the words say why",
        ),
        pytest.param(
            view(taken={"GPU-0": FULL, "GPU-1": usage.Usage(10, 0, 0)}),
            (
                ("1/2 CardInsufficientMemory", "1/2 CardTimeSlicingExhausted"),
                (Reason.CARD_INSUFFICIENT_MEMORY, Reason.CARD_SLOTS_EXHAUSTED),
                True,
            ),
            id="full cards: may pass",
        ),
        pytest.param(
            view({"NVIDIA": builders.cards(1, healthy=False)}),
            (("1/1 CardNotHealth",), (Reason.CARD_NOT_HEALTHY,), False),
            id="no other pod's end heals a card",
        ),
        pytest.param(
            view(annotations={"hami.io/device-cordon": "GPU-0, GPU-1"}),
            (("2/2 CardCordoned",), (Reason.CARD_CORDONED,), False),
            id="the node's annotations count",
        ),
    ],
)
def test_a_refusal_says_why_to_people_and_machines(on: snapshot.NodeView, want: Any) -> None:
    details, reasons, resolvable = want
    assert allocate(ONE, on) == rejections.Rejection(
        plugin="Devices",
        texts=tuple(sorted(f"{reason.words} ({reason.word})" for reason in reasons)),
        resolvable=resolvable,
        reasons=reasons,
        detail=", ".join(details),
    )


@pytest.mark.parametrize(
    ("annotations", "want"),
    [
        pytest.param({}, ["GPU-2"], id="spread: the emptiest, of equals the highest NUMA"),
        pytest.param({"hami.io/gpu-scheduler-policy": "binpack"}, ["GPU-0"], id="binpack"),
        pytest.param({"hami.io/gpu-scheduler-policy": "mutex"}, ["GPU-2"], id="mutex"),
        pytest.param({"nvidia.com/use-gpuuuid": "GPU-1"}, ["GPU-1"], id="a card by its id"),
        pytest.param(
            {"nvidia.com/numa-bind": "true", "hami.io/gpu-scheduler-policy": "binpack"},
            ["GPU-0"],
            id="bound to a NUMA node, the lowest goes first under binpack",
        ),
    ],
)
def test_annotations_of_the_pod_choose_the_card(
    annotations: dict[str, str], want: list[str]
) -> None:
    cards = [dataclasses.replace(one, numa=one.index % 2) for one in builders.cards(3)]
    cards[2] = dataclasses.replace(cards[2], numa=1)
    found = allocate(
        ONE.annotate(annotations), view({"NVIDIA": cards}, {"GPU-0": usage.Usage(1, 100, 1)})
    )
    assert ids(found) == [want]


def test_compatible_scores_leave_the_request_out() -> None:
    """By what is booked before, the small card is emptier; with the request it is fuller."""
    cards = [
        register.Card(id="small", index=0, count=10, memory_mib=16000, cores=100),
        register.Card(id="large", index=1, count=10, memory_mib=32000, cores=100),
    ]
    on = view(
        {"NVIDIA": cards},
        {"small": usage.Usage(1, 7900, 10), "large": usage.Usage(1, 16000, 10)},
    )
    pod = builders.pod("p").container(limits=gpu(1, 8000, 20))
    assert ids(allocate(pod, on)) == [["large"]]
    assert ids(allocate(pod, on, counts_request=False)) == [["small"]]


def test_a_share_that_rounds_to_nothing_is_refused() -> None:
    """A decision of 0 MiB would be read as "no limit"."""
    pod = builders.pod("p").container(
        limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "1"}
    )
    tiny = view({"NVIDIA": builders.cards(2, memory_mib=99)})
    assert ids(allocate(pod, tiny)) == [["2/2 CardInsufficientMemory"]]
    assert ids(allocate(pod, view({"NVIDIA": builders.cards(1, memory_mib=100)}))) == [["GPU-0"]]


def limited(memory_mib: int | None = None, cores: int | None = None) -> quota.Accounts:
    return lambda row: (
        quota.Account(memory_mib=memory_mib, cores=cores) if row.keyword == "NVIDIA" else None
    )


@pytest.mark.parametrize(
    ("pod", "accounts", "want"),
    [
        pytest.param(BOTH, limited(40000), [["GPU-1"], ["GPU-0"]], id="exactly used up"),
        pytest.param(BOTH, limited(39999), [["2/2 ResourceQuotaNotFit"]], id="one MiB too much"),
        pytest.param(
            builders.pod("p").init(limits=gpu(1, 20000)).container(limits=gpu(1, 20000)),
            limited(20000),
            [["GPU-1"], ["GPU-1"]],
            id="init and app on one card count once",
        ),
        pytest.param(ONE, limited(cores=9), [["2/2 ResourceQuotaNotFit"]], id="cores too"),
        pytest.param(ONE, limited(0), [["2/2 ResourceQuotaNotFit"]], id="an explicit 0 blocks"),
        pytest.param(
            builders.pod("p").container(limits=gpu(2, 600)),
            limited(1000),
            [["1/2 AllocatedCardsInsufficientRequest, 1/2 ResourceQuotaNotFit"]],
            id="cards of one container add up",
        ),
    ],
)
def test_the_quota_counts_all_containers(
    pod: builders.PodBuilder, accounts: quota.Accounts, want: Any
) -> None:
    assert ids(allocate(pod, view(), accounts=accounts)) == want


def test_types_without_a_quota_are_not_asked() -> None:
    pod = builders.pod("p").container(limits={"hygon.com/hcunum": "1"})
    on = view({"HCU": builders.cards(1, word="HCU")})
    assert ids(allocate(pod, on, accounts=limited(0)), "HCU") == [["HCU-0"]]


def test_the_view_is_left_as_it_was() -> None:
    on = view()
    before = repr(on)
    allocate(BOTH, on)
    assert repr(on) == before


# Invariants over random pods and nodes.

AMOUNT = st.integers(min_value=1, max_value=9)
CONTAINER = st.tuples(st.sampled_from(Kind), st.integers(0, 3), AMOUNT, AMOUNT)
USED = st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(0, 9))


def build(containers: list[tuple[Kind, int, int, int]]) -> builders.PodBuilder:
    pod = builders.pod("p")
    for kind, count, memory, cores in containers:
        limits = gpu(count, memory * 1000, cores * 10) if count else None
        add = {Kind.INIT: pod.init, Kind.SIDECAR: pod.sidecar, Kind.APP: pod.container}[kind]
        pod = add(limits=limits)
    return pod


def node_of(
    used: list[tuple[int, int, int]],
) -> tuple[list[register.Card], dict[str, usage.Usage]]:
    """Cards of 4 slots, 10 000 MiB and 100 cores, with what is taken of them."""
    cards = [
        register.Card(id=f"GPU-{at}", index=at, count=4, memory_mib=10000, cores=100)
        for at in range(len(used))
    ]
    amounts = (usage.Usage(slots, memory * 1000, cores * 10) for slots, memory, cores in used)
    return cards, dict(zip((card.id for card in cards), amounts, strict=True))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(CONTAINER, min_size=1, max_size=5),
    st.lists(USED, min_size=1, max_size=4),
    st.sampled_from(["spread", "binpack", "mutex", "numa,binpack", "mutex,spread"]),
)
def test_no_card_is_ever_given_more_than_it_has(
    containers: list[tuple[Kind, int, int, int]],
    used: list[tuple[int, int, int]],
    card_policy: str,
) -> None:
    pod = build(containers)
    cards, taken = node_of(used)
    found = allocate(pod, view({"NVIDIA": cards}, taken), card_policy=card_policy)
    if isinstance(found, rejections.Rejection):
        assert found.reasons
        assert found.detail
        return
    read = pod.read()
    asked = demand.read(read, REGISTRY)
    for word, slots in found.items():
        assert [len(slot) for slot in slots] == [
            one.count if one else 0 for one in asked.words[word]
        ]
        assert all(len({pick.id for pick in slot}) == len(slot) for slot in slots)
    kinds = tuple(one.kind for one in read.containers)
    for card_id, one in effective.effective(found.get("NVIDIA", ()), kinds).items():
        card = next(each for each in cards if each.id == card_id)
        before = taken[card_id]
        assert before.used + one.used <= card.count
        assert before.memory_mib + one.memory_mib <= card.memory_mib
        assert before.cores + one.cores <= card.cores


@settings(max_examples=60, deadline=None)
@given(CONTAINER, st.lists(USED, min_size=1, max_size=3))
def test_a_pod_that_fits_still_fits_on_an_emptier_node(
    container: tuple[Kind, int, int, int], used: list[tuple[int, int, int]]
) -> None:
    pod = build([container])
    cards, taken = node_of(used)
    if not isinstance(allocate(pod, view({"NVIDIA": cards}, taken)), rejections.Rejection):
        assert not isinstance(allocate(pod, view({"NVIDIA": cards})), rejections.Rejection)


def test_charges_follow_the_row() -> None:
    """What the next container sees is what the ledger would count."""
    row = REGISTRY.by_word["NVIDIA"]
    pick = decision.Pick(id="GPU-1", memory_mib=20000, cores=0)
    card = usage.CardUsage(register.Card(id="GPU-1"))
    assert account.charge(row, card, pick).usage == usage.Usage(1, 20000, 0)
    second = allocate(BOTH, view(taken={"GPU-0": usage.Usage(1, 13000, 0)}))
    assert ids(second) == [["2/2 CardInsufficientMemory"]]
