"""A command line of HAMi's scheduler starts ours, and what has no effect is said."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest
from structlog import testing

from hami_operator import settings
from hami_operator.cli import hamiflags, logs, options, run

LOCK = "HAMI_NODELOCK_EXPIRE"


def parse(*flags: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    run.configure(parser)
    return parser.parse_args(flags)


def load(*flags: str, **environ: str) -> settings.Settings:
    return options.load(parse(*flags), environ)


def test_the_flags_of_hamis_chart_are_understood() -> None:
    given = (
        "--http_bind=0.0.0.0:443",
        "--cert_file=/tls/tls.crt",
        "--key_file=/tls/tls.key",
        "--scheduler-name=hami-scheduler",
        "--metrics-bind-address=:9395",
        "--node-scheduler-policy=spread",
        "--gpu-scheduler-policy=binpack",
        "--force-overwrite-default-scheduler=false",
        "--leader-elect=true",
        "--leader-elect-resource-name=hami-scheduler",
        "--leader-elect-resource-namespace=kube-system",
        "--node-label-selector=gpu=on,zone=a",
        "--node-lock-timeout=3m",
        "--legacy-metrics=true",
        "--enable-ascend=true",
        "--enable-iluvatar",
        "--kube-qps=5.0",
        "--kube-burst=10",
        "--debug",
        "-v=4",
    )
    assert load(*given) == settings.Settings(
        webhook_bind="0.0.0.0:443",
        cert_file="/tls/tls.crt",
        key_file="/tls/tls.key",
        metrics_bind="0.0.0.0:9395",
        node_scheduler_policy="spread",
        gpu_scheduler_policy="binpack",
        force_overwrite_default_scheduler=False,
        lease_name="hami-scheduler",
        namespace="kube-system",
        node_label_selector={"gpu": "on", "zone": "a"},
        node_lock_timeout_s=180.0,
        legacy_metrics=True,
    )
    assert [line.partition(" ")[0] for line in hamiflags.unheeded(parse(*given), {})] == [
        "--enable-ascend", "--enable-iluvatar", "--kube-qps", "--kube-burst",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "environ", "want"),
    [
        pytest.param((), {}, {}, id="not given"),
        pytest.param(("--http_bind=h:1",), {}, {"http_bind": "h:1"}, id="without a certificate"),
        pytest.param(
            ("--http_bind=h:1", "--cert_file=c"),
            {},
            {"webhook_bind": "h:1", "cert_file": "c"},
            id="with one",
        ),
        pytest.param(
            ("--http_bind=h:1",),
            {"HAMI_OPERATOR_CERT_FILE": "c"},
            {"webhook_bind": "h:1", "cert_file": "c"},
            id="with one by a variable",
        ),
        pytest.param(
            ("--http_bind=h:1", "--http-bind=h:2"), {}, {"http_bind": "h:2"}, id="ours goes first"
        ),
    ],
)
def test_what_their_one_address_means(
    flags: tuple[str, ...], environ: Mapping[str, str], want: Mapping[str, Any]
) -> None:
    assert load(*flags, **environ) == dataclasses.replace(settings.Settings(), **want)


@pytest.mark.parametrize(
    ("flags", "environ", "want_s"),
    [
        pytest.param((), {}, 300.0, id="nothing"),
        pytest.param((), {LOCK: "10m"}, 600.0, id="their variable is the default"),
        pytest.param((), {LOCK: ""}, 300.0, id="an empty one is not given"),
        pytest.param((), {LOCK: "soon"}, 300.0, id="an unreadable one neither"),
        pytest.param(("--node-lock-timeout=7m",), {LOCK: "10m"}, 420.0, id="the flag wins"),
        pytest.param(
            (), {LOCK: "10m", "HAMI_OPERATOR_NODE_LOCK_TIMEOUT": "8m"}, 480.0, id="so does ours"
        ),
    ],
)
def test_the_age_of_a_dead_lock(
    flags: tuple[str, ...], environ: Mapping[str, str], want_s: float
) -> None:
    assert load(*flags, **environ).node_lock_timeout_s == want_s


@pytest.mark.parametrize(
    ("flags", "want"),
    [
        pytest.param((), False, id="not given"),
        pytest.param(("--verbose",), True, id="ours"),
        pytest.param(("--debug",), True, id="theirs"),
        pytest.param(("--debug=false",), False, id="theirs, switched off"),
        pytest.param(("-v=4",), False, id="the level that their chart gives"),
        pytest.param(("-v", "5"), True, id="a higher level"),
        pytest.param(("--v=9",), True, id="with two dashes"),
    ],
)
def test_who_wants_debug_lines(flags: tuple[str, ...], want: bool) -> None:
    assert parse(*flags).verbose is want


@pytest.mark.parametrize(
    ("flags", "environ", "want"),
    [
        pytest.param(
            ("--enable-ascend=false",),
            {},
            ["--enable-ascend has no effect: all device backends are active"],
            id="a vendor that is on anyway",
        ),
        pytest.param(
            ("--resource-name=nvidia.com/gpu",),
            {},
            [
                "--resource-name has no effect: names of resources are read from device_config"
                " and vendors"
            ],
            id="a name that the file gives",
        ),
        pytest.param(
            (),
            {LOCK: "soon"},
            [f"{LOCK} has no effect: 'soon' is not a duration"],
            id="a variable",
        ),
        pytest.param((), {LOCK: "10m"}, [], id="a variable that counts"),
    ],
)
def test_what_is_given_in_vain_is_said(
    flags: tuple[str, ...], environ: Mapping[str, str], want: list[str]
) -> None:
    assert list(hamiflags.unheeded(parse(*flags), environ)) == want


def test_a_start_says_what_was_given_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: object, **__: object) -> int:
        return 0

    monkeypatch.setattr(run, "operate", nothing)
    monkeypatch.setattr(logs, "configure", lambda *_, **__: None)
    with testing.capture_logs() as told:
        assert run.run(parse("--enable-ascend")) == 0
    assert [(one["log_level"], one["event"]) for one in told] == [
        ("warning", "--enable-ascend has no effect: all device backends are active")
    ]
