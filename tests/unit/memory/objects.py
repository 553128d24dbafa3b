"""Bodies of requests, and a store whose clock and UIDs are known."""

from __future__ import annotations

import itertools
from typing import Any

from hami_operator.cluster.memory import refusals, store
from tests import fakes

Object = dict[str, Any]
NOW = "2026-03-01T12:00:00Z"


def new_store(**options: Any) -> store.Store:
    """A store at `fakes.START` whose UIDs are ``uid-00001``, ``uid-00002`` and so on.

    The first objects are taken by what every store starts with.
    """
    numbers = itertools.count(1)
    options.setdefault("system_clock", fakes.FakeClock())
    return store.Store(new_id=lambda: f"uid-{next(numbers):05}", **options)


def pod(name: str = "p", *, spec: Object | None = None, **metadata: Any) -> Object:
    containers = [{"name": "c", "image": "example.com/app:1"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", **metadata},
        "spec": {"containers": containers, **(spec or {})},
    }


def asking(**resources: Any) -> Object:
    """The spec of a pod with one container that has these resources."""
    return {"containers": [{"name": "c", "image": "i", "resources": resources}]}


def node(name: str = "n", *, status: Object | None = None, **metadata: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, **metadata},
        **({"status": status} if status else {}),
    }


def lease(name: str = "l", **spec: Any) -> Object:
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, **spec},
    }


def event(name: str = "e", **changes: Any) -> Object:
    return {
        "metadata": {"name": name, "namespace": "default"},
        "eventTime": "2026-03-01T12:00:00.000000Z",
        "type": "Normal",
        "reason": "Scheduled",
        "action": "Binding",
        "note": "one text",
        "reportingController": "hami.io/scheduler",
        "reportingInstance": "scheduler-1",
        "regarding": {"kind": "Pod", "namespace": "default", "name": "p"},
        **changes,
    }


def binding(name: str = "p", *, node_name: str = "n", **metadata: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, **metadata},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node_name},
    }


def config_map(name: str = "c", namespace: str = "default", **metadata: Any) -> Object:
    return {"metadata": {"name": name, "namespace": namespace, **metadata}}


def refusal(error: refusals.Refused) -> tuple[int, str, str]:
    """What a refusal says, for comparison."""
    return error.code, error.reason, error.message
