"""The keys that a decision leaves on its pod, checked before they are sent.

A Binding's metadata is not validated by the API server, and a pod that it made invalid can never
be updated again; so what is wrong with a decision is found here, and never sent.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Final

from hami_operator import errors
from hami_operator.devices import annotate
from hami_operator.devices import registry as registries
from hami_operator.protocol import bindphase, decision, instant, keys
from hami_operator.scheduling import pod as pods

MAX_TOTAL_BYTES: Final = 256 * 1024
"""What all annotations of an object may hold, keys and values together."""

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)
_PREFIX: Final = re.compile(
    r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*", re.ASCII
)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """Everything that is to be written on a pod with its node.

    Attributes:
        node: where the pod goes.
        annotations: keys to set; empty for a pod without devices.
        labels: labels to set; empty where the node's name is no label value.
        stale_keys: annotations that an earlier attempt, or somebody else, left on the pod and
            that would be believed beside this decision; to be removed in the same write.
        stale_labels: the same for labels.
    """

    node: str
    annotations: Mapping[str, str]
    labels: Mapping[str, str]
    stale_keys: tuple[str, ...] = ()
    stale_labels: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Unwritable:
    """Why a decision cannot be put on its pod."""

    reason: errors.Reason
    problem: str


def write(
    pod: pods.Pod,
    *,
    node: str,
    slots: Mapping[str, decision.Slots],
    registry: registries.Registry,
    now: instant.Instant,
) -> Decision | Unwritable:
    """The complete decision for ``pod``: core keys, each used word's values, plugin keys.

    Args:
        pod: as the API has it now.
        node: the chosen node.
        slots: picks per used word; empty for a pod without devices.
        registry: the rows; all keys that any of them may write count as ours.
        now: time of the decision.
    """
    annotations = _annotations(pod, node, slots, registry, now) if slots else {}
    labels = {keys.VGPU_NODE: node} if slots and is_label_value(node) else {}
    result = Decision(
        node=node,
        annotations=annotations,
        labels=labels,
        stale_keys=_stale(pod.annotations, registry.owned_pod_keys, annotations),
        stale_labels=_stale(pod.labels, frozenset({keys.VGPU_NODE}), labels),
    )
    problem = check(pod, result)
    if problem:
        return Unwritable(reason=errors.Reason.DECISION_TOO_LARGE, problem=problem)
    return result


def check(pod: pods.Pod, result: Decision) -> str:
    """What the API server would refuse in an update, as a sentence; empty where nothing is."""
    for key, value in result.annotations.items():
        if not is_qualified_name(key):
            return f"{key[:80]!r} is not a key that an annotation can have"
        if len(value.encode()) > decision.MAX_BYTES:
            return f"{key} would hold more than {decision.MAX_BYTES} bytes"
    kept = {key: text for key, text in pod.annotations.items() if key not in result.stale_keys}
    merged = kept | dict(result.annotations)
    total = sum(_size(key) + _size(value) for key, value in merged.items())
    if total > MAX_TOTAL_BYTES:
        return f"annotations would hold {total} bytes, more than {MAX_TOTAL_BYTES}"
    return ""


def is_label_value(text: str) -> bool:
    """Whether ``text`` may stand as the value of a label: up to 63 plain characters, or none."""
    return not text or _NAME.fullmatch(text) is not None


def is_qualified_name(key: str) -> bool:
    """Whether ``key`` may name an annotation: a name of up to 63 characters behind a domain."""
    prefix, slash, name = key.rpartition("/")
    if slash and not (len(prefix) <= 253 and _PREFIX.fullmatch(prefix)):
        return False
    return _NAME.fullmatch(name) is not None


def _annotations(
    pod: pods.Pod,
    node: str,
    slots: Mapping[str, decision.Slots],
    registry: registries.Registry,
    now: instant.Instant,
) -> dict[str, str]:
    plugin = annotate.decision_annotations(
        [registry.by_word[word] for word in slots],
        slots,
        node_name=node,
        now=now,
        pod_annotations=pod.annotations,
        containers=tuple(one.name for one in pod.containers),
        limits=tuple(one.limits for one in pod.containers),
    )
    return {**plugin, **_core(pod, node, now)}


def _core(pod: pods.Pod, node: str, now: instant.Instant) -> Mapping[str, str]:
    phase = bindphase.move(
        bindphase.classify(pod.annotations.get(keys.BIND_PHASE)),
        bindphase.Phase.ALLOCATING,
        writer=bindphase.Writer.OPERATOR,
        bound=bool(pod.node_name),
    )
    return {
        keys.VGPU_NODE: node,
        keys.VGPU_TIME: str(now.unix_s),
        keys.BIND_PHASE: phase.value,
        keys.BIND_TIME: str(now.unix_s),
    }


def _stale(
    present: Mapping[str, str], owned: frozenset[str], written: Mapping[str, str]
) -> tuple[str, ...]:
    return tuple(sorted(key for key in present if key in owned and key not in written))


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
