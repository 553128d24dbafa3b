"""Command lines and small files of the servers; starts nothing."""

import contextlib
import random
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

HOST = "127.0.0.1"
SERVICE_CIDR = "10.0.0.0/24"


@dataclass(frozen=True, kw_only=True, slots=True)
class Ports:
    """Ports on 127.0.0.1, one per listener."""

    etcd_clients: int
    etcd_peers: int
    apiserver: int
    controller_manager: int
    scheduler: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """What a test may want different about the API server."""

    audit_level: str = "Metadata"
    """None, Metadata, Request (with the sent objects) or RequestResponse."""
    service_account_admission: bool = False
    """Whether a pod needs its ServiceAccount to exist, which takes the controller manager."""
    max_requests_inflight: int | None = None
    max_mutating_requests_inflight: int | None = None
    apiserver_arguments: Sequence[str] = ()
    """Further arguments, last so that they win."""


def free_ports() -> Ports:
    """Choose free ports below the range that the kernel hands to outgoing connections."""
    with contextlib.ExitStack() as held:
        numbers = [_hold_free_port(held) for _ in range(5)]
    return Ports(
        etcd_clients=numbers[0],
        etcd_peers=numbers[1],
        apiserver=numbers[2],
        controller_manager=numbers[3],
        scheduler=numbers[4],
    )


def _hold_free_port(held: contextlib.ExitStack) -> int:
    for _ in range(1000):
        port = random.randrange(20_000, 32_000)
        candidate = socket.socket()
        try:
            candidate.bind((HOST, port))
        except OSError:
            candidate.close()
        else:
            held.enter_context(candidate)
            return port
    raise OSError(f"no free port on {HOST} after 1000 tries")


def etcd(*, ports: Ports, data_dir: Path) -> list[str]:
    """Return etcd's arguments: one member that does not wait for the disk."""
    clients, peers = (f"http://{HOST}:{port}" for port in (ports.etcd_clients, ports.etcd_peers))
    return [
        f"--data-dir={data_dir}",
        f"--listen-client-urls={clients}",
        f"--advertise-client-urls={clients}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        "--unsafe-no-fsync",
    ]


def apiserver(
    *,
    ports: Ports,
    cert_dir: Path,
    token_file: Path,
    audit_policy: Path,
    audit_log: Path,
    options: Options,
) -> list[str]:
    """Return kube-apiserver's arguments: RBAC, static admin token, audit log, its own key pair.

    The server makes a self-signed certificate in `cert_dir` before it reads the key for
    ServiceAccount tokens, so that the same RSA pair serves both and nobody else need make one.
    """
    key = cert_dir / "apiserver.key"
    arguments = [
        f"--etcd-servers=http://{HOST}:{ports.etcd_clients}",
        f"--bind-address={HOST}",
        f"--advertise-address={HOST}",
        # A loopback address is no valid endpoint of the Service `kubernetes`.
        "--endpoint-reconciler-type=none",
        f"--secure-port={ports.apiserver}",
        f"--cert-dir={cert_dir}",
        f"--service-account-issuer=https://{HOST}:{ports.apiserver}",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        f"--token-auth-file={token_file}",
        "--authorization-mode=RBAC",
        f"--service-cluster-ip-range={SERVICE_CIDR}",
        f"--audit-policy-file={audit_policy}",
        f"--audit-log-path={audit_log}",
        # Never rotate: who counts requests reads one file.
        "--audit-log-maxsize=100000",
    ]
    return [*arguments, *_options(options)]


def _options(options: Options) -> list[str]:
    found = []
    if not options.service_account_admission:
        found.append("--disable-admission-plugins=ServiceAccount")
    if options.max_requests_inflight is not None:
        found.append(f"--max-requests-inflight={options.max_requests_inflight}")
    if options.max_mutating_requests_inflight is not None:
        found.append(f"--max-mutating-requests-inflight={options.max_mutating_requests_inflight}")
    return [*found, *options.apiserver_arguments]


def controller_manager(*, port: int, kubeconfig: Path, cert_dir: Path) -> list[str]:
    """Return kube-controller-manager's arguments; the token controller signs with our key."""
    return [
        *_client_of_apiserver(port=port, kubeconfig=kubeconfig, cert_dir=cert_dir),
        f"--root-ca-file={cert_dir / 'apiserver.crt'}",
        f"--service-account-private-key-file={cert_dir / 'apiserver.key'}",
    ]


def scheduler(*, port: int, kubeconfig: Path, cert_dir: Path) -> list[str]:
    """Return kube-scheduler's arguments: the default profile `default-scheduler`."""
    return _client_of_apiserver(port=port, kubeconfig=kubeconfig, cert_dir=cert_dir)


def _client_of_apiserver(*, port: int, kubeconfig: Path, cert_dir: Path) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}",
        f"--bind-address={HOST}",
        f"--secure-port={port}",
        f"--cert-dir={cert_dir}",
        "--leader-elect=false",
    ]


def audit_policy(level: str) -> str:
    """Return a policy that logs every finished request at this level, and watches at their start.

    The server's own requests stay out: they would drown everybody else's.
    """
    own: dict[str, Any] = {"level": "None", "users": ["system:apiserver"]}
    return yaml.safe_dump(
        {
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [own, {"level": level}],
        }
    )


def kubeconfig(*, url: str, ca_file: Path, token: str) -> str:
    """Return a kubeconfig with one cluster, one user and one context."""
    user = {"name": "user", "user": {"token": token}}
    cluster = {"server": url, "certificate-authority": str(ca_file)}
    context = {"cluster": "tests", "user": "user"}
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "tests", "cluster": cluster}],
            "users": [user],
            "contexts": [{"name": "tests", "context": context}],
            "current-context": "tests",
        }
    )
