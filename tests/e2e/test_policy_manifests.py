"""The shipped admission policy on a real API server: who may write decisions, and who may not."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hami_operator.cli import policies
from hami_operator.devices import registry
from hami_operator.protocol import keys
from tests.conformance.api import Answer, Api
from tests.controlplane import cluster
from tests.e2e.test_control_plane import wait_for
from tests.e2e.test_webhook_manifests import ROOT, rendered

ROWS = registry.default()
PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
ALLOCATED = "hami.io/vgpu-devices-allocated"
REGISTER = "hami.io/node-nvidia-register"
SLICE = "GPU-A,NVIDIA,1000,0:;"
RULES = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: may-write}
rules:
- apiGroups: [""]
  resources: [pods, pods/status, pods/binding, pods/ephemeralcontainers, pods/resize, bindings]
  verbs: [get, create, update, patch, delete]
- apiGroups: [""]
  resources: [nodes, nodes/status]
  verbs: [get, create, update, patch]
"""


@pytest.fixture(scope="module")
def own(
    built_control_plane: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[cluster.ControlPlane]:
    """A control plane of these tests' own, since the policy concerns all pods."""
    objects = rendered(tmp_path_factory.mktemp("policy"), "../policy")
    with cluster.ControlPlane() as running:
        kubectl = running.kubectl
        kubectl("apply", "--filename=-", input=yaml.safe_dump_all(objects))
        kubectl("apply", "--filename=-", input=RULES)
        for name in ("tenant", "plugin"):
            kubectl("create", "serviceaccount", name)
            allow = ("--clusterrole=may-write", f"--serviceaccount=default:{name}")
            kubectl("create", "clusterrolebinding", name, *allow)
        # As the page on admission says: a plugin's account gets the role.
        granted = ("--clusterrole=hami-operator-device-plugins", "--serviceaccount=default:plugin")
        kubectl("create", "clusterrolebinding", "plugins", *granted)
        for node in ("n1", "n2"):
            body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}
            kubectl("create", "--filename=-", input=yaml.safe_dump(body))
            _place_plugin(running, node)
        wait_for(lambda: _in_force(running))
        yield running


def _place_plugin(running: cluster.ControlPlane, node: str) -> None:
    """A pod of the plugin's account on a node; a token bound to it names the node."""
    body = manifest(f"plugin-{node}", spec={"nodeName": node, "serviceAccountName": "plugin"})
    running.kubectl("create", "--filename=-", input=yaml.safe_dump(body))


def _in_force(running: cluster.ControlPlane) -> bool:
    """The server needs a moment to take both policies up; dry runs show it."""
    pod = manifest("probe", annotations={keys.BIND_PHASE: "allocating"})
    about = {"name": "probe", "annotations": {REGISTER: "x"}}
    for body in (pod, {"apiVersion": "v1", "kind": "Node", "metadata": about}):
        try:
            text = yaml.safe_dump(body)
            running.kubectl("create", "--dry-run=server", "--filename=-", input=text)
        except cluster.KubectlError:
            continue
        return False
    return True


def manifest(name: str = "", *, spec: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name or f"p-{uuid.uuid4().hex[:8]}", **meta},
        "spec": {"containers": [{"name": "a", "image": "none"}], **(spec or {})},
    }


@contextlib.asynccontextmanager
async def session(own: cluster.ControlPlane, token: str) -> AsyncIterator[Api]:
    headers = {"Authorization": f"Bearer {token}"}
    async with Api(own.url, headers=headers, ssl=own.ssl_context()) as api:
        yield api


@pytest.fixture
async def tenant(own: cluster.ControlPlane) -> AsyncIterator[Api]:
    async with session(own, own.service_account_token("default", "tenant")) as api:
        yield api


@pytest.fixture
async def operator(own: cluster.ControlPlane) -> AsyncIterator[Api]:
    async with session(own, own.service_account_token("hami-system", "hami-operator")) as api:
        yield api


@pytest.fixture
async def plugin(own: cluster.ControlPlane) -> AsyncIterator[Api]:
    """The device plugin of n1."""
    bound = ("--bound-object-kind=Pod", "--bound-object-name=plugin-n1")
    token = own.kubectl("create", "token", "plugin", *bound).strip()
    async with session(own, token) as api:
        yield api


def refused(answer: Answer, key: str) -> bool:
    status, body = answer
    return status == 403 and f"{key} is written by the scheduler" in body["message"]


async def made(api: Api, **meta: Any) -> str:
    """The path of a new pod."""
    body = manifest(**meta)
    status, answer = await api.post(PODS, body)
    assert status == 201, answer
    return f"{PODS}/{body['metadata']['name']}"


async def bound(operator: Api, tenant: Api, *, node: str = "n1") -> str:
    """The path of a pod that the operator has bound, decision and all."""
    path = await made(tenant)
    status, answer = await operator.post(f"{path}/binding", binding(path, node))
    assert status == 201, answer
    return path


def binding(path: str, node: str = "n1") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": path.rpartition("/")[2],
            "annotations": {ALLOCATED: SLICE, keys.VGPU_NODE: node},
            "labels": {keys.VGPU_NODE: node},
        },
        "target": {"kind": "Node", "name": node},
    }


def annotated(**values: Any) -> dict[str, Any]:
    return {"metadata": {"annotations": values}}


# ---- tenants


async def test_no_key_of_any_device_type_gets_into_a_new_pod(tenant: Api) -> None:
    passed = [
        key
        for key in sorted(ROWS.owned_pod_keys)
        if not refused(
            await tenant.post(PODS, manifest(annotations={key: "x"}), dryRun="All"), key
        )
    ]
    assert passed == []
    label = await tenant.post(PODS, manifest(labels={keys.VGPU_NODE: "n1"}))
    assert refused(label, f"label {keys.VGPU_NODE}")


@pytest.mark.parametrize("scheduler", ["hami-scheduler", "default-scheduler", "another"])
async def test_whatever_the_pods_scheduler_is(scheduler: str, tenant: Api) -> None:
    spec = {"schedulerName": scheduler}
    forged = manifest(spec=spec, annotations={keys.BIND_PHASE: "allocating"})
    assert refused(await tenant.post(PODS, forged), keys.BIND_PHASE)
    wish = {keys.GPU_POLICY: "binpack", "nvidia.com/use-gputype": "A100"}
    assert (await tenant.post(PODS, manifest(spec=spec, annotations=wish)))[0] == 201


CHANGES = {
    "one more": annotated(**{keys.BIND_TIME: "1"}),
    "another value": annotated(**{ALLOCATED: "GPU-A,NVIDIA,1,0:;"}),
    "an empty value": annotated(**{ALLOCATED: ""}),
    "a removal": annotated(**{ALLOCATED: None}),
    "all removed": {"metadata": {"annotations": None}},
    "the label": {"metadata": {"labels": {keys.VGPU_NODE: "n2"}}},
    "the label removed": {"metadata": {"labels": {keys.VGPU_NODE: None}}},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("where", ["", "/status"])
async def test_a_decision_is_not_edited(
    where: str, change: dict[str, Any], operator: Api, tenant: Api
) -> None:
    path = await bound(operator, tenant)
    before = (await tenant.get(path))[1]["metadata"]
    status, answer = await tenant.patch(f"{path}{where}", change)
    assert status == 403, answer
    assert (await tenant.get(path))[1]["metadata"] == before


async def test_a_decision_is_not_edited_by_way_of_other_subresources(
    operator: Api, tenant: Api
) -> None:
    path = await bound(operator, tenant)
    one = {"spec": {"ephemeralContainers": [{"name": "e", "image": "none"}]}}
    both = one | annotated(**{ALLOCATED: None})
    kind = "application/strategic-merge-patch+json"
    answer = await tenant.patch(f"{path}/ephemeralcontainers", both, content_type=kind)
    now = (await tenant.get(path))[1]
    assert refused(answer, ALLOCATED) or now["metadata"]["annotations"][ALLOCATED] == SLICE
    answer = await tenant.patch(f"{path}/ephemeralcontainers", one, content_type=kind)
    assert answer[0] == 200


@pytest.mark.parametrize(
    "place",
    [
        pytest.param("{path}/binding", id="binding of a pod"),
        pytest.param("/api/v1/namespaces/default/bindings", id="the older way to bind"),
    ],
)
async def test_a_binding_of_somebody_else_carries_no_decision(place: str, tenant: Api) -> None:
    path = await made(tenant)
    answer = await tenant.post(place.format(path=path), binding(path))
    assert refused(answer, ALLOCATED), answer
    plain = binding(path)
    plain["metadata"] = {"name": plain["metadata"]["name"], "annotations": {"a": "b"}}
    assert (await tenant.post(place.format(path=path), plain))[0] == 201


async def test_innocent_edits_of_a_pod_with_a_decision_pass(operator: Api, tenant: Api) -> None:
    path = await bound(operator, tenant)
    assert (await tenant.patch(path, annotated(note="a")))[0] == 200
    assert (await tenant.patch(path, {"metadata": {"labels": {"app": "b"}}}))[0] == 200
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    assert (await tenant.patch(f"{path}/status", ready))[0] == 200
    _, pod = await tenant.get(path)
    pod["metadata"]["annotations"]["note"] = "c"
    assert (await tenant.put(path, pod))[0] == 200
    assert (await tenant.delete(path))[0] == 200


async def test_what_a_node_tells_us_is_written_by_its_plugin_alone(tenant: Api) -> None:
    every = policies.node_keys(ROWS)
    passed = [
        key
        for key in sorted(every)
        if not refused(
            await tenant.patch(f"{NODES}/n1", annotated(**{key: "x"}), dryRun="All"), key
        )
    ]
    assert passed == []
    status = f"{NODES}/n1/status"
    assert refused(await tenant.patch(status, annotated(**{REGISTER: "x"})), REGISTER)
    assert (await tenant.patch(f"{NODES}/n1", annotated(**{keys.DEVICE_CORDON: "GPU-A"})))[
        0
    ] == 200


# ---- who may


async def test_the_operator_binds_undoes_and_asks(operator: Api, tenant: Api) -> None:
    path = await bound(operator, tenant)
    found = (await tenant.get(path))[1]["metadata"]
    assert found["annotations"] == {ALLOCATED: SLICE, keys.VGPU_NODE: "n1"}
    assert found["labels"] == {keys.VGPU_NODE: "n1"}
    waiting = await made(tenant)
    assert (await operator.patch(waiting, annotated(**{keys.BIND_PHASE: "allocating"})))[0] == 200
    assert (await operator.patch(waiting, annotated(**{keys.BIND_PHASE: None})))[0] == 200
    stamp = {"hami.io/node-handshake-mlu": "Requesting_", keys.NODE_LOCK: "t,ns,p"}
    assert (await operator.patch(f"{NODES}/n2", annotated(**stamp)))[0] == 200


async def test_a_device_plugin_serves_the_pods_of_its_node(
    operator: Api, tenant: Api, plugin: Api
) -> None:
    path = await bound(operator, tenant)
    served = annotated(**{"hami.io/vgpu-devices-to-allocate": ";", keys.BIND_PHASE: "success"})
    status, answer = await plugin.patch(path, served)
    assert status == 200, answer
    told = annotated(**{REGISTER: "[]", keys.NODE_LOCK: None})
    assert (await plugin.patch(f"{NODES}/n1", told))[0] == 200


async def test_a_device_plugin_has_no_say_elsewhere(
    operator: Api, tenant: Api, plugin: Api, own: cluster.ControlPlane
) -> None:
    served = annotated(**{keys.BIND_PHASE: "success"})
    other = await bound(operator, tenant, node="n2")
    assert refused(await plugin.patch(other, served), keys.BIND_PHASE)
    assert refused(await plugin.patch(await made(tenant), served), keys.BIND_PHASE)
    answer = await plugin.patch(f"{NODES}/n2", annotated(**{REGISTER: "[]"}))
    assert refused(answer, REGISTER)
    async with session(own, own.service_account_token("default", "plugin")) as nowhere:
        here = await bound(operator, tenant)
        assert refused(await nowhere.patch(here, served), keys.BIND_PHASE)


# ---- what is shipped


def test_the_policy_is_that_of_the_built_in_types() -> None:
    file = ROOT / "manifests" / "policy" / "policy.yaml"
    assert file.read_text() == policies.text("policy", ROWS), "run make manifests"


def test_the_server_finds_nothing_odd_about_the_policy(own: cluster.ControlPlane) -> None:
    own.start_controller_manager("--controllers=validatingadmissionpolicy-status-controller")
    checked = "--output=jsonpath={.items[*].status.observedGeneration}"
    wait_for(lambda: len(own.kubectl("get", "validatingadmissionpolicies", checked).split()) == 2)
    warnings = "--output=jsonpath={.items[*].status.typeChecking.expressionWarnings}"
    assert own.kubectl("get", "validatingadmissionpolicies", warnings) == ""
