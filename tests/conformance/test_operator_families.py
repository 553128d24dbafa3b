"""A node of each device type, and a pod for each: admitted, bound, served, deleted, forgotten.

What the operator writes is compared as text with what device plugins of each vendor read.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from hami_operator import clock
from hami_operator.cluster import ports
from hami_operator.devices import inventory
from hami_operator.scheduling import node as nodes
from hami_operator.simulator import audit, catalogue, feed, fleet, models
from tests import builders
from tests.conformance import samples, webhooks
from tests.conformance.cluster import Cluster, background

Raw = dict[str, Any]
Texts = Mapping[str, str]

_MADE: Final = re.compile(r',"migUUID":"MIG-[^"]+","gpuInstanceID":\d,"computeInstanceID":0')
"""What the plugin adds to each instance."""
_TIMES: Final = {"second": r"\d{10}", "nanosecond": r"\d{19}"}
ALWAYS: Final = {
    "hami.io/vgpu-node": "{node}",
    "hami.io/vgpu-time": "{second}",
    "hami.io/bind-phase": "allocating",
    "hami.io/bind-time": "{second}",
}
"""What every decision says, whatever its devices."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """A pod that asks for devices of a node, and what is written on it.

    Attributes:
        limits: of each container, in turn.
        annotations: what the operator and admission write beside `ALWAYS`. ``{0}`` and ``{1}``
            are the ids of the node's cards, ``{node}`` is its name.
        given: what the user has written.
        erased: keys whose slots the plugin blanks one by one.
        turned: flags that the plugin turns once it has served all.
    """

    limits: tuple[Texts, ...]
    annotations: Texts
    given: Texts = dataclasses.field(default_factory=dict)
    erased: tuple[str, ...] = ()
    turned: tuple[str, ...] = ()


def both(name: str, value: str) -> Texts:
    """The decision under its two keys."""
    return {
        f"hami.io/{name}-devices-to-allocate": value,
        f"hami.io/{name}-devices-allocated": value,
    }


def second(limits: Texts, annotations: Texts, **more: Any) -> Case:
    """The second container asks, the first does not: the decision begins with an empty slot."""
    return Case(limits=({"cpu": "10m"}, limits), annotations=annotations, **more)


def iluvatar(chip: str) -> Case:
    return second(
        {
            f"iluvatar.ai/{chip}-vgpu": "1",
            f"iluvatar.ai/{chip}.vMem": "64",
            f"iluvatar.ai/{chip}.vCore": "50",
        },
        both(chip, f";{{1}},{chip},16384,50:;"),
    )


def ascend(chip: str, asked: int, template: str, size: int) -> Case:
    resource = f"huawei.com/{chip}"
    return second(
        {resource: "1", f"{resource}-memory": str(asked)},
        {
            **both(chip, f";{{1}},{chip},{size},0:;"),
            resource: f'[{{"UUID":"{{1}}","temp":"{template}","memory":{size}}}]',
            "predicate-time": "{second}",
        },
        erased=(f"hami.io/{chip}-devices-to-allocate",),
    )


_MLU: Final = {
    "cambricon.com/vmlu": "1",
    "cambricon.com/mlu.smlu.vmemory": "24",
    "cambricon.com/mlu.smlu.vcore": "50",
}
_MLU_PROFILE: Final = {
    "CAMBRICON_DSMLU_ASSIGNED": "false",
    "CAMBRICON_DSMLU_PROFILE": "1_50_24",
}
_ERASES: Final = ("hami.io/vgpu-devices-to-allocate",)

CASES: Final[Mapping[str, Case]] = {
    "nvidia": second(
        {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4000", "nvidia.com/gpucores": "30"},
        both("vgpu", ";{1},NVIDIA,4000,30:;"),
        erased=_ERASES,
    ),
    "nvidia-text": second(
        {"nvidia.com/gpu": "1"},
        both("vgpu", ";{1},NVIDIA,32768,100:;"),
        erased=_ERASES,
    ),
    "nvidia-mig": second(
        {"nvidia.com/gpu": "2", "nvidia.com/gpumem": "10000"},
        {
            **both("vgpu", ";{1},NVIDIA,10240,28:{1},NVIDIA,10240,28:;"),
            "hami.io/vgpu-mig-allocations": (
                '[{"containerIndex":1,"deviceIndex":0,"gpuUUID":"{1}","profile":"2g.10gb",'
                '"placement":{"start":0,"size":2}},'
                '{"containerIndex":1,"deviceIndex":1,"gpuUUID":"{1}","profile":"2g.10gb",'
                '"placement":{"start":2,"size":2}}]'
            ),
        },
        erased=_ERASES,
    ),
    "mlu": second(
        _MLU,
        {**both("cambricon-mlu", ";{1},MLU,6144,50:;"), **_MLU_PROFILE},
        turned=("CAMBRICON_DSMLU_ASSIGNED",),
    ),
    "mlu-capacity": second(
        _MLU,
        {**both("cambricon-mlu", ";{node}-cambricon-mlu-1,MLU,6144,50:;"), **_MLU_PROFILE},
        turned=("CAMBRICON_DSMLU_ASSIGNED",),
    ),
    "hcu": second(
        {"hygon.com/hcunum": "1", "hygon.com/hcumem": "2000", "hygon.com/hcucores": "60"},
        both("hcu", ";{1},HCU,2000,60:;"),
    ),
    "dcu": second(
        {"hygon.com/dcunum": "1", "hygon.com/dcumem": "2000", "hygon.com/dcucores": "60"},
        both("dcu", ";{1},DCU,2000,60:;"),
    ),
    "mr-v100": iluvatar("MR-V100"),
    "mr-v50": iluvatar("MR-V50"),
    "bi-v150": iluvatar("BI-V150"),
    "bi-v100": iluvatar("BI-V100"),
    "mthreads": second(
        {
            "mthreads.com/vgpu": "1",
            "mthreads.com/sgpu-memory": "32",
            "mthreads.com/sgpu-core": "8",
        },
        {
            **both("mthreads-vgpu", ";{node}-mthreads-1,Mthreads,16384,8:;"),
            "mthreads.com/gpu-index": "1",
            "mthreads.com/predicate-time": "{nanosecond}",
            "mthreads.com/predicate-node": "{node}",
        },
    ),
    "metax-gpu": second(
        {"metax-tech.com/gpu": "2"},
        both(
            "metax-gpu",
            ";{node}-metax-1,Metax-GPU,65536,100:{node}-metax-0,Metax-GPU,65536,100:;",
        ),
    ),
    "metax-sgpu": second(
        {
            "metax-tech.com/sgpu": "1",
            "metax-tech.com/vmemory": "4",
            "metax-tech.com/vcore": "60",
        },
        {
            **both("metax-sgpu", ";{1},Metax-SGPU,4096,60:;"),
            "metax-tech.com/gpu-devices-allocated": (
                '[[],[{"uuid":"{1}","compute":60,"vRam":4096}]]'
            ),
            "metax-tech.com/predicate-time": "{nanosecond}",
            "metax-tech.com/sgpu-qos-policy": "best-effort",
        },
    ),
    "ascend910a": ascend("Ascend910A", 8000, "vir08", 8738),
    "ascend910b2": ascend("Ascend910B2", 8000, "vir03_1c_8g", 8192),
    "ascend910b3": ascend("Ascend910B3", 16000, "vir05_1c_16g", 16384),
    "ascend910b4-1": ascend("Ascend910B4-1", 32000, "vir10_3c_32g", 32768),
    "ascend910b4": ascend("Ascend910B4", 16000, "vir10_3c_16g", 16384),
    "ascend310p": ascend("Ascend310P", 3000, "vir01", 3072),
    "ascend910c": second(
        {"huawei.com/Ascend910C": "1"},
        {
            **both("Ascend910C", ";{1},Ascend910C,65536,0:{0},Ascend910C,65536,0:;"),
            "huawei.com/Ascend910C": (
                '[{"UUID":"{1}","memory":65536},{"UUID":"{0}","memory":65536}]'
            ),
            "predicate-time": "{second}",
        },
        erased=("hami.io/Ascend910C-devices-to-allocate",),
    ),
    "ascend910b4-soft": second(
        {
            "huawei.com/Ascend910B4": "1",
            "huawei.com/Ascend910B4-memory": "10000",
            "huawei.com/Ascend910B4-core": "25",
        },
        {
            **both("Ascend910B4", ";{1},Ascend910B4,10000,25:;"),
            "huawei.com/Ascend910B4": '[{"UUID":"{1}","memory":10000,"core":25}]',
            "predicate-time": "{second}",
            "huawei.com/vnpu-mode": "hami-core",
        },
        given={"huawei.com/vnpu-mode": "hami-core"},
        erased=("hami.io/Ascend910B4-devices-to-allocate",),
    ),
    "gcu": second({"enflame.com/gcu": "1"}, both("enflame-gcu", ";{node}-GCU-1,GCU,100,100:;")),
    "enflame": second(
        {"enflame.com/drs-gcu": "3"},
        {
            "hami.io/enflame-vgpu-devices-allocated": ";{node}-enflame-drs-1,Enflame,20480,50:;",
            "enflame.com/gcu-assigned": "false",
            "enflame.com/gcu-assigned-time": "{nanosecond}",
            "enflame.com/gcu-assigned-index": "1",
            "enflame.com/gcu-assigned-id": "1",
            "enflame.com/gcu-assigned-minor": "1",
            "enflame.com/gcu-request-size": "3",
            "assigned-containers": (
                '{"c1":{"allocated":false,"request":3,"profileID":"1","profileName":"3g.20gb"}}'
            ),
        },
        turned=("enflame.com/gcu-assigned", "assigned-containers"),
    ),
    "kunlun": second(
        {"kunlunxin.com/xpu": "2"},
        {
            "hami.io/kunlun-allocated": (
                ";{node}-kunlun-0,kunlun,98304,100:{node}-kunlun-1,kunlun,98304,100:;"
            ),
            "BAIDU_COM_DEVICE_IDX": "0,1",
        },
    ),
    "xpu": second(
        {"kunlunxin.com/vxpu": "1", "kunlunxin.com/vxpu-memory": "20000"},
        both("xpu", ";{0},XPU,24576,25:;"),
    ),
    "aws-neuron": second(
        {"aws.amazon.com/neuroncore": "1"},
        {
            "hami.io/aws-neuron-devices-allocated": ";{node}-AWSNeuron-1,AWSNeuron,0,1:;",
            "AWS_NEURON_IDS": "2",
            "NEURON_ALLOC_TIME": "{nanosecond}",
            "NEURON_ALLOCATED": "false",
            "NEURON_RESOURCE_TYPE": "aws.amazon.com/neuroncore",
            "aws.amazon.com/predicate-node": "{node}",
        },
        turned=("NEURON_ALLOCATED",),
    ),
    "amd": second(
        {"amd.com/gpu": "1", "amd.com/gpumem": "16384", "amd.com/gpucores": "25"},
        both("amd", ";{1},AMD Instinct MI300X VF,16384,76:;"),
    ),
    "vastai": second(
        {"vastaitech.com/va": "2"}, both("Vastai", ";{1},Vastai,0,0:{0},Vastai,0,0:;")
    ),
    "biren": second({"birentech.com/gpu": "1"}, both("Biren", ";{1},Biren,0,0:;")),
    "acme": second(
        {"acme.example/card": "1", "acme.example/memory": "4", "acme.example/cores": "25"},
        {
            "acme.example/devices-to-allocate": ";{1},Acme,4096,25:;",
            "acme.example/devices-allocated": ";{1},Acme,4096,25:;",
        },
    ),
    "nvidia+hcu": Case(
        limits=(
            {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4000"},
            {"hygon.com/hcunum": "1", "hygon.com/hcumem": "2000", "hygon.com/hcucores": "60"},
        ),
        annotations={
            **both("vgpu", "{NVIDIA 1},NVIDIA,4000,0:;;"),
            **both("hcu", ";{HCU 1},HCU,2000,60:;"),
        },
        erased=_ERASES,
    ),
}
"""One for each node, by what the node is equipped with; one vendor is only in a YAML file."""
ACME: Final = models.Model(word="Acme", shown=models.Shown.NINE, prefix="A", memory_mib=65536)


def hosts(prefix: str) -> Iterator[tuple[str, catalogue.Host]]:
    """Case and node."""
    for number, family in enumerate(CASES):
        equipment = equipped(family)
        yield family, catalogue.Host(name=f"{prefix}{number:02}", equipment=equipment)


def equipped(family: str) -> tuple[catalogue.Equipment, ...]:
    """Two cards of each of its products."""
    found = (ACME if name == "acme" else catalogue.find(name) for name in family.split("+"))
    return tuple(catalogue.Equipment(model=model, number=2) for model in found)


def pod(family: str, node: str) -> builders.PodBuilder:
    """The pod as a user writes it, who names no scheduler."""
    case = CASES[family]
    made = builders.pod(named(family)).annotate(dict(case.given)).scheduler("default-scheduler")
    for limits in case.limits:
        made = made.container(limits=limits)
    return made.node_selector({"kubernetes.io/hostname": node})


def named(family: str) -> str:
    return family.replace("+", "-and-")


class Firsts:
    """Pods as they were when they had just been bound: before plugins write on them."""

    def __init__(self) -> None:
        self.bound: dict[str, Raw] = {}
        self._met: set[str] = set()

    def upsert(self, found: ports.Raw) -> None:
        """See `feed.Sink`. Late news of a pod that another one of its name follows is no first."""
        uid = found["metadata"]["uid"]
        if found["spec"].get("nodeName") and uid not in self._met:
            self._met.add(uid)
            self.bound[found["metadata"]["name"]] = dict(found)

    def delete(self, found: ports.Raw) -> None:
        """See `feed.Sink`."""


def cards(simulated: fleet.Fleet, node: ports.Raw) -> dict[str, str]:
    """Placeholders: ``0``, ``NVIDIA 0``, … to the ids that the operator knows cards by."""
    name = node["metadata"]["name"]
    found = {"node": name}
    for word, one in simulated.machines[name].plugins.items():
        for card in inventory.read(nodes.read(node), one.row).cards:
            found[str(card.index)] = found[f"{word} {card.index}"] = card.id
    return found


def matches(wanted: str, text: str, known: Texts) -> bool:
    """Whether a text is the wanted one, placeholders filled in."""
    pattern = re.escape(wanted)
    for name, value in {**{key: re.escape(id) for key, id in known.items()}, **_TIMES}.items():
        pattern = pattern.replace(re.escape(f"{{{name}}}"), value)
    return re.fullmatch(pattern, text) is not None


def differences(wanted: Texts, written: Texts, known: Texts) -> dict[str, tuple[str, str]]:
    """Key to wanted and written text, where they are not the same."""
    return {
        key: (wanted.get(key, "nothing"), written.get(key, "nothing"))
        for key in sorted({*wanted, *written})
        if key not in wanted or key not in written or not matches(wanted[key], written[key], known)
    }


def served(case: Case, written: Texts) -> Texts:
    """The annotations once the plugin has done its part."""
    after = {**written, "hami.io/bind-phase": "success"}
    for key in case.erased:
        rounds = sum(map(bool, written[key].split(";")))
        after[key] = ";" * (len(case.limits) + rounds)
    return after | {key: written[key].replace("false", "true") for key in case.turned}


async def test_a_pod_of_each_family_is_admitted_bound_served_and_forgotten(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Twice: the second time finds all cards as the first time did, or the texts would differ."""
    issued = webhooks.issue(tmp_path)
    where = dict(hosts(cluster.prefix))
    firsts = Firsts()
    own = ports.Selector(fields=f"metadata.namespace={cluster.namespace}")
    eyes = feed.Feed(cluster.admin, ports.PODS, firsts, selector=own, time=clock.SystemClock())
    fleet_of_all = cluster.fleet(where.values(), rows=samples.REGISTRY)
    async with background(eyes.run(), "first sights"), fleet_of_all as simulated:
        flags = webhooks.flags(tmp_path)
        operator = await cluster.deciding(*flags, vendors=dict(samples.CONFIGURED))
        async with webhooks.registered(cluster, await webhooks.port(operator), issued):
            for _ in range(2):
                for family, host in where.items():
                    await cluster.pod(pod(family, host.name))
                await cluster.run(*map(named, CASES))
                await cluster.until(
                    lambda: not any(audit.locks(cluster.nodes.all())), "locks are gone"
                )
                assert await cluster.overbooked() == []
                known = {family: cards(simulated, node) for family, node in seen(cluster, where)}
                assert wrongly_written(firsts, known) == {}
                assert wrongly_served(firsts, cluster) == {}
                assert wrongly_labelled(cluster) == []
                assert await operator.metric("hami_gpu_shared_count") >= len(CASES)
                await cluster.delete(*map(named, CASES))
                await cluster.until(lambda: not cluster.pods.all(), "the pods are gone")
                firsts.bound.clear()
        reviews = await operator.metric("hami_webhook_requests_total", result="patched")
        assert reviews >= 2 * len(CASES)
        assert await operator.metric("hami_reservations") == 0
        for name in ("hami_gpu_shared_count", "hami_gpu_memory_allocated_bytes"):
            assert await operator.metric(name) == 0
        assert [one for one in await cluster.cards() if one["slots_used"] or one["owners"]] == []


def seen(cluster: Cluster, where: Mapping[str, catalogue.Host]) -> Iterator[tuple[str, ports.Raw]]:
    """Case and Node."""
    for family, host in where.items():
        node = cluster.nodes.get(host.name)
        assert node is not None
        yield family, node


def wrongly_written(firsts: Firsts, known: Mapping[str, Texts]) -> dict[str, Any]:
    """Case to the annotations of its pod that are not what they must be when it is bound."""
    found = {}
    for family, case in CASES.items():
        written = firsts.bound[named(family)]["metadata"]["annotations"]
        found[family] = differences({**ALWAYS, **case.annotations}, written, known[family])
    return {family: each for family, each in found.items() if each}


def wrongly_served(firsts: Firsts, cluster: Cluster) -> dict[str, Any]:
    """Case to what is not as a plugin leaves it."""
    found: dict[str, Any] = {}
    for family, case in CASES.items():
        wanted = served(case, firsts.bound[named(family)]["metadata"]["annotations"])
        now = {
            key: _MADE.sub("", text) for key, text in cluster.annotations(named(family)).items()
        }
        if now != wanted:
            found[family] = (now, wanted)
    return found


def wrongly_labelled(cluster: Cluster) -> list[str]:
    """Pods without the label by which monitors of nodes find theirs."""
    return [
        one["metadata"]["name"]
        for one in cluster.pods.all()
        if one["metadata"].get("labels", {}).get("hami.io/vgpu-node") != one["spec"]["nodeName"]
    ]


def test_there_is_a_case_for_every_device_type() -> None:
    words = {one.model.word for family in CASES for one in equipped(family)}
    assert words == {row.keyword for row in samples.REGISTRY}


@pytest.mark.parametrize("family", CASES)
def test_a_case_names_every_key_that_a_decision_of_its_type_may_write(family: str) -> None:
    """No text may hide behind a key that nobody has thought of."""
    rows = [samples.REGISTRY.by_word[one.model.word] for one in equipped(family)]
    owned = {key for row in rows for key in row.pod.names}
    unused = {"hami.io/vgpu-mig-allocations"} if family != "nvidia-mig" else set()
    assert owned - unused <= CASES[family].annotations.keys()
