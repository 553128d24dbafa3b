"""What kubelet decides and writes about the pods of its node. Pure."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from hami_operator import errors
from hami_operator.protocol import quantity
from hami_operator.simulator import models, plugin

Raw = Mapping[str, Any]

RUN_FOR: Final = "simulator.hami-operator/run-for"
"""Pod annotation for simulated nodes: the pod succeeds after so many seconds."""

ENDED: Final = frozenset({"Succeeded", "Failed"})


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One ``Allocate``.

    Attributes:
        container: for which one.
        word: keyword of the row whose plugin is asked.
        amount: how much of the resource.
        measure: how much of that a pick is; None where a pick does not tell.
    """

    container: str
    word: str
    amount: int
    measure: models.Measure | None = models.each


def is_new(pod: Raw) -> bool:
    """Whether kubelet has yet to admit the pod."""
    phase = pod["status"].get("phase", "Pending")
    return phase == "Pending" and "deletionTimestamp" not in pod["metadata"]


def containers(pod: Raw) -> tuple[Raw, ...]:
    """All containers, init containers first, as plugins and decisions count them."""
    return (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"])


def calls(pod: Raw, plugins: Iterable[plugin.Plugin]) -> Iterator[Call]:
    """The allocations at admission: init containers first, one call per container and plugin.

    Nobody is asked for a resource that the node never had.
    """
    ordered = sorted(plugins, key=lambda one: one.row.keyword)
    for container in containers(pod):
        for one in ordered:
            yield from _call(container, one)


def _call(container: Raw, one: plugin.Plugin) -> Iterator[Call]:
    """The call for the first resource of the plugin that the container names."""
    limits = (container.get("resources") or {}).get("limits") or {}
    for name, measure in one.model.asked.items():
        amount = _whole(str(limits.get(getattr(one.row.resources, name), "0")))
        if amount:
            word = one.row.keyword
            yield Call(container=container["name"], word=word, amount=amount, measure=measure)
            return


def _whole(text: str) -> int:
    try:
        return quantity.truncated(text)
    except errors.DecodeError:
        return 0  # the API server lets no such pod in


def runs_for_s(pod: Raw) -> float | None:
    """Seconds after which the pod succeeds; None for a pod that runs until it is deleted."""
    text = (pod["metadata"].get("annotations") or {}).get(RUN_FOR, "")
    try:
        return max(float(text), 0.0)
    except ValueError:
        return None


def initializing(pod: Raw, wall: datetime.datetime) -> Raw:
    """Status while init containers run: devices are allocated, nothing has ended."""
    now = stamp(wall)
    up = {"running": {"startedAt": now}}
    inits = pod["spec"].get("initContainers") or ()
    return {
        "phase": "Pending",
        "startTime": now,
        "conditions": [_condition("Initialized", "False", now)],
        "initContainerStatuses": [_container(one, up, ready=False) for one in inits],
    }


def running(pod: Raw, wall: datetime.datetime) -> Raw:
    """Status once everything runs: init containers have ended well, sidecars and apps are up."""
    now = stamp(wall)
    up = {"running": {"startedAt": now}}
    inits = pod["spec"].get("initContainers") or ()
    names = ("Initialized", "ContainersReady", "Ready")
    return {
        "phase": "Running",
        "startTime": now,
        "conditions": [_condition(name, "True", now) for name in names],
        "initContainerStatuses": [
            _container(one, up if _is_sidecar(one) else _terminated(now), ready=True)
            for one in inits
        ],
        "containerStatuses": [
            _container(one, up, ready=True) for one in pod["spec"]["containers"]
        ],
    }


def succeeded(pod: Raw, wall: datetime.datetime) -> Raw:
    """Status after a good end."""
    now = stamp(wall)
    return {
        "phase": "Succeeded",
        "conditions": [_condition(name, "False", now) for name in ("ContainersReady", "Ready")],
        "containerStatuses": [
            _container(one, _terminated(now), ready=False) for one in pod["spec"]["containers"]
        ],
    }


def refused(why: str) -> Raw:
    """Status of a pod whose devices could not be allocated; it is never tried again."""
    text = f"Allocate failed due to {why}, which is unexpected"
    return {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": text}


def _container(container: Raw, state: Raw, *, ready: bool) -> dict[str, Any]:
    return {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "ready": ready,
        "started": ready,
        "restartCount": 0,
        "state": state,
    }


def _is_sidecar(container: Raw) -> bool:
    return container.get("restartPolicy") == "Always"


def _terminated(now: str) -> Raw:
    times = {"startedAt": now, "finishedAt": now}
    return {"terminated": {"exitCode": 0, "reason": "Completed", **times}}


def _condition(name: str, status: str, now: str) -> dict[str, str]:
    return {"type": name, "status": status, "lastTransitionTime": now}


def stamp(wall: datetime.datetime) -> str:
    """A time as API objects carry it."""
    return wall.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def node_ready(wall: datetime.datetime) -> dict[str, str]:
    """The Ready condition, with a heartbeat of now."""
    now = stamp(wall)
    why = {"reason": "KubeletReady", "message": "simulated kubelet is ready"}
    return {**_condition("Ready", "True", now), "lastHeartbeatTime": now, **why}
