"""Fluent builders for API objects, as ``kubectl get -o json`` gives them.

Every step returns a new builder, so that a half-built object can be shared::

    pod("p").container(limits={"nvidia.com/gpu": 1}).on("n1").raw()
    node("n1").allocatable(cpu="8", pods="110").taint("dedicated", "a").raw()
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from hami_operator.protocol import register as registers
from hami_operator.scheduling import node as nodes
from hami_operator.scheduling import pod as pods

CREATED = "2026-03-01T12:00:00Z"
ANSWERED = "Reported 2026-03-01 12:00:00"


class Object:
    """An API object under construction."""

    def __init__(self, raw: dict[str, Any]) -> None:
        self._raw = raw

    def raw(self) -> dict[str, Any]:
        """The object; yours to change."""
        return copy.deepcopy(self._raw)

    def put(self, path: str, value: Any) -> Self:
        """Set any field, e.g. ``put("spec.priority", 5)``; missing levels are made."""
        raw = self.raw()
        *levels, last = path.split(".")
        place = raw
        for level in levels:
            place = place.setdefault(level, {})
        place[last] = value
        return type(self)(raw)

    def append(self, path: str, *values: Any) -> Self:
        """Add to a list, e.g. ``append("spec.schedulingGates", {"name": "g"})``."""
        raw = self.raw()
        *levels, last = path.split(".")
        place = raw
        for level in levels:
            place = place.setdefault(level, {})
        place.setdefault(last, []).extend(values)
        return type(self)(raw)

    def merge(self, path: str, values: Mapping[str, Any]) -> Self:
        """Add to a map, e.g. ``merge("metadata.labels", {"a": "b"})``."""
        raw = self.raw()
        place = raw
        for level in path.split("."):
            place = place.setdefault(level, {})
        place.update(values)
        return type(self)(raw)

    def uid(self, uid: str) -> Self:
        """Another identity than the one made from the name."""
        return self.put("metadata.uid", uid)

    def version(self, version: int | str) -> Self:
        """``metadata.resourceVersion``."""
        return self.put("metadata.resourceVersion", str(version))

    def label(self, key: str, value: str = "") -> Self:
        """One label."""
        return self.merge("metadata.labels", {key: value})

    def annotate(self, annotations: Mapping[str, str] | None = None, **more: str) -> Self:
        """Annotations; keys that are identifiers may be given by name."""
        return self.merge("metadata.annotations", {**(annotations or {}), **more})

    def terminating(self) -> Self:
        """Deleted, but not gone yet."""
        return self.put("metadata.deletionTimestamp", CREATED)


class PodBuilder(Object):
    """Builds a Pod; it has no container until one is added."""

    def container(self, name: str = "", **options: Any) -> Self:
        """An app container; options as of ``container()`` below."""
        return self.append("spec.containers", container(name or self._next("c"), **options))

    def init(self, name: str = "", **options: Any) -> Self:
        """An init container."""
        return self.append("spec.initContainers", container(name or self._next("i"), **options))

    def sidecar(self, name: str = "", **options: Any) -> Self:
        """An init container that keeps running beside the apps."""
        made = container(name or self._next("s"), **options) | {"restartPolicy": "Always"}
        return self.append("spec.initContainers", made)

    def on(self, node_name: str) -> Self:
        """Bound to a node."""
        return self.put("spec.nodeName", node_name)

    def phase(self, phase: str) -> Self:
        """``status.phase``."""
        return self.put("status.phase", phase)

    def scheduler(self, name: str) -> Self:
        """Who is to place it."""
        return self.put("spec.schedulerName", name)

    def priority(self, priority: int) -> Self:
        """Higher goes first."""
        return self.put("spec.priority", priority)

    def started(self, time: str) -> Self:
        """When kubelet took it on; RFC 3339."""
        return self.put("status.startTime", time)

    def created(self, time: str) -> Self:
        """RFC 3339."""
        return self.put("metadata.creationTimestamp", time)

    def gate(self, *names: str) -> Self:
        """Scheduling gates."""
        return self.append("spec.schedulingGates", *({"name": name} for name in names))

    def toleration(
        self, key: str = "", value: str = "", *, operator: str = "", effect: str = ""
    ) -> Self:
        """A toleration; without operator it compares the value."""
        given = {"key": key, "operator": operator, "value": value, "effect": effect}
        return self.append("spec.tolerations", _said(given))

    def node_selector(self, labels: Mapping[str, str]) -> Self:
        """Labels that its node must carry."""
        return self.merge("spec.nodeSelector", labels)

    def requires(self, *terms: Mapping[str, Any]) -> Self:
        """Required node affinity; make terms with ``expression`` and ``pin``."""
        path = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
        return self.append(f"{path}.nodeSelectorTerms", *terms)

    def prefers(self, weight: int, term: Mapping[str, Any]) -> Self:
        """Preferred node affinity."""
        path = "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution"
        return self.append(path, {"weight": weight, "preference": term})

    def repels(self, selector: Mapping[str, Any] | None, topology_key: str, **more: Any) -> Self:
        """Required pod anti-affinity."""
        path = "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution"
        term = {"labelSelector": selector, "topologyKey": topology_key, **more}
        return self.append(path, term)

    def condition(self, kind: str, status: str, **more: Any) -> Self:
        """A condition of the status."""
        return self.append("status.conditions", {"type": kind, "status": status, **more})

    def init_ended(self, name: str, exit_code: int = 0) -> Self:
        """The status of an init container that has ended."""
        state = {"terminated": {"exitCode": exit_code}}
        return self.append("status.initContainerStatuses", {"name": name, "state": state})

    def read(self) -> pods.Pod:
        """The pod as the scheduler sees it."""
        return pods.read(self.raw())

    def _next(self, letter: str) -> str:
        spec = self._raw.get("spec", {})
        taken = [*spec.get("containers", ()), *spec.get("initContainers", ())]
        return f"{letter}{sum(one['name'].startswith(letter) for one in taken)}"


class NodeBuilder(Object):
    """Builds a Node; it offers nothing until ``allocatable`` is given."""

    def allocatable(self, amounts: Mapping[str, Any] | None = None, **more: Any) -> Self:
        """What kubelet offers; ``ephemeral_storage`` and the like need the mapping."""
        return self.merge("status.allocatable", {**(amounts or {}), **more})

    def capacity(self, amounts: Mapping[str, Any] | None = None, **more: Any) -> Self:
        """What the machine has."""
        return self.merge("status.capacity", {**(amounts or {}), **more})

    def taint(self, key: str, value: str = "", effect: str = "NoSchedule") -> Self:
        """A taint."""
        made = _said({"key": key, "value": value, "effect": effect})
        return self.append("spec.taints", made)

    def cordoned(self) -> Self:
        """``spec.unschedulable``."""
        return self.put("spec.unschedulable", True)

    def register(
        self,
        word: str,
        cards: Sequence[registers.Card],
        *,
        form: registers.Form = registers.Form.TEXT,
        handshake: str | None = ANSWERED,
        width: int = 7,
    ) -> Self:
        """Cards of one device type, as its plugin registers them, and the sign of life.

        Args:
            word: keyword of the vendor's row, e.g. ``NVIDIA``; case does not matter.
            cards: what is there.
            form: encoding.
            handshake: value of the handshake annotation; None leaves it out.
            width: fields per entry of the text encoding, 7 or 9.
        """
        keys = _row(word).node
        written = {keys.register: registers.encode(cards, form, width=width)}
        if handshake is not None and keys.handshake:
            written[keys.handshake] = handshake
        return self.annotate(written)

    def read(self) -> nodes.Node:
        """The node as the scheduler sees it."""
        return nodes.read(self.raw())


def pod(name: str, namespace: str = "default") -> PodBuilder:
    """A pending pod without containers, created at ``CREATED``, its UID ``uid-<name>``."""
    meta = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
    meta |= {"resourceVersion": "1", "creationTimestamp": CREATED}
    return PodBuilder(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": meta,
            "spec": {"containers": []},
            "status": {"phase": "Pending"},
        }
    )


def node(name: str) -> NodeBuilder:
    """A node that offers nothing yet, its UID ``uid-<name>``."""
    meta = {"name": name, "uid": f"uid-{name}", "resourceVersion": "1"}
    return NodeBuilder(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": meta,
            "spec": {},
            "status": {"capacity": {}, "allocatable": {}},
        }
    )


def roomy(name: str) -> NodeBuilder:
    """A node with more cpu, memory and pods than any test asks for."""
    return node(name).allocatable(cpu="256", memory="1Ti", pods="1000")


def container(
    name: str,
    *,
    limits: Mapping[str, Any] | None = None,
    requests: Mapping[str, Any] | None = None,
    privileged: bool = False,
    **more: Any,
) -> dict[str, Any]:
    """A container. Requests default to limits, as the API server does it.

    ``more`` are further fields of the container, e.g. ``ports=[…]``.
    """
    made: dict[str, Any] = {"name": name, "image": "example.com/app:1", **more}
    resources: dict[str, Any] = {}
    if limits:
        resources["limits"] = dict(limits)
    if limits or requests:
        resources["requests"] = {**(limits or {}), **(requests or {})}
    if resources:
        made["resources"] = resources
    if privileged:
        made["securityContext"] = {"privileged": True}
    return made


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    """A node selector term with one condition on a label."""
    return {"matchExpressions": [requirement(key, operator, *values)]}


def requirement(key: str, operator: str, *values: str) -> dict[str, Any]:
    """One condition on a label."""
    made: dict[str, Any] = {"key": key, "operator": operator}
    return made | {"values": list(values)} if values else made


def pin(*names: str, operator: str = "In") -> dict[str, Any]:
    """A node selector term with one condition on the node's name."""
    return {"matchFields": [requirement("metadata.name", operator, *names)]}


def cards(count: int, *, word: str = "GPU", **facts: Any) -> tuple[registers.Card, ...]:
    """Like cards: ``<word>-0``, ``<word>-1``, …, of 10 slots, 32 GiB and 100 cores each."""
    common = {"count": 10, "memory_mib": 32768, "cores": 100, "model": "Model-X", **facts}
    return tuple(
        registers.Card(id=f"{word}-{index}", index=index, **common) for index in range(count)
    )


def _said(given: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in given.items() if value}


def _row(word: str) -> Any:
    from hami_operator.devices import registry

    rows: Iterable[Any] = registry.default()
    for row in rows:
        if row.keyword.lower() == word.lower():
            return row
    raise AssertionError(f"no vendor row {word}")
