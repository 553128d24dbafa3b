"""The webhook's certificate: made, checked, renewed in time, stored, trusted and handed out."""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import dataclasses
import datetime
import os
import pathlib
import signal
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import pytest
from cryptography import x509
from hypothesis import given, settings
from hypothesis import strategies as st

from hami_operator import errors
from hami_operator.cli import main, webhook_certs
from hami_operator.cluster.kubernetes import keeper
from hami_operator.cluster.memory import server
from hami_operator.server import authority
from tests import fakes

NOW = datetime.datetime(2026, 3, 1, 12, 0, tzinfo=datetime.UTC)
DAY = datetime.timedelta(days=1)
LIFETIME = 300 * DAY
NAMES = ("w.ns.svc", "w.ns.svc.cluster.local", "127.0.0.1")


def issue(
    names: tuple[str, ...] = NAMES,
    *,
    now: datetime.datetime = NOW,
    former: authority.Issued = authority.NOTHING,
    lifetime: datetime.timedelta = LIFETIME,
) -> authority.Issued:
    return authority.issue(names, now=now, lifetime=lifetime, former=former)


ISSUED = issue()


def trusted(issued: authority.Issued) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(issued.bundle)


# ---- the certificate


def test_what_is_issued_is_good_for_its_names_and_signed_by_its_authority() -> None:
    certificate = x509.load_pem_x509_certificate(ISSUED.certificate)
    (ca,) = trusted(ISSUED)
    certificate.verify_directly_issued_by(ca)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["w.ns.svc", "w.ns.svc.cluster.local"]
    assert [str(one) for one in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert [one.dotted_string for one in usage] == ["1.3.6.1.5.5.7.3.1"]
    assert ca.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert certificate.not_valid_before_utc < NOW, "clocks differ a little"
    assert certificate.not_valid_after_utc == ca.not_valid_after_utc == NOW + LIFETIME
    assert authority.problem(ISSUED, NAMES, now=NOW) == ""


def test_openssl_takes_it(tmp_path: pathlib.Path) -> None:
    for name, content in (("c", ISSUED.certificate), ("k", ISSUED.key)):
        (tmp_path / name).write_bytes(content)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "c", tmp_path / "k")
    strict = ssl.create_default_context(cadata=ISSUED.bundle.decode())
    assert strict.cert_store_stats()["x509_ca"] == 1


OTHER = issue()
PROBLEMS = {
    "nothing": (authority.NOTHING, "there is none yet"),
    "no key": (
        authority.Issued(certificate=ISSUED.certificate, bundle=ISSUED.bundle),
        "cannot be used",
    ),
    "no certificate": (authority.Issued(key=ISSUED.key, bundle=ISSUED.bundle), "cannot be used"),
    "no authority": (
        authority.Issued(certificate=ISSUED.certificate, key=ISSUED.key),
        "cannot be used",
    ),
    "half a certificate": (
        authority.Issued(
            certificate=ISSUED.certificate[:90], key=ISSUED.key, bundle=ISSUED.bundle
        ),
        "cannot be used",
    ),
    "another authority": (
        authority.Issued(
            certificate=ISSUED.certificate, key=ISSUED.key, bundle=OTHER.bundle
        ),
        "cannot be used",
    ),
    "another key": (
        authority.Issued(
            certificate=ISSUED.certificate, key=OTHER.key, bundle=ISSUED.bundle
        ),
        "do not belong together",
    ),
    "an authority's certificate to serve with": (
        authority.Issued(certificate=ISSUED.bundle, key=ISSUED.key, bundle=ISSUED.bundle),
        "cannot be used",
    ),
    "other names": (issue(("elsewhere",)), "its names have changed"),
}  # fmt: skip


@pytest.mark.parametrize(("issued", "why"), PROBLEMS.values(), ids=PROBLEMS)
def test_what_will_not_do_is_seen(issued: authority.Issued, why: str) -> None:
    assert why in authority.problem(issued, NAMES, now=NOW)


@pytest.mark.parametrize(
    ("days", "due"), [(0, False), (179, False), (181, True), (199, True), (301, True)]
)
def test_it_is_renewed_well_before_two_thirds_of_its_life(days: int, due: bool) -> None:
    found = authority.problem(ISSUED, NAMES, now=NOW + days * DAY)
    assert found == ("its time has come" if due else "")


@settings(deadline=None)
@given(st.binary(max_size=60), st.binary(max_size=60), st.binary(max_size=60))
def test_no_content_of_a_secret_crashes_it(one: bytes, two: bytes, three: bytes) -> None:
    found = authority.Issued(certificate=one, key=two, bundle=three)
    assert authority.problem(found, NAMES, now=NOW)
    assert trusted(issue(former=found, lifetime=DAY))


def test_former_authorities_stay_trusted_until_they_expire() -> None:
    made = [issue(lifetime=2 * DAY)]
    for number in range(1, 5):
        made.append(issue(now=NOW + number * DAY, former=made[-1], lifetime=2 * DAY))
    newest = [trusted(one)[0] for one in made]
    assert trusted(made[1]) == [newest[1], newest[0]]
    assert trusted(made[4]) == [newest[4], newest[3]]


def test_the_bundle_does_not_grow_for_ever() -> None:
    found = ISSUED
    for _ in range(6):
        found = issue(former=found)
    assert len(trusted(found)) == authority.MOST_AUTHORITIES


# ---- the command, against an API server


@pytest.fixture
def api() -> Iterator[server.ApiServer]:
    with server.ApiServer() as running:
        yield running


@pytest.fixture
async def cluster(api: server.ApiServer) -> AsyncIterator[keeper.Keeper]:
    client = await keeper.Keeper.connect(server=api.url)
    yield client
    await client.close()


PLAN = webhook_certs.Plan(
    names=NAMES,
    lifetime=LIFETIME,
    namespace="default",
    secret="certs",
    configuration="hami",
)
WEBHOOK = {
    "name": "pods.hami.io",
    "admissionReviewVersions": ["v1"],
    "sideEffects": "None",
    "clientConfig": {"url": "https://127.0.0.1:1/webhook"},
}


async def configured(cluster: keeper.Keeper, *names: str) -> None:
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "hami"},
        "webhooks": [{**WEBHOOK, "name": name} for name in names or ("pods.hami.io",)],
    }
    await cluster._send("create", keeper.CONFIGURATIONS.path(), body)


async def bundles(cluster: keeper.Keeper) -> list[bytes]:
    found = await cluster.get_configuration("hami")
    return [base64.b64decode(one["clientConfig"]["caBundle"]) for one in found["webhooks"]]


async def stored(cluster: keeper.Keeper) -> authority.Issued:
    return webhook_certs._from_secret(await cluster.get_secret("default", "certs"))


def replaced(plan: webhook_certs.Plan, **values: Any) -> webhook_certs.Plan:
    return dataclasses.replace(plan, **values)


async def test_it_is_made_stored_trusted_and_handed_out_in_this_order(
    api: server.ApiServer, cluster: keeper.Keeper, tmp_path: pathlib.Path
) -> None:
    await configured(cluster)
    plan = replaced(PLAN, folder=tmp_path / "tls")
    outcome = await webhook_certs.keep(plan, cluster, now=NOW)
    assert outcome == webhook_certs.Outcome(
        done=(
            "made a certificate, kept in Secret certs: there is none yet",
            "MutatingWebhookConfiguration hami trusts it",
            f"wrote it to {tmp_path / 'tls'}",
        )
    )
    issued = await stored(cluster)
    assert await bundles(cluster) == [issued.bundle]
    assert webhook_certs._read(tmp_path / "tls") == issued
    assert (tmp_path / "tls" / "tls.key").stat().st_mode & 0o777 == 0o600
    writes = [one.method for one in api.requests if one.method != "GET"][1:]
    assert writes == ["POST", "PATCH"]


async def test_a_second_run_writes_nothing(
    api: server.ApiServer, cluster: keeper.Keeper, tmp_path: pathlib.Path
) -> None:
    await configured(cluster, "a.hami.io", "b.hami.io")
    plan = replaced(PLAN, folder=tmp_path)
    await webhook_certs.keep(plan, cluster, now=NOW)
    before = len(api.requests)
    assert await webhook_certs.keep(plan, cluster, now=NOW + DAY) == webhook_certs.Outcome()
    assert {one.method for one in api.requests[before:]} == {"GET"}
    assert len(set(await bundles(cluster))) == 1


async def test_a_second_replica_takes_what_the_first_has_made(
    cluster: keeper.Keeper, tmp_path: pathlib.Path
) -> None:
    await webhook_certs.keep(replaced(PLAN, configuration=""), cluster, now=NOW)
    other = replaced(PLAN, configuration="", folder=tmp_path)
    outcome = await webhook_certs.keep(other, cluster, now=NOW)
    assert outcome.done == (f"wrote it to {tmp_path}",)
    assert webhook_certs._read(tmp_path) == await stored(cluster)


async def test_a_renewal_keeps_the_former_authority_trusted(cluster: keeper.Keeper) -> None:
    await configured(cluster)
    await webhook_certs.keep(PLAN, cluster, now=NOW)
    first = await stored(cluster)
    outcome = await webhook_certs.keep(PLAN, cluster, now=NOW + 190 * DAY)
    assert "its time has come" in outcome.done[0]
    second = await stored(cluster)
    assert trusted(second)[1:] == trusted(first)
    assert await bundles(cluster) == [second.bundle]


async def test_an_empty_secret_is_filled_and_keeps_what_else_it_holds(
    cluster: keeper.Keeper,
) -> None:
    meta = {"name": "certs", "namespace": "default", "labels": {"a": "b"}}
    body = {"metadata": meta, "type": "Opaque", "data": {"other": "eA=="}}
    await cluster.create_secret("default", body)
    await webhook_certs.keep(replaced(PLAN, configuration=""), cluster, now=NOW)
    found = await cluster.get_secret("default", "certs")
    assert set(found["data"]) == {"other", *webhook_certs.FILES}
    assert (found["type"], found["metadata"]["labels"]) == ("Opaque", {"a": "b"})


async def test_a_secret_that_holds_nonsense_is_replaced(cluster: keeper.Keeper) -> None:
    body = {"metadata": {"name": "certs"}, "data": {"tls.crt": "eA==", "tls.key": "eA=="}}
    await cluster.create_secret("default", body)
    outcome = await webhook_certs.keep(replaced(PLAN, configuration=""), cluster, now=NOW)
    assert "the old one cannot be used" in outcome.done[0]
    assert authority.problem(await stored(cluster), NAMES, now=NOW) == ""


def test_text_that_is_no_base64_is_unusable_and_not_nothing() -> None:
    found = webhook_certs._from_secret({"data": {"tls.crt": "*"}})
    assert "cannot be used" in authority.problem(found, NAMES, now=NOW)


async def test_who_is_second_takes_what_the_first_has_stored(
    cluster: keeper.Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both find nothing; the loser's certificate is forgotten."""
    plan = replaced(PLAN, configuration="")
    create = cluster.create_secret

    async def too_late(namespace: str, body: Mapping[str, Any]) -> Any:
        monkeypatch.setattr(cluster, "create_secret", create)
        await webhook_certs.keep(plan, cluster, now=NOW)
        return await create(namespace, body)

    monkeypatch.setattr(cluster, "create_secret", too_late)
    assert await webhook_certs.keep(plan, cluster, now=NOW) == webhook_certs.Outcome()
    assert authority.problem(await stored(cluster), NAMES, now=NOW) == ""


async def test_a_secret_that_never_stands_still_is_an_error(
    cluster: keeper.Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def conflict(*_: Any) -> Any:
        raise errors.Conflict("taken")

    monkeypatch.setattr(cluster, "create_secret", conflict)
    with pytest.raises(errors.Conflict, match="default/certs: changed 5 times"):
        await webhook_certs.keep(PLAN, cluster, now=NOW)


async def test_a_configuration_that_is_not_there_is_missing_and_the_rest_is_done(
    cluster: keeper.Keeper, tmp_path: pathlib.Path
) -> None:
    outcome = await webhook_certs.keep(replaced(PLAN, folder=tmp_path), cluster, now=NOW)
    assert outcome.missing == ("MutatingWebhookConfiguration hami is not there",)
    assert webhook_certs._read(tmp_path) == await stored(cluster)


async def test_a_configuration_that_has_changed_meanwhile_is_left_alone(
    cluster: keeper.Keeper,
) -> None:
    await configured(cluster)
    operations = [*webhook_certs._operations([{**WEBHOOK, "name": "other.hami.io"}], "eA==")]
    with pytest.raises(errors.Invalid):
        await cluster.patch_configuration("hami", operations)


async def test_without_a_secret_the_folder_is_the_store(tmp_path: pathlib.Path) -> None:
    plan = replaced(PLAN, secret="", configuration="", folder=tmp_path)
    outcome = await webhook_certs.keep(plan, None, now=NOW)
    made = "made a certificate: there is none yet"
    assert outcome.done == (made, f"wrote it to {tmp_path}")
    assert await webhook_certs.keep(plan, None, now=NOW + DAY) == webhook_certs.Outcome()
    first = webhook_certs._read(tmp_path)
    await webhook_certs.keep(plan, None, now=NOW + 190 * DAY)
    assert trusted(webhook_certs._read(tmp_path))[1:] == trusted(first)


# ---- its command line


def arguments(*flags: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    webhook_certs.configure(parser)
    return parser.parse_args(flags)


@pytest.mark.parametrize(
    ("flags", "environ", "names"),
    [
        pytest.param(
            ["--dir=d"], {},
            ["hami-operator-webhook.hami-system.svc",
             "hami-operator-webhook.hami-system.svc.cluster.local"],
            id="defaults",
        ),
        pytest.param(
            ["--dir=d", "--service=s", "--name=gpu.example.com", "--name=10.0.0.1"],
            {"POD_NAMESPACE": "ns"},
            ["s.ns.svc", "s.ns.svc.cluster.local", "gpu.example.com", "10.0.0.1"],
            id="further names, in the pod's own namespace",
        ),
        pytest.param(
            ["--secret=c", "--namespace=flag"], {"POD_NAMESPACE": "ns"},
            ["hami-operator-webhook.flag.svc", "hami-operator-webhook.flag.svc.cluster.local"],
            id="a namespace of its own",
        ),
    ],
)  # fmt: skip
def test_names_come_from_service_and_namespace(
    flags: list[str], environ: dict[str, str], names: list[str]
) -> None:
    assert list(webhook_certs.planned(arguments(*flags), environ).names) == names


@pytest.mark.parametrize(
    ("flags", "field"),
    [
        pytest.param([], "secret", id="nowhere to keep it"),
        pytest.param(["--dir=d", "--lifetime=long"], "lifetime", id="a lifetime in words"),
    ],
)
def test_flags_that_cannot_be_used_are_named(flags: list[str], field: str) -> None:
    with pytest.raises(errors.SettingsError) as caught:
        webhook_certs.planned(arguments(*flags), {})
    assert caught.value.field == field


def test_an_interval_must_be_short_enough_to_renew_in_time(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [f"--dir={tmp_path}", "--lifetime=100h", "--interval=7h"]
    assert main.main(["webhook-certs", *flags]) == 2
    assert "interval: 7h is too long for this lifetime: at most 24000s" in capsys.readouterr().err


def test_one_run_says_what_it_did(
    api: server.ApiServer, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [f"--server={api.url}", "--secret=certs", "--namespace=default", f"--dir={tmp_path}"]
    assert main.main(["webhook-certs", *flags]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "made a certificate, kept in Secret certs: there is none yet",
        f"wrote it to {tmp_path}",
    ]
    assert main.main(["webhook-certs", *flags]) == 0
    assert capsys.readouterr().out == "nothing to do\n"
    assert main.main(["webhook-certs", *flags, "--configuration=hami"]) == 1
    assert "hami is not there" in capsys.readouterr().out


async def test_a_run_that_stays_heals_what_was_lost_and_ends_on_a_signal(
    api: server.ApiServer, cluster: keeper.Keeper, tmp_path: pathlib.Path
) -> None:
    command = [sys.executable, "-m", "hami_operator", "webhook-certs", f"--server={api.url}"]
    command += ["--secret=certs", "--namespace=default", "--configuration=hami"]
    command += [f"--dir={tmp_path / 'tls'}", "--interval=100ms"]
    log = tmp_path / "log"
    with log.open("wb") as stream:
        process = subprocess.Popen(command, stderr=stream)  # noqa: ASYNC220 - starts in no time
    try:
        await fakes.eventually(lambda: "hami is not there" in log.read_text(), deadline_s=30)
        await configured(cluster)
        await fakes.eventually(lambda: "hami trusts it" in log.read_text(), deadline_s=30)
        issued = await stored(cluster)
        (tmp_path / "tls" / "tls.crt").unlink()
        await fakes.eventually((tmp_path / "tls" / "tls.crt").exists, deadline_s=30)
        assert await bundles(cluster) == [issued.bundle]
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, 30) == 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        process.wait()


async def test_a_server_that_is_not_there_is_tried_again(tmp_path: pathlib.Path) -> None:
    client = await keeper.Keeper.connect(server="http://127.0.0.1:9")
    try:
        assert not await webhook_certs._attempt(PLAN, client)
    finally:
        await client.close()
