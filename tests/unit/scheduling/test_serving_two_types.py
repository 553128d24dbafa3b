"""A pod of two types that share the lock: the first plugin's success says nothing of the other."""

from __future__ import annotations

import pytest

from hami_operator.devices import registry
from hami_operator.protocol import keys
from hami_operator.scheduling import serving
from tests import builders

SERVED = ";;"
NVIDIA = {
    "hami.io/vgpu-devices-to-allocate": SERVED,
    "hami.io/vgpu-devices-allocated": "G,NVIDIA,1,1:;",
}
HCU = {
    "hami.io/hcu-devices-to-allocate": "H,HCU,1,1:;",
    "hami.io/hcu-devices-allocated": "H,HCU,1,1:;",
}
MLU = {
    "hami.io/cambricon-mlu-devices-to-allocate": "M,MLU,1,1:;",
    "hami.io/cambricon-mlu-devices-allocated": "M,MLU,1,1:;",
}


@pytest.mark.parametrize(
    ("decisions", "phase", "want"),
    [
        pytest.param(NVIDIA, "Pending", True, id="one type, erased: past its allocation"),
        pytest.param(HCU, "Pending", True, id="one type that erases nothing: success is success"),
        pytest.param(NVIDIA | HCU, "Pending", False, id="two types: the other may yet be asked"),
        pytest.param(NVIDIA | HCU, "Running", True, id="two types, running: both were asked"),
        pytest.param(NVIDIA | MLU, "Pending", True, id="a type with a lock of its own"),
    ],
)
def test_whether_a_pod_is_past_its_allocation(
    decisions: dict[str, str], phase: str, want: bool
) -> None:
    services = serving.Services(registry.default(), 300.0)
    pod = builders.pod("p").container().on("n1").phase(phase).annotate(decisions)
    pod = pod.annotate({keys.BIND_PHASE: "success", keys.VGPU_NODE: "n1"})
    assert services.holder(pod.read()).past_allocation("n1") is want


def test_kubelets_first_word_about_a_pod_says_that_every_plugin_was_asked() -> None:
    services = serving.Services(registry.default(), 300.0)
    pod = builders.pod("p").container().on("n1").phase("Pending").annotate(NVIDIA | HCU)
    pod = pod.annotate({keys.BIND_PHASE: "success", keys.VGPU_NODE: "n1"})
    pulling = pod.put("status.startTime", "2026-03-01T12:00:00Z")
    assert services.holder(pulling.read()).past_allocation("n1") is True
