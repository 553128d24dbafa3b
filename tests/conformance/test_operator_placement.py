"""The main job, on the in-memory API server and on a real one: pods get cards and are bound."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import yaml

from hami_operator.protocol import decision, keys
from hami_operator.simulator import audit
from tests import builders
from tests.conformance import servers, workload
from tests.conformance.cluster import SCHEDULER, Cluster

NVIDIA = workload.ROWS.by_word["NVIDIA"]
KUBECTL = "kubectl.kubernetes.io/last-applied-configuration"
LIMIT_BYTES = 256 * 1024
Raw = dict[str, Any]


@pytest.mark.parametrize("carrier", ["auto", "patch"])
async def test_every_pod_that_fits_is_bound_and_nothing_else_happens(
    cluster: Cluster, carrier: str
) -> None:
    """Twenty nodes of four families and 200 pods; a tenth of that for the other carrier."""
    part = 1 if carrier == "auto" else 10
    made = [
        (shape, pod)
        for shape in workload.SHAPES
        for pod in [*shape.pods()][: -(-shape.copies // part)]
    ]
    fitting = [pod.raw()["metadata"]["name"] for shape, pod in made if shape.fits]
    waiting = [pod.raw()["metadata"]["name"] for shape, pod in made if not shape.fits]
    async with cluster.fleet(workload.hosts(cluster.prefix)):
        await cluster.deciding(f"--decision-carrier={carrier}")
        await apply(cluster, (pod for _, pod in made))
        await cluster.run(*fitting)
        for name in waiting:
            await cluster.waits(name, "nodes are available")
        await cluster.until(lambda: not any(audit.locks(cluster.nodes.all())), "locks are gone")
        nodes, pods = await cluster.snapshot()

        assert list(audit.findings(nodes, pods)) == []
        assert [problem for pod in pods for problem in undecodable(pod)] == []
        assert list(traces([*nodes, *pods])) == []
        assert [pod["metadata"]["name"] for pod in pods if unbound(pod)] == sorted(waiting)
        await assert_each_bound_once(cluster, [pod for pod in pods if not unbound(pod)])

        await cluster.delete(*fitting, *waiting)
        await assert_all_is_free(cluster)


async def apply(cluster: Cluster, pods: Iterable[builders.PodBuilder]) -> None:
    """Create pods as users do."""
    items = [cluster.manifest(pod) for pod in pods]
    given = yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items})
    await asyncio.to_thread(
        servers.kubectl,
        cluster.server,
        "apply",
        "--validate=false",  # the server validates; the in-memory one has no schema to give
        "--filename=-",
        given=given,
    )


def unbound(pod: Raw) -> bool:
    return "nodeName" not in pod["spec"]


def undecodable(pod: Raw) -> Iterable[str]:
    """Decisions that our own codec does not read, or that have not one slot per container."""
    containers = [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]
    for key, value in (pod["metadata"].get("annotations") or {}).items():
        if key.endswith("-devices-allocated"):
            slots = decision.decode(value, key=key)
            if len(slots) != len(containers) or unbound(pod):
                yield f"{audit.name(pod)}: {key}={value}"


def traces(objects: Iterable[Raw]) -> Iterable[str]:
    """Finalizers, annotations and labels that nobody has asked for."""
    found = list(objects)
    yield from audit.traces(found, workload.protocol_keys() | {KUBECTL})
    known = {keys.VGPU_NODE, "kubernetes.io/hostname", "kubernetes.io/os"}
    for one in found:
        for key in (one["metadata"].get("labels") or {}).keys() - known:
            yield f"{audit.name(one)}: label {key}"


async def assert_each_bound_once(cluster: Cluster, pods: list[Raw]) -> None:
    """One lock where it takes one, one Binding and one Event per pod, and no pod is read.

    Plugins write the same Nodes, so a lock may meet a conflict, which costs a read of the Node;
    that must stay the exception.
    """
    names = sorted(pod["metadata"]["name"] for pod in pods)
    told = [len(await cluster.told("Scheduled", name)) for name in names]
    made = await cluster.settled_requests()
    counts = Counter((one.words, one.status) for one in made)
    print({f"{words} {status}": count for (words, status), count in sorted(counts.items())})
    assert told == [1] * len(names)
    assert sorted(one.name for one in made if one.words == "create pods/binding") == names
    assert counts["create pods/binding", 201] == len(names)
    asked = counts["patch nodes", 200] - sum(map(locks, pods))
    await cluster.until(lambda: questions(cluster) >= asked, "all questions are seen")
    assert questions(cluster) == asked
    assert counts["get pods", 200] == 0
    assert counts["get nodes", 200] == counts["patch nodes", 409] <= len(pods) / 20


def locks(pod: Raw) -> int:
    """How many node locks a decision takes."""
    written = pod["metadata"].get("annotations") or {}
    words = [row.keyword for row in workload.ROWS if row.pod.recorded in written]
    return len(workload.ROWS.lock_keys(words))


def questions(cluster: Cluster) -> int:
    """How many handshake writes there were; all types of a node are asked in one."""
    asked = {
        (node["metadata"]["name"], value)
        for node in cluster.nodes.all()
        for key in node["metadata"].get("annotations") or ()
        if key.startswith("hami.io/node-handshake")
        for value in cluster.nodes.values(node["metadata"]["name"], key)
        if value.startswith("Requesting_")
    }
    return len(asked)


async def assert_all_is_free(cluster: Cluster) -> None:
    """Nothing is counted any more: by what the server holds, and by what the operator grants."""
    cards = await cluster.cards()
    assert [card for card in cards if card["slots_used"] or card["owners"]] == []
    names = []
    for number, card in enumerate(cards):
        name = f"whole-{number:02}"
        pod = builders.pod(name).container(limits=workload.whole(card["type"]))
        await cluster.pod(pod.requires(builders.pin(card["node"])))
        names.append(name)
    await cluster.bound(*names)
    assert await cluster.overbooked() == []
    taken = await cluster.cards()
    assert [card for card in taken if len(card["owners"]) != 1] == []


# ---- names and sizes ----------------------------------------------------------------------------


async def test_a_node_name_too_long_for_a_label_takes_pods_that_stay_updatable(
    cluster: Cluster,
) -> None:
    name = cluster.prefix.ljust(workload.LONG_NAME, "x")
    async with cluster.fleet([workload.host(name, nvidia=1)]):
        await cluster.deciding()
        await cluster.pod(builders.pod("p").container(limits=workload.ask("NVIDIA")))
        await cluster.run("p")
        assert cluster.where("p") == name
        assert cluster.annotations("p")[keys.VGPU_NODE] == name
        assert "labels" not in (cluster.pods.get("p") or {})["metadata"]
        await assert_updatable(cluster, "p")


async def test_a_pod_with_255_kib_of_annotations_is_bound_and_stays_updatable(
    cluster: Cluster,
) -> None:
    async with cluster.fleet([workload.host(f"{cluster.prefix}1", nvidia=1)]):
        await cluster.deciding()
        await cluster.pod(heavy(255 * 1024))
        await cluster.run("heavy")
        assert cluster.annotations("heavy")[keys.BIND_PHASE] == "success"
        await assert_updatable(cluster, "heavy")


async def test_a_pod_whose_annotations_leave_no_room_waits_with_a_reason(
    cluster: Cluster,
) -> None:
    async with cluster.fleet([workload.host(f"{cluster.prefix}1", nvidia=1)]):
        await cluster.deciding()
        await cluster.pod(heavy(LIMIT_BYTES - 100))
        await cluster.told("FailedScheduling", "heavy", "annotations")
        assert cluster.where("heavy") == ""
        await assert_updatable(cluster, "heavy")
        await cluster.pod(builders.pod("p").container(limits=workload.ask("NVIDIA")))
        await cluster.run("p")
        assert not any(audit.locks(cluster.nodes.all()))


def heavy(total_bytes: int) -> builders.PodBuilder:
    key = "example.com/heavy"
    text = "x" * (total_bytes - len(key))
    return builders.pod("heavy").container(limits=workload.ask("NVIDIA")).annotate({key: text})


async def assert_updatable(cluster: Cluster, name: str) -> None:
    body = {"metadata": {"labels": {"example.com/updated": "yes"}}}
    status, answer = await cluster.api.patch(cluster.path(name), body)
    assert status == 200, answer
    status, answer = await cluster.api.patch(cluster.path(name, "status"), {"status": {}})
    assert status == 200, answer


# ---- the contract's own example -----------------------------------------------------------------

SECOND = "GPU-0fc3eda5-e98b-a25b-5b0d-cf5c855d1448"
CONTRACT = {
    "hami.io/node-handshake-nvidia": (
        "Reported 2024-01-23 04:30:04.434037031 +0000 UTC m=+1104711.777756895"
    ),
    "hami.io/node-handshake-mlu": "Requesting_2024.01.10 04:06:57",
    "hami.io/node-mlu-register": (
        "MLU-45013011-2257-0000-0000-000000000000,10,23308,0,MLU-MLU370-X4,0,false:"
        "MLU-54043011-2257-0000-0000-000000000000,10,23308,0,"
    ),
    "hami.io/node-nvidia-register": (
        "GPU-00552014-5c87-89ac-b1a6-7b53aa24b0ec,10,32768,100,"
        "NVIDIA-Tesla V100-PCIE-32GB,0,true:"
        f"{SECOND},10,32768,100,NVIDIA-Tesla V100-PCIE-32GB,0,true:"
    ),
}
"""The node of the protocol's page, letter by letter: its second MLU entry is cut off there."""
TO_ALLOCATE = f"{SECOND},NVIDIA,3000,0:;{SECOND},NVIDIA,5000,0:;"


async def test_the_contracts_node_is_read_and_its_decision_is_written_byte_for_byte(
    cluster: Cluster,
) -> None:
    node = builders.roomy("node67-4v100").annotate(CONTRACT)
    await cluster.node(node)
    operator = await cluster.deciding()
    await cluster.told("MalformedDeviceRegister", "node67-4v100", "hami.io/node-mlu-register")
    await cluster.told("DeviceTypeUnavailable", "node67-4v100", "MLU", "stopped answering")
    assert await operator.metric("hami_register_malformed_entries", type="MLU") == 1

    pod = (
        builders.pod("example")
        .container(limits=workload.ask("NVIDIA", memory=3000))
        .container(limits=workload.ask("NVIDIA", memory=5000))
        .annotate({NVIDIA.selection.use_uuid[0]: SECOND})
    )
    await cluster.pod(pod)
    await cluster.bound("example")
    written = cluster.annotations("example")
    assert written["hami.io/vgpu-devices-to-allocate"] == TO_ALLOCATE
    assert written["hami.io/vgpu-devices-allocated"] == TO_ALLOCATE
    assert written["hami.io/vgpu-node"] == "node67-4v100"
    assert re.fullmatch(r"1\d{9}", written["hami.io/vgpu-time"])
    cards = [(card["type"], card["id"], card["healthy"]) for card in await cluster.cards()]
    assert cards == [
        ("MLU", "MLU-45013011-2257-0000-0000-000000000000", False),
        ("NVIDIA", "GPU-00552014-5c87-89ac-b1a6-7b53aa24b0ec", True),
        ("NVIDIA", SECOND, True),
    ]


# ---- what a pod costs ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lock", "cost"),
    [
        pytest.param(
            "annotation",
            {"patch nodes": 1, "create pods/binding": 1, "create events": 1},
            id="three writes with the node lock",
        ),
        pytest.param(
            "memory",
            {"create pods/binding": 1, "create events": 1},
            id="two writes without it",
        ),
    ],
)
async def test_a_bound_pod_costs_no_read_and(
    cluster: Cluster, lock: str, cost: dict[str, int]
) -> None:
    """Ten pods on as many nodes, whose plugins answer no handshake.

    On one node they would take turns, and a lock that its plugin has removed a moment ago can be
    news that crosses with our next write; then that write is a conflict, and costs a read.
    """
    names = [f"p-{number}" for number in range(10)]
    hosts = [workload.host(f"{cluster.prefix}{number}", nvidia=2) for number in range(10)]
    async with cluster.fleet(hosts):
        await cluster.deciding(
            f"--node-lock={lock}", "--node-scheduler-policy=spread", resync_interval="1h"
        )
        before = len(await cluster.settled_requests())
        for name in names:
            limits = workload.ask("NVIDIA", memory=1000)
            await cluster.pod(builders.pod(name).container(limits=limits))
        await cluster.run(*names)
        for name in names:
            await cluster.told("Scheduled", name)
        await cluster.until(lambda: not any(audit.locks(cluster.nodes.all())), "locks are gone")
        made = await cluster.settled_requests(since=before)
    counts = Counter(
        one.words
        for one in made
        if one.resource != "leases" and one.verb != "watch" and not is_resync(one)
    )
    assert counts == {words: count * len(names) for words, count in cost.items()}


def is_resync(one: servers.Request) -> bool:
    return one.verb == "list"


# ---- pods that wait -----------------------------------------------------------------------------


async def test_a_pod_that_cannot_fit_says_why_once_with_counts_per_reason(
    cluster: Cluster,
) -> None:
    first, second, third, fourth = (f"{cluster.prefix}{number}" for number in range(4))
    hosts = [
        workload.host(first, nvidia=2),
        workload.host(second, nvidia=1),
        workload.host(third, mlu=2),
        workload.host(fourth, nvidia=4),
    ]
    async with cluster.fleet(hosts):
        status, _ = await cluster.api.patch(
            f"/api/v1/nodes/{fourth}", {"spec": {"unschedulable": True}}
        )
        assert status == 200
        await cluster.deciding()
        asked = workload.ask("NVIDIA", 2, memory=50000)
        await cluster.pod(builders.pod("large").container(limits=asked))
        text = await cluster.waits("large", "0/4 nodes are available")
        events = await cluster.told("FailedScheduling", "large")
        assert [event["note"] for event in events] == [text]
        assert text == (
            "0/4 nodes are available: "
            "1 card(s) have too little free memory (CardInsufficientMemory), "
            "1 node(s) were unschedulable, "
            "2 fewer cards of the type are registered than asked for (NodeInsufficientDevice). "
            "preemption: 0/4 nodes are available: "
            "1 No preemption victims found for incoming pod, "
            "3 Preemption is not helpful for scheduling."
        )
        large = cluster.pods.get("large")
        assert large is not None
        observed = [one.get("observedGeneration") for one in large["status"]["conditions"]]
        assert observed == [large["metadata"]["generation"]]
        # Somebody else's pod changes nothing for this one, and is no cause for another Event.
        await cluster.pod(builders.pod("other").container(limits=workload.ask("MLU")))
        await cluster.run("other")
        assert len(cluster.tales("FailedScheduling", "large")) == 1


async def test_a_pod_that_fits_after_another_one_ends_is_bound_at_once(
    cluster: Cluster, record_property: Callable[[str, object], None]
) -> None:
    name = f"{cluster.prefix}1"
    async with cluster.fleet([workload.host(name, nvidia=1)]):
        await cluster.deciding()
        whole = workload.whole("NVIDIA")
        await cluster.pod(builders.pod("first").container(limits=whole))
        await cluster.run("first")
        await cluster.pod(builders.pod("second").container(limits=whole))
        await cluster.waits("second", "CardInsufficientMemory")
        began_s = asyncio.get_running_loop().time()
        await cluster.end("first")
        await cluster.bound("second", deadline_s=5.0)
        taken_s = asyncio.get_running_loop().time() - began_s
        record_property("seconds from the end to the bind", round(taken_s, 3))
        print(f"bound {taken_s:.3f} s after the end of the pod before")
        await cluster.run("second")
        assert await cluster.overbooked() == []


async def test_pods_of_other_schedulers_are_left_alone(cluster: Cluster) -> None:
    async with cluster.fleet([workload.host(f"{cluster.prefix}1", nvidia=1)]):
        await cluster.deciding()
        asked = workload.ask("NVIDIA")
        await cluster.pod(builders.pod("theirs").container(limits=asked).scheduler("other"))
        await cluster.pod(builders.pod("ours").container(limits=asked).scheduler(SCHEDULER))
        await cluster.run("ours")
        theirs = cluster.pods.get("theirs")
        assert theirs is not None
        assert unbound(theirs)
        assert "annotations" not in theirs["metadata"]
        assert json.dumps(theirs).count("PodScheduled") == 0


def test_the_nodes_of_the_workload_have_all_types_of_the_four_families() -> None:
    words = {one.model.word for host in workload.hosts("n-") for one in host.equipment}
    assert words == set(workload.WORDS)
