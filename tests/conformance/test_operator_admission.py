"""Admission as the API server does it: it calls the operator's webhook for each new pod."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hami_operator.protocol import keys
from hami_operator.server import authority
from tests import builders
from tests.conformance import webhooks, workload
from tests.conformance.cluster import SCHEDULER, Cluster

GPU = {"nvidia.com/gpu": "1"}
SMALL = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1000"}


@pytest.fixture
def issued(tmp_path: Path) -> authority.Issued:
    """A certificate for the webhook, in two files."""
    return webhooks.issue(tmp_path)


def pod(name: str, limits: Mapping[str, Any], **container: Any) -> builders.PodBuilder:
    """A pod that names no scheduler, as users write it."""
    return builders.pod(name).container("c", limits=limits, **container).scheduler(
        "default-scheduler"
    )  # fmt: skip


async def test_a_pod_that_names_no_scheduler_becomes_ours_and_runs(
    cluster: Cluster, issued: authority.Issued, tmp_path: Path
) -> None:
    hosts = [workload.host(f"{cluster.prefix}0", nvidia=2)]
    async with cluster.fleet(hosts):
        operator = await cluster.deciding(*webhooks.flags(tmp_path))
        async with webhooks.registered(cluster, await webhooks.port(operator), issued):
            forged = {keys.VGPU_NODE: "elsewhere", "hami.io/gpu-scheduler-policy": "spread"}
            made = await cluster.pod(pod("whole", GPU).annotate(forged))
            assert made["spec"]["schedulerName"] == SCHEDULER
            assert made["metadata"]["annotations"] == {"hami.io/gpu-scheduler-policy": "spread"}
            resources = made["spec"]["containers"][0]["resources"]
            assert resources["limits"]["nvidia.com/gpucores"] == "100"
            await cluster.pod(pod("part", SMALL))
            await cluster.run("whole", "part")
            cpu = await cluster.pod(pod("cpu", {}))
            assert cpu["spec"]["schedulerName"] == "default-scheduler"
            other = await cluster.pod(pod("other", GPU).scheduler("other-scheduler"))
            assert (
                "nvidia.com/gpucores" not in other["spec"]["containers"][0]["resources"]["limits"]
            )
        assert await operator.readiness() == 200
        assert await operator.metric("hami_webhook_requests_total", result="patched") >= 2
        assert await cluster.overbooked() == []


@pytest.mark.parametrize(
    ("build", "words"),
    [
        pytest.param(
            lambda made: made.put("spec.nodeName", "n1"),
            "pod has node assigned: n1; remove spec.nodeName",
            id="a node of its own choice",
        ),
        pytest.param(
            lambda made: made.annotate({"hami.io/device-scoring-weights": "slot=1"}),
            "expected slot, core, and memory weights",
            id="bad weights",
        ),
        pytest.param(
            lambda made: made.container("d", limits={"nvidia.com/gpu": "99999999999"}),
            "container d: nvidia.com/gpu: '99999999999' is not between 0 and 2147483647",
            id="more cards than there can be",
        ),
        pytest.param(
            lambda made: made.container(
                "d", limits={**GPU, "nvidia.com/gpumem-percentage": "150"}
            ),
            "write 1 to 100",
            id="more than a card's memory",
        ),
    ],
)
async def test_a_refusal_reaches_who_creates_the_pod(
    build: Any, words: str, cluster: Cluster, issued: authority.Issued, tmp_path: Path
) -> None:
    operator = await cluster.deciding(*webhooks.flags(tmp_path))
    async with webhooks.registered(cluster, await webhooks.port(operator), issued):
        body = cluster.manifest(build(pod("p", GPU)))
        status, answer = await cluster.api.post(cluster.path(), body)
        assert status in (403, 422), answer
        assert 'admission webhook "pods.hami.io" denied the request: ' in answer["message"]
        assert words in answer["message"]
        status, _ = await cluster.api.get(cluster.path("p"))
        assert status == 404


@pytest.mark.parametrize("down", ["nobody listens", "another certificate"])
async def test_without_a_webhook_pods_that_name_us_are_scheduled_all_the_same(
    down: str, cluster: Cluster, issued: authority.Issued, tmp_path: Path
) -> None:
    hosts = [workload.host(f"{cluster.prefix}0", nvidia=1)]
    async with cluster.fleet(hosts):
        operator = await cluster.deciding(*webhooks.flags(tmp_path))
        number = await webhooks.port(operator)
        trusted = issued
        if down == "nobody listens":
            number = 9
        else:
            now = datetime.datetime.now(datetime.UTC)
            trusted = authority.issue(
                [webhooks.HOST], now=now, lifetime=datetime.timedelta(hours=1)
            )
        async with webhooks.registered(cluster, number, trusted, failurePolicy="Ignore"):
            ours = pod("ours", SMALL).scheduler(SCHEDULER)
            await cluster.pod(ours)
            wrong = pod("wrong", {"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "150"})
            await cluster.pod(wrong.scheduler(SCHEDULER))
            await cluster.run("ours")
            await cluster.waits("wrong", "nvidia.com/gpumem-percentage: '150'")
        (decided,) = [
            value
            for key, value in cluster.annotations("ours").items()
            if key == "hami.io/vgpu-devices-allocated"
        ]
        assert ",NVIDIA,1000,0:;" in decided
        assert await operator.metric("hami_webhook_requests_total") == 0
