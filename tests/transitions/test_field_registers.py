"""Faults that people met with registers, handshakes and decisions: none happens here."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from hami_operator.protocol import decision, keys, register
from hami_operator.scheduling import effects, queue
from tests import builders
from tests.moments import asked, at
from tests.transitions import field
from tests.transitions.field import HS, MIB, REG, answering, asks, card, cards, silent
from tests.transitions.stage import AL, TO, Stage, brief, placed

Place = queue.Place
T_EXP = 300


def registered(text: str, name: str = "n1") -> builders.NodeBuilder:
    """A node with this register, whose plugin has answered."""
    return silent(card(), name=name).annotate({REG: text, HS: builders.ANSWERED})


# ---- registers and decisions


def test_three_register_encodings_in_one_cluster_give_the_same_cards() -> None:
    seven = registered("GPU-A,10,24576,100,NVIDIA-Tesla T4,0,true:", "n1")
    nine = registered("GPU-A,10,24576,100,NVIDIA-Tesla T4,0,true,1,hami-core:", "n2")
    third = card("A", model="NVIDIA-Tesla T4")
    stage = field.start(seven, nine, silent(third, name="n3"))
    found = {
        name: stage.world.nodes.standings(name)["NVIDIA"].inventory.cards
        for name in ("n1", "n2", "n3")
    }
    assert found["n1"] == found["n3"] == (third,)
    assert found["n2"] == (card("A", 1, model="NVIDIA-Tesla T4"),)
    for name in found:
        pod = asks(name, gpumem=1000).node_selector({"kubernetes.io/hostname": name})
        assert field.decided(stage, pod) == {name: "GPU-A,NVIDIA,1000,0:;"}


def test_json_without_a_health_is_an_unhealthy_card() -> None:
    sick = '{"id":"GPU-A","count":10,"devmem":24576,"devcore":100,"type":"NVIDIA T4"}'
    well = sick.replace("GPU-A", "GPU-B").replace("}", ',"health":true}')
    stage = field.start(registered(f"[{sick},{well}]"))
    pods = [asks(f"p{number}", gpumem=1000) for number in range(5)]
    assert set(field.decided(stage, *pods).values()) == {"GPU-B,NVIDIA,1000,0:;"}
    (first, _) = stage.world.nodes.standings("n1")["NVIDIA"].inventory.cards
    assert (first.index, first.numa, first.healthy) == (0, 0, False)
    alone = field.start(registered(f"[{sick}]"))
    assert "unhealthy" in field.tried(alone, asks("p", gpumem=1000))
    assert alone.place("p") is Place.UNSCHEDULABLE


GOOD = "GPU-B,10,24576,100,T4,0,true:"
BAD = {
    "a word": "garbage",
    "a count in words": "GPU-A,ten,24576,100,T4,0,true",
    "a health in other words": "GPU-A,10,24576,100,T4,0,yes",
    "eight fields": "GPU-A,10,24576,100,T4,0,true,1",
    "an index below unknown": "GPU-A,10,24576,100,T4,0,true,-2,hami-core",
    "a number above int32": "GPU-A,10,2147483648,100,T4,0,true",
}
OBJECT = '{"id":"GPU-C","count":10,"devmem":24576,"devcore":100,"type":"T4","health":true}'
BAD_JSON = {"null": "null", "half a slot": OBJECT.replace('"count":10', '"count":1.5')}


@pytest.mark.parametrize(
    ("whole", "alone"),
    [
        *(pytest.param(f"{GOOD}{bad}:{GOOD.replace('B', 'C')}", bad, id=name)
          for name, bad in BAD.items()),
        *(pytest.param(f"[{OBJECT},{bad},{OBJECT.replace('C', 'B')}]", f"[{bad}]", id=name)
          for name, bad in BAD_JSON.items()),
    ],
)  # fmt: skip
def test_a_bad_entry_of_a_register_is_told_and_skipped(whole: str, alone: str) -> None:
    stage = field.start(silent(card(), name="n2"))

    def shown(text: str, version: int) -> list[str]:
        return stage.node(registered(text).version(version))

    def ids() -> list[str]:
        standing = stage.world.nodes.standings("n1")["NVIDIA"]
        return sorted(one.id for one in standing.inventory.cards)

    assert "n1: MalformedDeviceRegister" in shown(whole, 1)
    assert (ids(), len(findings(stage))) == (["GPU-B", "GPU-C"], 1)
    assert "n1: DeviceTypeUnavailable" in shown(alone, 2)
    assert (ids(), len(findings(stage))) == ([], 1)
    assert set(bound(stage, asks("p", gpumem=MIB))) == {"n2"}
    assert "n1: DeviceTypeAvailable" in shown(GOOD, 3)
    assert set(bound(stage, asks("q", gpumem=MIB))) == {"n1"}


def findings(stage: Stage) -> tuple[register.Finding, ...]:
    return stage.world.nodes.standings("n1")["NVIDIA"].inventory.findings


def bound(stage: Stage, *pods: builders.PodBuilder) -> list[str]:
    """The nodes that the pods go to."""
    stage.pod(*pods)
    return list(stage.bind().values())


def test_what_is_no_json_at_all_closes_the_type_and_nothing_else() -> None:
    stage = field.start(registered("[{"), silent(card(), name="n2"))
    assert bound(stage, asks("p"), field.bare("plain").container()) == ["n2", "n1"]


@pytest.mark.parametrize("value", ["GPU-A,NVIDIA,abc,30:;", "GPU-A,NVIDIA:;"])
def test_a_decision_that_is_spoilt_while_its_pod_runs_frees_nothing(value: str) -> None:
    stage = field.start(silent(card()))
    stage.pod(asks("a", gpumem=10000))
    order = stage.order()
    stage.land(order)
    spoilt = placed(asks("a", gpumem=10000), "n1", value).version(9).phase("Running")
    stage.pod(spoilt)
    assert "too little free memory" in field.tried(stage, asks("b", gpumem=20000))
    assert bound(stage, asks("c", gpumem=14000)) == ["n1"]


def unreadable(name: str) -> builders.PodBuilder:
    return placed(asks(name, gpumem=1000), "n1", "GPU-A,NVIDIA,abc,30:;").phase("Running")


def test_unreadable_pods_close_their_type_until_the_last_is_gone() -> None:
    hcu = builders.cards(1, word="HCU")
    node = silent(card()).register("HCU", hcu)
    stage = field.start(node, pods=(unreadable("a"), unreadable("b")))
    other = field.bare("h").container(limits={"hygon.com/hcunum": 1})
    assert bound(stage, asks("p", gpumem=1000), other) == ["n1"]
    stage.gone("a")
    assert stage.bind() == {}
    stage.pod(unreadable("b").version(9).phase("Failed"))
    assert stage.bind() == {"p": "n1"}


def test_an_unreadable_pod_of_another_node_closes_nothing() -> None:
    stray = unreadable("a").annotate({keys.VGPU_NODE: "n2"})
    stage = field.start(silent(card()), pods=(stray,))
    assert stage.usage("n1") == {}
    assert bound(stage, asks("p", gpumem=MIB)) == ["n1"]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(";GPU-B,NVIDIA,6144,30:;", [[], ["GPU-B"]], id="a leading empty slot"),
        pytest.param(";;;", [[], [], []], id="what the plugin leaves of two containers"),
        pytest.param(",,0,0:;", [[]], id="the empty slot of old"),
        pytest.param(
            ";GPU-A,NVIDIA,2500,25:;GPU-B,NVIDIA,2500,25:;",
            [[], ["GPU-A"], ["GPU-B"]],
            id="two containers behind one without",
        ),
    ],
)
def test_a_slot_is_its_container_and_reading_and_writing_add_nothing(
    text: str, want: list[list[str]]
) -> None:
    slots = decision.decode(text, key=AL)
    assert [[pick.id for pick in slot] for slot in slots] == want
    again = decision.encode(slots, "NVIDIA")
    assert decision.decode(again, key=AL) == slots
    assert decision.encode(decision.decode(again, key=AL), "NVIDIA") == again


def test_a_type_is_what_its_register_says_and_a_model_is_a_part_of_its_text() -> None:
    older, newer = card(model="NVIDIA-NVIDIA A30"), card(model="NVIDIA A30")
    stage = field.start(answering(older), silent(newer, name="n2"))
    wish = {"nvidia.com/use-gputype": "a30"}
    pods = [asks(name, gpumem=MIB).annotate(wish) for name in ("a", "b")]
    want = f"GPU-A,NVIDIA,{MIB},0:;"
    assert field.decided(stage, *pods) == {"a": want, "b": want}
    assert {node for _, node, _ in stage.state.held} == {"n1", "n2"}


# ---- handshakes


@pytest.mark.parametrize("value", ["Requesting", "Requesting_", "Requesting_notadate"])
def test_a_question_without_a_time_expires_nothing_and_is_asked_afresh(value: str) -> None:
    stage = field.start(answering(card(), handshake=value), answering(card(), name="n2"))
    assert stage.world.nodes.due(stage.now) == {"n1": {HS: asked(0)}, "n2": {HS: asked(0)}}
    assert field.decided(stage, asks("p", gpumem=MIB), asks("q", gpumem=MIB)).keys() == {"p", "q"}
    stage.node(answering(card(), handshake=asked(0)).version(2))
    assert stage.wait(T_EXP) == []
    assert "n1: DeviceTypeUnavailable" in stage.wait(1)


ANSWERS = ("Reported 2024-01-23 04:30:04.434037031 +0000 UTC m=+1104711.77", "Reported_x")


@pytest.mark.parametrize("answer", ANSWERS)
def test_any_other_text_is_an_answer_and_the_next_question_has_dots(answer: str) -> None:
    stage = field.start(answering(card(), handshake=answer))
    stage.seconds = 30
    assert stage.world.nodes.due(stage.now) == {"n1": {HS: "Requesting_2026.03.01 12:00:30"}}


@pytest.mark.parametrize("layout", ["2026.03.01 11:{}:00", "2026-03-01 11:{}:00"])
def test_at_the_start_a_question_counts_from_its_own_time(layout: str) -> None:
    def found(minute: int) -> Stage:
        value = f"Requesting_{layout.format(minute)}"
        return field.start(answering(card(), handshake=value))

    four, six = found(56), found(54)
    assert bound(six, asks("p")) == []
    assert four.wait(59) == []
    assert four.wait(2) == ["n1: DeviceTypeUnavailable"]


def test_our_own_question_does_not_hide_a_dead_plugin() -> None:
    stage = field.start(answering(card()))
    assert bound(stage, asks("a", gpumem=1000)) == ["n1"]
    stage.seconds = 30
    assert stage.world.nodes.due(stage.now) == {"n1": {HS: asked(30)}}
    stage.node(answering(card(), handshake=asked(30)).version(2))
    for _ in range(9):
        stage.wait(30)
        assert stage.world.nodes.due(stage.now) == {}
    assert bound(stage, asks("b", gpumem=1000)) == ["n1"]
    stage.wait(29)
    assert stage.wait(2) == ["n1: DeviceTypeUnavailable"]
    assert bound(stage, asks("c", gpumem=1000)) == []
    assert stage.usage("n1") == {"GPU-A": (2, 2000)}
    stage.node(answering(card(), handshake="Reported again").version(3))
    assert stage.bind() == {"c": "n1"}


def test_a_dead_type_disturbs_no_other_type_and_no_other_node() -> None:
    hcu = builders.cards(1, word="HCU")
    node = answering(card(), handshake=asked(0)).register("HCU", hcu)
    stage = field.start(node, silent(card(), name="n3"))
    stage.wait(T_EXP)
    assert "n1: DeviceTypeUnavailable" in stage.wait(1)
    assert bound(stage, asks("p")) == ["n3"]
    assert bound(stage, field.bare("h").container(limits={"hygon.com/hcunum": 1})) == ["n1"]
    asked_of = stage.world.nodes.due(stage.now)
    assert all(
        key.startswith("hami.io/node-handshake") for one in asked_of.values() for key in one
    )


def test_a_silent_plugin_lives_by_what_kubelet_offers() -> None:
    for value in (None, asked(-3600)):
        node = silent(card()) if value is None else silent(card()).annotate({HS: value})
        stage = field.start(node)
        for _ in range(100):
            stage.wait(30)
            assert stage.world.nodes.due(stage.now) == {}
        assert bound(stage, asks("a", gpumem=1000)) == ["n1"]
        stage.node(node.allocatable({"nvidia.com/gpu": 0}).version(2))
        assert bound(stage, asks("b", gpumem=1000)) == []
        assert stage.usage("n1") == {"GPU-A": (1, 1000)}
        stage.node(node.version(3))
        assert stage.bind() == {"b": "n1"}


def test_a_silent_plugin_of_which_kubelet_says_nothing_is_asked() -> None:
    node = silent(card()).put("status.allocatable", {"cpu": "8", "pods": "100", "memory": "9Gi"})
    stage = field.start(node)
    assert stage.world.nodes.due(stage.now) == {"n1": {HS: asked(0)}}
    stage.node(node.annotate({HS: asked(0)}).version(2))
    assert bound(stage, asks("a", gpumem=1000)) == ["n1"]
    stage.wait(T_EXP)
    assert "n1: DeviceTypeUnavailable" in stage.wait(1)


@pytest.mark.parametrize("value", ["Deleted_2026-05-07 10:00:00", "Deleted", "Deleted_garbage"])
def test_a_tombstone_blocks_nobody(value: str) -> None:
    stage = field.start(
        answering(card(), handshake=value), silent(card(), name="n2").annotate({HS: value})
    )
    assert sorted(bound(stage, asks("p", gpumem=MIB), asks("q", gpumem=MIB))) == ["n1", "n2"]
    assert stage.world.nodes.due(stage.now) == {"n1": {HS: asked(0)}}


@pytest.mark.parametrize("jump_s", [3600, -3600], ids=["forwards", "backwards"])
def test_a_clock_that_jumps_moves_no_expiry(jump_s: float) -> None:
    stage = field.start(answering(card(), handshake=asked(0)))
    world = stage.world
    assert world.tick(at(T_EXP, jump_s=jump_s)) == ()
    assert brief(world.tick(at(T_EXP + 1, jump_s=jump_s))) == ["n1: DeviceTypeUnavailable"]


@pytest.mark.parametrize(
    ("hours", "want"), [pytest.param(8, T_EXP, id="ahead"), pytest.param(-4, 0, id="behind")]
)
def test_a_question_of_another_time_zone_found_at_the_start(hours: int, want: int) -> None:
    stage = field.start(answering(card(), handshake=asked(hours * 3600)))
    assert bound(stage, asks("a", gpumem=1)) == (["n1"] if want else [])
    if want:
        assert stage.wait(want) == []
        assert "n1: DeviceTypeUnavailable" in stage.wait(1)
    stage.node(answering(card(), handshake="Reported_now").version(2))
    assert bound(stage, asks("b", gpumem=1))[-1:] == ["n1"]


def without(node: builders.NodeBuilder) -> builders.NodeBuilder:
    amounts = {"cpu": "8", "pods": "100", "memory": "9Gi"}
    return node.put("status.allocatable", amounts)


@pytest.mark.parametrize(
    ("node", "want"),
    [
        pytest.param(silent(card()).allocatable({"nvidia.com/gpu": 0}), False, id="silent, 0"),
        pytest.param(
            answering(card()).allocatable({"nvidia.com/gpu": 0}), False, id="answered, but 0"
        ),
        pytest.param(
            without(silent(card()).annotate({HS: asked(-3600)})), False, id="silent, old question"
        ),
        pytest.param(without(answering(card(), handshake=asked(-3600))), False, id="old question"),
        pytest.param(without(answering(card())), True, id="fresh answer"),
    ],
)
def test_what_kubelet_offers_is_judged_from_the_first_look(
    node: builders.NodeBuilder, want: bool
) -> None:
    assert bound(field.start(node), asks("p")) == (["n1"] if want else [])


# ---- changes of a register


def test_a_swapped_card_is_known_though_their_number_is_the_same() -> None:
    stage = field.start(silent(card("A")))
    stage.node(silent(card("C")).version(2))
    assert field.decided(stage, asks("p", gpumem=1000)) == {"p": "GPU-C,NVIDIA,1000,0:;"}
    (view,) = stage.world.snapshot.views()
    assert [one.card.id for one in view.cards["NVIDIA"]] == ["GPU-C"]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda node: node.annotate({REG: "[]"}), id="an empty list"),
        pytest.param(lambda node: node.annotate({REG: ""}), id="an empty text"),
        pytest.param(lambda node: node.put("metadata.annotations", {}), id="no register"),
        pytest.param(
            lambda node: node.annotate({REG: "x"}).allocatable({"nvidia.com/gpu": 0}),
            id="unreadable, and kubelet offers none",
        ),
    ],
)
def test_cards_that_are_registered_no_more_are_no_ghosts(change: Any) -> None:
    hcu = builders.cards(1, word="HCU")
    stage = field.start(silent(card()))
    other = builders.roomy("n2").register("HCU", hcu)
    stage.node(other, change(silent(card())).version(2))
    assert bound(stage, asks("p")) == []
    assert bound(stage, field.bare("h").container(limits={"hygon.com/hcunum": 1})) == ["n2"]
    stage.node(silent(card()).version(3))
    assert stage.bind() == {"p": "n1"}


def test_a_node_that_comes_back_is_used_at_once() -> None:
    away = silent(card()).taint("node.kubernetes.io/not-ready")
    stage = field.start(away)
    assert bound(stage, asks("p")) == []
    stage.wait(1)
    stage.node(silent(card()).version(2))
    assert stage.world.next_due(stage.now) == 0
    assert stage.bind() == {"p": "n1"}


def test_nodes_are_asked_about_nothing_they_do_not_have() -> None:
    stage = field.start(builders.roomy("n1"), silent(card(), name="n2"))
    for _ in range(10):
        assert stage.wait(30) == []
        assert stage.world.nodes.due(stage.now) == {}


def test_many_silent_nodes_are_asked_nothing_and_others_once_per_answer() -> None:
    quiet = [silent(card(), name=f"j{number}") for number in range(200)]
    spoken = [answering(card(), name=f"x{number}") for number in range(200)]
    stage = field.start(*quiet, *spoken)
    asked_at_once = stage.world.nodes.due(stage.now)
    assert asked_at_once == {f"x{number}": {HS: asked(0)} for number in range(200)}
    for node in spoken:
        stage.node(node.annotate({HS: asked(0)}).version(2))
    for _ in range(9):
        stage.wait(30)
        assert stage.world.nodes.due(stage.now) == {}


def test_health_follows_the_register_and_running_pods_stay_counted() -> None:
    stage = field.start(silent(*cards(2)))
    assert field.decided(stage, asks("a", gpumem=20000)) == {"a": "GPU-B,NVIDIA,20000,0:;"}
    stage.node(silent(card("A"), card("B", 1, healthy=False)).version(2))
    assert field.decided(stage, asks("b", gpumem=1000)) == {"b": "GPU-A,NVIDIA,1000,0:;"}
    assert stage.usage("n1")["GPU-B"] == (1, 20000)
    stage.node(silent(*cards(2)).version(3))
    assert field.decided(stage, asks("c", gpumem=4576)) == {"c": "GPU-A,NVIDIA,4576,0:;"}
    joins = asks("d", gpumem=1000).annotate({field.GPU_POLICY: "binpack"})
    assert field.decided(stage, joins) == {"d": "GPU-B,NVIDIA,1000,0:;"}


# ---- edits of annotations that nobody may trust


def test_a_bound_pod_is_never_written_again() -> None:
    stage = field.start(silent(card()))
    stage.pod(asks("a", gpumem=1000))
    order = stage.order()
    stage.land(order)
    pod = placed(asks("a", gpumem=1000), "n1", field.value(order)).version(9).phase("Running")
    for version in itertools.count(10):
        assert not _orders(stage.world.pod_seen(pod.version(version).read(), stage.now))
        if version == 12:
            break
    again = field.start(silent(card()), pods=(pod,))
    assert again.attempts() == ()
    again.wait(600)
    assert again.attempts() == ()


def _orders(told: Any) -> list[effects.Effect]:
    return [one for one in told if isinstance(one, effects.Bind | effects.Condition)]


def test_a_stale_attempt_is_no_usage_and_is_decided_afresh() -> None:
    stale = {keys.VGPU_NODE: "n1", AL: "GPU-A,NVIDIA,24576,0:;", TO: "x", keys.VGPU_TIME: "1"}
    stage = field.start(silent(card()), pods=(asks("a", gpumem=1000).annotate(stale),))
    assert stage.usage("n1") == {}
    order = stage.order()
    assert field.value(order) == "GPU-A,NVIDIA,1000,0:;"
    assert order.decision.annotations[keys.VGPU_TIME] == str(int(stage.now.wall.timestamp()))


def test_a_forged_size_counts_for_nothing_until_a_restart_and_is_then_told() -> None:
    stage = field.start(silent(card()))
    stage.pod(asks("a", gpumem=2000))
    stage.land(stage.order())
    forged = placed(asks("a", gpumem=2000), "n1", "GPU-A,NVIDIA,1,0:;").version(9)
    told = stage.world.pod_seen(forged.phase("Running").read(), stage.now)
    assert stage.usage("n1") == {"GPU-A": (1, 2000)}
    assert any(isinstance(one, effects.PodEvent) for one in told), told
    fresh = Stage()
    fresh.node(silent(card()))
    found = fresh.world.pod_seen(forged.phase("Running").read(), fresh.now)
    assert "1 MiB" in field.messages(found) or "2000" in field.messages(found)
