"""Volumes and ports of a pod, and what it needs its kubelet to know."""

from __future__ import annotations

from typing import Any

import pytest

from hami_operator.scheduling import ports, volumes
from tests import builders

POD = builders.pod("p")
DISK = {"pdName": "d"}
RBD = {"pool": "p", "image": "i", "monitors": ["a", "b"]}


def having(**source: Any) -> builders.PodBuilder:
    return POD.append("spec.volumes", {"name": "v", **source})


def test_a_pod_without_a_volume_that_matters_has_none() -> None:
    assert POD.read().volumes is volumes.NONE
    assert having(emptyDir={}).read().volumes is volumes.NONE


def test_all_that_matters() -> None:
    pod = (
        having(persistentVolumeClaim={"claimName": "data"})
        .append("spec.volumes", {"name": "scratch", "ephemeral": {}})
        .append("spec.volumes", {"name": "d", "gcePersistentDisk": {**DISK, "readOnly": True}})
        .append("spec.volumes", {"name": "i", "image": {"reference": "example.com/m:1"}})
    )
    found = pod.container().read()
    assert found.volumes == volumes.Volumes(
        claims=(volumes.Claimed(name="data"), volumes.Claimed(name="p-scratch", ephemeral=True)),
        disks=(volumes.Disk(kind="gcePersistentDisk", identity=("d",), shareable=True),),
        attached=(volumes.Attached(driver="pd.csi.storage.gke.io", handle="d"),),
        images=("example.com/m:1",),
    )
    assert found.volumes.claim_names == {"data", "p-scratch"}
    assert found.images == ("example.com/app:1", "example.com/m:1")


@pytest.mark.parametrize(
    ("one", "other", "want"),
    [
        pytest.param({"gcePersistentDisk": DISK}, {"gcePersistentDisk": DISK}, True, id="same"),
        pytest.param(
            {"gcePersistentDisk": {**DISK, "readOnly": True}},
            {"gcePersistentDisk": {**DISK, "readOnly": True}},
            False,
            id="both read",
        ),
        pytest.param(
            {"gcePersistentDisk": {**DISK, "readOnly": True}},
            {"gcePersistentDisk": DISK},
            True,
            id="one writes",
        ),
        pytest.param(
            {"awsElasticBlockStore": {"volumeID": "v", "readOnly": True}},
            {"awsElasticBlockStore": {"volumeID": "v", "readOnly": True}},
            True,
            id="one that is never shared",
        ),
        pytest.param(
            {"rbd": RBD}, {"rbd": {**RBD, "monitors": ["b"]}}, True, id="a monitor shared"
        ),
        pytest.param({"rbd": RBD}, {"rbd": {**RBD, "monitors": ["c"]}}, False, id="none shared"),
        pytest.param({"rbd": RBD}, {"iscsi": {"iqn": "p"}}, False, id="another kind"),
    ],
)
def test_which_disks_clash(one: dict[str, Any], other: dict[str, Any], want: bool) -> None:
    (first,), (second,) = (having(**source).read().volumes.disks for source in (one, other))
    assert first.clashes(second) is want
    assert second.clashes(first) is want


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(POD.container(ports=[{"containerPort": 1}]), (), id="no port of the node"),
        pytest.param(POD.container(ports=[{"hostPort": 0}]), (), id="port 0 is none"),
        pytest.param(
            POD.container(ports=[{"hostPort": 80}]),
            (ports.Port("TCP", 80, "0.0.0.0"),),
            id="plain",
        ),
        pytest.param(
            POD.sidecar(ports=[{"hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}]),
            (ports.Port("UDP", 53, "10.0.0.1"),),
            id="of a sidecar",
        ),
        pytest.param(POD.init(ports=[{"hostPort": 80}]), (), id="init containers hold none"),
        pytest.param(
            POD.container(ports=[{"hostPort": 80}]).container(ports=[{"hostPort": 80}]),
            (ports.Port("TCP", 80, "0.0.0.0"),),
            id="twice is once",
        ),
    ],
)
def test_ports(pod: builders.PodBuilder, want: tuple[ports.Port, ...]) -> None:
    assert pod.read().ports == want


RULES = [{"action": "RestartAllContainers"}]


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(POD, set(), id="nothing new"),
        pytest.param(POD.put("spec.hostUsers", False), set(), id="users without network"),
        pytest.param(
            POD.put("spec.hostUsers", False).put("spec.hostNetwork", True),
            {"UserNamespacesHostNetworkSupport"},
            id="users and network",
        ),
        pytest.param(
            POD.container(restartPolicyRules=[{"action": "Restart"}]), set(), id="an old rule"
        ),
        pytest.param(
            POD.container(restartPolicyRules=RULES),
            {"RestartAllContainersOnContainerExits"},
            id="restart all",
        ),
        pytest.param(
            POD.init(restartPolicyRules=RULES),
            {"RestartAllContainersOnContainerExits"},
            id="of an init container",
        ),
    ],
)
def test_features(pod: builders.PodBuilder, want: set[str]) -> None:
    assert pod.read().features == want
