"""The shipped manifests: equal to their sources, and accepted by API servers."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
import yaml

import hami_operator
from tests.conformance import servers
from tests.conformance.cluster import SCHEDULER
from tests.controlplane import cluster as controlplane
from tests.controlplane import toolchain

Document = dict[str, Any]


def find(kind: str, name: str = servers.ACCOUNT) -> Document:
    (found,) = (
        one for one in servers.shipped() if (one["kind"], one["metadata"]["name"]) == (kind, name)
    )
    return found


def kustomized() -> list[Document]:
    command = [str(toolchain.kubectl()), "kustomize", str(servers.MANIFESTS)]
    run = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return list(yaml.safe_load_all(run.stdout))


def test_the_rendered_manifests_are_those_of_their_sources() -> None:
    assert servers.shipped() == kustomized()


def test_the_image_has_the_version_of_the_package() -> None:
    (container,) = find("Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"hami-operator:{hami_operator.__version__}"


def test_the_settings_in_the_config_map_are_settings() -> None:
    from hami_operator import settings

    given = yaml.safe_load(find("ConfigMap")["data"]["config.yaml"])
    assert settings.load(given).scheduler_name == SCHEDULER


@pytest.mark.e2e
def test_a_real_server_accepts_the_manifests_without_a_warning(
    control_plane: controlplane.ControlPlane,
) -> None:
    path = servers.MANIFESTS / "install.yaml"
    control_plane.kubectl("apply", f"--filename={path}")
    control_plane.kubectl("apply", f"--filename={path}", "--warnings-as-errors")
    assert control_plane.kubectl("diff", f"--filename={path}") == ""


@pytest.mark.e2e
def test_the_operators_own_pod_meets_the_restricted_pod_security_of_its_namespace(
    control_plane: controlplane.ControlPlane,
) -> None:
    control_plane.kubectl("apply", f"--filename={servers.MANIFESTS / 'install.yaml'}")
    template = find("Deployment")["spec"]["template"]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**template["metadata"], "name": "try", "namespace": servers.NAMESPACE},
        "spec": template["spec"],
    }
    create = ("create", "--dry-run=server", "--warnings-as-errors", "--filename=-")
    control_plane.kubectl(*create, input=yaml.safe_dump(pod))
    pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    with pytest.raises(controlplane.KubectlError, match='violates PodSecurity "restricted'):
        control_plane.kubectl(*create, input=yaml.safe_dump(pod))
