"""The oracle knows volumes and claims of devices as Kubernetes' documentation has them."""

from typing import Any

import pytest

from tests import builders
from tests.builders import expression, pod, roomy
from tests.differential import oracle
from tests.differential.questions import ZONE, asked, filtered, final, for_now, passed, zoned

pytestmark = pytest.mark.e2e

DRIVER = "csi.example.com"


def stored(kind: str, name: str, *, group: str = "", **more: Any) -> dict[str, Any]:
    version = f"{group}/v1" if group else "v1"
    meta = {"name": name, "uid": f"uid-{name}", **more.pop("metadata", {})}
    return {"apiVersion": version, "kind": kind, "metadata": meta, **more}


def storage_class(mode: str, **more: Any) -> dict[str, Any]:
    return stored(
        "StorageClass",
        "disks",
        group="storage.k8s.io",
        provisioner=DRIVER,
        volumeBindingMode=mode,
        **more,
    )


def claim(name: str, volume: str = "") -> dict[str, Any]:
    meta: dict[str, Any] = {"namespace": "default"}
    if volume:
        meta["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    size = {"storage": "1Gi"}
    spec: dict[str, Any] = {"storageClassName": "disks", "accessModes": ["ReadWriteOnce"]}
    spec |= {"resources": {"requests": size}, **({"volumeName": volume} if volume else {})}
    status = {"phase": "Bound" if volume else "Pending"}
    return stored("PersistentVolumeClaim", name, metadata=meta, spec=spec, status=status)


def volume(name: str, claimed: str, *, labels: dict[str, str], **more: Any) -> dict[str, Any]:
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "disks",
        "csi": {"driver": DRIVER, "volumeHandle": name},
        "claimRef": {"name": claimed, "namespace": "default", "uid": f"uid-{claimed}"},
        **more,
    }
    return stored("PersistentVolume", name, metadata={"labels": labels}, spec=spec)


def csi_node(name: str, limit: int) -> dict[str, Any]:
    driver = {"name": DRIVER, "nodeID": name, "allocatable": {"count": limit}}
    return stored("CSINode", name, group="storage.k8s.io", spec={"drivers": [driver]})


def mounting(name: str, claimed: str) -> builders.PodBuilder:
    source = {"name": "data", "persistentVolumeClaim": {"claimName": claimed}}
    return pod(name).container().append("spec.volumes", source)


def in_zone(zone: str) -> dict[str, Any]:
    return {"required": {"nodeSelectorTerms": [expression(ZONE, "In", zone)]}}


STORAGE = [
    pytest.param(
        asked(
            mounting("p", "c"),
            nodes=[zoned("n1", "z1"), zoned("n2", "z2")],
            persistentvolumeclaims=[claim("c", "v")],
            persistentvolumes=[volume("v", "c", labels={ZONE: "z1"})],
            storageclasses=[storage_class("Immediate")],
        ),
        passed("n1", n2=final("VolumeZone", "node(s) had no available volume zone")),
        id="a volume's zone label binds its pod to the zone",
    ),
    pytest.param(
        asked(
            mounting("p", "c"),
            nodes=[zoned("n1", "z1"), zoned("n2", "z2")],
            persistentvolumeclaims=[claim("c", "v")],
            persistentvolumes=[volume("v", "c", labels={}, nodeAffinity=in_zone("z2"))],
            storageclasses=[storage_class("Immediate")],
        ),
        passed(
            "n2",
            n1=final("VolumeBinding", "node(s) didn't match PersistentVolume's node affinity"),
        ),
        id="a volume's node affinity binds its pod",
    ),
    pytest.param(
        asked(
            mounting("p", "c"),
            nodes=[zoned("n1", "z1"), zoned("n2", "z2")],
            persistentvolumeclaims=[claim("c")],
            storageclasses=[storage_class("WaitForFirstConsumer")],
        ),
        passed("n1", "n2"),
        id="a claim that waits for its first consumer lets the scheduler choose",
    ),
    pytest.param(
        asked(
            mounting("p", "c"),
            nodes=[zoned("n1", "z1"), zoned("n2", "z2")],
            persistentvolumeclaims=[claim("c")],
            storageclasses=[
                storage_class(
                    "WaitForFirstConsumer",
                    allowedTopologies=[
                        {"matchLabelExpressions": [{"key": ZONE, "values": ["z1"]}]}
                    ],
                )
            ],
        ),
        passed(
            "n1",
            n2=final("VolumeBinding", "node(s) didn't find available persistent volumes to bind"),
        ),
        id="a class provisions in its allowed topologies only",
    ),
    pytest.param(
        asked(
            mounting("p", "c2"),
            nodes=[roomy("n1"), roomy("n2")],
            pods=[mounting("r", "c1").on("n1")],
            csinodes=[csi_node("n1", 1), csi_node("n2", 1)],
            persistentvolumeclaims=[claim("c1", "v1"), claim("c2", "v2")],
            persistentvolumes=[volume("v1", "c1", labels={}), volume("v2", "c2", labels={})],
            storageclasses=[storage_class("Immediate")],
        ),
        passed("n2", n1=for_now("NodeVolumeLimits", "node(s) exceed max volume count")),
        id="a node takes as many volumes as its driver says",
    ),
]

# ---- devices -----------------------------------------------------------------------------------

DEVICE_CLASS = stored("DeviceClass", "gpu", group="resource.k8s.io", spec={})
DEVICES = stored(
    "ResourceSlice",
    "n1-gpus",
    group="resource.k8s.io",
    spec={
        "driver": "gpu.example.com",
        "nodeName": "n1",
        "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0"}],
    },
)
DEVICE_CLAIM = stored(
    "ResourceClaim",
    "c",
    group="resource.k8s.io",
    metadata={"namespace": "default"},
    spec={"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
)
TAKEN = stored(
    "ResourceClaim",
    "other",
    group="resource.k8s.io",
    metadata={"namespace": "default"},
    spec=DEVICE_CLAIM["spec"],
    status={
        "allocation": {
            "devices": {
                "results": [
                    {
                        "request": "r",
                        "driver": "gpu.example.com",
                        "pool": "n1",
                        "device": "gpu-0",
                    }
                ]
            }
        }
    },
)
CLAIMING = (
    pod("p").container().append("spec.resourceClaims", {"name": "c", "resourceClaimName": "c"})
)
NO_DEVICE = final("DynamicResources", "cannot allocate all claims")

CLAIMS = [
    pytest.param(
        asked(
            CLAIMING,
            nodes=[roomy("n1"), roomy("n2")],
            deviceclasses=[DEVICE_CLASS],
            resourceslices=[DEVICES],
            resourceclaims=[DEVICE_CLAIM],
        ),
        passed("n1", n2=NO_DEVICE),
        id="a claim is allocated where a device is free",
    ),
    pytest.param(
        asked(
            CLAIMING,
            nodes=[roomy("n1"), roomy("n2")],
            deviceclasses=[DEVICE_CLASS],
            resourceslices=[DEVICES],
            resourceclaims=[DEVICE_CLAIM, TAKEN],
        ),
        passed(n1=NO_DEVICE, n2=NO_DEVICE),
        id="an allocated device is taken",
    ),
]


@pytest.mark.parametrize(("scenario", "want"), [*STORAGE, *CLAIMS])
def test_each_node_has_the_documented_verdict(
    judge: oracle.Oracle, scenario: oracle.Scenario, want: oracle.Verdict
) -> None:
    (verdict,) = judge.ask([scenario])
    assert filtered(verdict) == want


@pytest.mark.parametrize(
    ("scenario", "prefilter"),
    [
        pytest.param(
            asked(
                mounting("p", "c"),
                nodes=[roomy("n1")],
                persistentvolumeclaims=[claim("c")],
                storageclasses=[storage_class("Immediate")],
            ),
            final("VolumeBinding", "pod has unbound immediate PersistentVolumeClaims"),
            id="a claim to be bound at once waits for its volume",
        ),
        pytest.param(
            asked(mounting("p", "c"), nodes=[roomy("n1")]),
            final("VolumeRestrictions", 'persistentvolumeclaim "c" not found'),
            id="a claim must exist",
        ),
    ],
)
def test_some_pods_are_refused_before_any_node_is_asked(
    judge: oracle.Oracle, scenario: oracle.Scenario, prefilter: oracle.Refusal
) -> None:
    want = f"0/1 nodes are available: {prefilter.reasons[0]}."
    assert judge.ask([scenario]) == [oracle.Verdict(id="s", prefilter=prefilter, message=want)]
