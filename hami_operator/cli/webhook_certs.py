"""``hami-operator webhook-certs``: make the webhook's certificate, keep it, let it be trusted.

May run as often and as many times side by side as one likes: what is still good is left alone.
A new certificate is stored first, then its authority is trusted, then it is given to servers.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import binascii
import contextlib
import dataclasses
import datetime
import os
import pathlib
import signal
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Final

import structlog

from hami_operator import clock, errors, settings
from hami_operator.cli import devices, logs
from hami_operator.cluster import ports
from hami_operator.cluster.kubernetes import keeper
from hami_operator.server import authority

FILES: Final = {"tls.crt": "certificate", "tls.key": "key", "ca.crt": "bundle"}
"""Names in the Secret and in the folder, to what they hold."""
TRIES: Final = 5
AGAIN_S: Final = 10.0
"""Pause before another try where something failed or is not there yet."""
_LATEST_RENEWAL: Final = 2 / 3

_log = structlog.get_logger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What is wanted.

    Attributes:
        names: of the server.
        lifetime: of a certificate.
        namespace: of the Secret.
        secret: its name; empty: the folder is the only store.
        configuration: MutatingWebhookConfiguration that is to trust it; empty for none.
        folder: where servers find it; None for nowhere.
    """

    names: tuple[str, ...]
    lifetime: datetime.timedelta
    namespace: str
    secret: str = ""
    configuration: str = ""
    folder: pathlib.Path | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What one run did.

    Attributes:
        done: sentences, in order; empty where all was well already.
        missing: what is not there, so that it cannot be done yet.
    """

    done: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    devices.connect(parser)
    flag = parser.add_argument
    flag("--service", default="hami-operator-webhook", help="the Service (%(default)s)")
    flag("--namespace", metavar="NAME", help="of Service and Secret (env POD_NAMESPACE)")
    flag(
        "--name",
        action="append",
        default=[],
        metavar="NAME",
        help="a further DNS name or IP address of the server; may be repeated",
    )
    flag("--secret", default="", metavar="NAME", help="keep the certificate in this Secret")
    flag("--dir", metavar="FOLDER", help=f"write {', '.join(FILES)} here")
    flag(
        "--configuration",
        default="",
        metavar="NAME",
        help="MutatingWebhookConfiguration whose caBundle is kept right",
    )
    flag("--lifetime", default="8760h", metavar="DURATION", help="of one (%(default)s)")
    flag("--interval", metavar="DURATION", help="stay, and look again this often")
    flag("--log-format", default="json", choices=("json", "console"), help="(%(default)s)")


def run(args: argparse.Namespace) -> int:
    """Do it once, or again and again until a signal comes; 1 where something is missing."""
    plan = planned(args, os.environ)
    if not args.interval:
        return asyncio.run(_once(args, plan))
    interval_s = settings.duration_s(args.interval, field="interval")
    most_s = plan.lifetime.total_seconds() * (_LATEST_RENEWAL - authority.RENEW_AT)
    if interval_s > most_s:
        raise errors.SettingsError(
            "interval", f"{args.interval} is too long for this lifetime: at most {most_s:.0f}s"
        )
    logs.configure(args.log_format)
    return asyncio.run(_again_and_again(args, plan, interval_s))


def planned(args: argparse.Namespace, environ: Mapping[str, str]) -> Plan:
    """What the flags ask for.

    Raises:
        errors.SettingsError: a flag cannot be used, or there is no place for the certificate.
    """
    if not args.secret and not args.dir:
        raise errors.SettingsError("secret", "give --secret, --dir or both")
    namespace = args.namespace or environ.get("POD_NAMESPACE") or settings.Settings().namespace
    host = f"{args.service}.{namespace}.svc"
    lifetime_s = settings.duration_s(args.lifetime, field="lifetime")
    return Plan(
        names=(host, f"{host}.cluster.local", *args.name),
        lifetime=datetime.timedelta(seconds=lifetime_s),
        namespace=namespace,
        secret=args.secret,
        configuration=args.configuration,
        folder=pathlib.Path(args.dir) if args.dir else None,
    )


async def keep(plan: Plan, cluster: keeper.Keeper | None, *, now: datetime.datetime) -> Outcome:
    """Bring everything to where it should be.

    Args:
        plan: what is wanted.
        cluster: needed for a Secret or a configuration.
        now: the time.

    Raises:
        errors.ApiError: the API server refused something, or was not reached.
    """
    issued, done = await _stored(plan, cluster, now)
    missing: tuple[str, ...] = ()
    if cluster is not None and plan.configuration:
        try:
            done += await _trusted(plan.configuration, issued, cluster)
        except errors.NotFound:
            missing = (f"MutatingWebhookConfiguration {plan.configuration} is not there",)
    if plan.folder is not None:
        done += _written(plan.folder, issued)
    return Outcome(done=done, missing=missing)


# ---- once, or again and again


async def _once(args: argparse.Namespace, plan: Plan) -> int:
    async with _cluster(args, plan) as cluster:
        outcome = await keep(plan, cluster, now=clock.SystemClock().wall())
    for sentence in (*outcome.done, *outcome.missing) or ("nothing to do",):
        print(sentence)
    return 1 if outcome.missing else 0


async def _again_and_again(args: argparse.Namespace, plan: Plan, interval_s: float) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with _cluster(args, plan) as cluster:
        while not stop.is_set():
            settled = await _attempt(plan, cluster)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(interval_s if settled else min(AGAIN_S, interval_s)):
                    await stop.wait()
    return 0


async def _attempt(plan: Plan, cluster: keeper.Keeper | None) -> bool:
    """One run; whether all is well now. What went wrong may be right the next time."""
    try:
        outcome = await keep(plan, cluster, now=clock.SystemClock().wall())
    except (errors.ApiError, OSError) as error:
        _log.error("certificate not kept", error=str(error))
        return False
    for sentence in outcome.done:
        _log.info(sentence)
    for sentence in outcome.missing:
        _log.warning(sentence)
    return not outcome.missing


@contextlib.asynccontextmanager
async def _cluster(args: argparse.Namespace, plan: Plan) -> AsyncIterator[keeper.Keeper | None]:
    if not plan.secret and not plan.configuration:
        yield None
        return
    client = await keeper.Keeper.connect(
        kubeconfig=args.kubeconfig, context=args.context, server=args.server
    )
    try:
        yield client
    finally:
        await client.close()


# ---- where it is kept


async def _stored(
    plan: Plan, cluster: keeper.Keeper | None, now: datetime.datetime
) -> tuple[authority.Issued, tuple[str, ...]]:
    """What is in the store, after a renewal if one was due."""
    for _ in range(TRIES):
        secret = await _secret(plan, cluster)
        found = _read(plan.folder) if secret is None else _from_secret(secret)
        why = authority.problem(found, plan.names, now=now)
        if not why:
            return found, ()
        issued = authority.issue(plan.names, now=now, lifetime=plan.lifetime, former=found)
        if secret is None or cluster is None:
            return issued, (f"made a certificate: {why}",)
        try:
            await _store(plan, cluster, secret, issued)
        except errors.Conflict:
            continue  # somebody else was first; theirs will do
        return issued, (f"made a certificate, kept in Secret {plan.secret}: {why}",)
    raise errors.Conflict(f"Secret {plan.namespace}/{plan.secret}: changed {TRIES} times")


async def _secret(plan: Plan, cluster: keeper.Keeper | None) -> ports.Raw | None:
    """The Secret, empty where there is none yet; None where none is wanted."""
    if cluster is None or not plan.secret:
        return None
    try:
        return await cluster.get_secret(plan.namespace, plan.secret)
    except errors.NotFound:
        return {}


async def _store(
    plan: Plan, cluster: keeper.Keeper, secret: ports.Raw, issued: authority.Issued
) -> None:
    values = {
        name: base64.b64encode(getattr(issued, part)).decode() for name, part in FILES.items()
    }
    if secret:
        body = {**secret, "data": {**(secret.get("data") or {}), **values}}
        await cluster.replace_secret(plan.namespace, plan.secret, body)
        return
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": plan.secret, "namespace": plan.namespace},
        "type": "kubernetes.io/tls",
        "data": values,
    }
    await cluster.create_secret(plan.namespace, body)


def _from_secret(secret: ports.Raw) -> authority.Issued:
    data = secret.get("data") or {}
    return authority.Issued(**{part: _bytes(data.get(name)) for name, part in FILES.items()})


def _bytes(text: Any) -> bytes:
    try:
        return base64.b64decode(text or "", validate=True)
    except binascii.Error:
        return b"?"  # not empty, so that it is reported as unusable


# ---- who trusts it


async def _trusted(name: str, issued: authority.Issued, cluster: keeper.Keeper) -> tuple[str, ...]:
    bundle = base64.b64encode(issued.bundle).decode()
    found = await cluster.get_configuration(name)
    operations = list(_operations(found.get("webhooks") or (), bundle))
    if not operations:
        return ()
    await cluster.patch_configuration(name, operations)
    return (f"MutatingWebhookConfiguration {name} trusts it",)


def _operations(webhooks: Sequence[Any], bundle: str) -> Iterator[dict[str, str]]:
    """The caBundle of each webhook, provided that it still is the one that was read."""
    for number, webhook in enumerate(webhooks):
        if webhook["clientConfig"].get("caBundle") == bundle:
            continue
        place = f"/webhooks/{number}"
        yield {"op": "test", "path": f"{place}/name", "value": webhook["name"]}
        yield {"op": "add", "path": f"{place}/clientConfig/caBundle", "value": bundle}


# ---- who serves with it


def _read(folder: pathlib.Path | None) -> authority.Issued:
    if folder is None:
        return authority.NOTHING
    found = {}
    for name, part in FILES.items():
        path = folder / name
        found[part] = path.read_bytes() if path.exists() else b""
    return authority.Issued(**found)


def _written(folder: pathlib.Path, issued: authority.Issued) -> tuple[str, ...]:
    """Write what differs; nobody ever sees half a file."""
    if _read(folder) == issued:
        return ()
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in FILES.items():
        beside = folder / f".{name}.new"
        beside.unlink(missing_ok=True)
        beside.touch(mode=0o600 if part == "key" else 0o644)
        beside.write_bytes(getattr(issued, part))
        beside.replace(folder / name)
    return (f"wrote it to {folder}",)
