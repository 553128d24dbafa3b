"""What others wrote wrongly: told with object, key and field, and nothing else is disturbed."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from hami_operator.protocol import decision, keys
from tests import builders
from tests.conformance import workload
from tests.conformance.cluster import Cluster, eventually

REGISTER: Final = "hami.io/node-nvidia-register"
HANDSHAKE: Final = "hami.io/node-handshake-nvidia"
ALLOCATED: Final = "hami.io/vgpu-devices-allocated"
TO_ALLOCATE: Final = "hami.io/vgpu-devices-to-allocate"
ANSWERED: Final = "Reported_2026.01.01 00:00:00"
INVALID_WORD: Final = "InvalidDeviceRequest"


def entry(letter: str, **changes: Any) -> str:
    """Nine text fields; the order of the wire."""
    values = {
        "id": f"GPU-{letter}",
        "count": 10,
        "devmem": 24576,
        "devcore": 100,
        "type": "NVIDIA T4",
        "numa": 0,
        "health": "true",
        "index": ord(letter) - ord("a"),
        "mode": "hami-core",
        **changes,
    }
    return ",".join(map(str, values.values()))


def seven(letter: str, **changes: Any) -> str:
    return ",".join(entry(letter, **changes).split(",")[:7])


def thing(letter: str, **changes: Any) -> dict[str, Any]:
    """A JSON entry."""
    return {
        "id": f"GPU-{letter}",
        "index": ord(letter) - ord("a"),
        "count": 10,
        "devmem": 24576,
        "devcore": 100,
        "type": "NVIDIA T4",
        "health": True,
        **changes,
    }


def text(*entries: str) -> str:
    return ":".join(entries) + ":"


def on(node: str, name: str, limits: dict[str, str]) -> builders.PodBuilder:
    return builders.pod(name).container(limits=limits).requires(builders.pin(node))


async def plain_node(cluster: Cluster, register: str, name: str = "") -> str:
    """A node with this register, whose plugin has just answered."""
    node = name or f"{cluster.prefix}1"
    made = builders.roomy(node).annotate({REGISTER: register, HANDSHAKE: ANSWERED})
    await cluster.node(made.allocatable({"nvidia.com/gpu": "20"}))
    return node


MALFORMED: Final = {
    "seven fields: garbage": (text(seven("a"), "garbage", seven("b")), "entry 1: fields"),
    "seven fields: a count in words": (
        text(seven("a"), seven("x", count="ten"), seven("b")),
        "entry 1: count",
    ),
    "seven fields: a health of its own": (
        text(seven("a"), seven("x", health="yes"), seven("b")),
        "entry 1: health",
    ),
    "eight fields": (text(seven("a"), seven("x") + ",0", seven("b")), "entry 1: fields"),
    "nine fields: a negative index": (
        text(entry("a"), entry("x", index=-2), entry("b")),
        "entry 1: index",
    ),
    "nine fields: memory beyond 32 bits": (
        text(entry("a"), entry("x", devmem=2**31), entry("b")),
        "entry 1: devmem",
    ),
    "nine fields: the same card twice": (
        text(entry("a"), entry("a"), entry("b")),
        "entry 1: id",
    ),
    "JSON: null": (json.dumps([thing("a"), None, thing("b")]), "entry 1: json"),
    "JSON: half a slot": (
        json.dumps([thing("a"), thing("x", count=1.5), thing("b")]),
        "entry 1: count",
    ),
    "JSON: a health in quotes": (
        json.dumps([thing("a"), thing("x", health="true"), thing("b")]),
        "entry 1: health",
    ),
}
"""A register with one bad entry between two good ones, and how it is told."""


async def test_a_malformed_entry_among_good_ones_is_told_and_skipped(cluster: Cluster) -> None:
    nodes = {
        words: await plain_node(cluster, register, f"{cluster.prefix}{number}")
        for number, (words, (register, _)) in enumerate(MALFORMED.items())
    }
    operator = await cluster.deciding()
    for node in nodes.values():
        await cluster.pod(on(node, f"both-{node}", workload.ask("NVIDIA", 2)))
    told, found, counted = {}, {}, {}
    for words, node in nodes.items():
        (event,) = await cluster.told("MalformedDeviceRegister", node, REGISTER)
        told[words] = event["note"].rpartition("skipped: ")[2]
        await cluster.bound(f"both-{node}")
        found[words] = cards_of(cluster, f"both-{node}")
        counted[words] = await operator.metric("hami_register_malformed_entries", node=node)
    assert told == {words: want for words, (_, want) in MALFORMED.items()}
    assert found == {words: {"GPU-a", "GPU-b"} for words in MALFORMED}
    assert counted == dict.fromkeys(MALFORMED, 1)


def cards_of(cluster: Cluster, name: str) -> set[str]:
    slots = decision.decode(cluster.annotations(name)[ALLOCATED], key=ALLOCATED)
    return {pick.id for slot in slots for pick in slot}


HOPELESS: Final = ("garbage", "[", '{"id": "GPU-a"}', "GPU-a,,,,,,:")


async def test_a_register_with_nothing_good_in_it_closes_its_type_on_its_node_alone(
    cluster: Cluster,
) -> None:
    nodes = [
        await plain_node(cluster, register, f"{cluster.prefix}{number}")
        for number, register in enumerate(HOPELESS)
    ]
    other = await plain_node(cluster, text(entry("a")), f"{cluster.prefix}good")
    await cluster.deciding()
    for node in nodes:
        await cluster.told("MalformedDeviceRegister", node, REGISTER)
        await cluster.told("DeviceTypeUnavailable", node, "NVIDIA")
        await cluster.pod(on(node, f"barred-{node}", workload.ask("NVIDIA")))
        await cluster.waits(f"barred-{node}", "DeviceRegisterUnreadable")
    await cluster.pod(on(other, "welcome", workload.ask("NVIDIA")))
    await cluster.bound("welcome")
    for node in nodes:
        await cluster.patch_node(node, {REGISTER: text(entry("c"))})
        await cluster.bound(f"barred-{node}")


async def test_an_emptied_register_clears_the_type_and_a_full_one_brings_it_back(
    cluster: Cluster,
) -> None:
    node = await plain_node(cluster, text(entry("a")))
    await cluster.deciding()
    await cluster.pod(on(node, "first", workload.ask("NVIDIA")))
    await cluster.bound("first")
    await cluster.end("first")
    await cluster.patch_node(node, {REGISTER: "[]", keys.NODE_LOCK: None})
    await cluster.told("DeviceTypeUnavailable", node, "empty or gone")
    await cluster.pod(on(node, "second", workload.ask("NVIDIA")))
    await cluster.waits("second", "0/1 nodes are available")
    await cluster.patch_node(node, {REGISTER: text(entry("c"))})
    await cluster.bound("second")
    assert cluster.annotations("second")[ALLOCATED].startswith("GPU-c,")


# ---- decisions of others ------------------------------------------------------------------------


async def test_a_forged_decision_on_a_pending_pod_counts_for_nothing_and_is_replaced(
    cluster: Cluster,
) -> None:
    node = await plain_node(cluster, text(entry("a", count=1)))
    forged = {
        keys.VGPU_NODE: node,
        keys.VGPU_TIME: "1",
        keys.BIND_PHASE: "success",
        ALLOCATED: "GPU-a,NVIDIA,24576,100:;",
        TO_ALLOCATE: "GPU-a,NVIDIA,24576,100:;",
        "hami.io/hcu-devices-allocated": "HCU-x,HCU,1,1:;",
    }
    await cluster.pod(on("nowhere", "waiting", workload.ask("NVIDIA")).annotate(forged))
    await cluster.pod(
        on(node, "forged", workload.ask("NVIDIA", memory=2000, cores=20)).annotate(forged)
    )
    await cluster.deciding()
    await cluster.bound("forged")
    written = cluster.annotations("forged")
    assert written[ALLOCATED] == written[TO_ALLOCATE] == "GPU-a,NVIDIA,2000,20:;"
    assert written[keys.BIND_PHASE] == "allocating"
    assert written[keys.VGPU_TIME] != "1"
    assert "hami.io/hcu-devices-allocated" not in written
    await cluster.waits("waiting", "0/1 nodes are available")


async def test_an_unreadable_decision_on_a_bound_pod_closes_its_type_until_the_pod_is_gone(
    cluster: Cluster,
) -> None:
    node = await plain_node(cluster, text(entry("a")))
    await cluster.patch_node(
        node,
        {
            "hami.io/node-hcu-register": text("HCU-a,4,16000,100,HCU,0,true"),
            "hami.io/node-handshake-hcu": ANSWERED,
        },
    )
    await cluster.pod(on(node, "broken", workload.ask("NVIDIA")).scheduler("other"))
    await cluster.bind_elsewhere(
        "broken", node, **{keys.VGPU_NODE: node, ALLOCATED: "GPU-a,NVIDIA,abc,30:;"}
    )
    operator = await cluster.deciding()
    await cluster.told("UnreadableDecision", node, f"{cluster.namespace}/broken", ALLOCATED)
    await cluster.pod(on(node, "barred", workload.ask("NVIDIA")))
    await cluster.waits("barred", "DecisionUnreadable")
    assert await operator.metric("hami_unreadable_decisions", node=node, type="NVIDIA") == 1
    await cluster.pod(on(node, "beside", workload.ask("HCU")))
    await cluster.bound("beside")
    await cluster.end("beside")
    await cluster.delete("broken")
    await cluster.told("DeviceTypeAvailable", node, "NVIDIA")
    await cluster.bound("barred")


async def test_a_readable_decision_of_another_scheduler_is_counted_and_told(
    cluster: Cluster,
) -> None:
    node = await plain_node(cluster, text(entry("a")))
    operator = await cluster.deciding()
    await cluster.pod(on(node, "foreign", workload.ask("NVIDIA", memory=20000)).scheduler("other"))
    await cluster.bind_elsewhere(
        "foreign", node, **{keys.VGPU_NODE: node, ALLOCATED: "GPU-a,NVIDIA,20000,0:;"}
    )
    await cluster.told("ForeignDecision", "foreign", "GPU-a")
    assert await operator.metric("hami_foreign_usage_pods", node=node, type="NVIDIA") == 1
    await cluster.pod(on(node, "ours", workload.ask("NVIDIA", memory=8000)))
    await cluster.waits("ours", "CardInsufficientMemory")
    await cluster.end("foreign", "Failed")
    await cluster.bound("ours")


async def test_a_decision_for_another_node_than_the_pods_is_counted_on_neither(
    cluster: Cluster,
) -> None:
    node = await plain_node(cluster, text(entry("a", count=1)))
    other = await plain_node(cluster, text(entry("b", count=1)), f"{cluster.prefix}2")
    await cluster.pod(on(node, "lost", workload.ask("NVIDIA")).scheduler("other"))
    await cluster.bind_elsewhere(
        "lost", other, **{keys.VGPU_NODE: node, ALLOCATED: "GPU-a,NVIDIA,1000,0:;"}
    )
    await cluster.deciding()
    await cluster.told("ForeignDecision", "lost", keys.VGPU_NODE, other)
    await cluster.pod(on(node, "one", workload.ask("NVIDIA")))
    await cluster.pod(on(other, "two", workload.ask("NVIDIA")))
    await cluster.bound("one", "two")


async def test_an_edit_of_our_own_decision_frees_nothing(cluster: Cluster) -> None:
    node = await plain_node(cluster, text(entry("a")))
    await cluster.deciding()
    await cluster.pod(on(node, "edited", workload.ask("NVIDIA", memory=10000)))
    await cluster.bound("edited")
    await cluster.end("edited", "Running")
    status, _ = await cluster.api.patch(
        cluster.path("edited"),
        {"metadata": {"annotations": {ALLOCATED: "GPU-a,NVIDIA:;", TO_ALLOCATE: ";"}}},
    )
    assert status == 200
    await cluster.pod(on(node, "large", workload.ask("NVIDIA", memory=20000)))
    await cluster.waits("large", "CardInsufficientMemory")
    await cluster.pod(on(node, "small", workload.ask("NVIDIA", memory=14000)))
    await cluster.bound("small")


# ---- quantities ---------------------------------------------------------------------------------


@pytest.mark.parametrize("amount", ["-1", "1.5", "NaN", "500m", "0x10", ""])
@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "nvidia.com/gpumem"])
async def test_the_api_server_itself_refuses_such_an_amount(
    cluster: Cluster, resource: str, amount: str
) -> None:
    limits = {**workload.ask("NVIDIA"), resource: amount}
    made = cluster.manifest(builders.pod("absurd").container(limits=limits))
    status, answer = await cluster.api.post(cluster.path(), made)
    assert status in (400, 422), answer


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        pytest.param({"nvidia.com/gpu": "1e30"}, "nvidia.com/gpu", id="cards beyond all numbers"),
        pytest.param({"nvidia.com/gpu": "3G"}, "nvidia.com/gpu", id="cards beyond 32 bits"),
        pytest.param({"nvidia.com/gpumem": "1Ti"}, "nvidia.com/gpumem", id="memory in bytes"),
        pytest.param(
            {"nvidia.com/gpumem-percentage": "101"},
            "nvidia.com/gpumem-percentage",
            id="more than all of a card",
        ),
    ],
)
async def test_an_absurd_amount_that_the_server_lets_in_waits_with_its_field_named(
    cluster: Cluster, changes: dict[str, str], field: str
) -> None:
    node = await plain_node(cluster, text(entry("a")))
    await cluster.deciding()
    limits = {"nvidia.com/gpu": "1", **changes}
    await cluster.pod(builders.pod("absurd").container("main", limits=limits))
    await cluster.told(INVALID_WORD, "absurd", field, "main")
    await cluster.waits("absurd", field)
    await cluster.pod(on(node, "sane", workload.ask("NVIDIA")))
    await cluster.bound("sane")


# ---- locks and nodes ----------------------------------------------------------------------------


UNREADABLE_LOCKS: Final = {
    "no time": "garbage",
    "a time that does not exist": "2026-13-45T00:00:00Z,a,b",
    "two parts": "2026-03-01T12:00:00Z,only-two",
    "nothing": "",
}


async def test_a_lock_that_cannot_be_read_is_taken_over_and_told(cluster: Cluster) -> None:
    nodes = {}
    for number, (words, value) in enumerate(UNREADABLE_LOCKS.items()):
        nodes[words] = await plain_node(cluster, text(entry("a")), f"{cluster.prefix}{number}")
        await cluster.patch_node(nodes[words], {keys.NODE_LOCK: value})
    await cluster.deciding()
    held = {}
    for words, node in nodes.items():
        await cluster.pod(on(node, node, workload.ask("NVIDIA")))
        await cluster.bound(node)
        await cluster.told("NodeLockTakenOver", node, keys.NODE_LOCK, "cannot be read")
        held[words] = (cluster.node_annotation(node, keys.NODE_LOCK) or "").partition(",")[2]
    assert held == {words: f"{cluster.namespace},{node}" for words, node in nodes.items()}


async def test_a_lock_of_a_pod_that_never_was_is_taken_over_at_once(cluster: Cluster) -> None:
    node = await plain_node(cluster, text(entry("a")))
    await cluster.patch_node(node, {keys.NODE_LOCK: "2126-03-01T12:00:00Z,nowhere,nobody"})
    await cluster.deciding()
    await cluster.pod(on(node, "p", workload.ask("NVIDIA")))
    await cluster.bound("p")


async def test_a_lock_of_a_pod_that_is_still_to_be_served_is_waited_for(
    cluster: Cluster,
) -> None:
    """Nobody serves here, so the first pod holds its lock until it ends."""
    node = await plain_node(cluster, text(entry("a")))
    await cluster.deciding()
    await cluster.pod(on(node, "first", workload.ask("NVIDIA")))
    await cluster.bound("first")
    await cluster.pod(on(node, "second", workload.ask("NVIDIA")))
    other = await plain_node(cluster, text(entry("b")), f"{cluster.prefix}2")
    await cluster.pod(on(other, "elsewhere", workload.ask("NVIDIA")))
    await cluster.bound("elsewhere")
    assert cluster.where("second") == ""
    await cluster.end("first", "Failed")
    await cluster.bound("second")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        pytest.param("PATCH", "/api/v1/nodes/[^/]+", id="before its lock is taken"),
        pytest.param("POST", ".*/binding", id="before its Binding is sent"),
    ],
)
async def test_a_node_that_vanishes_in_the_middle_of_a_bind_harms_nobody_else(
    cluster: Cluster, method: str, path: str
) -> None:
    gone = await plain_node(cluster, text(entry("a")))
    vanished = []

    async def vanish() -> None:
        status, answer = await cluster.api.delete(f"/api/v1/nodes/{gone}")
        assert status == 200, answer
        vanished.append(gone)

    async with cluster.proxy() as proxy:
        await cluster.deciding("--handshake-interval=1h", through=proxy)
        proxy.before(method, path, vanish)
        await cluster.pod(builders.pod("p").container(limits=workload.ask("NVIDIA")))
        await eventually(lambda: vanished, "the node is gone")
        there = await plain_node(cluster, text(entry("b")), f"{cluster.prefix}2")
        await cluster.pod(on(there, "q", workload.ask("NVIDIA")))
        await cluster.bound("q")
        await cluster.end("q", "Running")
        # The API server binds to nodes that do not exist: then the pod is where it was sent.
        await cluster.bound("p")
        assert cluster.where("p") == (there if method == "PATCH" else gone)


async def test_a_node_that_comes_back_with_other_cards_is_known_by_these(
    cluster: Cluster,
) -> None:
    node = await plain_node(cluster, text(entry("a")))
    await cluster.deciding()
    await cluster.pod(on(node, "first", workload.ask("NVIDIA")))
    await cluster.bound("first")
    await cluster.api.delete(f"/api/v1/nodes/{node}")
    await cluster.delete("first")
    await cluster.pod(on(node, "second", workload.ask("NVIDIA")))
    await cluster.waits("second", "no nodes available")
    await plain_node(cluster, text(entry("c")))
    await cluster.bound("second")
    assert cluster.annotations("second")[ALLOCATED].startswith("GPU-c,")
