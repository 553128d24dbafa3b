"""The simulated fleet against the API server in memory: what plugins and kubelets do there."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from typing import Any

import pytest

from hami_operator import clock, errors
from hami_operator.cli import main, switches
from hami_operator.cluster import pages, ports
from hami_operator.cluster.kubernetes import admin
from hami_operator.cluster.memory import server, store
from hami_operator.devices import registry
from hami_operator.protocol import keys
from hami_operator.simulator import catalogue, feed, fleet, kubelet, machine, mirror, plugin
from tests import builders, fakes

TO_ALLOCATE = "hami.io/vgpu-devices-to-allocate"
HCU_TO_ALLOCATE = "hami.io/hcu-devices-to-allocate"
MLU_TO_ALLOCATE = "hami.io/cambricon-mlu-devices-to-allocate"
HANDSHAKE = "hami.io/node-handshake-nvidia"
REGISTER = "hami.io/node-nvidia-register"
LOCK_TIME = "2026-03-01T12:00:00Z"
GPU = "nvidia.com/gpu"
MIG_LIST = "hami.io/vgpu-mig-allocations"
NODES = (
    ("json", ("nvidia",)),
    ("text", ("nvidia-text", "mlu")),
    ("hcu", ("nvidia", "hcu")),
    ("cap", ("mlu-capacity", "mthreads")),
    ("mig", ("nvidia-mig",)),
    ("parts", ("enflame", "aws-neuron")),
)
HOSTS = tuple(
    catalogue.Host(
        name=name,
        equipment=tuple(catalogue.Equipment(model=catalogue.MODELS[one], number=2) for one in all),
    )
    for name, all in NODES
)
QUICK = machine.Behaviour(period_s=3600.0, grace_s=0.0, heartbeat_s=0.0)


@pytest.fixture
def api() -> Iterator[server.ApiServer]:
    with server.ApiServer(store.Store()) as running:
        yield running


@pytest.fixture
async def client(api: server.ApiServer) -> AsyncIterator[admin.Admin]:
    client = await admin.Admin.connect(server=api.url)
    yield client
    await client.close()


@contextlib.asynccontextmanager
async def at_work(
    client: admin.Admin,
    behaviour: machine.Behaviour = QUICK,
    time: clock.Clock | None = None,
) -> AsyncIterator[fleet.Fleet]:
    simulated = fleet.Fleet(HOSTS, client, behaviour=behaviour, time=time)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(simulated.run())
        await asyncio.wait_for(simulated.started.wait(), 10)
        yield simulated
        running.cancel()


@pytest.fixture
async def simulated(client: admin.Admin) -> AsyncIterator[fleet.Fleet]:
    async with at_work(client) as running:
        yield running


class Cluster:
    """What a test does and sees, straight in the store."""

    def __init__(self, api: server.ApiServer) -> None:
        self._api = api

    def annotations(self, kind: str, name: str) -> Mapping[str, str]:
        return self.get(kind, name)["metadata"].get("annotations", {})

    def get(self, kind: str, name: str) -> Any:
        key = ("default" if kind == "pods" else "", name)
        return self._api.call(self._api.store.get, kind, key).obj

    def find(self, kind: str, name: str) -> Any:
        key = ("default" if kind == "pods" else "", name)
        return self._api.call(self._api.store.find, kind, key)

    def annotate_node(self, name: str, annotations: Mapping[str, str | None]) -> None:
        body = {"metadata": {"annotations": annotations}}
        self._api.call(self._api.store.patch, "nodes", ("", name), body)

    def bind(self, pod: builders.PodBuilder, node: str, decision: Mapping[str, str]) -> None:
        """Create a pod and bind it as the operator does, lock first."""
        raw = pod.raw()
        name = raw["metadata"]["name"]
        del raw["metadata"]["uid"], raw["metadata"]["resourceVersion"]
        self._api.call(self._api.store.create, "pods", raw, namespace="default")
        shared = {TO_ALLOCATE, HCU_TO_ALLOCATE} & decision.keys()
        if shared:
            self.annotate_node(node, {keys.NODE_LOCK: f"{LOCK_TIME},default,{name}"})
        written = {
            keys.VGPU_NODE: node,
            keys.BIND_TIME: "1",
            keys.BIND_PHASE: "allocating",
            **decision,
        }
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "annotations": written},
            "target": {"kind": "Node", "name": node},
        }
        self._api.call(self._api.store.bind, ("default", name), binding)

    async def until(self, condition: Callable[[], Any]) -> Any:
        return await fakes.eventually(condition)

    async def phase(self, name: str, phase: str) -> Any:
        """The pod, once it is in that phase."""
        await self.until(lambda: self.get("pods", name)["status"]["phase"] == phase)
        return self.get("pods", name)


@pytest.fixture
def cluster(api: server.ApiServer) -> Cluster:
    return Cluster(api)


def gpu_pod(name: str = "p", *counts: int) -> builders.PodBuilder:
    pod = builders.pod(name)
    for count in counts or (1,):
        pod = pod.container(limits={GPU: count} if count else {"cpu": "1"})
    return pod


def card(simulated: fleet.Fleet, node: str, word: str, index: int = 0) -> str:
    return simulated.machines[node].plugins[word].cards[index].id


# ---- nodes


async def test_nodes_are_ready_and_let_pods_in(simulated: fleet.Fleet, cluster: Cluster) -> None:
    for name, _ in NODES:
        node = cluster.get("nodes", name)
        (ready,) = (one for one in node["status"]["conditions"] if one["type"] == "Ready")
        assert ready["status"] == "True"
        assert not node["spec"].get("taints")
        assert node["metadata"]["labels"]["kubernetes.io/hostname"] == name
    assert cluster.get("nodes", "json")["status"]["allocatable"][GPU] == "20"


async def test_a_taint_that_others_put_there_stays(client: admin.Admin, cluster: Cluster) -> None:
    taint = {"key": "mine", "effect": "NoSchedule"}
    not_ready = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    node = builders.node("json").put("spec.taints", [taint, not_ready]).raw()
    del node["metadata"]["uid"], node["metadata"]["resourceVersion"]
    await client.create(ports.NODES, node)
    async with at_work(client):
        assert cluster.get("nodes", "json")["spec"]["taints"] == [taint]


async def test_nodes_of_an_earlier_fleet_are_taken_over(
    client: admin.Admin, cluster: Cluster
) -> None:
    async with at_work(client):
        cluster.annotate_node("json", {REGISTER: "[]"})
    async with at_work(client):
        assert cluster.annotations("nodes", "json")[REGISTER] != "[]"


async def test_a_question_is_answered_at_once_and_a_silent_plugin_writes_nothing(
    simulated: fleet.Fleet, cluster: Cluster
) -> None:
    question = "Requesting_2026.03.01 12:00:00"
    for name in ("text", "json"):
        cluster.annotate_node(name, {HANDSHAKE: question})
    await cluster.until(
        lambda: cluster.annotations("nodes", "text")[HANDSHAKE].startswith("Reported_")
    )
    assert cluster.annotations("nodes", "json")[HANDSHAKE] == question


async def test_plugins_register_every_period(client: admin.Admin, cluster: Cluster) -> None:
    time = fakes.FakeClock()
    behaviour = machine.Behaviour(period_s=30.0, answers_at_once=False, heartbeat_s=0.0)
    async with at_work(client, behaviour, time):
        cluster.annotate_node("text", {HANDSHAKE: "Requesting_2026.03.01 12:00:00"})
        await fakes.eventually(lambda: time.sleepers)
        await time.advance(29.0)
        assert cluster.annotations("nodes", "text")[HANDSHAKE].startswith("Requesting_")
        await time.advance(1.0)
        want = "Reported_2026.03.01 12:00:30"
        await cluster.until(lambda: cluster.annotations("nodes", "text")[HANDSHAKE] == want)


async def test_nodes_beat_where_a_controller_would_else_call_them_dead(
    client: admin.Admin, cluster: Cluster
) -> None:
    time = fakes.FakeClock()

    def beat() -> str:
        conditions = cluster.get("nodes", "hcu")["status"]["conditions"]
        return next(one["lastHeartbeatTime"] for one in conditions if one["type"] == "Ready")

    behaviour = machine.Behaviour(period_s=3600.0, heartbeat_s=10.0)
    async with at_work(client, behaviour, time):
        assert beat() == "2026-03-01T12:00:00Z"
        await fakes.eventually(lambda: time.sleepers == 2)
        await time.advance(10.0)
        await cluster.until(lambda: beat() == "2026-03-01T12:00:10Z")


async def test_the_end_leaves_no_node_and_none_of_their_pods(
    client: admin.Admin, cluster: Cluster
) -> None:
    async with at_work(client) as simulated:
        cluster.bind(builders.pod("plain").container(), "json", {})
        await cluster.phase("plain", "Running")
        await client.create(ports.PODS, _pending("other"), namespace="default")
        await simulated.clean_up()
    assert (await pages.whole(client, ports.NODES)).items == []
    (left,) = (await pages.whole(client, ports.PODS)).items
    assert left["metadata"]["name"] == "other"


def _pending(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


# ---- serving


async def test_a_pod_is_served_as_recorded_on_a_real_node(
    simulated: fleet.Fleet, cluster: Cluster
) -> None:
    value = ";GPU-1,NVIDIA,3000,30:;GPU-2,NVIDIA,5000,0:;"
    cluster.bind(gpu_pod("p", 0, 1, 1), "json", {TO_ALLOCATE: value, "hami.io/other": "kept"})
    await cluster.phase("p", "Running")
    written = cluster.annotations("pods", "p")
    assert written[TO_ALLOCATE] == ";;;;;"
    assert written[keys.BIND_PHASE] == "success"
    assert written["hami.io/other"] == "kept"
    assert keys.NODE_LOCK not in cluster.annotations("nodes", "json")


async def test_a_plugin_that_erases_nothing_leaves_its_value(
    simulated: fleet.Fleet, cluster: Cluster
) -> None:
    value = "H-1,HCU,1,1:;H-2,HCU,2,2:;"
    pod = builders.pod("p").container(limits={"hygon.com/hcunum": 1})
    pod = pod.container(limits={"hygon.com/hcunum": 1})
    cluster.bind(pod, "hcu", {HCU_TO_ALLOCATE: value})
    await cluster.phase("p", "Running")
    written = cluster.annotations("pods", "p")
    assert (written[HCU_TO_ALLOCATE], written[keys.BIND_PHASE]) == (value, "success")
    assert keys.NODE_LOCK not in cluster.annotations("nodes", "hcu")


async def test_two_types_in_one_pod_the_second_finds_its_pod_without_the_lock(
    simulated: fleet.Fleet, cluster: Cluster
) -> None:
    pod = builders.pod("p").container(limits={GPU: 1, "hygon.com/hcunum": 1})
    decision = {TO_ALLOCATE: "G,NVIDIA,1,1:;", HCU_TO_ALLOCATE: "H,HCU,1,1:;"}
    cluster.bind(pod, "hcu", decision)
    await cluster.phase("p", "Running")
    assert cluster.annotations("pods", "p")[TO_ALLOCATE] == ";;"
    assert keys.NODE_LOCK not in cluster.annotations("nodes", "hcu")


async def test_the_mlu_plugin_turns_its_own_flag_and_takes_away_its_own_lock(
    simulated: fleet.Fleet, cluster: Cluster
) -> None:
    own = registry.default().by_word["MLU"].lock
    cluster.annotate_node("cap", {own: LOCK_TIME})
    decision = {MLU_TO_ALLOCATE: "c,MLU,1,1:;", "CAMBRICON_DSMLU_ASSIGNED": "false"}
    cluster.bind(builders.pod("p").container(limits={"cambricon.com/vmlu": 1}), "cap", decision)
    await cluster.phase("p", "Running")
    written = cluster.annotations("pods", "p")
    assert written["CAMBRICON_DSMLU_ASSIGNED"] == "true"
    assert written[MLU_TO_ALLOCATE] == "c,MLU,1,1:;"
    assert own not in cluster.annotations("nodes", "cap")


async def test_another_pods_lock_is_not_released(simulated: fleet.Fleet, cluster: Cluster) -> None:
    pod = builders.pod("p").container(limits={"cambricon.com/vmlu": 1})
    cluster.annotate_node("text", {keys.NODE_LOCK: f"{LOCK_TIME},default,other"})
    cluster.bind(pod, "text", {MLU_TO_ALLOCATE: "c,MLU,1,1:;"})
    await cluster.phase("p", "Running")
    assert cluster.annotations("nodes", "text")[keys.NODE_LOCK].endswith("other")


async def test_a_pod_without_cards_just_runs(simulated: fleet.Fleet, cluster: Cluster) -> None:
    cluster.bind(builders.pod("p").container(), "json", {})
    await cluster.phase("p", "Running")
    assert cluster.annotations("pods", "p")[keys.BIND_PHASE] == "allocating", "nobody was asked"


async def test_a_resource_that_the_node_never_had_is_nobodys_business(
    simulated: fleet.Fleet, cluster: Cluster
) -> None:
    cluster.bind(gpu_pod(), "cap", {})
    await cluster.phase("p", "Running")


async def test_init_containers_end_well_before_the_pod_runs(
    client: admin.Admin, cluster: Cluster
) -> None:
    time = fakes.FakeClock()
    behaviour = machine.Behaviour(period_s=3600.0, heartbeat_s=0.0, init_s=5.0)
    async with at_work(client, behaviour, time):
        pod = builders.pod("p").init("i").container("a")
        cluster.bind(pod, "json", {})
        await cluster.until(lambda: "initContainerStatuses" in cluster.get("pods", "p")["status"])
        assert cluster.get("pods", "p")["status"]["phase"] == "Pending"
        await fakes.eventually(lambda: time.sleepers == 2)
        await time.advance(5.0)
        found = await cluster.phase("p", "Running")
    (init,) = found["status"]["initContainerStatuses"]
    assert init["state"]["terminated"]["exitCode"] == 0


async def test_a_pod_ends_when_it_says_so(simulated: fleet.Fleet, cluster: Cluster) -> None:
    cluster.bind(builders.pod("p").container().annotate({kubelet.RUN_FOR: "0"}), "json", {})
    await cluster.phase("p", "Succeeded")


async def test_a_deleted_pod_is_taken_away(
    simulated: fleet.Fleet, cluster: Cluster, client: admin.Admin
) -> None:
    cluster.bind(builders.pod("p").container(), "json", {})
    await cluster.phase("p", "Running")
    await client.delete(ports.PODS, "p", namespace="default")
    await cluster.until(lambda: cluster.find("pods", "p") is None)


async def test_pods_of_one_node_are_served_one_after_the_other(
    simulated: fleet.Fleet, cluster: Cluster
) -> None:
    mlu = {"cambricon.com/vmlu": 1}
    for number in range(6):
        pod = builders.pod(f"p{number}")
        for _ in range(number % 3 + 1):
            pod = pod.container(limits=mlu)
        value = "c,MLU,1,1:;" * (number % 3 + 1)
        cluster.bind(pod, "cap", {MLU_TO_ALLOCATE: value})
    for number in range(6):
        await cluster.phase(f"p{number}", "Running")


def mig_list(*starts: int) -> str:
    entries = [
        {
            "containerIndex": 0,
            "deviceIndex": number,
            "gpuUUID": "GPU-1",
            "profile": "1g.5gb",
            "placement": {"start": start, "size": 1},
        }
        for number, start in enumerate(starts)
    ]
    return json.dumps(entries)


async def test_instances_are_made_before_the_pod_runs(
    simulated: fleet.Fleet, cluster: Cluster
) -> None:
    value = "GPU-1,NVIDIA,5120,14:GPU-1,NVIDIA,5120,14:;"
    cluster.bind(gpu_pod("p", 2), "mig", {TO_ALLOCATE: value, MIG_LIST: mig_list(6, 5)})
    await cluster.phase("p", "Running")
    written = cluster.annotations("pods", "p")
    assert (written[TO_ALLOCATE], written[keys.BIND_PHASE]) == (";;", "success")
    made = json.loads(written[MIG_LIST])
    assert [one["gpuInstanceID"] for one in made] == [6, 5]
    assert len({one["migUUID"] for one in made}) == 2


async def test_instances_that_were_not_reserved_are_not_made(
    simulated: fleet.Fleet, cluster: Cluster
) -> None:
    value = "GPU-1,NVIDIA,5120,14:;"
    cluster.bind(gpu_pod(), "mig", {TO_ALLOCATE: value, MIG_LIST: mig_list(6, 5)})
    pod = await cluster.phase("p", "Failed")
    assert "reserves GPU-1, GPU-1 for container 0" in pod["status"]["message"]
    written = cluster.annotations("pods", "p")
    assert (written[TO_ALLOCATE], written[keys.BIND_PHASE]) == (value, "failed")
    assert written[MIG_LIST] == mig_list(6, 5)
    assert keys.NODE_LOCK not in cluster.annotations("nodes", "mig")


async def test_a_pod_that_changes_while_its_instances_are_made_fails(
    client: admin.Admin, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch = client.patch_pod

    async def after_another(namespace: str, name: str, body: Any) -> Any:
        if "resourceVersion" in body["metadata"]:
            await patch(namespace, name, {"metadata": {"labels": {"other": "change"}}})
        return await patch(namespace, name, body)

    monkeypatch.setattr(client, "patch_pod", after_another)
    async with at_work(client):
        value = "GPU-1,NVIDIA,5120,14:;"
        cluster.bind(gpu_pod(), "mig", {TO_ALLOCATE: value, MIG_LIST: mig_list(6)})
        pod = await cluster.phase("p", "Failed")
    assert "was changed while its instances were made" in pod["status"]["message"]
    assert cluster.annotations("pods", "p")[MIG_LIST] == mig_list(6)


async def test_a_plugin_that_cannot_write_what_is_left_has_failed(
    client: admin.Admin, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch = client.patch_pod

    async def but_not_that(namespace: str, name: str, body: Any) -> Any:
        if TO_ALLOCATE in body["metadata"]["annotations"]:
            raise errors.Forbidden("not that", status=403)
        return await patch(namespace, name, body)

    monkeypatch.setattr(client, "patch_pod", but_not_that)
    async with at_work(client):
        value = "GPU-1,NVIDIA,1,1:;"
        cluster.bind(gpu_pod(), "json", {TO_ALLOCATE: value})
        pod = await cluster.phase("p", "Failed")
    assert f"{TO_ALLOCATE} of pod default/p cannot be written" in pod["status"]["message"]
    written = cluster.annotations("pods", "p")
    assert (written[TO_ALLOCATE], written[keys.BIND_PHASE]) == (value, "failed")
    assert keys.NODE_LOCK not in cluster.annotations("nodes", "json")


async def test_a_plugin_may_be_asked_by_slices_sizes_and_single_cores(
    simulated: fleet.Fleet, cluster: Cluster
) -> None:
    drs, neuron = "hami.io/enflame-vgpu-devices-allocated", "hami.io/aws-neuron-devices-allocated"
    pod = builders.pod("p").container(limits={"enflame.com/drs-gcu": 3})
    pod = pod.container(limits={"enflame.com/gcu-memory": 10})
    pod = pod.container(limits={"aws.amazon.com/neuroncore": 1})
    decision = {
        drs: "d,Enflame,20480,50:;d,Enflame,20480,50:;;",
        neuron: ";;n,AWSNeuron,0,2:;",
        "NEURON_ALLOCATED": "false",
        "assigned-containers": '{"c0":{"allocated":false}}',
    }
    cluster.bind(pod, "parts", decision)
    await cluster.phase("p", "Running")
    written = cluster.annotations("pods", "p")
    assert written["NEURON_ALLOCATED"] == "true"
    assert written["assigned-containers"] == '{"c0":{"allocated":true}}'
    assert (written[drs], written[neuron]) == (decision[drs], decision[neuron])


async def test_nodes_carry_the_labels_of_their_products(
    simulated: fleet.Fleet, cluster: Cluster
) -> None:
    labels = cluster.get("nodes", "parts")["metadata"]["labels"]
    assert labels["node.kubernetes.io/instance-type"] == "inf2.24xlarge"


# ---- switches


async def test_a_failing_plugin_marks_the_pod_and_releases_the_lock(
    simulated: fleet.Fleet, cluster: Cluster
) -> None:
    value = "GPU-1,NVIDIA,1,1:;"
    await simulated.fail_next("json", "NVIDIA")
    cluster.bind(gpu_pod("bad"), "json", {TO_ALLOCATE: value})
    pod = await cluster.phase("bad", "Failed")
    assert pod["status"]["reason"] == "UnexpectedAdmissionError"
    written = cluster.annotations("pods", "bad")
    assert (written[TO_ALLOCATE], written[keys.BIND_PHASE]) == (value, "failed")
    assert keys.NODE_LOCK not in cluster.annotations("nodes", "json")
    cluster.bind(gpu_pod("good"), "json", {TO_ALLOCATE: value})
    await cluster.phase("good", "Running")


async def test_a_decision_of_another_size_fails_the_pod(
    simulated: fleet.Fleet, cluster: Cluster
) -> None:
    cluster.bind(gpu_pod("p", 2), "json", {TO_ALLOCATE: "GPU-1,NVIDIA,1,1:;"})
    pod = await cluster.phase("p", "Failed")
    assert "device number not matched" in pod["status"]["message"]


async def test_a_plugin_that_dies_inside_an_allocation_leaves_phase_and_lock(
    simulated: fleet.Fleet, cluster: Cluster
) -> None:
    await simulated.slow("json", "NVIDIA", 0.05)
    cluster.bind(gpu_pod(), "json", {TO_ALLOCATE: "GPU-1,NVIDIA,1,1:;"})
    await simulated.die("json", "NVIDIA")
    await cluster.phase("p", "Failed")
    assert cluster.annotations("pods", "p")[keys.BIND_PHASE] == "allocating"
    assert cluster.annotations("nodes", "json")[keys.NODE_LOCK].endswith(",default,p")


async def test_a_bad_lock_fails_every_allocation_and_stays(
    simulated: fleet.Fleet, cluster: Cluster
) -> None:
    cluster.annotate_node("json", {keys.NODE_LOCK: "nonsense,a,b"})
    cluster.bind(gpu_pod(), "json", {"x": "y"})
    pod = await cluster.phase("p", "Failed")
    assert "'nonsense' is not a time" in pod["status"]["message"]
    assert cluster.annotations("pods", "p")[keys.BIND_PHASE] == "allocating"


async def test_a_lock_of_a_pod_that_is_gone_fails_the_allocation(
    simulated: fleet.Fleet, cluster: Cluster
) -> None:
    cluster.annotate_node("json", {keys.NODE_LOCK: f"{LOCK_TIME},default,ghost"})
    cluster.bind(gpu_pod(), "json", {"x": "y"})
    pod = await cluster.phase("p", "Failed")
    assert "pod default/ghost is gone" in pod["status"]["message"]


async def test_a_dead_plugin_answers_nobody_until_it_returns(
    simulated: fleet.Fleet, cluster: Cluster
) -> None:
    question = "Requesting_2026.03.01 12:00:00"
    await simulated.die("text", "NVIDIA")
    cluster.annotate_node("text", {HANDSHAKE: question})
    mlu = "hami.io/node-handshake-mlu"
    cluster.annotate_node("text", {mlu: question})
    await cluster.until(lambda: cluster.annotations("nodes", "text")[mlu] != question)
    assert cluster.annotations("nodes", "text")[HANDSHAKE] == question
    assert cluster.get("nodes", "text")["status"]["allocatable"][GPU] == "20"
    await simulated.revive("text", "NVIDIA")
    assert cluster.annotations("nodes", "text")[HANDSHAKE].startswith("Reported_")


async def test_kubelet_may_notice_a_death(simulated: fleet.Fleet, cluster: Cluster) -> None:
    await simulated.die("json", "NVIDIA", noticed=True)
    status = cluster.get("nodes", "json")["status"]
    assert (status["allocatable"][GPU], status["capacity"][GPU]) == ("0", "20")
    await simulated.revive("json", "NVIDIA")
    assert cluster.get("nodes", "json")["status"]["allocatable"][GPU] == "20"


async def test_cards_fall_ill_and_recover(simulated: fleet.Fleet, cluster: Cluster) -> None:
    before = cluster.annotations("nodes", "text")[REGISTER]
    sick = card(simulated, "text", "NVIDIA")
    await simulated.sicken("text", "NVIDIA", sick)
    assert cluster.annotations("nodes", "text")[REGISTER] == before.replace("true", "false", 1)
    assert cluster.get("nodes", "text")["status"]["allocatable"][GPU] == "10"
    await simulated.heal("text", "NVIDIA", sick)
    assert cluster.annotations("nodes", "text")[REGISTER] == before


async def test_cards_vanish_and_return(simulated: fleet.Fleet, cluster: Cluster) -> None:
    before = cluster.annotations("nodes", "json")[REGISTER]
    lost = card(simulated, "json", "NVIDIA", 1)
    await simulated.lose("json", "NVIDIA", lost)
    assert lost not in cluster.annotations("nodes", "json")[REGISTER]
    assert cluster.get("nodes", "json")["status"]["capacity"][GPU] == "10"
    await simulated.find("json", "NVIDIA", lost)
    assert cluster.annotations("nodes", "json")[REGISTER] == before


async def test_kubelet_may_offer_another_amount(simulated: fleet.Fleet, cluster: Cluster) -> None:
    await simulated.offer("cap", "Mthreads", 0)
    assert cluster.get("nodes", "cap")["status"]["allocatable"]["mthreads.com/sgpu-core"] == "0"
    await simulated.offer("cap", "Mthreads", None)
    assert cluster.get("nodes", "cap")["status"]["allocatable"]["mthreads.com/sgpu-core"] == "32"


@pytest.mark.parametrize(
    ("node", "word"),
    [
        pytest.param("nowhere", "NVIDIA", id="no such node"),
        pytest.param("json", "HCU", id="no such plugin"),
    ],
)
async def test_a_switch_of_nothing_is_an_error(
    simulated: fleet.Fleet, node: str, word: str
) -> None:
    with pytest.raises(errors.SettingsError, match="no such simulated plugin"):
        await simulated.die(node, word)


class Panel:
    """A fleet that notes its switches."""

    def __init__(self) -> None:
        self.turned: list[tuple[Any, ...]] = []
        row = registry.default().by_word["NVIDIA"]
        equipment = catalogue.Equipment(model=catalogue.MODELS["nvidia"], number=2)
        self.one = plugin.install(row, equipment, "n1")

    def plugin(self, _node: str, _word: str) -> plugin.Plugin:
        return self.one

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, None]]:
        async def turn(*given: Any, **more: Any) -> None:
            self.turned.append((name, *given, *more.items()))

        return turn


CARD = catalogue.MODELS["nvidia"].cards("n1", 2)[1].id


@pytest.mark.parametrize(
    ("line", "want"),
    [
        ("die n1 NVIDIA", ("die", "n1", "NVIDIA")),
        ("crash n1 NVIDIA", ("die", "n1", "NVIDIA", ("noticed", True))),
        ("revive n1 NVIDIA", ("revive", "n1", "NVIDIA")),
        ("slow n1 NVIDIA 500ms", ("slow", "n1", "NVIDIA", 0.5)),
        ("fail n1 NVIDIA 3", ("fail_next", "n1", "NVIDIA", ("times", 3))),
        ("lose n1 NVIDIA 1", ("lose", "n1", "NVIDIA", CARD)),
        ("find n1 NVIDIA 1", ("find", "n1", "NVIDIA", CARD)),
        ("sicken n1 NVIDIA 1", ("sicken", "n1", "NVIDIA", CARD)),
        ("heal n1 NVIDIA 1", ("heal", "n1", "NVIDIA", CARD)),
        ("offer n1 NVIDIA 0", ("offer", "n1", "NVIDIA", 0)),
        ("restore n1 NVIDIA", ("offer", "n1", "NVIDIA", None)),
    ],
)
async def test_lines_turn_switches(line: str, want: tuple[Any, ...]) -> None:
    panel: Any = Panel()
    await switches.turn(panel, line)
    assert panel.turned == [want]
    assert line.split(maxsplit=1)[0] in switches.usage()


@pytest.mark.parametrize(
    ("line", "want"),
    [
        pytest.param("dance n1 NVIDIA", "not a switch", id="an unknown word"),
        pytest.param("die n1", "not a switch", id="too few words"),
        pytest.param("die n1 NVIDIA now", "not a switch", id="too many words"),
        pytest.param("lose n1 NVIDIA 7", "'7' is none of 0, 1", id="no such card"),
        pytest.param("offer n1 NVIDIA some", "'some' is not a whole number", id="no number"),
        pytest.param("slow n1 NVIDIA soon", "'soon' is not a duration", id="no duration"),
    ],
)
async def test_lines_that_say_nothing_are_errors(line: str, want: str) -> None:
    panel: Any = Panel()
    with pytest.raises(errors.SettingsError, match=want):
        await switches.turn(panel, line)
    assert panel.turned == []


# ---- a server that fails


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        pytest.param("PATCH .*/pods/p", 500, id="500 on the plugin's write"),
        pytest.param("PATCH .*/pods/p/status", 429, id="429 on kubelet's write"),
        pytest.param("PATCH .*/nodes/json", 409, id="409 on the release of the lock"),
        pytest.param("GET .*/nodes/json", 503, id="503 on reading the node"),
        pytest.param("GET .*/pods/p", 500, id="500 on reading the pod"),
    ],
)
async def test_serving_goes_on_after_failures_of_the_server(
    simulated: fleet.Fleet,
    cluster: Cluster,
    api: server.ApiServer,
    request_line: str,
    status: int,
) -> None:
    method, path = request_line.split()
    api.fail(method, path, status=status, times=2)
    cluster.bind(gpu_pod(), "json", {TO_ALLOCATE: "GPU-1,NVIDIA,1,1:;"})
    await cluster.phase("p", "Running")
    await cluster.until(lambda: keys.NODE_LOCK not in cluster.annotations("nodes", "json"))


async def test_a_refused_write_is_given_up_and_the_next_pod_served(
    simulated: fleet.Fleet, cluster: Cluster, api: server.ApiServer
) -> None:
    api.fail("PATCH", ".*/pods/bad/status", status=422)
    cluster.bind(builders.pod("bad").container(), "json", {})
    cluster.bind(builders.pod("good").container(), "json", {})
    await cluster.phase("good", "Running")
    assert cluster.get("pods", "bad")["status"]["phase"] == "Pending"


async def test_a_list_that_fails_fails_the_allocation(
    simulated: fleet.Fleet, cluster: Cluster, api: server.ApiServer
) -> None:
    api.fail("GET", "/api/v1/pods", status=500)
    cluster.bind(gpu_pod(), "json", {"x": "y"})
    pod = await cluster.phase("p", "Failed")
    assert "injected failure" in pod["status"]["message"]


async def test_watches_that_break_miss_nothing(
    client: admin.Admin, cluster: Cluster, api: server.ApiServer
) -> None:
    bell = asyncio.Event()
    seen = mirror.Mirror(bell)
    source = feed.Feed(client, ports.PODS, seen, time=clock.SystemClock())
    for name in ("a", "b"):
        await client.create(ports.PODS, _pending(name), namespace="default")
    api.fail("WATCH", "/api/v1/pods", status=410)
    api.fail("WATCH", "/api/v1/pods", status=500)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(source.run())
        assert await mirror.until(lambda: len(seen.all()) == 2, bell, timeout_s=10)
        await client.delete(ports.PODS, "a", namespace="default", grace_s=0)
        await client.create(ports.PODS, _pending("c"), namespace="default")

        def shown() -> list[str]:
            return [one["metadata"]["name"] for one in seen.all()]

        assert await mirror.until(lambda: shown() == ["b", "c"], bell, timeout_s=10)
        running.cancel()


# ---- what is seen


def named(name: str, uid: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": uid}}


def test_a_mirror_keeps_the_newest_of_a_name() -> None:
    seen = mirror.Mirror(asyncio.Event())
    old, new = named("p", "1"), named("p", "2")
    seen.upsert(old)
    seen.upsert(new)
    seen.delete(old)
    assert seen.get("p") == new
    seen.delete(new)
    assert (seen.get("p"), seen.all()) == (None, [])


async def test_waiting_ends_in_time() -> None:
    bell = asyncio.Event()
    assert not await mirror.until(lambda: False, bell, timeout_s=0.01)
    assert await mirror.until(lambda: True, bell, timeout_s=0.01)


# ---- the command


LIMIT_S = 60.0


class Command:
    """``hami-operator simulate`` as a process of its own."""

    def __init__(self, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "hami_operator", "simulate", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        # Nobody may wait for ever for a line that does not come.
        self._limit = threading.Timer(LIMIT_S, self._process.kill)
        self._limit.start()
        self.said = self.hear()

    def hear(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def type(self, line: str) -> str:
        """Type a line; the first line of the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self.hear()

    def end(self, signal_number: int) -> int:
        self._process.send_signal(signal_number)
        self._process.communicate(timeout=LIMIT_S)
        self._limit.cancel()
        return self._process.returncode


def names(api: server.ApiServer, kind: str) -> list[str]:
    return [record.key[1] for record in api.call(api.store.list, kind).records]


@pytest.mark.parametrize(
    ("flags", "number", "want_left"),
    [
        pytest.param((), signal.SIGTERM, [], id="it cleans up"),
        pytest.param(("--keep",), signal.SIGINT, ["x-01", "x-02"], id="or leaves all behind"),
    ],
)
def test_the_command_serves_until_it_is_told_to_end(
    api: server.ApiServer, flags: tuple[str, ...], number: int, want_left: list[str]
) -> None:
    families = ("--families", "nvidia, hcu", "--nodes", "2", "--prefix", "x-")
    command = Command("--server", api.url, *families, *flags)
    assert command.said == "2 simulated nodes serve pods; interrupt to end\n"
    assert names(api, "nodes") == ["x-01", "x-02"]
    assert command.type("\nlose x-01 NVIDIA 0") == "done: lose x-01 NVIDIA 0\n"
    node = Cluster(api).get("nodes", "x-01")
    assert node["status"]["capacity"][GPU] == "30"
    assert command.type("dance") == "dance: not a switch; these are:\n"
    assert command.end(number) == 0
    assert names(api, "nodes") == want_left


@pytest.mark.parametrize(
    ("flags", "want"),
    [
        pytest.param(("--families", "gpu"), "families: 'gpu' is none of nvidia", id="a family"),
        pytest.param(("--families", ""), "families: '' is none of nvidia", id="no family"),
        pytest.param(("--nodes", "0"), "nodes: 0 is less than 1", id="no node"),
        pytest.param(("--cards", "-1"), "cards: -1 is less than 1", id="no card"),
        pytest.param(("--period", "soon"), "period: 'soon' is not a duration", id="a period"),
        pytest.param(("--delay", "-1s"), "delay: '-1s' is not a duration", id="a delay"),
    ],
)
def test_flags_that_cannot_be_used_are_named(
    flags: tuple[str, ...], want: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["simulate", "--server", "http://127.0.0.1:9", *_one_word(flags)]) == 2
    assert f"hami-operator: {want}" in capsys.readouterr().err


def _one_word(flags: tuple[str, ...]) -> tuple[str]:
    return ("=".join(flags),)
