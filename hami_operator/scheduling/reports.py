"""What the world tells people: findings and outcomes as Events, conditions and counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from hami_operator.protocol import decision, keys, nodelock
from hami_operator.scheduling import claim, effects, quota, serving
from hami_operator.scheduling import pod as pods

_SHOWN: Final = 16
_REASONS: Final[Mapping[claim.Oddity, str]] = {
    claim.Oddity.ELSEWHERE: "ForeignDecision",
    claim.Oddity.FOREIGN: "ForeignDecision",
    claim.Oddity.DIFFERS: "ForeignDecision",
    claim.Oddity.EDITED: "ForeignDecision",
    claim.Oddity.BYPASSED: "AdmissionBypassed",
}


def oddities(
    pod: effects.PodRef, node: str, findings: Iterable[claim.Finding]
) -> Iterator[effects.Effect]:
    """What is odd about a bound pod: an Event on it, or on its node where a type closes."""
    for finding in findings:
        yield effects.Correction(kind=finding.oddity.value, node=node, word=finding.word)
        if finding.oddity is claim.Oddity.UNREADABLE:
            text = (
                f"{finding.word} takes no new pods here until pod {pod} is gone: "
                f"its decision cannot be read: {finding.text}"
            )
            yield effects.NodeEvent(
                node=node,
                type=effects.EventType.WARNING,
                reason="UnreadableDecision",
                message=text,
            )
        else:
            yield _warning(pod, _REASONS[finding.oddity], finding.text)


def miscounted(total: str) -> effects.Correction:
    """A total of the ledger had fallen below zero."""
    text = f"usage of {total} had fallen below zero, and was added up again"
    return effects.Correction(kind="negative", node="", bug=text)


def reopened(node: str, word: str) -> effects.NodeEvent:
    """The last unreadable decision of a type is gone from the node."""
    return effects.NodeEvent(
        node=node,
        type=effects.EventType.NORMAL,
        reason="DeviceTypeAvailable",
        message=f"{word} takes new pods again: no unreadable decision is left here",
    )


def unknown_cards(node: str, word: str, cards: Iterable[str]) -> Iterator[effects.Effect]:
    """Pods hold cards that the node does not register (any more)."""
    yield effects.Correction(kind="unknown", node=node, word=word)
    yield effects.NodeEvent(
        node=node,
        type=effects.EventType.WARNING,
        reason="UnknownDevice",
        message=f"pods hold {word} devices that are not registered here: {_list(cards)}",
    )


def odd_quota(limits: quota.Limits) -> effects.QuotaEvent:
    """A ResourceQuota says something about devices that cannot be a limit."""
    return effects.QuotaEvent(
        uid=limits.uid,
        namespace=limits.namespace,
        name=limits.name,
        type=effects.EventType.WARNING,
        reason="MalformedResourceQuota",
        message="; ".join(f"{odd.field}: {odd.problem}" for odd in limits.findings),
    )


def stuck(service: serving.Service, cards: Iterable[str], timeout_s: float) -> effects.PodEvent:
    """A bound pod has not been served for too long."""
    text = (
        f"bound to node {service.node} for more than {nodelock.go_duration(timeout_s)}, and its "
        f"device plugin has not handed out {_list(cards)}; usage and lock stay"
    )
    return _warning(service.pod, "DeviceAllocationStuck", text)


def failed(pod: effects.PodRef, node: str, cards: Iterable[str]) -> effects.PodEvent:
    """The plugin has refused a bound pod."""
    text = f"the device plugin of node {node} could not hand out {_list(cards)}"
    return _warning(pod, "DeviceAllocationFailed", text)


def skipped(pod: pods.Pod) -> effects.PodEvent:
    """A pod that is being deleted is not placed any more."""
    ref = effects.PodRef.of(pod)
    return _warning(ref, "FailedScheduling", f"skip schedule deleting pod: {ref}")


def unplaced(pod: pods.Pod, message: str) -> effects.PodEvent:
    """No node takes the pod, or its bind broke."""
    return _warning(effects.PodRef.of(pod), "FailedScheduling", message)


def invalid(pod: pods.Pod, message: str) -> effects.PodEvent:
    """The pod asks for an amount that no device can have."""
    return _warning(effects.PodRef.of(pod), "InvalidDeviceRequest", message)


def misunderstood(pod: pods.Pod, message: str) -> effects.PodEvent:
    """A wish of the pod was not understood, and the default was taken."""
    return _warning(effects.PodRef.of(pod), "PolicyNotUnderstood", message)


def unsized(pod: pods.Pod) -> effects.PodEvent:
    """The pod belongs to a gang, and is placed without regard to it."""
    text = (
        f"placed without its gang {pod.gang.name}: neither a PodGroup nor the annotation "
        f"{keys.GANG_MIN_MEMBER} says how many of its pods have to run together"
    )
    return _warning(effects.PodRef.of(pod), "GangWithoutSize", text)


def preempted(victim: effects.PodRef, node: str, uid: str) -> effects.PodEvent:
    """A pod had to go for a more important one, which has that UID."""
    return effects.PodEvent(
        pod=victim,
        type=effects.EventType.NORMAL,
        reason="Preempted",
        message=f"Preempted by pod {uid} on node {node}",
        action="Preempting",
    )


def scheduled(pod: pods.Pod, node: str) -> effects.PodEvent:
    """The pod is bound."""
    ref = effects.PodRef.of(pod)
    return effects.PodEvent(
        pod=ref,
        type=effects.EventType.NORMAL,
        reason="Scheduled",
        message=f"Successfully assigned {ref} to {node}",
        action="Binding",
    )


def cards_of(slots: Mapping[str, decision.Slots]) -> tuple[str, ...]:
    """Ids of all cards in a decision, sorted, each once."""
    every = {pick.id for each in slots.values() for slot in each for pick in slot}
    return tuple(sorted(every))


def _list(cards: Iterable[str]) -> str:
    every = tuple(cards)
    more = len(every) - _SHOWN
    shown = ", ".join(every[:_SHOWN]) or "its devices"
    return f"{shown} and {more} more" if more > 0 else shown


def _warning(pod: effects.PodRef, reason: str, message: str) -> effects.PodEvent:
    return effects.PodEvent(
        pod=pod, type=effects.EventType.WARNING, reason=reason, message=message
    )
