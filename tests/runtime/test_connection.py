"""Where the API server is: kubeconfig, ServiceAccount, or a plain URL."""

from __future__ import annotations

import pathlib
import shutil
import ssl
import subprocess
from typing import Any

import pytest
import yaml
from aiohttp import web
from kubernetes_asyncio.config import incluster_config

from hami_operator import errors
from hami_operator.cluster import kubernetes, ports
from hami_operator.cluster.kubernetes import connection
from tests import fakes


def write_config(
    path: pathlib.Path, *, user: dict[str, Any], cluster: dict[str, Any] | None = None
) -> str:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "contexts": [
            {"name": "main", "context": {"cluster": "c", "user": "u"}},
            {"name": "other", "context": {"cluster": "d", "user": "u"}},
        ],
        "clusters": [
            {"name": "c", "cluster": cluster or {"server": "http://one:8080/"}},
            {"name": "d", "cluster": {"server": "http://two:8080/base/"}},
        ],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(config))
    return str(path)


def credentials(
    clock: fakes.FakeClock | None = None,
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    server: str | None = None,
) -> connection.Credentials:
    time = clock or fakes.FakeClock()
    return connection.Credentials(kubeconfig=kubeconfig, context=context, server=server, time=time)


async def test_a_plain_url_needs_no_configuration() -> None:
    found = await credentials(server="http://127.0.0.1:8001/").connection()
    assert found == connection.Connection(server="http://127.0.0.1:8001")
    assert found.ssl_context() is None


@pytest.mark.parametrize(
    ("user", "want"),
    [
        pytest.param({"token": "abc"}, "Bearer abc", id="a token"),
        pytest.param({"username": "me", "password": "pw"}, "Basic bWU6cHc=", id="a password"),
        pytest.param({}, "", id="nobody"),
    ],
)
async def test_kubeconfig_users(tmp_path: pathlib.Path, user: dict, want: str) -> None:
    path = write_config(tmp_path / "config", user=user)
    found = await credentials(kubeconfig=path).connection()
    assert found == connection.Connection(server="http://one:8080", authorization=want)


async def test_another_context_of_the_kubeconfig(tmp_path: pathlib.Path) -> None:
    path = write_config(tmp_path / "config", user={"token": "abc"})
    found = await credentials(kubeconfig=path, context="other").connection()
    assert found.server == "http://two:8080/base"


async def test_tls_settings_of_the_kubeconfig(tmp_path: pathlib.Path) -> None:
    for name in ("ca.crt", "me.crt", "me.key"):
        (tmp_path / name).write_text("x")
    cluster = {
        "server": "https://one:6443",
        "certificate-authority": "ca.crt",
        "tls-server-name": "kubernetes",
        "proxy-url": "http://proxy:3128",
        "insecure-skip-tls-verify": False,
    }
    user = {"client-certificate": "me.crt", "client-key": "me.key"}
    path = write_config(tmp_path / "config", user=user, cluster=cluster)
    assert await credentials(kubeconfig=path).connection() == connection.Connection(
        server="https://one:6443",
        ca_path=str(tmp_path / "ca.crt"),
        certificate_path=str(tmp_path / "me.crt"),
        key_path=str(tmp_path / "me.key"),
        server_name="kubernetes",
        proxy="http://proxy:3128",
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(None, id="there is no file"),
        pytest.param("", id="an empty file"),
        pytest.param("]", id="not YAML"),
        pytest.param("[1, 2]", id="a list"),
        pytest.param("clusters: 7", id="another shape"),
        pytest.param("current-context: x\nclusters: []\ncontexts: []", id="no such context"),
    ],
)
async def test_an_unusable_kubeconfig_is_a_settings_error(
    tmp_path: pathlib.Path, text: str | None
) -> None:
    path = tmp_path / "config"
    if text is not None:
        path.write_text(text)
    with pytest.raises(errors.SettingsError, match="kubeconfig"):
        await credentials(kubeconfig=str(path)).connection()


async def test_a_replaced_token_file_is_read_again_within_a_minute(tmp_path: pathlib.Path) -> None:
    token = tmp_path / "token"
    token.write_text("old\n")
    path = write_config(tmp_path / "config", user={"tokenFile": str(token)})
    clock = fakes.FakeClock()
    subject = credentials(clock, kubeconfig=path)
    assert (await subject.connection()).authorization == "Bearer old"
    token.write_text("new\n")
    clock.forward(59)
    assert (await subject.connection()).authorization == "Bearer old"
    clock.forward(1)
    assert (await subject.connection()).authorization == "Bearer new"


async def test_a_refused_token_is_read_again_at_once(tmp_path: pathlib.Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    subject = credentials(
        kubeconfig=write_config(tmp_path / "config", user={"tokenFile": str(token)})
    )
    await subject.connection()
    token.write_text("new")
    assert (await subject.connection(fresh=True)).authorization == "Bearer new"


async def test_a_configuration_that_becomes_unreadable_leaves_the_old_one_in_use(
    tmp_path: pathlib.Path,
) -> None:
    clock = fakes.FakeClock()
    token = tmp_path / "token"
    token.write_text("abc")
    path = write_config(tmp_path / "config", user={"tokenFile": str(token)})
    subject = credentials(clock, kubeconfig=path)
    first = await subject.connection()
    token.unlink()
    clock.forward(100)
    assert await subject.connection() == first


@pytest.fixture
def pod(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The files and variables that kubelet gives to a pod."""
    (tmp_path / "token").write_text("sa-token\n")
    (tmp_path / "ca.crt").write_text("x")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    return tmp_path


async def test_inside_a_pod_the_service_account_is_used(pod: pathlib.Path) -> None:
    clock = fakes.FakeClock()
    subject = credentials(clock)
    want = connection.Connection(
        server="https://[fd00::1]:443",
        authorization="Bearer sa-token",
        ca_path=str(pod / "ca.crt"),
    )
    assert await subject.connection() == want
    (pod / "token").write_text("rotated")
    clock.forward(60)
    assert (await subject.connection()).authorization == "Bearer rotated"


async def test_a_named_kubeconfig_wins_over_the_service_account(
    pod: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    path = write_config(tmp_path / "config", user={"token": "abc"})
    assert (await credentials(kubeconfig=path).connection()).server == "http://one:8080"


# ---- TLS, with certificates made on the spot


def _openssl(directory: pathlib.Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """An authority, a server called ``api.test`` and a client, each as .crt and .key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificates")
    home = tmp_path_factory.mktemp("certificates")
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    usage = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")
    _openssl(home, "req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.crt",
             "-subj", "/CN=ca", "-days", "2", *usage)  # fmt: skip
    for name in ("server", "client"):
        _openssl(home, "req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr",
                 "-subj", f"/CN={name}")  # fmt: skip
        (home / "ext").write_text("subjectAltName=DNS:api.test\nauthorityKeyIdentifier=keyid\n")
        _openssl(home, "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key",
                 "-CAcreateserial", "-out", f"{name}.crt", "-days", "2",
                 "-extfile", "ext")  # fmt: skip
    return home


@pytest.fixture
async def tls_server(certificates: pathlib.Path) -> Any:
    """An HTTPS server that demands a client certificate."""

    async def version(request: web.Request) -> web.Response:
        return web.json_response({"major": "1", "minor": "36+"})

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=certificates / "ca.crt")
    context.load_cert_chain(certificates / "server.crt", certificates / "server.key")
    context.verify_mode = ssl.CERT_REQUIRED
    application = web.Application()
    application.router.add_get("/version", version)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    yield f"https://127.0.0.1:{site.port}"
    await runner.cleanup()


@pytest.mark.parametrize(
    ("cluster", "want"),
    [
        pytest.param({"tls-server-name": "api.test"}, (1, 36), id="the name that is expected"),
        pytest.param({"insecure-skip-tls-verify": True}, (1, 36), id="no check at all"),
        pytest.param({}, None, id="a name that is not in the certificate"),
    ],
)
async def test_tls_with_a_client_certificate(
    certificates: pathlib.Path,
    tls_server: str,
    tmp_path: pathlib.Path,
    cluster: dict,
    want: tuple[int, int] | None,
) -> None:
    authority = {"certificate-authority": str(certificates / "ca.crt")}
    path = write_config(
        tmp_path / "config",
        user={
            "client-certificate": str(certificates / "client.crt"),
            "client-key": str(certificates / "client.key"),
        },
        cluster={"server": tls_server} | authority | cluster,
    )
    client = await kubernetes.Client.connect(kubeconfig=path)
    try:
        if want is None:
            with pytest.raises(errors.Retryable, match="certificate"):
                await client.version()
            # nothing was sent, so even a write is not unclear
            with pytest.raises(errors.Retryable):
                await client.patch_node("n", {})
        else:
            assert await client.version() == want
            reader: ports.VersionReader = client
            assert await reader.version() == want
    finally:
        await client.close()
