"""Settings: read once, checked once, and an error names the key."""

import dataclasses

import pytest

from hami_operator import errors, settings


def test_no_source_gives_the_defaults() -> None:
    assert settings.load() == settings.Settings()


@pytest.mark.parametrize(
    ("source", "want"),
    [
        pytest.param({"device_timeout": "5m"}, {"device_timeout_s": 300.0}, id="minutes"),
        pytest.param({"device_timeout": "1h5m30s"}, {"device_timeout_s": 3930.0}, id="sums"),
        pytest.param({"device_timeout": 2}, {"device_timeout_s": 2.0}, id="a number is seconds"),
        pytest.param({"device_timeout": "1.5"}, {"device_timeout_s": 1.5}, id="so is its text"),
        pytest.param({"device_timeout": "500ms"}, {"device_timeout_s": 0.5}, id="milliseconds"),
        pytest.param({"leader_elect": "false"}, {"leader_elect": False}, id="a boolean as text"),
        pytest.param({"leader_elect": True}, {"leader_elect": True}, id="a boolean"),
        pytest.param({"http_bind": ":9395"}, {"http_bind": "0.0.0.0:9395"}, id="any address"),
        pytest.param({"http_bind": "[::1]:80"}, {"http_bind": "[::1]:80"}, id="IPv6"),
        pytest.param(
            {"compat": {"hami_scores": True}}, {"hami_scores": True}, id="a nested section"
        ),
        pytest.param({"compat.hami_scores": "1"}, {"hami_scores": True}, id="dots for nesting"),
        pytest.param({"bind_workers": "8"}, {"bind_workers": 8}, id="a count as text"),
        pytest.param(
            {"gpu_scheduler_policy": " numa,binpack "},
            {"gpu_scheduler_policy": "numa,binpack"},
            id="a policy chain",
        ),
        pytest.param(
            {"admission": {"strict": True}}, {"admission_strict": True}, id="strict admission"
        ),
        pytest.param(
            {"admission": {"excluded_namespaces": ["a", "b"]}},
            {"admission_excluded_namespaces": ("a", "b")},
            id="a list of names",
        ),
        pytest.param(
            {"admission.unlimited_namespaces": "a, b,"},
            {"admission_unlimited_namespaces": ("a", "b")},
            id="a comma list of names",
        ),
        pytest.param({"cert_file": "/tls/tls.crt"}, {"cert_file": "/tls/tls.crt"}, id="a file"),
        pytest.param(
            {"vendors": {"NVIDIA": {"default_cores": 10}}},
            {"vendors": {"NVIDIA": {"default_cores": 10}}},
            id="vendor overrides pass through",
        ),
    ],
)
def test_a_readable_value_arrives(source: dict, want: dict) -> None:
    assert settings.load(source) == dataclasses.replace(settings.Settings(), **want)


@pytest.mark.parametrize(
    ("source", "field"),
    [
        pytest.param({"device_timout": "5m"}, "device_timout", id="an unknown key"),
        pytest.param({"device_timeout": "5 m"}, "device_timeout", id="a blank in a duration"),
        pytest.param({"device_timeout": "-1s"}, "device_timeout", id="a negative duration"),
        pytest.param({"device_timeout": 0}, "device_timeout", id="no duration at all"),
        pytest.param({"device_timeout": float("nan")}, "device_timeout", id="not a number"),
        pytest.param({"device_timeout": float("inf")}, "device_timeout", id="endless"),
        pytest.param({"device_timeout": True}, "device_timeout", id="a boolean duration"),
        pytest.param({"device_timeout": "٣s"}, "device_timeout", id="digits that are not ASCII"),
        pytest.param({"log_format": "xml"}, "log_format", id="a word that is none of the choices"),
        pytest.param({"leader_elect": "maybe"}, "leader_elect", id="neither true nor false"),
        pytest.param({"bind_workers": 0}, "bind_workers", id="no workers"),
        pytest.param({"bind_workers": True}, "bind_workers", id="a boolean count"),
        pytest.param({"scheduler_name": "Upper"}, "scheduler_name", id="an illegal name"),
        pytest.param({"scheduler_name": 5}, "scheduler_name", id="a name that is a number"),
        pytest.param({"http_bind": "localhost"}, "http_bind", id="an address without a port"),
        pytest.param({"http_bind": "h:99999"}, "http_bind", id="a port out of range"),
        pytest.param({"gpu_scheduler_policy": " "}, "gpu_scheduler_policy", id="a blank policy"),
        pytest.param(
            {"admission": {"excluded_namespaces": 5}},
            "admission.excluded_namespaces",
            id="a number of namespaces",
        ),
        pytest.param(
            {"admission": {"excluded_namespaces": ["Upper"]}},
            "admission.excluded_namespaces",
            id="a namespace of an illegal name",
        ),
        pytest.param({"admission": {"strikt": True}}, "admission.strikt", id="a nested misprint"),
        pytest.param({"cert_file": 5}, "cert_file", id="a file that is a number"),
        pytest.param({"vendors": []}, "vendors", id="vendors that are a list"),
        pytest.param({"vendors": {"NVIDIA": 1}}, "vendors.NVIDIA", id="a vendor without fields"),
        pytest.param(
            {"renew_deadline": "20s"}, "renew_deadline", id="a deadline beyond the Lease"
        ),
    ],
)
def test_a_bad_value_is_refused_with_its_key(source: dict, field: str) -> None:
    with pytest.raises(errors.SettingsError) as caught:
        settings.load(source)
    assert caught.value.field == field
    assert str(caught.value).startswith(field)


def test_later_sources_win() -> None:
    loaded = settings.load({"namespace": "a", "log_format": "console"}, {"namespace": "b"})
    assert (loaded.namespace, loaded.log_format) == ("b", "console")


def test_every_field_can_be_set_by_some_key() -> None:
    fields = {field.name for field in dataclasses.fields(settings.Settings)}
    assert {settings._READERS[key][0] for key in settings.KEYS} == fields
