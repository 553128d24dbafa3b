"""The webhook behind TLS: what it answers, what it turns away, and which certificate it shows."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import io
import pathlib
import random
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import orjson
import pytest
from cryptography import x509

from hami_operator import clock, errors, settings
from hami_operator.admission import mutate, verdict
from hami_operator.cli import wiring
from hami_operator.cluster import kubernetes
from hami_operator.scheduling import world
from hami_operator.server import authority, metrics, tls, webhook
from tests import builders, fakes
from tests.moments import at
from tests.unit.admission import given

HOST = "127.0.0.1"
GOOD = orjson.dumps(given.reviewed(given.pod({"nvidia.com/gpu": "1"}).raw()))
MIB = 1024 * 1024
Issue = Callable[[], authority.Issued]


@pytest.fixture
def issue(tmp_path: pathlib.Path) -> Issue:
    """Puts a new certificate where the server looks for it."""

    def put() -> authority.Issued:
        now = datetime.datetime.now(datetime.UTC)
        made = authority.issue([HOST], now=now, lifetime=datetime.timedelta(hours=1))
        (tmp_path / "tls.crt").write_bytes(made.certificate)
        (tmp_path / "tls.key").write_bytes(made.key)
        return made

    return put


@pytest.fixture
def certificate(tmp_path: pathlib.Path) -> tls.Certificate:
    return tls.Certificate(str(tmp_path / "tls.crt"), str(tmp_path / "tls.key"))


@contextlib.asynccontextmanager
async def running(
    certificate: tls.Certificate,
    *,
    measured: metrics.Metrics | None = None,
    time: clock.Clock | None = None,
    **options: Any,
) -> AsyncIterator[webhook.Endpoint]:
    routes = webhook.routes(given.known(), metrics=measured or metrics.Metrics(), **options)
    endpoint = webhook.Endpoint(f"{HOST}:0", certificate, routes, time=time or clock.SystemClock())
    task = asyncio.create_task(endpoint.run())
    try:
        yield endpoint
    finally:
        await endpoint.stop()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def trusting(issued: authority.Issued) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=issued.bundle.decode())


async def post(
    endpoint: webhook.Endpoint, issued: authority.Issued, body: Any
) -> tuple[int, bytes]:
    """One request on a connection of its own."""
    async with (
        aiohttp.ClientSession() as session,
        session.post(
            f"https://{HOST}:{endpoint.port}/webhook", data=body, ssl=trusting(issued)
        ) as answer,
    ):
        return answer.status, await answer.read()


async def serves(endpoint: webhook.Endpoint) -> None:
    await fakes.eventually(lambda: endpoint.ready, what="the webhook serves")


# ---- reviews


async def test_a_review_is_answered_over_tls(issue: Issue, certificate: tls.Certificate) -> None:
    issued = issue()
    async with running(certificate) as endpoint:
        await serves(endpoint)
        status, body = await post(endpoint, issued, GOOD)
    answer = orjson.loads(body)["response"]
    assert (status, answer["allowed"], answer["patchType"]) == (200, True, "JSONPatch")


async def in_pieces(size: int) -> AsyncIterator[bytes]:
    """A body whose length is not said before."""
    for _ in range(size // MIB):
        yield b"a" * MIB


BAD: dict[str, tuple[Callable[[], Any], int]] = {
    "10 MiB": (lambda: io.BytesIO(b"a" * (10 * MIB)), 413),
    "10 MiB of unknown length": (lambda: in_pieces(10 * MIB), 413),
    "one byte too many": (lambda: io.BytesIO(GOOD.ljust(MIB + 1)), 413),
    "depth 10,000": (lambda: b'{"a":' * 10_000 + b"1" + b"}" * 10_000, 400),
    "not JSON": (lambda: b"hello", 400),
    "nothing": (lambda: b"", 400),
    "no pod": (lambda: orjson.dumps(given.reviewed(None)), 400),
    "a pod of the wrong type": (lambda: orjson.dumps(given.reviewed([])), 400),
}


@pytest.mark.parametrize(("body", "want"), BAD.values(), ids=BAD)
async def test_bad_input_is_turned_away_and_the_next_review_is_served(
    body: Callable[[], Any], want: int, issue: Issue, certificate: tls.Certificate
) -> None:
    issued = issue()
    async with running(certificate) as endpoint:
        await serves(endpoint)
        for _ in range(2):
            status, text = await post(endpoint, issued, body())
            assert status == want
            assert text.startswith(b"not a review of a pod: ")
            assert (await post(endpoint, issued, GOOD))[0] == 200


async def test_a_review_of_just_the_limit_is_served(
    issue: Issue, certificate: tls.Certificate
) -> None:
    issued = issue()
    async with running(certificate) as endpoint:
        await serves(endpoint)
        assert (await post(endpoint, issued, io.BytesIO(GOOD.ljust(MIB))))[0] == 200


async def test_who_does_not_send_the_review_is_not_waited_for(
    issue: Issue, certificate: tls.Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook, "BODY_S", 0.05)
    issued = issue()
    async with running(certificate) as endpoint:
        await serves(endpoint)
        reader, writer = await asyncio.open_connection(HOST, endpoint.port, ssl=trusting(issued))
        writer.write(b"POST /webhook HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        line = await asyncio.wait_for(reader.readline(), timeout=10)
        writer.close()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()
        assert line.startswith(b"HTTP/1.1 408 ")
        assert (await post(endpoint, issued, GOOD))[0] == 200


async def test_other_methods_and_plain_http_are_no_reviews(
    issue: Issue, certificate: tls.Certificate
) -> None:
    issued = issue()
    async with running(certificate) as endpoint, aiohttp.ClientSession() as session:
        await serves(endpoint)
        url = f"https://{HOST}:{endpoint.port}"
        async with session.get(f"{url}/webhook", ssl=trusting(issued)) as answer:
            assert answer.status == 405
        async with session.post(f"{url}/other", ssl=trusting(issued)) as answer:
            assert answer.status == 404
        with pytest.raises(aiohttp.ClientError):
            await session.post(f"http://{HOST}:{endpoint.port}/webhook", data=GOOD)
        assert (await post(endpoint, issued, GOOD))[0] == 200


async def test_reviews_are_counted_by_their_answers(
    issue: Issue, certificate: tls.Certificate
) -> None:
    issued, measured = issue(), metrics.Metrics()
    bodies = [
        GOOD,
        GOOD,
        orjson.dumps(given.reviewed(given.pod({"cpu": "1"}).raw())),
        orjson.dumps(given.reviewed(given.pod().raw())),
        b"hello",
        io.BytesIO(b"a" * (2 * MIB)),
    ]
    async with running(certificate, measured=measured) as endpoint:
        await serves(endpoint)
        for body in bodies:
            await post(endpoint, issued, body)
    found = {
        sample.labels["result"]: sample.value
        for family in measured.registry.collect()
        for sample in family.samples
        if sample.name == "hami_webhook_requests_total"
    }
    assert found == {"patched": 2, "allowed": 1, "denied": 1, "unreadable": 2}


# ---- the certificate


async def test_the_webhook_waits_for_its_certificate(
    issue: Issue, certificate: tls.Certificate
) -> None:
    time = fakes.FakeClock()
    async with running(certificate, time=time) as endpoint:
        await fakes.settle()
        assert not endpoint.ready
        issued = issue()
        await time.advance(webhook.LOOK_S)
        await serves(endpoint)
        assert (await post(endpoint, issued, GOOD))[0] == 200


async def test_a_renewed_certificate_serves_from_the_next_connection_on(
    issue: Issue, certificate: tls.Certificate
) -> None:
    first = issue()
    async with running(certificate, time=fakes.FakeClock()) as endpoint:
        await serves(endpoint)
        url = f"https://{HOST}:{endpoint.port}/webhook"
        async with aiohttp.ClientSession() as session:
            async with session.post(url, data=GOOD, ssl=trusting(first)) as answer:
                assert answer.status == 200
            second = issue()
            async with session.post(url, data=GOOD, ssl=trusting(second)) as answer:
                assert answer.status == 200
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await post(endpoint, first, GOOD)
        assert await shown(endpoint) == serial(second)


async def shown(endpoint: webhook.Endpoint) -> int:
    """Serial number of the certificate that a connection gets that names no server."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    _, writer = await asyncio.open_connection(HOST, endpoint.port, ssl=context, server_hostname="")
    found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        await writer.wait_closed()
    return x509.load_der_x509_certificate(found).serial_number


def serial(issued: authority.Issued) -> int:
    return x509.load_pem_x509_certificate(issued.certificate).serial_number


@pytest.mark.parametrize("broken", ["key", "certificate", "missing", "other key"])
async def test_a_pair_that_cannot_be_used_leaves_the_old_one_in_service(
    broken: str,
    issue: Issue,
    certificate: tls.Certificate,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    first = issue()
    key = (tmp_path / "tls.key").read_bytes()
    async with running(certificate, time=fakes.FakeClock()) as endpoint:
        await serves(endpoint)
        issue()
        match broken:
            case "key":
                (tmp_path / "tls.key").write_bytes(key[:40])
            case "certificate":
                (tmp_path / "tls.crt").write_text("half a certi")
            case "missing":
                (tmp_path / "tls.key").unlink()
            case _:
                (tmp_path / "tls.key").write_bytes(key)
        for _ in range(3):
            assert (await post(endpoint, first, GOOD))[0] == 200
        reported = capsys.readouterr().out.count("certificate cannot be used")
        assert reported == (0 if broken == "missing" else 1)
        last = issue()
        assert (await post(endpoint, last, GOOD))[0] == 200


def test_an_unusable_pair_is_not_a_loaded_one(
    tmp_path: pathlib.Path, certificate: tls.Certificate
) -> None:
    (tmp_path / "tls.crt").write_text("?")
    (tmp_path / "tls.key").write_text("?")
    assert not certificate.refresh()
    assert not certificate.loaded


async def test_without_any_certificate_a_handshake_fails_and_nothing_else(
    certificate: tls.Certificate,
) -> None:
    async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise AssertionError("nobody gets in")

    server = await asyncio.start_server(never, HOST, 0, ssl=certificate.context())
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection(HOST, port, ssl=ssl.create_default_context())


# ---- its life


async def test_a_stop_closes_idle_connections_and_may_come_twice(
    issue: Issue, certificate: tls.Certificate
) -> None:
    issued = issue()
    async with running(certificate) as endpoint, aiohttp.ClientSession() as session:
        await serves(endpoint)
        url = f"https://{HOST}:{endpoint.port}/webhook"
        async with session.post(url, data=GOOD, ssl=trusting(issued)) as answer:
            assert answer.status == 200
        await asyncio.wait_for(endpoint.stop(), timeout=5)
        assert not endpoint.ready
        with pytest.raises(aiohttp.ClientError):
            await session.post(url, data=GOOD, ssl=trusting(issued))
        await endpoint.stop()


async def test_a_webhook_that_was_stopped_before_its_certificate_came_never_listens(
    issue: Issue, certificate: tls.Certificate
) -> None:
    time = fakes.FakeClock()
    async with running(certificate, time=time) as endpoint:
        await fakes.settle()
        await endpoint.stop()
        issue()
        await time.advance(webhook.LOOK_S)
        await fakes.settle()
        assert not endpoint.ready


# ---- in the operator


async def wired(**options: Any) -> wiring.Wiring:
    client = await kubernetes.Client.connect(server="http://127.0.0.1:9")
    try:
        return wiring.Wiring(
            wiring.Given(
                settings=settings.Settings(http_bind=f"{HOST}:0", **options),
                client=client,
                server_version=(1, 36),
                identity="me",
                time=fakes.FakeClock(),
                generator=random.Random(0),
                metrics=metrics.Metrics(),
            )
        )
    finally:
        await client.close()


async def missing(built: wiring.Wiring) -> list[str]:
    await built.server.start()
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://{HOST}:{built.server.port}/readyz") as answer,
        ):
            return (await answer.json())["missing"]
    finally:
        await built.server.stop()


async def test_readiness_waits_for_the_certificate_where_one_is_configured() -> None:
    without = await missing(await wired())
    built = await wired(cert_file="/nowhere/tls.crt", key_file="/nowhere/tls.key")
    assert await missing(built) == [*without, "the webhook has no certificate yet"]
    assert built.webhook is not None
    await built.webhook.stop()


@pytest.mark.parametrize("given_", ["cert_file", "key_file"])
async def test_a_certificate_without_its_key_is_refused_by_name(given_: str) -> None:
    other = {"cert_file": "key_file", "key_file": "cert_file"}[given_]
    with pytest.raises(errors.SettingsError) as caught:
        await wired(**{given_: "/tls"})
    assert caught.value.field == other


def test_admission_goes_by_the_settings() -> None:
    rules = wiring.admission_rules(
        given.REGISTRY,
        settings.load(
            {
                "scheduler_name": "ours",
                "force_overwrite_default_scheduler": False,
                "admission": {
                    "strict": True,
                    "excluded_namespaces": ["a"],
                    "unlimited_namespaces": ["b"],
                },
                "gpu_scheduler_policy": "binpack",
            }
        ),
    )
    assert (rules.scheduler_name, rules.overwrite_default, rules.strict) == ("ours", False, True)
    assert (rules.excluded, rules.unlimited) == (frozenset({"a"}), frozenset({"b"}))
    assert rules.preferences is not None
    assert rules.preferences({"hami.io/device-scoring-weights": "x"}).error


def test_admission_knows_the_nodes_that_the_scheduler_knows() -> None:
    given_ = settings.Settings()
    state = world.World(given.REGISTRY, given_)
    rules = wiring.admission_rules(given.REGISTRY, given_, cards=state.nodes.cards)
    pod = given.pod({"aws.amazon.com/neuroncore": "3"}).raw()
    assert isinstance(mutate.admit_pod(pod, given.NAMESPACE, rules), verdict.Denied)
    offers = {"aws.amazon.com/neuron": 4, "aws.amazon.com/neuroncore": 4}
    node = builders.roomy("n1").capacity(offers).allocatable(offers)
    state.node_seen(node.read(), at(0))
    assert isinstance(mutate.admit_pod(pod, given.NAMESPACE, rules), verdict.Allowed)
