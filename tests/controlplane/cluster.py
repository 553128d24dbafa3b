"""A running control plane: real servers, real storage, real RBAC, gone after the `with` block."""

import json
import secrets
import shutil
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.controlplane import build, commands, process, toolchain

READY_TIMEOUT_S = 120.0
KUBECTL_TIMEOUT_S = 60.0
POLL_S = 0.1


class KubectlError(Exception):
    """kubectl said no; the message is the command and what it wrote to stderr."""


class ControlPlane:
    """etcd and kube-apiserver on free ports of 127.0.0.1, with an admin token.

    The servers die with the thread that entered the block. Their files are in `directory`, which
    is removed after a clean block and kept when an exception leaves it, for its logs.
    """

    def __init__(self, *, options: commands.Options | None = None) -> None:
        self.options = options or commands.Options()
        self.ports = commands.free_ports()
        self.admin_token = secrets.token_hex(16)
        self.directory = Path(tempfile.mkdtemp(prefix="control-plane-"))
        self._running: dict[str, process.Process] = {}

    # ---- where it is -----------------------------------------------------------------------

    @property
    def url(self) -> str:
        """Base URL of the API server."""
        return f"https://{commands.HOST}:{self.ports.apiserver}"

    @property
    def ca_file(self) -> Path:
        """Certificate that proves the API server."""
        return self._cert_dir / "apiserver.crt"

    @property
    def kubeconfig_path(self) -> Path:
        """Kubeconfig of the admin."""
        return self.directory / "admin.kubeconfig"

    @property
    def audit_log(self) -> Path:
        """File with one JSON object per request."""
        return self.directory / "audit.jsonl"

    def ssl_context(self) -> ssl.SSLContext:
        """Return a context that trusts this API server and nobody else."""
        return ssl.create_default_context(cafile=self.ca_file)

    # ---- life ------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self._stop_all()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop_all()
        if error is None:
            shutil.rmtree(self.directory, ignore_errors=True)
        else:
            process.report(f"logs are kept in {self.directory}")

    def start(self) -> None:
        """Build what is missing, start etcd and the API server and wait until it serves.

        Raises:
            ProcessError: a server ended, or was not ready in time; with the end of its log.
        """
        build.ensure()
        self._cert_dir.mkdir(exist_ok=True)
        self._token_file.write_text(f'{self.admin_token},admin,admin,"system:masters"\n')
        self._audit_policy.write_text(commands.audit_policy(self.options.audit_level))
        self.write_kubeconfig(self.kubeconfig_path, self.admin_token)
        self._launch("etcd", commands.etcd(ports=self.ports, data_dir=self.directory / "etcd"))
        self.start_apiserver()

    def start_apiserver(self) -> None:
        """Start the API server (again, after `stop_apiserver`: same port, keys and storage)."""
        arguments = commands.apiserver(
            ports=self.ports,
            cert_dir=self._cert_dir,
            token_file=self._token_file,
            audit_policy=self._audit_policy,
            audit_log=self.audit_log,
            options=self.options,
        )
        self._launch("kube-apiserver", arguments)
        self._wait("kube-apiserver", f"{self.url}/readyz", self.ca_file)
        # Pods can be created as soon as this namespace is there, a moment after readiness.
        self._wait("kube-apiserver", f"{self.url}/api/v1/namespaces/default", self.ca_file)

    def stop_apiserver(self) -> None:
        """Stop the API server, as in an outage; etcd keeps its data."""
        self._stop("kube-apiserver")

    def start_controller_manager(self, *arguments: str) -> None:
        """Start kube-controller-manager and wait until it is healthy.

        Its node lifecycle controller taints and empties nodes that send no leases: tests with
        nodes of longer life than 40 s pass `--controllers=*,-node-lifecycle-controller`.
        """
        port = self.ports.controller_manager
        made = commands.controller_manager(
            port=port, kubeconfig=self.kubeconfig_path, cert_dir=self._cert_dir
        )
        self._start_client("kube-controller-manager", [*made, *arguments], port=port)

    def start_scheduler(self, *arguments: str) -> None:
        """Start kube-scheduler and wait until it is healthy."""
        port = self.ports.scheduler
        made = commands.scheduler(
            port=port, kubeconfig=self.kubeconfig_path, cert_dir=self._cert_dir
        )
        self._start_client("kube-scheduler", [*made, *arguments], port=port)

    def pid(self, name: str) -> int:
        """Return the process id of a running server, such as `etcd`, to measure its CPU time."""
        return self._running[name].pid

    # ---- use -------------------------------------------------------------------------------

    def audit_events(self) -> list[dict[str, Any]]:
        """Return the audit events so far, oldest first.

        An answer may reach its client a moment before its event reaches the file: wait for a
        count, never read once.
        """
        if not self.audit_log.exists():
            return []
        lines = self.audit_log.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def kubectl(self, *arguments: str, input: str | None = None) -> str:
        """Run kubectl as the admin and return what it printed.

        Raises:
            KubectlError: it failed.
        """
        command = [str(toolchain.kubectl()), f"--kubeconfig={self.kubeconfig_path}", *arguments]
        run = subprocess.run(
            command,
            input=input,
            capture_output=True,
            text=True,
            timeout=KUBECTL_TIMEOUT_S,
            check=False,
        )
        if run.returncode != 0:
            raise KubectlError(f"kubectl {' '.join(arguments)}: {run.stderr.strip()}")
        return run.stdout

    def service_account_token(self, namespace: str, name: str) -> str:
        """Return a token of an existing ServiceAccount, made by the TokenRequest API."""
        return self.kubectl("create", "token", name, f"--namespace={namespace}").strip()

    def write_kubeconfig(self, path: Path, token: str) -> Path:
        """Write a kubeconfig for the owner of this token and return its path."""
        text = commands.kubeconfig(url=self.url, ca_file=self.ca_file, token=token)
        path.touch(mode=0o600)
        path.write_text(text)
        return path

    # ---- inside ----------------------------------------------------------------------------

    @property
    def _cert_dir(self) -> Path:
        return self.directory / "certificates"

    @property
    def _token_file(self) -> Path:
        return self.directory / "tokens.csv"

    @property
    def _audit_policy(self) -> Path:
        return self.directory / "audit-policy.yaml"

    def _start_client(self, name: str, arguments: list[str], *, port: int) -> None:
        self._launch(name, arguments)
        certificate = self._cert_dir / f"{name}.crt"
        self._wait(name, f"https://{commands.HOST}:{port}/healthz", certificate)

    def _launch(self, name: str, arguments: list[str]) -> None:
        if name in self._running:
            raise ValueError(f"{name} is already running")
        binary = build.ensure((name,)) / name
        log_path = self.directory / f"{name}.log"
        self._running[name] = process.Process(name, [binary, *arguments], log_path=log_path)

    def _stop(self, name: str) -> None:
        server = self._running.pop(name, None)
        if server is not None:
            server.stop()

    def _stop_all(self) -> None:
        for name in reversed(list(self._running)):
            self._stop(name)

    def _wait(self, name: str, url: str, certificate: Path) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_S
        answer = "no answer"
        while answer != "200":
            ended = [server for server in self._running.values() if server.exit_code() is not None]
            for server in ended:
                raise server.failure(f"ended with exit code {server.exit_code()}")
            if time.monotonic() > deadline:
                text = f"was not ready within {READY_TIMEOUT_S:.0f} s ({url}: {answer})"
                raise self._running[name].failure(text)
            time.sleep(POLL_S)
            answer = _status(url, certificate=certificate, token=self.admin_token)


def _status(url: str, *, certificate: Path, token: str) -> str:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    try:
        context = ssl.create_default_context(cafile=certificate)
        with urllib.request.urlopen(request, context=context, timeout=5) as answer:
            return str(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return str(error.code)
    except OSError as error:
        return str(error)
