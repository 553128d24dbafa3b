"""The shipped webhook on a real API server: its objects, its rights, and whom it concerns."""

from __future__ import annotations

import base64
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509

from hami_operator.cli import main, policies
from hami_operator.devices import registry
from tests.controlplane import cluster, toolchain
from tests.e2e.test_control_plane import wait_for

ROOT = Path(__file__).parents[2]
WEBHOOK = ROOT / "manifests" / "webhook"
NAMES = ["hami-operator-webhook.hami-system.svc"]
NAMES += ["hami-operator-webhook.hami-system.svc.cluster.local"]
POD = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  {where}: [{{name: c, image: none, resources: {{limits: {{{limits}}}}}}}]
  {more}
"""
PLAIN = "containers: [{name: d, image: none}]"


def rendered(folder: Path, *components: str) -> list[dict[str, Any]]:
    """What somebody's kustomization with these components gives."""

    def near(path: Path) -> str:
        return os.path.relpath(path, folder)

    text = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [near(ROOT / "manifests")],
        "components": [near(WEBHOOK / name) for name in components],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(text))
    command = [str(toolchain.kubectl()), "kustomize", str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return list(yaml.safe_load_all(done.stdout))


def one(objects: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    (found,) = [
        each for each in objects if (each["kind"], each["metadata"]["name"]) == (kind, name)
    ]
    return found


@pytest.fixture(scope="module")
def own(built_control_plane: Path) -> Iterator[cluster.ControlPlane]:
    """A control plane of these tests' own: their webhook concerns all pods."""
    with cluster.ControlPlane() as running:
        yield running


@pytest.mark.parametrize("way", ["self-made", "cert-manager"])
def test_every_part_is_in_the_operators_namespace_and_shares_its_image(
    way: str, tmp_path: Path
) -> None:
    objects = rendered(tmp_path, way)
    for each in objects:
        cluster_wide = each["kind"].startswith(("Cluster", "Mutating", "Namespace"))
        want = None if cluster_wide else "hami-system"
        assert each["metadata"].get("namespace") == want, each["metadata"]["name"]
        assert each["metadata"]["labels"]["app.kubernetes.io/part-of"] == "hami-operator"
    deployment = one(objects, "Deployment", "hami-operator")
    containers = deployment["spec"]["template"]["spec"]["containers"]
    assert len({each["image"] for each in containers}) == 1
    assert all(":" in each["image"] for each in containers)
    (mount,) = [
        each for each in containers[0]["volumeMounts"] if each["name"] == "webhook-certificate"
    ]
    env = {each["name"]: each.get("value", "") for each in containers[0]["env"]}
    assert env["HAMI_OPERATOR_CERT_FILE"] == f"{mount['mountPath']}/tls.crt"
    assert env["HAMI_OPERATOR_KEY_FILE"] == f"{mount['mountPath']}/tls.key"
    service = one(objects, "Service", "hami-operator-webhook")
    (port,) = service["spec"]["ports"]
    ports = {each["name"]: each["containerPort"] for each in containers[0]["ports"]}
    assert (port["port"], ports[port["targetPort"]]) == (443, 8443)
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()


def test_the_certificate_of_cert_manager_has_the_names_of_the_service(tmp_path: Path) -> None:
    objects = rendered(tmp_path, "cert-manager")
    certificate = one(objects, "Certificate", "hami-operator-webhook")
    assert certificate["spec"]["dnsNames"] == NAMES
    configuration = one(objects, "MutatingWebhookConfiguration", "hami-operator")
    key = "cert-manager.io/inject-ca-from"
    assert configuration["metadata"]["annotations"][key] == "hami-system/hami-operator-webhook"


def test_the_operators_account_may_keep_its_certificate_and_no_more(
    own: cluster.ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    objects = rendered(tmp_path, "self-made")
    own.kubectl("apply", "--filename=-", input=yaml.safe_dump_all(objects))
    deployment = one(objects, "Deployment", "hami-operator")
    (certs,) = [
        each
        for each in deployment["spec"]["template"]["spec"]["containers"]
        if each["name"] == "webhook-certs"
    ]
    arguments = [each for each in certs["args"] if not each.startswith(("--dir", "--interval"))]
    token = own.service_account_token("hami-system", "hami-operator")
    kubeconfig = own.write_kubeconfig(tmp_path / "kubeconfig", token)
    flags = [f"--kubeconfig={kubeconfig}", f"--dir={tmp_path / 'tls'}", "--namespace=hami-system"]
    assert main.main([*arguments, *flags]) == 0
    out = capsys.readouterr().out
    assert "kept in Secret hami-operator-webhook" in out
    assert "MutatingWebhookConfiguration hami-operator trusts it" in out
    assert main.main([*arguments, *flags]) == 0
    assert capsys.readouterr().out == "nothing to do\n"
    where = "--output=jsonpath={.webhooks[0].clientConfig.caBundle}"
    bundle = own.kubectl("get", "mutatingwebhookconfiguration", "hami-operator", where)
    assert base64.b64decode(bundle) == (tmp_path / "tls" / "ca.crt").read_bytes()
    found = x509.load_pem_x509_certificate((tmp_path / "tls" / "tls.crt").read_bytes())
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == NAMES
    own.kubectl("apply", "--filename=-", input=yaml.safe_dump_all(objects))
    assert own.kubectl("get", "mutatingwebhookconfiguration", "hami-operator", where) == bundle
    assert main.main([*arguments, *flags]) == 0
    assert capsys.readouterr().out == "nothing to do\n", "a second apply takes nothing away"
    for verb, what in (("create", "secrets"), ("get", "secrets"), ("list", "secrets")):
        asked = ["auth", "can-i", verb, what, f"--kubeconfig={kubeconfig}", "-n=hami-system"]
        with pytest.raises(cluster.KubectlError):
            own.kubectl(*asked)
    own.kubectl("delete", "mutatingwebhookconfiguration", "hami-operator")


PODS = {
    "a card": ("containers", 'nvidia.com/gpu: "1"', "", False),
    "memory alone": ("containers", 'nvidia.com/gpumem: "1000"', "", False),
    "another vendor's": ("containers", 'hygon.com/hcunum: "1"', "", False),
    "a card for an init container": ("initContainers", 'nvidia.com/gpu: "1"', PLAIN, False),
    "none": ("containers", "cpu: 100m", "", True),
    "nothing at all": ("containers", "", "", True),
    "what is not ours": ("containers", 'example.com/gpu: "1"', "", True),
}


def test_with_fail_only_pods_that_name_our_resources_depend_on_us(
    own: cluster.ControlPlane, tmp_path: Path
) -> None:
    objects = rendered(tmp_path, "self-made", "fail")
    configuration = one(objects, "MutatingWebhookConfiguration", "hami-operator")
    own.kubectl("apply", "--filename=-", input=yaml.safe_dump(configuration))
    card = POD.format(name="probe", where="containers", limits='nvidia.com/gpu: "1"', more="")

    def refused(body: str) -> bool:
        try:
            own.kubectl("create", "--dry-run=server", "--filename=-", input=body)
        except cluster.KubectlError as error:
            if 'failed calling webhook "pods.hami.io"' not in str(error):
                raise
            return True
        return False

    try:
        wait_for(lambda: refused(card))
        passed = {
            name: not refused(POD.format(name="p", where=where, limits=limits, more=more))
            for name, (where, limits, more, _) in PODS.items()
        }
        assert passed == {name: want for name, (*_, want) in PODS.items()}
    finally:
        own.kubectl("delete", "mutatingwebhookconfiguration", "hami-operator")


def test_the_match_condition_names_every_resource_of_every_type() -> None:
    file = WEBHOOK / "fail" / "configuration.yaml"
    assert file.read_text() == policies.text("fail", registry.default()), "run make manifests"
