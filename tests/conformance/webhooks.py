"""The operator's webhook, registered with an API server for the pods of one test."""

from __future__ import annotations

import base64
import contextlib
import datetime
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from hami_operator.server import authority
from tests import builders
from tests.conformance import operators
from tests.conformance.cluster import SCHEDULER, Cluster, eventually

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
HOST = "127.0.0.1"


def issue(folder: Path) -> authority.Issued:
    """A certificate for the webhook, in two files of the folder."""
    now = datetime.datetime.now(datetime.UTC)
    made = authority.issue([HOST], now=now, lifetime=datetime.timedelta(hours=1))
    (folder / "tls.crt").write_bytes(made.certificate)
    (folder / "tls.key").write_bytes(made.key)
    return made


def flags(folder: Path) -> tuple[str, ...]:
    return (
        f"--webhook-bind={HOST}:0",
        f"--cert-file={folder / 'tls.crt'}",
        f"--key-file={folder / 'tls.key'}",
    )


async def port(operator: operators.Operator) -> int:
    """Where the webhook listens: its line is the second of that kind."""
    await eventually(lambda: len(operator.said("serving")) == 2, "the webhook serves")
    return int(operator.said("serving")[1]["port"])


@contextlib.asynccontextmanager
async def registered(
    cluster: Cluster, number: int, issued: authority.Issued, **more: Any
) -> AsyncIterator[None]:
    """The API server calls us for pods of this test's namespace."""
    name = f"hami-{uuid.uuid4().hex[:6]}"
    webhook = {
        "name": "pods.hami.io",
        "admissionReviewVersions": ["v1", "v1beta1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "timeoutSeconds": 10,
        "clientConfig": {
            "url": f"https://{HOST}:{number}/webhook",
            "caBundle": base64.b64encode(issued.bundle).decode(),
        },
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["pods"],
            }
        ],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": cluster.namespace}},
        **more,
    }
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [webhook],
    }
    status, answer = await cluster.api.post(CONFIGURATIONS, body)
    assert status == 201, answer
    try:
        await in_force(cluster, more.get("failurePolicy", "Fail"))
        yield
    finally:
        await cluster.api.delete(f"{CONFIGURATIONS}/{name}")


async def in_force(cluster: Cluster, policy: str) -> None:
    """The server needs a moment to take a configuration up; a dry run shows it."""
    if policy == "Ignore":
        return
    asks = builders.pod("probe").container(limits={"nvidia.com/gpu": "1"})
    body = cluster.manifest(asks.scheduler("default-scheduler"))

    async def asked() -> bool:
        status, found = await cluster.api.post(cluster.path(), body, dryRun="All")
        return status != 201 or found["spec"]["schedulerName"] == SCHEDULER

    for _ in range(200):
        if await asked():
            return
    raise AssertionError("the webhook is never called")
