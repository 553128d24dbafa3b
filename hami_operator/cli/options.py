"""Settings from the command line, the environment and the configuration file."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping
from typing import Final

from hami_operator import errors, settings
from hami_operator.cli import documents, hamiflags
from hami_operator.devices import registry

PREFIX: Final = "HAMI_OPERATOR_"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Option:
    """One flag: the setting it gives, and what ``--help`` says of it."""

    key: str
    metavar: str
    help: str

    @property
    def flag(self) -> str:
        """The flag as it is typed."""
        return "--" + self.key.replace("_", "-")

    @property
    def variable(self) -> str:
        """The environment variable of the same meaning."""
        return PREFIX + self.key.upper()


OPTIONS: Final = (
    Option(key="scheduler_name", metavar="NAME", help="serve pods with this spec.schedulerName"),
    Option(
        key="handshake_interval",
        metavar="DURATION",
        help="ask each device plugin for a sign of life this often",
    ),
    Option(
        key="device_timeout",
        metavar="DURATION",
        help="a device type that was silent for so long is unavailable on its node",
    ),
    Option(key="http_bind", metavar="HOST:PORT", help="serve health and metrics here"),
    Option(key="metrics_bind", metavar="HOST:PORT", help="serve them here as well"),
    Option(key="webhook_bind", metavar="HOST:PORT", help="serve the admission webhook here"),
    Option(key="cert_file", metavar="FILE", help="the webhook's certificate; none: no webhook"),
    Option(key="key_file", metavar="FILE", help="the certificate's key"),
    Option(key="log_format", metavar="json|console", help="one JSON object a line, or text"),
    Option(key="namespace", metavar="NAME", help="namespace of the Lease that elects the leader"),
    Option(key="lease_name", metavar="NAME", help="its name, else that of the scheduler"),
    Option(
        key="decision_carrier",
        metavar="auto|patch",
        help="write decisions with the Binding where it can carry them, or always by a patch",
    ),
    Option(
        key="node_lock",
        metavar="annotation|memory",
        help="lock nodes by the protocol's annotation, or in memory as their only scheduler",
    ),
    Option(
        key="node_lock_timeout",
        metavar="DURATION",
        help="age at which the lock of a node counts as left behind",
    ),
    Option(
        key="node_label_selector",
        metavar="KEY=VALUE,...",
        help="leave the devices of nodes without these labels alone",
    ),
    Option(
        key="node_scheduler_policy", metavar="binpack|spread", help="fill nodes, or spread pods"
    ),
    Option(
        key="gpu_scheduler_policy",
        metavar="POLICY",
        help="the same for cards: binpack, spread, mutex, numa, or a comma list",
    ),
)

SWITCHES: Final = {
    "leader_elect": "elect one leader among replicas",
    "legacy_metrics": "also export metrics under the names of HAMi before 2.10",
    "force_overwrite_default_scheduler": "take pods with devices from the default scheduler",
}
"""Settings that are on or off, with what ``--help`` says of them."""

_KEYS: Final = (*(option.key for option in OPTIONS), *SWITCHES, "device_config_file")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the flags of all settings; each has an environment variable of the same meaning."""
    configure_files(parser)
    defaults = settings.Settings()
    for option in OPTIONS:
        default = _default(defaults, option.key)
        parser.add_argument(
            option.flag,
            metavar=option.metavar,
            help=f"{option.help} (default {default}; env {option.variable})",
        )
    for key, words in SWITCHES.items():
        flag, variable = key.replace("_", "-"), f"{PREFIX}{key.upper()}"
        parser.add_argument(
            f"--{flag}",
            nargs="?",
            const=True,
            metavar="true|false",
            help=f"{words} (default {str(getattr(defaults, key)).lower()}; env {variable})",
        )
        parser.add_argument(
            f"--no-{flag}", dest=key, action="store_const", const=False, help=argparse.SUPPRESS
        )
    hamiflags.configure(parser)


def configure_files(parser: argparse.ArgumentParser) -> None:
    """Add the flags that name the configuration files."""
    parser.add_argument(
        "--config", metavar="FILE", help=f"configuration file in YAML (env {PREFIX}CONFIG)"
    )
    parser.add_argument(
        "--device-config-file",
        metavar="FILE",
        help=f"HAMi's device-config.yaml, read as it is (env {PREFIX}DEVICE_CONFIG_FILE)",
    )


def _default(defaults: settings.Settings, key: str) -> str:
    value = getattr(defaults, key, None)
    return f"{getattr(defaults, key + '_s'):g}s" if value is None else str(value or "none")


def load(args: argparse.Namespace, environ: Mapping[str, str]) -> settings.Settings:
    """Settings from the file, then the environment, then the flags; the last one wins.

    Before all of them come variables of HAMi's, which only give defaults.

    What `configure` has not added to the parser cannot be given, by the environment neither.

    Raises:
        errors.SettingsError: a value that cannot be used; the message names its source.
    """
    path = args.config or environ.get(f"{PREFIX}CONFIG")
    file = documents.read(path) if path else documents.Document(name="", content={}, lines={})
    keys = [key for key in _KEYS if key in args]
    inherited = hamiflags.inherited(environ) if "node_lock_timeout" in keys else {}
    variables = {key: environ[PREFIX + key.upper()] for key in keys if _is_set(environ, key)}
    if "namespace" in args and "POD_NAMESPACE" in environ:
        variables.setdefault("namespace", environ["POD_NAMESPACE"])
    flags = {key: getattr(args, key) for key in keys if getattr(args, key) is not None}
    bound = hamiflags.bound(args, file.content, variables, flags) if "their_bind" in args else {}
    try:
        given = settings.load(inherited, file.content, variables, bound, flags)
    except errors.SettingsError:
        _blame(file)
        raise
    return with_devices(given, file)


def _blame(file: documents.Document) -> None:
    """Name the line of the file, where the file would be wrong even alone."""
    try:
        settings.load(file.content)
    except errors.SettingsError as error:
        raise (file.located(error) if file.name else error) from error


def with_devices(given: settings.Settings, file: documents.Document) -> settings.Settings:
    """The settings with the content of HAMi's file, all device backends checked.

    Args:
        given: the settings.
        file: where they come from, as far as they come from a file.

    Raises:
        errors.SettingsError: a row that cannot be used, or a file that cannot be read.
    """
    theirs = None
    if given.device_config_file:
        if given.device_config is not None:
            raise errors.SettingsError("device_config_file", "is given beside device_config")
        theirs = documents.read(given.device_config_file)
        given = dataclasses.replace(given, device_config=theirs.content)
    try:
        registry.configured(given)
    except errors.SettingsError as error:
        section, _, place = error.field.partition(".")
        if section == "device_config" and theirs is not None:
            raise theirs.located(errors.SettingsError(place, error.problem)) from error
        raise (file.located(error) if file.name else error) from error
    return given


def _is_set(environ: Mapping[str, str], key: str) -> bool:
    return bool(environ.get(PREFIX + key.upper()))
