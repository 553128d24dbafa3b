"""Reading volumes, claims and their like: whole records, and what cannot be read of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_operator.scheduling import labels, nodeselector, resourceclaims, storage
from tests import builders

GIB = 2**30 * 10**9
SSD = {"matchLabels": {"disk": "ssd"}}
TERM = builders.expression("zone", "In", "a")


def test_a_full_claim() -> None:
    raw = {
        "metadata": {
            "namespace": "team",
            "name": "data",
            "uid": "u",
            "resourceVersion": "7",
            "deletionTimestamp": builders.CREATED,
            "annotations": {
                "pv.kubernetes.io/bind-completed": "yes",
                "volume.kubernetes.io/selected-node": "n1",
                "volume.beta.kubernetes.io/storage-class": "old",
            },
            "ownerReferences": [{"uid": "x"}, {"uid": "owner", "controller": True}],
        },
        "spec": {
            "storageClassName": "new",
            "volumeAttributesClassName": "gold",
            "accessModes": ["ReadWriteOnce"],
            "volumeMode": "Block",
            "resources": {"requests": {"storage": "2Gi"}},
            "selector": SSD,
            "volumeName": "disk",
        },
        "status": {"phase": "Bound"},
    }
    claim = storage.read_claim(raw)
    assert claim == storage.Claim(
        namespace="team",
        name="data",
        uid="u",
        version="7",
        class_name="old",
        attributes_class="gold",
        access_modes=frozenset({"ReadWriteOnce"}),
        mode="Block",
        requested=2 * GIB,
        selector=labels.read(SSD),
        volume="disk",
        bind_completed=True,
        selected_node="n1",
        phase="Bound",
        terminating=True,
        owner="owner",
    )
    assert (claim.bound, claim.key) == (True, ("team", "data"))


def test_a_full_volume() -> None:
    raw = {
        "metadata": {"name": "disk", "uid": "u", "resourceVersion": "3", "labels": {"a": "b"}},
        "spec": {
            "storageClassName": "new",
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "claimRef": {"namespace": "team", "name": "data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [TERM]}},
            "csi": {"driver": "d", "volumeHandle": "h"},
        },
        "status": {"phase": "Available"},
    }
    volume = storage.read_volume(raw)
    assert volume == storage.Volume(
        name="disk",
        uid="u",
        version="3",
        labels={"a": "b"},
        class_name="new",
        access_modes=frozenset({"ReadWriteOnce"}),
        mode="Filesystem",
        capacity=GIB,
        claim=("team", "data", ""),
        affinity=nodeselector.NodeSelector(terms=(nodeselector.read_term(TERM),)),
        phase="Available",
        driver="d",
        handle="h",
        native=True,
    )
    assert volume.reaches({"zone": "a"})
    assert not volume.reaches({"zone": "b"})


@pytest.mark.parametrize(
    ("ref", "want"),
    [
        pytest.param(None, False, id="meant for nobody"),
        pytest.param({"namespace": "team", "name": "data"}, True, id="by name"),
        pytest.param({"namespace": "team", "name": "data", "uid": "u"}, True, id="by UID"),
        pytest.param({"namespace": "team", "name": "data", "uid": "v"}, False, id="an older one"),
        pytest.param({"namespace": "x", "name": "data"}, False, id="another namespace"),
    ],
)
def test_whom_a_volume_is_meant_for(ref: Any, want: bool) -> None:
    claim = storage.Claim(namespace="team", name="data", uid="u")
    volume = storage.read_volume({"metadata": {"name": "v"}, "spec": {"claimRef": ref}})
    assert volume.is_for(claim) is want


@pytest.mark.parametrize(
    ("source", "want"),
    [
        ({"awsElasticBlockStore": {"volumeID": "aws://zone/vol-1"}}, ("ebs.csi.aws.com", "vol-1")),
        ({"gcePersistentDisk": {"pdName": "pd"}}, ("pd.csi.storage.gke.io", "pd")),
        ({"azureDisk": {"diskURI": "/d"}}, ("disk.csi.azure.com", "/d")),
        ({"hostPath": {"path": "/"}}, ("", "")),
    ],
)
def test_old_kinds_of_volumes_are_those_of_their_driver(
    source: dict[str, Any], want: tuple[str, str]
) -> None:
    volume = storage.read_volume({"metadata": {"name": "v"}, "spec": source})
    assert ((volume.driver, volume.handle), volume.native) == (want, False)


def test_what_cannot_be_read_makes_it_harder_to_satisfy() -> None:
    odd = storage.read_claim(
        {
            "metadata": {"name": "c"},
            "spec": {
                "resources": {"requests": {"storage": "much"}},
                "selector": {"matchLabels": 5},
            },
        }
    )
    assert odd.requested is not None
    assert odd.requested > 10**15 * GIB
    assert not odd.selector.absent
    assert not odd.selector.matches({"a": "b"})
    volume = storage.read_volume(
        {"metadata": {"name": "v"}, "spec": {"capacity": {"storage": 0.5}}}
    )
    assert volume.capacity <= GIB


def test_a_class() -> None:
    raw = {
        "metadata": {"name": "c", "uid": "u"},
        "provisioner": "p",
        "volumeBindingMode": "Immediate",
        "allowedTopologies": [
            {"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]},
            {},
        ],
    }
    found = storage.read_class(raw)
    assert found == storage.Class(
        name="c",
        uid="u",
        provisioner="p",
        binding_mode="Immediate",
        topologies=((("zone", frozenset({"a", "b"})),), ()),
    )
    assert [found.allows({"zone": zone}) for zone in "abc"] == [True, True, False]
    assert storage.Class(name="c", uid="").allows({})


@pytest.mark.parametrize(
    ("provisioner", "want"), [("p", True), ("", False), ("kubernetes.io/no-provisioner", False)]
)
def test_who_can_make_volumes(provisioner: str, want: bool) -> None:
    assert storage.Class(name="c", uid="", provisioner=provisioner).provisions is want


def test_drivers_capacities_and_attachments() -> None:
    meta = {"name": "x", "uid": "u"}
    drivers = [{"name": "a", "allocatable": {"count": 3}}, {"name": "b"}]
    assert storage.read_csi_node({"metadata": meta, "spec": {"drivers": drivers}}) == (
        storage.CsiNode(name="x", uid="u", limits={"a": 3})
    )
    assert storage.read_csi_driver({"metadata": meta, "spec": {"storageCapacity": True}}) == (
        storage.CsiDriver(name="x", uid="u", tracks_capacity=True)
    )
    capacity = {"metadata": meta, "storageClassName": "c", "capacity": "9Gi", "nodeTopology": SSD}
    want = storage.Capacity(
        namespace="default",
        name="x",
        uid="u",
        class_name="c",
        largest=9 * GIB,
        topology=labels.read(SSD),
    )
    assert storage.read_capacity(capacity) == want
    limited = storage.read_capacity(capacity | {"maximumVolumeSize": "1Gi"})
    assert limited.largest == GIB
    spec = {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "v"}}
    assert storage.read_attachment({"metadata": meta, "spec": spec}) == storage.Attachment(
        name="x", uid="u", node="n", driver="d", volume="v"
    )


def test_claims_of_devices() -> None:
    requests = [
        {"name": "a", "exactly": {"deviceClassName": "gpu"}},
        {"name": "b", "firstAvailable": [{"name": "x", "deviceClassName": "nic"}]},
    ]
    raw = {
        "metadata": {"name": "c", "uid": "u", "resourceVersion": "2"},
        "spec": {"devices": {"requests": requests}},
        "status": {
            "allocation": {"nodeSelector": {"nodeSelectorTerms": [TERM]}},
            "reservedFor": [{"uid": "p1"}, {"uid": "p2"}],
        },
    }
    assert resourceclaims.read_claim(raw) == resourceclaims.Claim(
        namespace="default",
        name="c",
        uid="u",
        version="2",
        classes=(("a", "gpu"), ("b/x", "nic")),
        allocated=True,
        selector=nodeselector.NodeSelector(terms=(nodeselector.read_term(TERM),)),
        users=frozenset({"p1", "p2"}),
    )
    assert resourceclaims.read_class({"metadata": {"name": "gpu", "uid": "u"}}) == (
        resourceclaims.Class(
            name="gpu", uid="u", resources=frozenset({"deviceclass.resource.kubernetes.io/gpu"})
        )
    )


READERS: list[Callable[[Mapping[str, Any]], Any]] = [
    storage.read_claim,
    storage.read_volume,
    storage.read_class,
    storage.read_csi_node,
    storage.read_csi_driver,
    storage.read_capacity,
    storage.read_attachment,
    resourceclaims.read_claim,
    resourceclaims.read_class,
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(
        ["metadata", "spec", "status", "name", "csi", "drivers", "requests", "devices",
         "selector", "claimRef", "nodeAffinity", "required", "allocation", "capacity"]
    ), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(st.sampled_from(READERS), st.dictionaries(
    st.sampled_from(["metadata", "spec", "status", "allowedTopologies", "nodeTopology"]), JSON
))  # fmt: skip
def test_no_content_makes_reading_raise(
    read: Callable[[Mapping[str, Any]], Any], raw: dict[str, Any]
) -> None:
    read(raw)
