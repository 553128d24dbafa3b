"""Flags, environment and file give the same settings, in a fixed order."""

import argparse
import pathlib

import pytest

from hami_operator import errors, settings
from hami_operator.cli import options


def parse(*flags: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    options.configure(parser)
    return parser.parse_args(flags)


def test_nothing_given_is_the_defaults() -> None:
    assert options.load(parse(), {}) == settings.Settings()


def test_a_flag_beats_the_environment_which_beats_the_file(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("device_timeout: 1m\nhandshake_interval: 10s\nnamespace: file\n")
    environ = {"HAMI_OPERATOR_HANDSHAKE_INTERVAL": "20s", "HAMI_OPERATOR_NAMESPACE": "env"}
    loaded = options.load(parse("--config", str(file), "--namespace", "flag"), environ)
    got = (loaded.device_timeout_s, loaded.handshake_interval_s, loaded.namespace)
    assert got == (60.0, 20.0, "flag")


def test_the_file_can_be_named_by_the_environment(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("log_format: console\n")
    assert options.load(parse(), {"HAMI_OPERATOR_CONFIG": str(file)}).log_format == "console"


@pytest.mark.parametrize("option", options.OPTIONS, ids=lambda option: option.key)
def test_every_option_can_be_given_by_flag_and_by_variable(option: options.Option) -> None:
    values = {"http_bind": "h:1", "log_format": "console", "decision_carrier": "patch"}
    values |= {"node_lock": "memory", "node_scheduler_policy": "spread"}
    values |= {"gpu_scheduler_policy": "mutex", "scheduler_name": "x", "namespace": "x"}
    values |= {"webhook_bind": "h:2", "cert_file": "/tls.crt", "key_file": "/tls.key"}
    value = values.get(option.key, "7s")
    by_flag = options.load(parse(option.flag, value), {})
    assert by_flag == options.load(parse(), {option.variable: value})
    assert by_flag != settings.Settings()


def test_leader_election_can_be_switched_off_both_ways() -> None:
    assert not options.load(parse("--no-leader-elect"), {}).leader_elect
    assert not options.load(parse(), {"HAMI_OPERATOR_LEADER_ELECT": "false"}).leader_elect


def test_the_default_schedulers_pods_can_be_left_to_it_both_ways() -> None:
    by_flag = options.load(parse("--no-force-overwrite-default-scheduler"), {})
    variable = {"HAMI_OPERATOR_FORCE_OVERWRITE_DEFAULT_SCHEDULER": "false"}
    assert not by_flag.force_overwrite_default_scheduler
    assert by_flag == options.load(parse(), variable)


def test_the_pods_own_namespace_is_where_the_lease_lives() -> None:
    assert options.load(parse(), {"POD_NAMESPACE": "gpu"}).namespace == "gpu"


def test_an_empty_variable_is_not_given() -> None:
    assert options.load(parse(), {"HAMI_OPERATOR_LOG_FORMAT": ""}) == settings.Settings()


@pytest.mark.parametrize(
    "content", ["- a list", "{", "\x00", "text"], ids=["a list", "no YAML", "binary", "a word"]
)
def test_a_file_that_is_no_mapping_is_refused_by_name(
    content: str, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(content)
    with pytest.raises(errors.SettingsError, match=r"config\.yaml"):
        options.load(parse("--config", str(file)), {})


def test_a_missing_file_is_refused_by_name() -> None:
    with pytest.raises(errors.SettingsError, match=r"nowhere\.yaml"):
        options.load(parse("--config", "nowhere.yaml"), {})


def test_an_empty_file_sets_nothing(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("# nothing\n")
    assert options.load(parse("--config", str(file)), {}) == settings.Settings()
