"""MetaX: classes and QoS policies of neighbours, link zones, topology values."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import pytest

from hami_operator.devices import account, admit, fit, request, usage
from hami_operator.protocol import register
from tests.unit.devices import family
from tests.unit.devices.rows import candidate, taken

WORD = "Metax-SGPU"
ROW = family.ROWS[WORD]
CLASS = "metax-tech.com/sgpu-app-class"
QOS = "metax-tech.com/sgpu-qos-policy"


def sgpu(
    id: str = "a",
    *,
    pods: tuple[str | None, ...] = (),
    qos: str = "",
    zone: int = 0,
    **facts: Any,
) -> usage.CardUsage:
    """A card with such pods on it, by their classes."""
    used = usage.Usage(len(pods), 1000 * len(pods), 10 * len(pods), family.pods(*pods))
    custom = {"QosPolicy": qos, "LinkZone": zone}
    return candidate(id, count=16, custom=custom, **({"used": used} | facts))


def asked(count: int = 1, cores: int = 10) -> request.Request:
    return family.wanted(WORD, count, memory_mib=1000, cores=cores)


def placed(
    cards: list[usage.CardUsage],
    *,
    of: str | None = None,
    qos: str | None = None,
    wish: request.Request | None = None,
) -> str:
    annotations = ({CLASS: of} if of else {}) | ({QOS: qos} if qos else {})
    return family.told(family.place(WORD, wish or asked(), cards, pod_annotations=annotations))


# --- devices and requests --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "state", "want"),
    [
        pytest.param(None, "absent", [], id="nothing"),
        pytest.param("", "absent", [], id="blank"),
        pytest.param("null", "absent", [], id="null"),
        pytest.param("[]", "absent", [], id="an empty list"),
        pytest.param("{", "unavailable", [(0, "json")], id="no JSON"),
        pytest.param("{}", "unavailable", [(0, "json")], id="no list"),
        pytest.param("[1]", "unavailable", [(0, "json")], id="no object"),
        pytest.param('[{"uuid":"a:b"}]', "unavailable", [(0, "uuid")], id="a forbidden id"),
        pytest.param(
            '[{"uuid":"a"},{"uuid":"a"},{"UUID":"b","totalVRam":"1"},{"Uuid":"c","healthy":1}]',
            "available",
            [(1, "uuid"), (2, "totalVRam"), (3, "healthy")],
            id="bad entries leave the good one",
        ),
    ],
)
def test_own_lists_follow_the_rules_of_registers(
    value: str | None, state: str, want: list[tuple[int, str]]
) -> None:
    key = "metax-tech.com/node-gpu-devices"
    found = family.devices(WORD, annotations={} if value is None else {key: value})
    assert found.state.value == state
    assert [(bad.entry, bad.field) for bad in found.findings] == want
    assert not found.asks


@pytest.mark.parametrize(
    ("memory", "want"),
    [
        pytest.param("1k", request.Invalid, id="1000 as the API server writes it: bytes"),
        pytest.param("1Mi", 1, id="one MiB"),
        pytest.param("1500k", 1, id="rounded down to MiB"),
        pytest.param("0", 0, id="a bare 0 is the whole card"),
        pytest.param("0Gi", 0, id="0 bytes are the whole card"),
        pytest.param("2097151", 2147482624, id="the most GiB"),
        pytest.param("2097152", request.Invalid, id="too many GiB"),
        pytest.param("2Pi", request.Invalid, id="too many bytes"),
        pytest.param("1.5", request.Invalid, id="a fraction"),
    ],
)
def test_memory_is_gib_or_bytes(memory: str, want: Any) -> None:
    found = family.ask(WORD, count="1", memory=memory)
    if want is request.Invalid:
        assert isinstance(found, request.Invalid)
        assert (found.resource, found.value) == ("metax-tech.com/vmemory", memory)
    else:
        assert isinstance(found, request.Request)
        assert (found.memory_mib, found.percent) == (want, None if want else 100)


def test_memory_is_read_from_limits_alone() -> None:
    count = {"metax-tech.com/sgpu": "1"}
    found = request.read(ROW, limits=count, requests={"metax-tech.com/vmemory": "4"})
    assert isinstance(found, request.Request)
    assert found.percent == 100
    assert request.read(ROW, limits={}, requests=count) is None


# --- admission -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("annotations", "count", "want"),
    [
        pytest.param({CLASS: "online"}, "2", "2", id="two cards for a class"),
        pytest.param({CLASS: "offline"}, "x", "x", id="no number for a class"),
        pytest.param({CLASS: "batch"}, "1", "batch", id="an unknown class"),
        pytest.param({CLASS: "offline", QOS: "fast"}, "1", "fast", id="an unknown policy"),
        pytest.param({QOS: ""}, "1", "''", id="an empty policy"),
    ],
)
def test_what_no_card_can_serve_is_denied(
    annotations: Mapping[str, str], count: str, want: str
) -> None:
    limits = {"metax-tech.com/sgpu": count}
    assert want in family.denial(family.admitted(WORD, limits, annotations=annotations))


@pytest.mark.parametrize(
    ("annotations", "want"),
    [
        ({}, {QOS: "best-effort"}),
        ({QOS: "burst-share"}, {QOS: "burst-share"}),
        ({CLASS: "offline"}, {CLASS: "offline", QOS: "best-effort"}),
        ({CLASS: "online", QOS: "any"}, {CLASS: "online", QOS: "any"}),
    ],
)
def test_whoever_is_not_online_has_a_policy(
    annotations: Mapping[str, str], want: Mapping[str, str]
) -> None:
    answer = family.admitted(WORD, {"metax-tech.com/sgpu": "1"}, annotations=annotations)
    assert isinstance(answer, admit.Admitted)
    assert answer.pod.annotations == want


def test_a_container_without_the_resource_gets_no_policy() -> None:
    answer = family.admitted(WORD, {"cpu": "1"})
    assert isinstance(answer, admit.Admitted)
    assert answer.pod.annotations == {}


# --- neighbours ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pods", "mine", "fits"),
    [
        pytest.param((), None, True, id="unused, no class"),
        pytest.param((), "online", True, id="unused, online"),
        pytest.param((None,), None, True, id="no class beside no class"),
        pytest.param(("online",), None, False, id="no class beside online"),
        pytest.param(("offline",), None, False, id="no class beside offline"),
        pytest.param((None,), "online", False, id="online beside no class"),
        pytest.param((None,), "offline", False, id="offline beside no class"),
        pytest.param(("online",), "online", True, id="online beside online"),
        pytest.param(("offline",), "online", True, id="online beside offline"),
        pytest.param(("offline",), "offline", True, id="offline beside offline"),
        pytest.param(("online", "offline"), "offline", False, id="offline never beside online"),
        pytest.param((None,), "batch", True, id="an unknown class is none"),
    ],
)
def test_classes_share_cards_by_their_rules(
    pods: tuple[str | None, ...], mine: str | None, fits: bool
) -> None:
    want = "a" if fits else "1/1 CardAppClassMismatch"
    assert placed([sgpu(pods=pods)], of=mine) == want


@pytest.mark.parametrize(
    ("card", "mine", "qos", "cores", "fits"),
    [
        pytest.param(sgpu(qos="fixed-share"), None, None, 10, True, id="an unused card"),
        pytest.param(sgpu(qos="", pods=(None,)), None, None, 10, True, id="no policy yet"),
        pytest.param(
            sgpu(qos="fixed-share", pods=(None,)), None, "fixed-share", 10, True, id="the same"
        ),
        pytest.param(sgpu(qos="fixed-share", pods=(None,)), None, None, 10, False, id="another"),
        pytest.param(
            sgpu(qos="fixed-share", pods=(None,), used=usage.Usage(1)),
            None,
            None,
            100,
            False,
            id="a whole card, which is refused later",
        ),
        pytest.param(
            sgpu(qos="fixed-share", pods=("offline",)), "online", None, 10, True, id="online"
        ),
    ],
)
def test_a_card_serves_one_policy(
    card: usage.CardUsage, mine: str | None, qos: str | None, cores: int, fits: bool
) -> None:
    found = placed([card], of=mine, qos=qos, wish=asked(cores=cores))
    reason = "CardQosPolicyMismatch" if cores < 100 else "ExclusiveDeviceAllocateConflict"
    assert found == ("a" if fits else f"1/1 {reason}")


def test_online_pods_are_not_bound_by_cores() -> None:
    full = sgpu(pods=("online",), used=usage.Usage(1, 0, 100, family.pods("online")))
    assert placed([full], of="online", wish=asked(cores=100)) == "a"
    full = sgpu(pods=("offline",), used=usage.Usage(1, 0, 100, family.pods("offline")))
    assert placed([full], of="offline") == "1/1 CardInsufficientCore"


def test_health_is_told_in_the_word_of_this_vendor() -> None:
    assert placed([sgpu(healthy=False)]) == "1/1 CardUnhealthy"


# --- choice ----------------------------------------------------------------------------------


def test_online_pods_go_where_the_fewest_are_and_last_to_offline_ones() -> None:
    two_off = sgpu("two-off", pods=("offline", "offline"))
    one_off = sgpu("one-off", pods=("offline",))
    mixed = sgpu("mixed", pods=("online", "offline"))
    two_on = sgpu("two-on", pods=("online", "online"))
    one_on = sgpu("one-on", pods=("online",))
    free = sgpu("free")
    cards = [two_off, one_off, mixed, two_on, one_on, free]
    order = []
    while cards:
        found = placed(cards, of="online")
        order.append(found)
        cards = [one for one in cards if one.card.id != found]
    assert order == ["free", "one-on", "mixed", "two-on", "one-off", "two-off"]


@pytest.mark.parametrize(
    ("zones", "count", "want"),
    [
        pytest.param([1, 1, 1, 2, 2], 2, "d e", id="the smallest zone that has enough"),
        pytest.param([1, 1, 1, 2, 2], 3, "a b c", id="the larger one for more"),
        pytest.param([1, 1, 1, 2, 2], 4, "d e a b", id="the smallest zones in turn"),
        pytest.param([0, -1, 1, 2], 3, "c d a", id="cards without zone come last"),
        pytest.param([2, 1], 1, "a", id="the first of equal zones"),
    ],
)
def test_whole_cards_come_from_one_link_zone(zones: list[int], count: int, want: str) -> None:
    cards = [sgpu("abcdef"[place], zone=zone) for place, zone in enumerate(zones)]
    assert placed(cards, wish=asked(count, cores=100)) == want
    assert placed(cards, wish=asked(count, cores=10)) == " ".join("abcdef"[:count])


def test_fewer_cards_than_wanted_are_none() -> None:
    cards = [sgpu("a"), sgpu("b", healthy=False)]
    assert placed(cards, wish=asked(2, cores=100)) == (
        "1/2 AllocatedCardsInsufficientRequest, 1/2 CardUnhealthy"
    )


# --- what a pod leaves behind ----------------------------------------------------------------


def test_the_next_container_finds_its_own_pod_on_the_card_once() -> None:
    annotations = {QOS: "fixed-share"}
    pick = family.pick("a", memory_mib=1000, cores=10)
    once = account.charge(ROW, sgpu(), pick, annotations)
    twice = account.charge(ROW, once, pick, annotations)
    assert once.card.custom["QosPolicy"] == "fixed-share"
    assert twice.usage == usage.Usage(2, 2000, 20, (annotations,))
    whole = account.charge(ROW, sgpu(), dataclasses.replace(pick, cores=100), annotations)
    assert whole.card.custom["QosPolicy"] == ""
    online = account.charge(ROW, sgpu(qos="burst-share"), pick, {CLASS: "online"})
    assert online.card.custom["QosPolicy"] == "burst-share"


def test_amounts_of_0_are_left_out_of_the_plugins_list() -> None:
    slots = ((), (family.pick("a"), family.pick("b", cores=5)))
    found = family.written(WORD, slots)["metax-tech.com/gpu-devices-allocated"]
    assert found == '[[],[{"uuid":"a"},{"uuid":"b","compute":5}]]'


# --- scores ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pods", "want"),
    [
        pytest.param(("offline", "offline"), -200.0, id="offline only"),
        pytest.param(("online", "offline"), -22.0, id="mixed"),
        pytest.param(("online",), -20.0, id="online only"),
        pytest.param((), 0.0, id="free"),
    ],
)
def test_an_online_pod_prefers_cards_that_it_does_not_disturb(
    pods: tuple[str, ...], want: float
) -> None:
    found = family.node_score(
        WORD,
        ((family.pick("a"),),),
        before=(sgpu(pods=pods),),
        pod_annotations={CLASS: "online"},
    )
    assert found == want * 10_000


@pytest.mark.parametrize(
    ("setting", "annotation", "cores", "want"),
    [
        pytest.param(False, None, 100, 0.0, id="off"),
        pytest.param(False, "true", 100, 100.0 - 20.0, id="switched on by the pod"),
        pytest.param(True, "0", 100, 0.0, id="switched off by the pod"),
        pytest.param(True, "maybe", 100, 80.0, id="another word leaves the setting"),
        pytest.param(True, None, 50, 0.0, id="no whole card"),
    ],
)
def test_whole_cards_prefer_nodes_where_they_break_few_pairs(
    setting: bool, annotation: str | None, cores: int, want: float
) -> None:
    """Three unused cards in a zone have three pairs; two of them taken keep one and break two."""
    row = family.changed(WORD, sgpuTopologyAware=setting)
    annotations = (
        {"metax-tech.com/sgpu-topology-aware": annotation} if annotation is not None else {}
    )
    before = (
        *(sgpu(id, zone=1) for id in "abc"),
        sgpu("d", zone=2),
        sgpu("e", zone=1, used=taken()),
    )
    slots = ((family.pick("a", cores=cores), family.pick("b", cores=cores)),)
    found = family.node_score(row, slots, before=before, pod_annotations=annotations)
    assert found == want * 10_000


LOSSES = "metax-tech.com/gpu.topology.losses"
SCORES = "metax-tech.com/gpu.topology.scores"


@pytest.mark.parametrize(
    ("policy", "annotations", "want"),
    [
        pytest.param("binpack", {LOSSES: '{"2":10}'}, 1990.0, id="losses under binpack"),
        pytest.param("spread", {SCORES: '{"2":600}'}, 1400.0, id="scores under spread"),
        pytest.param("spread", {LOSSES: '{"2":10}'}, 0.0, id="the other annotation"),
        pytest.param("binpack", {LOSSES: '{"1":10}'}, 0.0, id="another number"),
        pytest.param("binpack", {LOSSES: '{"2":"10"}'}, 0.0, id="a text"),
        pytest.param("binpack", {LOSSES: '{"2":true}'}, 0.0, id="no number"),
        pytest.param("binpack", {LOSSES: "[2]"}, 0.0, id="no object"),
        pytest.param("binpack", {}, 0.0, id="nothing"),
    ],
)
def test_whole_gpus_score_by_what_the_node_says_of_their_number(
    policy: str, annotations: dict[str, str], want: float
) -> None:
    slots = ((family.pick("a"),), (family.pick("b"),))
    found = family.node_score("Metax-GPU", slots, node_policy=policy, node_annotations=annotations)
    assert found == want


def test_a_second_container_gets_another_whole_gpu() -> None:
    found = family.devices("Metax-GPU", name="c500", capacity={"metax-tech.com/gpu": "2"})
    first, second = family.cards(found)
    asked_ = family.ask("Metax-GPU", count="1")
    answer = family.place("Metax-GPU", asked_, [first, second])
    assert isinstance(answer, fit.Fit)
    charged = account.charge(family.ROWS["Metax-GPU"], first, answer.picks[0])
    again = family.place("Metax-GPU", asked_, [charged, second], earlier=(("c500-metax-0",),))
    assert family.ids(again) == ["c500-metax-1"]


def test_a_register_may_say_more_than_is_read() -> None:
    listed = [{"uuid": "a", "totalDevCount": 1, "totalVRam": 5, "totalCompute": 7, "numa": -1}]
    key = "metax-tech.com/node-gpu-devices"
    (card,) = family.devices(WORD, annotations={key: json.dumps(listed)}).cards
    assert card == register.Card(
        id="a",
        index=0,
        count=1,
        memory_mib=5,
        cores=7,
        model=WORD,
        numa=-1,
        healthy=False,
        custom={"QosPolicy": "", "Model": "", "LinkZone": 0},
    )
