"""What kubelet decides and writes about pods."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from hami_operator.devices import registry
from hami_operator.scheduling import pod as pods
from hami_operator.simulator import catalogue, kubelet, plugin
from tests import builders

NOW = datetime.datetime(2026, 3, 1, 12, 0, 0, tzinfo=datetime.UTC)
ROWS = registry.default()
GPU = "nvidia.com/gpu"


def plugins(*families: str) -> list[plugin.Plugin]:
    found = (catalogue.find(family) for family in families)
    return [
        plugin.install(ROWS.by_word[one.word], catalogue.Equipment(model=one, number=1), "n1")
        for one in found
    ]


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(builders.pod("p").raw(), True, id="pending"),
        pytest.param({"metadata": {}, "status": {}}, True, id="without a phase yet"),
        pytest.param(builders.pod("p").phase("Running").raw(), False, id="running"),
        pytest.param(builders.pod("p").phase("Failed").raw(), False, id="ended"),
        pytest.param(builders.pod("p").terminating().raw(), False, id="deleted before it ran"),
    ],
)
def test_who_is_to_be_admitted(pod: Any, want: bool) -> None:
    assert kubelet.is_new(pod) is want


def test_calls_come_by_container_init_first_and_by_row() -> None:
    pod = (
        builders.pod("p")
        .container("app", limits={GPU: "2", "hygon.com/hcunum": 1})
        .container("none", limits={"cpu": "1", "nvidia.com/gpumem": "10"})
        .sidecar("side", limits={"cambricon.com/vmlu": "1"})
        .init("init", limits={GPU: "1"})
        .raw()
    )
    installed = plugins("nvidia", "mlu", "hcu")
    assert [(one.container, one.word, one.amount) for one in kubelet.calls(pod, installed)] == [
        ("side", "MLU", 1),
        ("init", "NVIDIA", 1),
        ("app", "HCU", 1),
        ("app", "NVIDIA", 2),
    ]


@pytest.mark.parametrize("amount", ["0", "nonsense"])
def test_no_call_for_nothing(amount: str) -> None:
    pod = builders.pod("p").container("a", limits={GPU: amount}).container("b").raw()
    assert list(kubelet.calls(pod, plugins("nvidia", "hcu"))) == []


def test_nobody_is_asked_for_what_the_node_never_had() -> None:
    pod = builders.pod("p").container("a", limits={GPU: 1, "hygon.com/hcunum": 1}).raw()
    assert [one.word for one in kubelet.calls(pod, plugins("hcu"))] == ["HCU"]


@pytest.mark.parametrize(
    ("family", "limits", "want"),
    [
        pytest.param("aws-neuron", {"aws.amazon.com/neuron": 2}, [2], id="devices"),
        pytest.param("aws-neuron", {"aws.amazon.com/neuroncore": 3}, [3], id="their cores"),
        pytest.param(
            "aws-neuron",
            {"aws.amazon.com/neuroncore": 3, "aws.amazon.com/neuron": 2},
            [2],
            id="devices come first",
        ),
        pytest.param("enflame", {"enflame.com/drs-gcu": 3}, [3], id="slices"),
        pytest.param("enflame", {"enflame.com/gcu-core": 40}, [40], id="a size"),
        pytest.param(
            "mlu", {"cambricon.com/mlu.smlu.vcore": 40}, [], id="a size alone is nothing"
        ),
    ],
)
def test_by_what_a_plugin_is_asked(family: str, limits: Any, want: list[int]) -> None:
    pod = builders.pod("p").container("a", limits=limits).raw()
    assert [one.amount for one in kubelet.calls(pod, plugins(family))] == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(None, None, id="runs until it is deleted"),
        pytest.param("1.5", 1.5, id="seconds"),
        pytest.param("-3", 0.0, id="never negative"),
        pytest.param("soon", None, id="what cannot be read says nothing"),
    ],
)
def test_how_long_a_pod_runs(text: str | None, want: float | None) -> None:
    made = builders.pod("p")
    pod = made if text is None else made.annotate({kubelet.RUN_FOR: text})
    assert kubelet.runs_for_s(pod.raw()) == want


def mixed() -> dict[str, Any]:
    return builders.pod("p").init("i").sidecar("s").container("a").raw()


def states(status: Any, kind: str) -> list[tuple[str, str, bool]]:
    return [(one["name"], next(iter(one["state"])), one["ready"]) for one in status.get(kind, ())]


def test_running_means_that_inits_have_ended_well_and_sidecars_run() -> None:
    status = kubelet.running(mixed(), NOW)
    assert status["phase"] == "Running"
    assert states(status, "initContainerStatuses") == [
        ("i", "terminated", True),
        ("s", "running", True),
    ]
    assert states(status, "containerStatuses") == [("a", "running", True)]
    assert {one["type"]: one["status"] for one in status["conditions"]} == {
        "Initialized": "True", "ContainersReady": "True", "Ready": "True",
    }  # fmt: skip
    pod = {**mixed(), "status": status}
    assert pods.read(pod).inits_done


def test_initializing_means_that_nothing_has_ended() -> None:
    status = kubelet.initializing(mixed(), NOW)
    assert status["phase"] == "Pending"
    assert states(status, "initContainerStatuses") == [
        ("i", "running", False),
        ("s", "running", False),
    ]
    assert not pods.read({**mixed(), "status": status}).inits_done


def test_a_good_end() -> None:
    status = kubelet.succeeded(mixed(), NOW)
    assert status["phase"] == "Succeeded"
    assert states(status, "containerStatuses") == [("a", "terminated", False)]


def test_a_failed_allocation_ends_the_pod_with_kubelets_reason() -> None:
    assert kubelet.refused("a bad day") == {
        "phase": "Failed",
        "reason": "UnexpectedAdmissionError",
        "message": "Allocate failed due to a bad day, which is unexpected",
    }


def test_a_heartbeat_bears_the_time_in_utc() -> None:
    east = NOW.astimezone(datetime.timezone(datetime.timedelta(hours=8)))
    beat = kubelet.node_ready(east)
    assert (beat["type"], beat["status"]) == ("Ready", "True")
    assert beat["lastHeartbeatTime"] == "2026-03-01T12:00:00Z"
