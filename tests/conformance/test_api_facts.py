"""The in-memory API server keeps the facts that the real one keeps, see `tests.e2e`."""

from collections.abc import AsyncIterator

import pytest

from hami_operator.cluster.memory import server
from tests.conformance import api_facts
from tests.conformance.api import Api


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    """A client of a server of its own."""
    with server.ApiServer() as running:
        async with Api(running.url) as client:
            yield client


@pytest.mark.parametrize("fact", api_facts.FACTS, ids=api_facts.sentence)
async def test_the_in_memory_server_keeps_the_fact(fact: api_facts.Fact, api: Api) -> None:
    await fact(api)
