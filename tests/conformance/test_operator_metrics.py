"""What the operator says about itself while it works."""

from __future__ import annotations

from tests.conformance.cluster import Cluster


async def test_requests_to_the_api_server_are_counted_and_timed(cluster: Cluster) -> None:
    operator = await cluster.deciding()
    lists = {"verb": "list", "resource": "pods", "code": "200"}
    count = await operator.metric("hami_api_requests_total", **lists)
    assert count > 0
    assert await operator.metric("hami_api_request_duration_seconds_count", **lists) == count
