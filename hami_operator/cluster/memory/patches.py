"""JSON merge patch (RFC 7386) and JSON patch (RFC 6902), without touching the original.

Objects in the store are never changed in place: a patch builds new containers along the paths
that it touches and shares all the rest with the old object. That makes patches cheap, and
lets the store see by identity what a patch has left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hami_operator.cluster.memory import refusals


def merge(target: Any, patch: Any) -> Any:
    """The target with a JSON merge patch applied: null removes, objects are merged."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping):
            merged[key] = merge(merged.get(key), value)
        else:
            merged[key] = value
    return merged


def apply_operations(target: Any, operations: list[Any]) -> Any:
    """The target with the operations of a JSON patch applied in order.

    Raises:
        refusals.Refused: 422, an operation is malformed, its path is missing or its test fails.
    """
    for operation in operations:
        if not isinstance(operation, Mapping):
            raise refusals.patch_failed()
        apply = _OPERATIONS.get(str(operation.get("op")))
        if apply is None:
            raise refusals.patch_failed()
        target = apply(target, operation)
    return target


def _tokens(operation: Mapping[str, Any], key: str = "path") -> list[str]:
    pointer = operation.get(key)
    if not isinstance(pointer, str) or (pointer and not pointer.startswith("/")):
        raise refusals.patch_failed()
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def _value(operation: Mapping[str, Any]) -> Any:
    if "value" not in operation:
        raise refusals.patch_failed()
    return operation["value"]


def _lookup(node: Any, tokens: list[str]) -> Any:
    for token in tokens:
        if isinstance(node, dict) and token in node:
            node = node[token]
        elif isinstance(node, list):
            node = node[_index(node, token, end=len(node))]
        else:
            raise refusals.patch_failed()
    return node


def _index(node: list[Any], token: str, *, end: int) -> int:
    if token.isdecimal() and int(token) < end:
        return int(token)
    raise refusals.patch_failed()


def _edit(node: Any, tokens: list[str], change: Callable[[Any, str], None]) -> Any:
    """A copy of the node in which ``change`` was applied to a copy of the last container."""
    if isinstance(node, dict):
        copy: Any = dict(node)
    elif isinstance(node, list):
        copy = list(node)
    else:
        raise refusals.patch_failed()
    if len(tokens) == 1:
        change(copy, tokens[0])
        return copy
    child = _lookup(node, tokens[:1])
    slot = tokens[0] if isinstance(copy, dict) else int(tokens[0])
    copy[slot] = _edit(child, tokens[1:], change)
    return copy


def _put(target: Any, tokens: list[str], value: Any) -> Any:
    def change(container: Any, step: str) -> None:
        if isinstance(container, dict):
            container[step] = value
        elif step == "-":
            container.append(value)
        else:
            container.insert(_index(container, step, end=len(container) + 1), value)

    return _edit(target, tokens, change) if tokens else value


def _drop(target: Any, tokens: list[str]) -> Any:
    def change(container: Any, step: str) -> None:
        _lookup(container, [step])
        del container[step if isinstance(container, dict) else int(step)]

    if not tokens:
        raise refusals.patch_failed()
    return _edit(target, tokens, change)


def _add(target: Any, operation: Mapping[str, Any]) -> Any:
    return _put(target, _tokens(operation), _value(operation))


def _remove(target: Any, operation: Mapping[str, Any]) -> Any:
    return _drop(target, _tokens(operation))


def _replace(target: Any, operation: Mapping[str, Any]) -> Any:
    tokens = _tokens(operation)
    _lookup(target, tokens)
    parent = _lookup(target, tokens[:-1])
    if isinstance(parent, list):
        target = _drop(target, tokens)
    return _put(target, tokens, _value(operation))


def _move(target: Any, operation: Mapping[str, Any]) -> Any:
    source = _tokens(operation, "from")
    value = _lookup(target, source)
    return _put(_drop(target, source), _tokens(operation), value)


def _copy(target: Any, operation: Mapping[str, Any]) -> Any:
    return _put(target, _tokens(operation), _lookup(target, _tokens(operation, "from")))


def _test(target: Any, operation: Mapping[str, Any]) -> Any:
    if _lookup(target, _tokens(operation)) != _value(operation):
        raise refusals.patch_failed()
    return target


_OPERATIONS: Mapping[str, Callable[[Any, Mapping[str, Any]], Any]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}
