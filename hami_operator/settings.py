"""What can be set, validated once at start; nothing else reads files or environment.

The configuration file, the flags and the environment all arrive here as mappings. Keys of the
file are the field names below, with nested sections written ``compat: {hami_scores: true}``.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from hami_operator import errors

Reader = Callable[..., Any]
"""(value, field) → the value as it is kept."""

_UNITS_S: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_DURATION: Final = re.compile(r"(?:\d+(?:\.\d+)?(?:h|ms|m|s))+", re.ASCII)
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s)", re.ASCII)
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """All settings with their defaults; durations in seconds.

    Attributes:
        scheduler_name: pods whose ``spec.schedulerName`` is this one are ours.
        handshake_interval_s: how often a plugin is asked for a sign of life (D2).
        device_timeout_s: silence after which a (node, type) is unavailable (D1).
        http_bind: ``host:port`` of health and metrics.
        metrics_bind: a second ``host:port`` where they are served; empty for none.
        pod_metrics: whether metrics tell what each pod and container has of each card.
        legacy_metrics: also export metrics under the names of HAMi before 2.10.
        log_format: ``json`` or ``console``.
        leader_elect: whether replicas elect one leader; without it this process always leads.
        namespace: where the Lease lives.
        lease_name: its name; empty for that of the scheduler.
        leader_role_label: whether the leader labels all replicas with their roles (D12).
        lease_duration_s: a Lease untouched for so long has lost its holder.
        renew_deadline_s: a leader that could not renew for so long stops deciding.
        retry_period_s: pause between two looks at the Lease.
        decision_carrier: ``auto`` (in the Binding where possible) or ``patch`` (D9).
        node_lock: ``annotation`` (the protocol's lock) or ``memory`` (we are the only writer).
        node_lock_timeout_s: age at which a node lock counts as expired (D13).
        node_label_selector: labels without which a node's devices are left alone.
        node_scheduler_policy: ``binpack`` or ``spread``, between nodes.
        gpu_scheduler_policy: card policy, a word or a comma list.
        hami_scores: leave request terms out of card scores, as HAMi 2.10 does (D15).
        bind_workers: how many binds may be in flight at once.
        bind_timeout_s: bound of one whole bind, lock waits excluded.
        drain_timeout_s: how long a stopping process waits for binds in flight.
        gang_timeout_s: a gang of which only a part could be bound gives everything back then.
        resync_interval_s: pause between two comparisons of all nodes with the API server.
        node_source: ``kopf`` or ``reflector``: who watches Nodes and pending pods.
        webhook_bind: ``host:port`` of the admission webhook.
        cert_file: its certificate; without it and its key there is no webhook.
        key_file: the certificate's key.
        force_overwrite_default_scheduler: pods of the default scheduler that ask for devices
            become ours.
        admission_strict: forged keys are refused instead of removed, and so is a switched-off
            limiter.
        admission_excluded_namespaces: pods there are let in as they are.
        admission_unlimited_namespaces: pods there may switch the limiter off, strict or not.
        device_config_file: path of HAMi's ``device-config.yaml``.
        device_config: its content; None where there is none.
        vendors: overrides per vendor word, read by the vendor registry; they win over
            ``device_config``.
    """

    scheduler_name: str = "hami-scheduler"
    handshake_interval_s: float = 30.0
    device_timeout_s: float = 300.0
    http_bind: str = "0.0.0.0:8080"
    metrics_bind: str = ""
    pod_metrics: bool = True
    legacy_metrics: bool = False
    log_format: str = "json"
    leader_elect: bool = True
    namespace: str = "hami-system"
    lease_name: str = ""
    leader_role_label: bool = False
    lease_duration_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_period_s: float = 2.0
    decision_carrier: str = "auto"
    node_lock: str = "annotation"
    node_lock_timeout_s: float = 300.0
    node_label_selector: Mapping[str, str] = dataclasses.field(default_factory=dict)
    node_scheduler_policy: str = "binpack"
    gpu_scheduler_policy: str = "spread"
    hami_scores: bool = False
    bind_workers: int = 64
    bind_timeout_s: float = 60.0
    drain_timeout_s: float = 8.0
    gang_timeout_s: float = 300.0
    resync_interval_s: float = 300.0
    node_source: str = "kopf"
    webhook_bind: str = "0.0.0.0:8443"
    cert_file: str = ""
    key_file: str = ""
    force_overwrite_default_scheduler: bool = True
    admission_strict: bool = False
    admission_excluded_namespaces: tuple[str, ...] = ()
    admission_unlimited_namespaces: tuple[str, ...] = ()
    device_config_file: str = ""
    device_config: Mapping[str, Any] | None = None
    vendors: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)


def closest(given: object, known: Iterable[str]) -> str:
    """The known word that is meant, as the end of a sentence; empty where none is like it."""
    found = difflib.get_close_matches(str(given), tuple(known), n=1)
    return f"; did you mean {found[0]}?" if found else ""


def duration_s(value: object, *, field: str) -> float:
    """Seconds from a number or from Go's notation (``1h5m``, ``30s``, ``500ms``).

    Raises:
        errors.SettingsError: not a duration, or not above 0.
    """
    seconds = _seconds(value)
    if seconds is None or not 0 < seconds < float("inf"):
        raise errors.SettingsError(field, f"{value!r} is not a duration such as 30s or 5m")
    return seconds


def _seconds(value: object) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    text = str(value).strip()
    if re.fullmatch(r"\d+(\.\d+)?", text, re.ASCII):
        return float(text)
    if not _DURATION.fullmatch(text):
        return None
    return sum(float(amount) * _UNITS_S[unit] for amount, unit in _PART.findall(text))


def _chosen(value: object, field: str, *, words: tuple[str, ...]) -> str:
    if value not in words:
        problem = f"{value!r} is none of {', '.join(words)}{closest(value, words)}"
        raise errors.SettingsError(field, problem)
    return str(value)


def _choice(*words: str) -> Reader:
    return functools.partial(_chosen, words=words)


def _duration(value: object, field: str) -> float:
    return duration_s(value, field=field)


def _boolean(value: object, field: str) -> bool:
    known = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if isinstance(value, bool):
        return value
    if str(value).lower() not in known:
        raise errors.SettingsError(field, f"{value!r} is neither true nor false")
    return known[str(value).lower()]


def _count(value: object, field: str) -> int:
    text = str(value)
    if isinstance(value, bool) or not re.fullmatch(r"[1-9]\d{0,5}", text, re.ASCII):
        raise errors.SettingsError(field, f"{value!r} is not a whole number above 0")
    return int(text)


def _name(value: object, field: str) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise errors.SettingsError(field, f"{value!r} is not a name of lower-case words")
    return value


def _names(value: object, field: str) -> tuple[str, ...]:
    """A list of names, or a comma list in one text."""
    listed = value.split(",") if isinstance(value, str) else value
    if not isinstance(listed, list | tuple):
        raise errors.SettingsError(field, f"{value!r} is not a list of names")
    trimmed = (one.strip() if isinstance(one, str) else one for one in listed)
    return tuple(_name(one, field) for one in trimmed if one != "")


def _labels(value: object, field: str) -> Mapping[str, str]:
    """A mapping, or ``key=value`` pairs with commas between them in one text."""
    if isinstance(value, str):
        pairs = (one.strip().partition("=") for one in value.split(",") if one.strip())
        value = {key: text if sign else None for key, sign, text in pairs}
    if not isinstance(value, Mapping) or not all(
        isinstance(key, str) and key and isinstance(text, str) for key, text in value.items()
    ):
        raise errors.SettingsError(field, f"{value!r} is not a list of labels key=value")
    return dict(value)


def _file(value: object, field: str) -> str:
    if not isinstance(value, str):
        raise errors.SettingsError(field, f"{value!r} is not the path of a file")
    return value


def _address(value: object, field: str) -> str:
    host, _, port = str(value).rpartition(":")
    if not re.fullmatch(r"\d{1,5}", port, re.ASCII) or int(port) > 65535:
        raise errors.SettingsError(field, f"{value!r} is not host:port")
    return f"{host or '0.0.0.0'}:{port}"  # noqa: S104 - an empty host means all addresses


def _policy(value: object, field: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise errors.SettingsError(field, f"{value!r} is not a policy word or a comma list")
    return value.strip()


def _mapping(value: object, field: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise errors.SettingsError(field, "is not a mapping")
    return value


def _vendors(value: object, field: str) -> Mapping[str, Mapping[str, Any]]:
    if not isinstance(value, Mapping):
        raise errors.SettingsError(field, "is not a mapping from vendor word to its overrides")
    found = errors.Gathered()
    for word, row in value.items():
        with found.gathering():
            _row(row, word, f"{field}.{word}")
    found.tell()
    return value


def _row(value: object, word: object, field: str) -> None:
    if not isinstance(word, str):
        raise errors.SettingsError(field, "is not a text")
    if not isinstance(value, Mapping):
        raise errors.SettingsError(field, "is not a mapping")


_READERS: Final[Mapping[str, tuple[str, Reader]]] = {
    "scheduler_name": ("scheduler_name", _name),
    "handshake_interval": ("handshake_interval_s", _duration),
    "device_timeout": ("device_timeout_s", _duration),
    "http_bind": ("http_bind", _address),
    "metrics_bind": ("metrics_bind", _address),
    "pod_metrics": ("pod_metrics", _boolean),
    "legacy_metrics": ("legacy_metrics", _boolean),
    "log_format": ("log_format", _choice("json", "console")),
    "leader_elect": ("leader_elect", _boolean),
    "namespace": ("namespace", _name),
    "lease_name": ("lease_name", _name),
    "leader_role_label": ("leader_role_label", _boolean),
    "lease_duration": ("lease_duration_s", _duration),
    "renew_deadline": ("renew_deadline_s", _duration),
    "retry_period": ("retry_period_s", _duration),
    "decision_carrier": ("decision_carrier", _choice("auto", "patch")),
    "node_lock": ("node_lock", _choice("annotation", "memory")),
    "node_lock_timeout": ("node_lock_timeout_s", _duration),
    "node_label_selector": ("node_label_selector", _labels),
    "node_scheduler_policy": ("node_scheduler_policy", _choice("binpack", "spread")),
    "gpu_scheduler_policy": ("gpu_scheduler_policy", _policy),
    "compat.hami_scores": ("hami_scores", _boolean),
    "bind_workers": ("bind_workers", _count),
    "bind_timeout": ("bind_timeout_s", _duration),
    "drain_timeout": ("drain_timeout_s", _duration),
    "gang_timeout": ("gang_timeout_s", _duration),
    "resync_interval": ("resync_interval_s", _duration),
    "node_source": ("node_source", _choice("kopf", "reflector")),
    "webhook_bind": ("webhook_bind", _address),
    "cert_file": ("cert_file", _file),
    "key_file": ("key_file", _file),
    "force_overwrite_default_scheduler": ("force_overwrite_default_scheduler", _boolean),
    "admission.strict": ("admission_strict", _boolean),
    "admission.excluded_namespaces": ("admission_excluded_namespaces", _names),
    "admission.unlimited_namespaces": ("admission_unlimited_namespaces", _names),
    "device_config_file": ("device_config_file", _file),
    "device_config": ("device_config", _mapping),
    "vendors": ("vendors", _vendors),
}

_SECTIONS: Final = frozenset(key.split(".")[0] for key in _READERS if "." in key)

KEYS: Final = tuple(_READERS)
"""Every key of the configuration file, dots for nesting."""

_NAME_SHAPE: Final = {"type": "string", "pattern": f"^{_NAME.pattern}$"}
_SHAPES: Final[Mapping[Reader, Mapping[str, Any]]] = {
    _name: _NAME_SHAPE,
    _names: {"anyOf": [{"type": "string"}, {"type": "array", "items": _NAME_SHAPE}]},
    _duration: {
        "anyOf": [
            {"type": "number", "exclusiveMinimum": 0},
            {"type": "string", "pattern": rf"^\s*({_DURATION.pattern}|\d+(\.\d+)?)\s*$"},
        ]
    },
    _boolean: {"type": "boolean"},
    _count: {"type": "integer", "minimum": 1, "maximum": 999_999},
    _labels: {
        "anyOf": [
            {"type": "string"},
            {"type": "object", "additionalProperties": {"type": "string"}},
        ]
    },
    _file: {"type": "string"},
    _address: {"type": "string", "pattern": r":\d{1,5}$"},
    _policy: {"type": "string", "pattern": r"\S"},
    _mapping: {"type": "object"},
    _vendors: {"type": "object", "additionalProperties": {"type": "object"}},
}


def shape(key: str) -> Mapping[str, Any]:
    """What a value of a key looks like, as JSON Schema; one of `KEYS`."""
    read = _READERS[key][1]
    if isinstance(read, functools.partial):
        return {"enum": list(read.keywords["words"])}
    return _SHAPES[read]


def load(*sources: Mapping[str, object]) -> Settings:
    """Build the settings; later sources win (file, then environment, then flags).

    Raises:
        errors.SettingsError: an unknown key, a value that cannot be used, or values that
            contradict each other; the message names the key, and it holds all that was found.
    """
    values: dict[str, Any] = {}
    found = errors.Gathered()
    for source in sources:
        for key, value in _flatten(source).items():
            with found.gathering():
                field, read = _reader(key)
                values[field] = read(value, key)
    settings = Settings(**values)
    if not _TERM.intersection(fault.field for fault in found.faults):
        with found.gathering():
            _check(settings)
    found.tell()
    return settings


def _reader(key: str) -> tuple[str, Reader]:
    if key not in _READERS:
        raise errors.SettingsError(key, f"unknown setting{closest(key, KEYS)}")
    return _READERS[key]


def _flatten(source: Mapping[str, object]) -> dict[str, object]:
    flat: dict[str, object] = {}
    for key, value in source.items():
        if key in _SECTIONS and isinstance(value, Mapping):
            flat.update({f"{key}.{inner}": item for inner, item in value.items()})
        else:
            flat[str(key)] = value
    return flat


_TERM: Final = frozenset({"retry_period", "renew_deadline", "lease_duration"})


def _check(settings: Settings) -> None:
    """Refuse combinations under which two leaders could write at once."""
    if not settings.retry_period_s < settings.renew_deadline_s < settings.lease_duration_s:
        raise errors.SettingsError(
            "renew_deadline", "must lie between retry_period and lease_duration"
        )
