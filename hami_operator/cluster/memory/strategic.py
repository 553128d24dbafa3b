"""Strategic merge patch: a merge patch that merges some lists by a key instead of replacing them.

Which lists those are, and by which key, is fixed by the types of the Kubernetes API; it is a
table here. Lists that are not in it (tolerations, taints, container statuses) are replaced whole.
Without the keys a fake hides a trap: a client that patches one condition wipes the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hami_operator.cluster.memory import refusals

MERGE_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "addresses": ("type",),
    "conditions": ("type",),
    "containers": ("name",),
    "env": ("name",),
    "ephemeralContainers": ("name",),
    "hostAliases": ("ip",),
    "imagePullSecrets": ("name",),
    "initContainers": ("name",),
    "ownerReferences": ("uid",),
    "podIPs": ("ip",),
    "ports": ("containerPort", "port"),  # of a container, of a Service
    "resourceClaims": ("name",),
    "schedulingGates": ("name",),
    "secrets": ("name",),
    "topologySpreadConstraints": ("topologyKey",),
    "volumeDevices": ("devicePath",),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
    "webhooks": ("name",),
}
PRIMITIVE_SETS: Final = frozenset({"finalizers"})

_DIRECTIVE: Final = "$patch"
_ORDER: Final = "$setElementOrder"
_DELETE_FROM: Final = "$deleteFromPrimitiveList"
_RETAIN: Final = "$retainKeys"


def merge(target: Any, patch: Mapping[str, Any]) -> Any:
    """The target with a strategic merge patch applied.

    Raises:
        refusals.Refused: 400, an entry of a keyed list has no key or the directive is unknown.
    """
    directive = patch.get(_DIRECTIVE, "merge")
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != _DIRECTIVE}
    if directive == "delete":
        return {}
    if directive != "merge":
        raise refusals.bad_request(f"Unknown patch type: {directive}")
    merged = dict(target) if isinstance(target, Mapping) else {}
    _keep(merged, patch.get(_RETAIN))
    for key, value in patch.items():
        if not key.startswith("$"):
            _merge_field(merged, key, value)
    _apply_list_directives(merged, patch)
    return merged


def _keep(merged: dict[str, Any], names: Any) -> None:
    if isinstance(names, list):
        for name in [name for name in merged if name not in names]:
            del merged[name]


def _merge_field(merged: dict[str, Any], key: str, value: Any) -> None:
    old = merged.get(key)
    if value is None:
        merged.pop(key, None)
    elif isinstance(value, Mapping):
        merged[key] = merge(old, value)
    elif isinstance(value, list):
        merged[key] = _merge_list(key, old if isinstance(old, list) else [], value)
    else:
        merged[key] = value


def _merge_list(name: str, old: list[Any], patch: list[Any]) -> list[Any]:
    if name in PRIMITIVE_SETS:
        return [*old, *(entry for entry in patch if entry not in old)]
    keys = MERGE_KEYS.get(name)
    if keys is None or not all(isinstance(entry, Mapping) for entry in [*old, *patch]):
        return patch
    if any(entry.get(_DIRECTIVE) == "replace" for entry in patch):
        return [entry for entry in patch if entry.get(_DIRECTIVE) != "replace"]
    return _merge_keyed(keys, old, patch)


def _merge_keyed(keys: tuple[str, ...], old: list[Any], patch: list[Any]) -> list[Any]:
    """The merged entries; new ones come first, as the API server has them."""
    merged = {_key(entry, keys): entry for entry in old}
    added: dict[Any, Any] = {}
    for entry in patch:
        key = _key(entry, keys)
        if entry.get(_DIRECTIVE) == "delete":
            merged.pop(key, None)
        elif key in merged:
            merged[key] = merge(merged[key], entry)
        else:
            added[key] = merge({}, entry)
    return [*added.values(), *merged.values()]


def _key(entry: Mapping[str, Any], keys: tuple[str, ...]) -> str | int:
    for key in keys:
        if isinstance(entry.get(key), str | int):
            found: str | int = entry[key]
            return found
    names = " or ".join(keys)
    raise refusals.bad_request(f"map: {dict(entry)} does not contain declared merge key: {names}")


def _apply_list_directives(merged: dict[str, Any], patch: Mapping[str, Any]) -> None:
    for key, value in patch.items():
        directive, _, name = key.partition("/")
        entries = merged.get(name)
        if directive not in (_DELETE_FROM, _ORDER) or not isinstance(entries, list):
            continue
        if not isinstance(value, list):
            raise refusals.bad_request(f"{key} must be a list")
        if directive == _DELETE_FROM:
            merged[name] = [entry for entry in entries if entry not in value]
        else:
            merged[name] = _ordered(entries, MERGE_KEYS.get(name), value)


def _ordered(entries: list[Any], keys: tuple[str, ...] | None, wanted: list[Any]) -> list[Any]:
    """The entries in the wanted order; what it does not name comes last, as it was."""

    def identity(entry: Any) -> object:
        return _key(entry, keys) if keys and isinstance(entry, Mapping) else entry

    order = [identity(entry) for entry in wanted]

    def rank(entry: Any) -> int:
        known = identity(entry)
        return order.index(known) if known in order else len(order)

    return sorted(entries, key=rank)
