"""The two API servers that the operator's suite runs against, behind one face.

Each knows an admin and the operator's ServiceAccount with the rights of the shipped manifests,
and keeps a record of every request, with its user.
"""

from __future__ import annotations

import dataclasses
import ssl
import subprocess
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import yaml

from hami_operator.cluster.memory import authorize, calls, routes, server
from tests.controlplane import cluster as controlplane
from tests.controlplane import commands, toolchain

NAMESPACE: Final = "hami-system"
ACCOUNT: Final = "hami-operator"
USER: Final = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
MANIFESTS: Final = Path(__file__).parents[2] / "manifests"
KUBECTL_TIMEOUT_S: Final = 120.0


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """One request, as RBAC sees it, and the answer's status."""

    user: str
    verb: str
    group: str
    resource: str
    namespace: str
    name: str
    status: int

    @property
    def words(self) -> str:
        """``verb resource``, e.g. ``create pods/binding``."""
        return f"{self.verb} {self.resource}"


class Server(Protocol):
    """What the suite needs of an API server.

    Attributes:
        url: where it listens.
        ssl: what its certificate is checked with; False for plain HTTP.
        admin_token: who may do everything.
        admin_kubeconfig: the same as a file, for kubectl and our own commands.
        account_token: the operator's ServiceAccount.
    """

    url: str
    ssl: ssl.SSLContext | bool
    admin_token: str
    admin_kubeconfig: Path
    account_token: str

    def write_kubeconfig(self, path: Path, *, url: str = "") -> Path:
        """A kubeconfig of the operator; through ``url`` where one is given."""
        ...

    def requests(self) -> list[Request]:
        """All requests so far, oldest first."""
        ...


class Memory:
    """The in-memory API server, with the shipped rules enforced."""

    admin_token = "admin"
    account_token = "operator"
    ssl: ssl.SSLContext | bool = False

    def __init__(self, api: server.ApiServer, folder: Path) -> None:
        self.api = api
        self.url = api.url
        self.admin_kubeconfig = folder / "admin.kubeconfig"
        self.admin_kubeconfig.write_text(kubeconfig(api.url, self.admin_token))

    @classmethod
    def made(cls) -> server.ApiServer:
        """The server itself, to be started by the caller."""
        account = authorize.service_account(shipped(), NAMESPACE, ACCOUNT)
        admin = authorize.ADMIN
        # kubectl sends no token over plain HTTP, so whoever shows none is the admin, too.
        subjects = {cls.admin_token: admin, "": admin, cls.account_token: account}
        return server.ApiServer(subjects=subjects)

    def write_kubeconfig(self, path: Path, *, url: str = "") -> Path:
        """See `Server`."""
        path.write_text(kubeconfig(url or self.url, self.account_token))
        return path

    def requests(self) -> list[Request]:
        """See `Server`."""
        return [made for call in self.api.requests if (made := _from_call(call)) is not None]


class Real:
    """etcd and kube-apiserver, after ``kubectl apply`` of the shipped manifests."""

    def __init__(self, running: controlplane.ControlPlane) -> None:
        self._running = running
        running.kubectl("apply", f"--filename={MANIFESTS / 'install.yaml'}")
        self.url = running.url
        self.ssl: ssl.SSLContext | bool = running.ssl_context()
        self.admin_token = running.admin_token
        self.admin_kubeconfig = running.kubeconfig_path
        self.account_token = running.service_account_token(NAMESPACE, ACCOUNT)

    def write_kubeconfig(self, path: Path, *, url: str = "") -> Path:
        """See `Server`."""
        if url:
            path.write_text(kubeconfig(url, self.account_token))
            return path
        return self._running.write_kubeconfig(path, self.account_token)

    def requests(self) -> list[Request]:
        """See `Server`; a request is in the file a moment after its answer."""
        return [
            made
            for event in self._running.audit_events()
            if (made := _from_audit(event)) is not None
        ]


def shipped() -> list[dict[str, Any]]:
    """The documents of the rendered manifests."""
    return list(yaml.safe_load_all((MANIFESTS / "install.yaml").read_text()))


def kubeconfig(url: str, token: str) -> str:
    """A kubeconfig for a server that speaks plain HTTP."""
    made: Mapping[str, Any] = yaml.safe_load(
        commands.kubeconfig(url=url, ca_file=Path(), token=token)
    )
    del made["clusters"][0]["cluster"]["certificate-authority"]
    return yaml.safe_dump(made)


def kubectl(of: Server, *arguments: str, given: str | None = None) -> str:
    """Run kubectl as the admin and return what it printed; fails the test where it fails."""
    command = [str(toolchain.kubectl()), f"--kubeconfig={of.admin_kubeconfig}", *arguments]
    run = subprocess.run(
        command,
        input=given,
        capture_output=True,
        text=True,
        timeout=KUBECTL_TIMEOUT_S,
        check=False,
    )
    assert run.returncode == 0, f"kubectl {' '.join(arguments)}: {run.stderr}"
    return run.stdout


def _from_call(call: calls.Call) -> Request | None:
    target = routes.parse(call.path)
    if target is None:
        return None
    access = authorize.Access.of(
        target, routes.verb(call.method, named=bool(target.name), watch=call.watches)
    )
    return Request(
        user=call.user,
        verb=access.verb,
        group=access.group,
        resource=access.resource,
        namespace=access.namespace,
        name=urllib.parse.unquote(access.name),
        status=call.status,
    )


def _from_audit(event: Mapping[str, Any]) -> Request | None:
    """A watch is noted when it starts, everything else when it ends."""
    subject = event.get("objectRef")
    starts = event["stage"] == "ResponseStarted"
    if subject is None or starts != (event["verb"] == "watch"):
        return None
    sub = subject.get("subresource")
    return Request(
        user=event["user"]["username"],
        verb=event["verb"],
        group=subject.get("apiGroup", ""),
        resource=subject["resource"] + (f"/{sub}" if sub else ""),
        namespace=subject.get("namespace", ""),
        name=subject.get("name", ""),
        status=event.get("responseStatus", {}).get("code", 0),
    )
