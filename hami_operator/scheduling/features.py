"""What a pod needs that a kubelet must have declared, since older ones would ignore it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hami_operator.scheduling import fields

RESTART_ALL: Final = "RestartAllContainersOnContainerExits"
HOST_NETWORK: Final = "UserNamespacesHostNetworkSupport"
_NONE: Final[frozenset[str]] = frozenset()


def read(spec: Mapping[str, Any], found: fields.Fields) -> frozenset[str]:
    """Names of features, as nodes declare them in ``status.declaredFeatures``."""
    needed = set()
    if spec.get("hostUsers") is False and spec.get("hostNetwork"):
        needed.add(HOST_NETWORK)
    if _restarts_all(spec, found):
        needed.add(RESTART_ALL)
    return frozenset(needed) if needed else _NONE


def _restarts_all(spec: Mapping[str, Any], found: fields.Fields) -> bool:
    return any(
        rule.get("action") == "RestartAllContainers"
        for key in ("containers", "initContainers")
        if spec.get(key)
        for place, item in found.items(spec, key, "spec.")
        if "restartPolicyRules" in item
        for _, rule in found.items(item, "restartPolicyRules", f"{place}.")
    )
