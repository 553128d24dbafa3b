"""The facts that the design rests on hold on the real API server; the servers do their work."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import api_facts
from tests.conformance.api import Api
from tests.controlplane import build, cluster, commands


@pytest.mark.parametrize("fact", api_facts.FACTS, ids=api_facts.sentence)
async def test_the_real_server_keeps_the_fact(fact: api_facts.Fact, api: Api) -> None:
    await fact(api)


async def test_the_server_knows_its_version(api: Api) -> None:
    _, found = await api.get("/version")
    assert found["gitVersion"] == build.version(build.KUBERNETES_MODULE)


async def test_a_service_account_may_do_what_its_role_says_and_no_more(
    control_plane: cluster.ControlPlane, api: Api
) -> None:
    name = api_facts.fresh_name("reader")
    control_plane.kubectl("create", "serviceaccount", name)
    control_plane.kubectl("create", "clusterrole", name, "--verb=list", "--resource=nodes")
    control_plane.kubectl(
        "create", "clusterrolebinding", name,
        f"--clusterrole={name}", f"--serviceaccount=default:{name}",
    )  # fmt: skip
    token = control_plane.service_account_token("default", name)
    headers = {"Authorization": f"Bearer {token}"}
    async with Api(control_plane.url, headers=headers, ssl=control_plane.ssl_context()) as reader:
        allowed, _ = await reader.get("/api/v1/nodes")
        refused, _ = await reader.get(api_facts.PODS)
    assert (allowed, refused) == (200, 403)


async def test_every_request_is_audited_with_its_user_and_object(
    control_plane: cluster.ControlPlane, api: Api
) -> None:
    async with api_facts.new_pod(api) as pod:
        await api_facts.bind(api, pod)
        name = pod["metadata"]["name"]

        def verbs() -> list[tuple[str, str]]:
            return [
                (event["verb"], event["objectRef"].get("subresource", ""))
                for event in control_plane.audit_events()
                if event["user"]["username"] == "admin"
                and event.get("objectRef", {}).get("name") == name
            ]

        wait_for(lambda: len(verbs()) == 2)
        assert verbs() == [("create", ""), ("create", "binding")]


def test_the_kubeconfig_of_a_service_account_works_for_kubectl(
    control_plane: cluster.ControlPlane, tmp_path: Path
) -> None:
    name = api_facts.fresh_name("somebody")
    control_plane.kubectl("create", "serviceaccount", name)
    token = control_plane.service_account_token("default", name)
    path = control_plane.write_kubeconfig(tmp_path / "kubeconfig", token)
    user = "--output=jsonpath={.status.userInfo.username}"
    assert path.stat().st_mode & 0o777 == 0o600
    assert (
        control_plane.kubectl("auth", "whoami", f"--kubeconfig={path}", user)
        == f"system:serviceaccount:default:{name}"
    )


def test_kubectl_tells_why_it_failed(control_plane: cluster.ControlPlane) -> None:
    with pytest.raises(cluster.KubectlError, match='pods "missing" not found'):
        control_plane.kubectl("get", "pod", "missing")


def test_an_api_server_that_was_stopped_comes_back_with_its_objects(
    built_control_plane: Path,
) -> None:
    with cluster.ControlPlane() as own:
        own.kubectl("create", "configmap", "kept")
        own.stop_apiserver()
        with pytest.raises(cluster.KubectlError, match="refused"):
            own.kubectl("get", "configmap", "kept")
        own.start_apiserver()
        assert own.kubectl("get", "configmap", "kept", "--output=name") == "configmap/kept\n"


DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: app}
spec:
  selector: {matchLabels: {app: app}}
  template:
    metadata: {labels: {app: app}}
    spec: {containers: [{name: a, image: none}]}
"""
NODE = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status:
  allocatable: {cpu: "4", memory: 8Gi, pods: "10"}
  conditions: [{type: Ready, status: "True", reason: Test, message: ""}]
"""


def test_the_controller_manager_makes_a_pod_and_the_scheduler_binds_it(
    built_control_plane: Path,
) -> None:
    options = commands.Options(service_account_admission=True)
    with cluster.ControlPlane(options=options) as own:
        own.start_controller_manager("--controllers=*,-node-lifecycle-controller")
        own.start_scheduler()
        own.kubectl("create", "--filename=-", input=NODE)
        own.kubectl("create", "--filename=-", input=DEPLOYMENT)
        # Without the node lifecycle controller nobody takes this taint off a new node.
        own.kubectl("taint", "node", "n1", "node.kubernetes.io/not-ready-")
        where = "--output=jsonpath={.items[*].spec.nodeName}"
        wait_for(lambda: own.kubectl("get", "pods", where) == "n1")


def wait_for(condition: Callable[[], Any], *, timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not hold in time"
        time.sleep(0.1)
