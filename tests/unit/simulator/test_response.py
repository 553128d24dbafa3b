"""What a plugin puts into a container beside its cards."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from hami_operator.protocol import decision
from hami_operator.simulator import response
from tests import builders

PICKS = (
    decision.Pick(id="GPU-1", memory_mib=3000, cores=30),
    decision.Pick(id="GPU-2", memory_mib=5000, cores=0),
)
LIMITS = {
    "CUDA_DEVICE_MEMORY_LIMIT_0": "3000m",
    "CUDA_DEVICE_MEMORY_LIMIT_1": "5000m",
    "CUDA_DEVICE_SM_LIMIT": "30",
    "NVIDIA_VISIBLE_DEVICES": "GPU-1,GPU-2",
}
PRELOAD = {"/etc/ld.so.preload": "/usr/local/vgpu/ld.so.preload"}


def mounts(container: str) -> dict[str, str]:
    return {
        "/usr/local/vgpu": f"/usr/local/vgpu/containers/uid-p_{container}",
        "/usr/local/vgpu/libvgpu.so": "/usr/local/vgpu/libvgpu.so",
    }


@pytest.mark.parametrize(
    ("slot", "want"),
    [
        pytest.param(0, "i0", id="init containers come first"),
        pytest.param(1, "c0", id="the first app follows them"),
    ],
)
def test_a_container_is_held_to_its_share(slot: int, want: str) -> None:
    pod = builders.pod("p").init().container().raw()
    assert response.respond(pod, slot, PICKS, limited=True) == response.Response(
        container=want, picks=PICKS, env=LIMITS, mounts=mounts(want) | PRELOAD
    )


@pytest.mark.parametrize(
    ("env", "want"),
    [
        pytest.param({"CUDA_DISABLE_CONTROL": "true"}, {}, id="the switch keeps the limiter out"),
        pytest.param({"CUDA_DISABLE_CONTROL": "false"}, PRELOAD, id="another value does not"),
        pytest.param({"OTHER": "true"}, PRELOAD, id="another variable does not"),
    ],
)
def test_who_loads_the_limiter(env: Mapping[str, str], want: Mapping[str, str]) -> None:
    listed = [{"name": name, "value": value} for name, value in env.items()]
    pod = builders.pod("p").container("c", env=listed).raw()
    found = response.respond(pod, 0, PICKS, limited=True)
    assert found.mounts == {**mounts("c"), **want}
    assert found.env == LIMITS


def test_plugins_of_other_vendors_bring_no_limiter() -> None:
    pod = builders.pod("p").container("c").raw()
    assert response.respond(pod, 0, PICKS) == response.Response(
        container="c", picks=PICKS, env={}, mounts={}
    )


def test_a_segment_beyond_the_containers_has_no_name() -> None:
    pod = builders.pod("p").container("c").raw()
    assert response.respond(pod, 1, PICKS).container == ""
