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
    values |= {"metrics_bind": "h:3", "lease_name": "x", "node_label_selector": "a=b"}
    value = values.get(option.key, "7s")
    by_flag = options.load(parse(option.flag, value), {})
    assert by_flag == options.load(parse(), {option.variable: value})
    assert by_flag != settings.Settings()


@pytest.mark.parametrize(
    ("flags", "environ", "want"),
    [
        pytest.param(("--no-leader-elect",), {}, False, id="off"),
        pytest.param(("--leader-elect=false",), {}, False, id="off, as Go programs have it"),
        pytest.param(("--leader-elect", "false"), {}, False, id="off, in two words"),
        pytest.param((), {"HAMI_OPERATOR_LEADER_ELECT": "false"}, False, id="off by a variable"),
        pytest.param(
            ("--leader-elect",), {"HAMI_OPERATOR_LEADER_ELECT": "false"}, True, id="on by a flag"
        ),
    ],
)
def test_leader_election_is_a_switch(
    flags: tuple[str, ...], environ: dict[str, str], want: bool
) -> None:
    assert options.load(parse(*flags), environ).leader_elect is want


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param("gpu=on", {"gpu": "on"}, id="one"),
        pytest.param("gpu=on, a/b=", {"gpu": "on", "a/b": ""}, id="two, one of them empty"),
        pytest.param({"gpu": "on"}, {"gpu": "on"}, id="a mapping"),
        pytest.param("", {}, id="none"),
        pytest.param("gpu", None, id="no value"),
        pytest.param("=on", None, id="no key"),
        pytest.param({"gpu": True}, None, id="a value that is no text"),
        pytest.param(["gpu=on"], None, id="a list"),
    ],
)
def test_labels_are_read_from_a_text_or_a_mapping(
    given: object, want: dict[str, str] | None
) -> None:
    if want is None:
        with pytest.raises(errors.SettingsError, match="is not a list of labels"):
            settings.load({"node_label_selector": given})
    else:
        assert settings.load({"node_label_selector": given}).node_label_selector == want


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


# --- HAMi's file


def hamis(tmp_path: pathlib.Path, text: str = "nvidia: {resourceCountName: a.b/gpu}\n") -> str:
    file = tmp_path / "device-config.yaml"
    file.write_text(text)
    return str(file)


@pytest.mark.parametrize("by", ["flag", "variable", "file"])
def test_hamis_file_is_read_wherever_it_is_named(by: str, tmp_path: pathlib.Path) -> None:
    theirs, ours = hamis(tmp_path), tmp_path / "config.yaml"
    ours.write_text(f"device_config_file: {theirs}\n")
    loaded = {
        "flag": lambda: options.load(parse("--device-config-file", theirs), {}),
        "variable": lambda: options.load(parse(), {"HAMI_OPERATOR_DEVICE_CONFIG_FILE": theirs}),
        "file": lambda: options.load(parse("--config", str(ours)), {}),
    }[by]()
    assert loaded == settings.Settings(
        device_config_file=theirs,
        device_config={"nvidia": {"resourceCountName": "a.b/gpu"}},
    )


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("nvidia:\n  resourceCountName: 5\n", ":2: nvidia.resourceCountName: 5 is",
                     id="a value"),
        pytest.param("nvidia:\n- 1\n", ":1: nvidia: is not a mapping", id="a section"),
        pytest.param("nvidia:\n", ":1: all configurations are empty", id="nothing in it"),
        pytest.param("", ":1: all configurations are empty", id="nothing at all"),
        pytest.param("[", ":1: cannot be read", id="no YAML"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_hamis_file_is_named_by_its_line(
    text: str, want: str, tmp_path: pathlib.Path
) -> None:
    theirs = hamis(tmp_path, text)
    with pytest.raises(errors.SettingsError) as caught:
        options.load(parse("--device-config-file", theirs), {})
    assert str(caught.value).startswith(theirs + want)


def test_hamis_file_that_is_not_there_ends_the_start(tmp_path: pathlib.Path) -> None:
    with pytest.raises(errors.SettingsError, match=r"none\.yaml: cannot be read"):
        options.load(parse("--device-config-file", str(tmp_path / "none.yaml")), {})


def test_hamis_file_is_given_once(tmp_path: pathlib.Path) -> None:
    ours = tmp_path / "config.yaml"
    ours.write_text("device_config: {nvidia: {defaultCores: 1}}\n")
    given = parse("--config", str(ours), "--device-config-file", hamis(tmp_path))
    with pytest.raises(errors.SettingsError, match="is given beside device_config"):
        options.load(given, {})


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("# no\ndevice_timout: 5m\n", ":2: device_timout: unknown", id="a setting"),
        pytest.param("vendors:\n  NVIDIA:\n    cuont: a\n", ":3: vendors.NVIDIA.cuont: unknown",
                     id="a row"),
        pytest.param("device_config:\n  amd: {a: 1}\n  nvidia: [1]\n",
                     ":3: device_config.nvidia: is not", id="HAMi's file within ours"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_the_file_is_named_by_its_line(
    text: str, want: str, tmp_path: pathlib.Path
) -> None:
    ours = tmp_path / "config.yaml"
    ours.write_text(text)
    with pytest.raises(errors.SettingsError) as caught:
        options.load(parse("--config", str(ours)), {})
    assert str(caught.value).startswith(f"{ours}{want}")


def test_what_a_flag_says_wrong_is_not_blamed_on_the_file(tmp_path: pathlib.Path) -> None:
    ours = tmp_path / "config.yaml"
    ours.write_text("namespace: a\n")
    with pytest.raises(errors.SettingsError) as caught:
        options.load(parse("--config", str(ours), "--log-format", "x"), {})
    assert caught.value.field == "log_format"


def test_of_several_faults_the_first_is_told_and_where_to_find_the_others(
    tmp_path: pathlib.Path,
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("log_format: jsn\nvendors:\n  AMD: 5\nnode_lock: none\n")
    with pytest.raises(errors.SettingsError) as caught:
        options.load(parse("--config", str(file)), {})
    assert str(caught.value) == (
        f"{file}:1: log_format: 'jsn' is none of json, console; did you mean json?; "
        f"2 more: hami-operator vendors check {file}"
    )
