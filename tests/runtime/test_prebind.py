"""Pods with claims: watched when needed, prepared before the bind, given back when it fails."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from hami_operator import errors
from hami_operator.scheduling import objects
from tests import builders
from tests.runtime import bench

STORAGE = "storageclasses.storage.k8s.io"
CLAIMS = "persistentvolumeclaims"
VOLUMES = "persistentvolumes"
DEVICES = "resourceclaims.resource.k8s.io"
SELECTED = "volume.kubernetes.io/selected-node"
BOUND = "pv.kubernetes.io/bind-completed"
WRITE_CLAIM = "PATCH persistentvolumeclaims/data"
BIND = "POST pods/p/binding"


def put(on: bench.Bench, resource: str, name: str, /, namespace: str = "", **body: Any) -> None:
    meta = {"name": name} | ({"namespace": namespace} if namespace else {})
    made = on.store.create(resource, orjson.dumps({"metadata": meta, **body}))
    if "status" in body:
        status = orjson.dumps({"status": body["status"]})
        on.store.patch(resource, made.key, status, subresource="status")


def put_class(on: bench.Bench, *, provisioner: str = "example.com/disk") -> None:
    put(on, STORAGE, "later", provisioner=provisioner, volumeBindingMode="WaitForFirstConsumer")


def put_claim(on: bench.Bench) -> None:
    spec = {
        "storageClassName": "later",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    put(on, CLAIMS, "data", "default", spec=spec)


def put_volume(on: bench.Bench, name: str = "disk", **more: Any) -> None:
    spec = {
        "storageClassName": "later",
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "2Gi"},
        **more,
    }
    put(on, VOLUMES, name, spec=spec, status={"phase": "Available"})


def bind_claim(on: bench.Bench, volume: str = "disk") -> None:
    body = {"metadata": {"annotations": {BOUND: "yes"}}, "spec": {"volumeName": volume}}
    on.store.patch(CLAIMS, ("default", "data"), orjson.dumps(body))


def annotate(on: bench.Bench, value: str | None) -> None:
    body = {"metadata": {"annotations": {SELECTED: value}}}
    on.store.patch(CLAIMS, ("default", "data"), orjson.dumps(body))


def asking(on: bench.Bench) -> builders.PodBuilder:
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    return on.ask().append("spec.volumes", volume)


def wait_for_volume(on: bench.Bench, **offer: str) -> None:
    """A node, a claim without a volume, and a pod that asks for it."""
    on.add_node()
    put_class(on, **offer)
    put_claim(on)
    on.add(asking(on))


def selected(on: bench.Bench) -> str:
    raw = on.store.get(CLAIMS, ("default", "data")).copy(CLAIMS)
    return str((raw["metadata"].get("annotations") or {}).get(SELECTED, ""))


async def test_the_pod_waits_until_its_volume_is_made_and_is_then_bound() -> None:
    async with bench.running() as on:
        wait_for_volume(on)
        await on.run(3.0)
        assert (selected(on), on.node_of()) == ("n1", "")
        put_volume(on)
        bind_claim(on)
        await on.run(2.0)
        assert on.node_of() == "n1"
        assert on.writes.count(WRITE_CLAIM) == 1
        assert on.widened == [objects.STORAGE]


def nominated(on: bench.Bench, name: str = "p") -> str | None:
    return on.pod(name)["status"].get("nominatedNodeName")


async def test_the_pod_says_during_the_wait_where_it_is_expected() -> None:
    async with bench.running() as on:
        wait_for_volume(on)
        await on.run(20.0)
        assert (nominated(on), on.node_of()) == ("n1", "")
        assert on.api.calls.count("PATCH pods/p/status") == 2  # the first said what it waits for
        uid = on.pod()["metadata"]["uid"]
        assert on.api.body("PATCH pods/p/status") == {
            "metadata": {"uid": uid}, "status": {"nominatedNodeName": "n1"}
        }  # fmt: skip
        put_volume(on)
        bind_claim(on)
        await on.run(2.0)
        assert (nominated(on), on.node_of()) == (None, "n1")


@pytest.mark.parametrize(
    ("call", "how"),
    [
        pytest.param("", {}, id="the volume could not be made"),
        pytest.param(BIND, {"status": 403}, id="the bind is refused"),
    ],
)
async def test_a_wait_that_comes_to_nothing_leaves_no_node_on_the_pod(
    call: str, how: dict[str, Any]
) -> None:
    async with bench.running() as on:
        wait_for_volume(on)
        await on.run(2.0)
        assert nominated(on) == "n1"
        if call:
            on.api.fail(call, errors.Forbidden("no", **how), times=99)
            put_volume(on)
            bind_claim(on)
        else:
            on.patch_node({"spec": {"unschedulable": True}})
            annotate(on, None)
        await on.run(1.5)
        assert nominated(on) is None
        assert on.node_of() == ""


async def test_what_the_pod_was_promised_before_the_wait_stays_on_it() -> None:
    async with bench.running() as on:
        wait_for_volume(on)
        on.store.patch(
            "pods", ("default", "p"), orjson.dumps({"status": {"nominatedNodeName": "n1"}}),
            subresource="status",
        )  # fmt: skip
        await on.run(2.0)
        on.patch_node({"spec": {"unschedulable": True}})
        annotate(on, None)
        await on.run(1.5)
        assert nominated(on) == "n1"


async def test_a_node_that_cannot_be_named_holds_nothing_up() -> None:
    async with bench.running() as on:
        wait_for_volume(on)
        on.api.fail("PATCH pods/p/status", errors.Forbidden("no", status=403), times=99)
        await on.run(2.0)
        put_volume(on)
        bind_claim(on)
        await on.run(2.0)
        assert on.node_of() == "n1"


async def test_a_plain_pod_needs_no_more_watches() -> None:
    async with bench.running() as on:
        on.add_node()
        on.add(on.ask())
        await on.run()
        assert (on.node_of(), on.widened) == ("n1", [])


async def test_many_waits_hold_no_worker() -> None:
    async with bench.running(bind_workers=1) as on:
        on.add_node(cards=2)
        put_class(on)
        put_claim(on)
        on.add(asking(on))
        await on.run(2.0)
        on.add(on.ask("q"))
        await on.run(1.0)
        assert (on.node_of(), on.node_of("q")) == ("", "n1")


async def test_a_volume_that_is_there_is_given_to_the_claim() -> None:
    async with bench.running() as on:
        on.add_node()
        put_class(on, provisioner="kubernetes.io/no-provisioner")
        put_claim(on)
        put_volume(on)
        on.add(asking(on))
        await on.run(2.0)
        raw = on.store.get(VOLUMES, ("", "disk")).copy(VOLUMES)
        ref = raw["spec"]["claimRef"]
        assert (ref["kind"], ref["namespace"], ref["name"]) == (
            "PersistentVolumeClaim", "default", "data"
        )  # fmt: skip
        assert raw["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}
        bind_claim(on)
        await on.run(2.0)
        assert on.node_of() == "n1"


async def test_a_volume_that_could_not_be_made_sends_the_pod_back() -> None:
    async with bench.running() as on:
        wait_for_volume(on)
        await on.run(2.0)
        annotate(on, None)
        await on.run(1.0)
        assert on.notes("FailedScheduling")[-1] == (
            "no volume could be made for persistentvolumeclaim 'data' on the node"
        )
        assert on.entry() is None
        await on.run(15.0)
        assert selected(on) == "n1", "it is tried again"


async def test_the_wait_ends_and_the_cards_are_free_again() -> None:
    async with bench.running() as on:
        wait_for_volume(on)
        await on.run(595.0)
        assert on.entry() is not None
        await on.run(8.0)
        assert on.notes("FailedScheduling")[-1] == (
            "the pod's volumes were not bound within 600 s"
        )


async def test_a_pod_that_goes_ends_its_wait() -> None:
    async with bench.running() as on:
        wait_for_volume(on)
        await on.run(2.0)
        on.delete_pod("p")
        await on.run(2.0)
        assert len(on.world.ledger) == 0
        assert not [task for task in on.running_tasks() if task.startswith("bind")]


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(errors.Conflict("changed", status=409), id="somebody changed the claim"),
        pytest.param(errors.Forbidden("no", status=403), id="it may not be written"),
        pytest.param(errors.NotFound("gone", status=404), id="it is gone"),
        pytest.param(errors.Fenced("leadership ends"), id="we lead no more"),
    ],
)
async def test_a_claim_that_cannot_be_written_sends_the_pod_back(error: Exception) -> None:
    async with bench.running() as on:
        on.add_node()
        put_class(on)
        put_claim(on)
        on.api.fail(WRITE_CLAIM, error)
        on.add(asking(on))
        await on.run(0.5)
        assert (on.entry(), on.node_of()) == (None, "")
        await on.run(15.0)
        assert selected(on) == "n1", "it is tried again"


# ---- claims of devices


def put_devices(on: bench.Bench, *users: dict[str, str], allocated: bool = True) -> None:
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]
    status: dict[str, Any] = {"allocation": {}} if allocated else {}
    put(
        on,
        DEVICES,
        "cards",
        "default",
        spec={"devices": {"requests": requests}},
        status=status | {"reservedFor": list(users)},
    )
    put(on, "deviceclasses.resource.k8s.io", "gpu", spec={})


def sharing(on: bench.Bench) -> builders.PodBuilder:
    entry = {"name": "r", "resourceClaimName": "cards"}
    return on.ask().append("spec.resourceClaims", entry)


def users(on: bench.Bench) -> list[str]:
    raw = on.store.get(DEVICES, ("default", "cards")).copy(DEVICES)
    return [user["name"] for user in raw["status"].get("reservedFor") or ()]


OTHER = {"resource": "pods", "name": "other", "uid": "uid-other"}


async def test_a_place_in_the_claim_is_taken_before_the_bind() -> None:
    async with bench.running() as on:
        on.add_node()
        put_devices(on, OTHER)
        on.add(sharing(on))
        await on.run(1.0)
        assert (on.node_of(), users(on)) == ("n1", ["other", "p"])
        assert on.api.calls.index("PATCH resourceclaims/cards/status") < on.api.calls.index(BIND)


async def test_a_claim_without_devices_makes_the_pod_wait() -> None:
    async with bench.running() as on:
        on.add_node()
        put_devices(on, allocated=False)
        on.add(sharing(on))
        await on.run(1.0)
        assert on.notes("FailedScheduling")[-1].startswith(
            "0/1 nodes are available: 1 cannot allocate all claims."
        )


async def test_the_place_is_given_back_when_the_bind_fails() -> None:
    async with bench.running() as on:
        on.add_node()
        put_devices(on, OTHER)
        on.api.fail(BIND, errors.Forbidden("no", status=403))
        on.add(sharing(on))
        await on.run(0.5)
        assert (on.node_of(), users(on)) == ("", ["other"])
        await on.run(15.0)
        assert (on.node_of(), users(on)) == ("n1", ["other", "p"])


async def test_somebody_else_may_change_the_claim_meanwhile() -> None:
    async with bench.running() as on:
        on.add_node()
        put_devices(on)

        def join() -> None:
            body = orjson.dumps({"status": {"reservedFor": [OTHER]}})
            on.store.patch(DEVICES, ("default", "cards"), body, subresource="status")

        on.api.meanwhile("PATCH resourceclaims/cards/status", join)
        on.add(sharing(on))
        await on.run(1.0)
        assert (on.node_of(), users(on)) == ("n1", ["other", "p"])
