"""A pod as the scheduler sees it: read once from the API object, then frozen."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol

from hami_operator.scheduling import (
    containers,
    features,
    fields,
    gang,
    nodeselector,
    podaffinity,
    ports,
    rank,
    resize,
    resourceclaims,
    resources,
    spread,
    tolerations,
    unbuilt,
    volumes,
)

Kind = containers.Kind
Container = containers.Container
Finding = fields.Finding

_TERMINAL: Final = frozenset({"Succeeded", "Failed"})


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ScheduledCondition:
    """The condition PodScheduled as it stands on the pod; absent texts are empty."""

    status: str
    reason: str = ""
    message: str = ""
    last_transition: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Pod:
    """One pod.

    Attributes:
        uid: identity; ``namespace/name`` where an object without UID was read.
        namespace: ``default`` where absent.
        name: as the API names it.
        resource_version: the version that was read.
        generation: of the specification.
        created: when, None if not said.
        labels: as they stand.
        annotations: as they stand.
        scheduler_name: who is to place it.
        node_name: where it is, empty while it waits.
        phase: Pending, Running, Succeeded, Failed or Unknown.
        terminating: being deleted, and still holding all it holds.
        priority: higher goes first; 0 where absent.
        containers: init containers and sidecars in their order, then apps.
        gates: names of scheduling gates.
        tolerations: as they stand.
        node_selector: labels that its node must carry.
        affinity: node affinity, required and preferred.
        pod_affinity: which pods it wants near, and which it does not.
        spread: how pods like it are to be spread.
        ports: ports of the node that it takes for itself.
        volumes: claims and disks.
        resource_claims: claims of dynamic resource allocation.
        features: what its node's kubelet must have declared.
        pod_level: requests of the pod as a whole, in billionths.
        overhead: what its runtime class adds, in billionths.
        requests: what it asks for: cpu in thousandths, all else in whole units, no zeros.
        held: what it holds on its node, a resize in place considered.
        admitted: kubelet has taken it on, so its device plugins have been asked.
        inits_done: every plain init container, of at least one, has ended well.
        unbuilt: rules it needs that this scheduler does not know.
        scheduled_condition: what was last said about its placement.
        gang: the pods that it runs together with.
        rank: who may push whom off a node.
        findings: what is odd about the object; a pending pod with findings waits.
    """

    uid: str
    namespace: str
    name: str
    resource_version: str = ""
    generation: int = 0
    created: datetime.datetime | None = None
    labels: Mapping[str, str] = dataclasses.field(default_factory=fields.empty)
    annotations: Mapping[str, str] = dataclasses.field(default_factory=fields.empty)
    scheduler_name: str = ""
    node_name: str = ""
    phase: str = ""
    terminating: bool = False
    priority: int = 0
    containers: tuple[Container, ...] = ()
    gates: tuple[str, ...] = ()
    tolerations: tuple[tolerations.Toleration, ...] = ()
    node_selector: Mapping[str, str] = dataclasses.field(default_factory=fields.empty)
    affinity: nodeselector.Affinity = nodeselector.NONE
    pod_affinity: podaffinity.Affinity = podaffinity.NONE
    spread: tuple[spread.Constraint, ...] = ()
    ports: tuple[ports.Port, ...] = ()
    volumes: volumes.Volumes = volumes.NONE
    resource_claims: tuple[resourceclaims.Wanted, ...] = ()
    features: frozenset[str] = frozenset()
    pod_level: Mapping[str, int] = dataclasses.field(default_factory=fields.empty)
    overhead: Mapping[str, int] = dataclasses.field(default_factory=fields.empty)
    requests: Mapping[str, int] = dataclasses.field(default_factory=fields.empty)
    held: Mapping[str, int] = dataclasses.field(default_factory=fields.empty)
    admitted: bool = False
    inits_done: bool = False
    unbuilt: tuple[str, ...] = ()
    scheduled_condition: ScheduledCondition | None = None
    gang: gang.Membership = gang.ALONE
    rank: rank.Rank = rank.NONE
    findings: tuple[Finding, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name

    @property
    def images(self) -> tuple[str, ...]:
        """Images of its containers and volumes."""
        return (*(one.image for one in self.containers), *self.volumes.images)

    @property
    def terminal(self) -> bool:
        """Ended for good: it holds nothing any more."""
        return self.phase in _TERMINAL


class Resident(NamedTuple):
    """A pod that has a node, as far as it is counted there; each field as in `Pod`.

    Attributes:
        speaks: it may say something about other pods.
    """

    uid: str
    namespace: str
    name: str
    node_name: str
    terminal: bool
    annotations: Mapping[str, str]
    containers: tuple[Container, ...]
    held: Mapping[str, int]
    inits_done: bool
    speaks: bool


class Counted(Protocol):
    """What the ledger asks of a pod on a node: a `Pod` or a `Resident`."""

    @property
    def uid(self) -> str:
        """See `Pod`."""

    @property
    def namespace(self) -> str:
        """See `Pod`."""

    @property
    def name(self) -> str:
        """See `Pod`."""

    @property
    def node_name(self) -> str:
        """See `Pod`."""

    @property
    def annotations(self) -> Mapping[str, str]:
        """See `Pod`."""

    @property
    def containers(self) -> tuple[Container, ...]:
        """See `Pod`."""

    @property
    def inits_done(self) -> bool:
        """See `Pod`."""


def read_resident(raw: Mapping[str, Any]) -> Resident:
    """Read what is counted of an API object, at a third of the cost of `read`."""
    found = fields.Fields()
    meta = found.mapping(raw, "metadata", "")
    spec = found.mapping(raw, "spec", "")
    status = found.mapping(raw, "status", "")
    namespace, name, uid = _names(meta, found)
    read_containers = containers.read(spec, found)
    return Resident(
        uid=uid,
        namespace=namespace,
        name=name,
        node_name=found.text(spec, "nodeName", "spec."),
        terminal=found.text(status, "phase", "status.") in _TERMINAL,
        annotations=found.texts(meta, "annotations", "metadata."),
        containers=read_containers,
        held=_amounts(spec, status, read_containers, found).held,
        inits_done=_inits_done(read_containers, status, found),
        speaks=bool(spec.get("affinity")),
    )


def _names(meta: Mapping[str, Any], found: fields.Fields) -> tuple[str, str, str]:
    """Namespace, name and UID; without a UID the names stand for it."""
    namespace = found.text(meta, "namespace", "metadata.") or "default"
    name = found.text(meta, "name", "metadata.")
    return namespace, name, found.text(meta, "uid", "metadata.") or f"{namespace}/{name}"


def read(raw: Mapping[str, Any]) -> Pod:
    """Read an API object. Never raises: what is odd becomes ``findings``."""
    found = fields.Fields()
    meta = found.mapping(raw, "metadata", "")
    spec = found.mapping(raw, "spec", "")
    status = found.mapping(raw, "status", "")
    namespace, name, uid = _names(meta, found)
    if not name:
        found.note("metadata.name", "is missing")
    read_containers = containers.read(spec, found)
    amounts = _amounts(spec, status, read_containers, found)
    labels = found.texts(meta, "labels", "metadata.")
    affinity, pod_affinity = _affinities(spec, namespace, found)
    return Pod(
        uid=uid,
        namespace=namespace,
        name=name,
        resource_version=str(meta.get("resourceVersion") or ""),
        generation=found.integer(meta, "generation", "metadata."),
        created=rank.moment(meta.get("creationTimestamp")),
        labels=labels,
        annotations=found.texts(meta, "annotations", "metadata."),
        scheduler_name=found.text(spec, "schedulerName", "spec."),
        node_name=found.text(spec, "nodeName", "spec."),
        phase=found.text(status, "phase", "status."),
        terminating=meta.get("deletionTimestamp") is not None,
        priority=found.integer(spec, "priority", "spec."),
        containers=read_containers,
        gates=_gates(spec, found),
        tolerations=tolerations.read_tolerations(spec, "spec.", found),
        node_selector=found.texts(spec, "nodeSelector", "spec."),
        affinity=affinity,
        pod_affinity=pod_affinity,
        spread=spread.read(spec, labels, found),
        ports=ports.read(spec, found),
        volumes=volumes.read(spec, name, found),
        resource_claims=resourceclaims.wanted(spec, status, found),
        features=features.read(spec, found),
        pod_level=amounts.pod_level,
        overhead=amounts.overhead,
        requests=amounts.requests,
        held=amounts.held,
        admitted=status.get("startTime") is not None,
        inits_done=_inits_done(read_containers, status, found),
        unbuilt=unbuilt.filters(spec),
        scheduled_condition=_scheduled_condition(status, found),
        gang=gang.read(spec, meta, found),
        rank=rank.read(spec, status, found),
        findings=found.findings,
    )


class _Amounts(NamedTuple):
    pod_level: Mapping[str, int]
    overhead: Mapping[str, int]
    requests: Mapping[str, int]
    held: Mapping[str, int]


def _amounts(
    spec: Mapping[str, Any],
    status: Mapping[str, Any],
    specified: tuple[Container, ...],
    found: fields.Fields,
) -> _Amounts:
    whole_pod = found.mapping(spec, "resources", "spec.")
    pod_level = containers.amounts(whole_pod, "requests", "spec.resources.", found)
    overhead = containers.amounts(spec, "overhead", "spec.", found)
    if len(specified) == 1 and not pod_level and not overhead:
        asked = specified[0].amounts  # what follows comes to the same, and most pods are so
    else:
        own = ((one.kind, one.amounts) for one in specified)
        asked = resources.total(own, pod_level=pod_level, overhead=overhead)
    requests = resources.rounded(asked)
    resized = resize.held(status, specified, pod_level=pod_level, overhead=overhead, found=found)
    held = requests if resized is None else resources.rounded(resized)
    return _Amounts(pod_level, overhead, requests, held)


def _affinities(
    spec: Mapping[str, Any], namespace: str, found: fields.Fields
) -> tuple[nodeselector.Affinity, podaffinity.Affinity]:
    affinity = found.mapping(spec, "affinity", "spec.")
    if not affinity:
        return nodeselector.NONE, podaffinity.NONE
    nodes = found.mapping(affinity, "nodeAffinity", "spec.affinity.")
    return (
        nodeselector.read_affinity(nodes, "spec.affinity.nodeAffinity.", found),
        podaffinity.read(affinity, found, namespace=namespace),
    )


def _gates(spec: Mapping[str, Any], found: fields.Fields) -> tuple[str, ...]:
    gates = found.items(spec, "schedulingGates", "spec.")
    return tuple(found.text(gate, "name", f"{place}.") for place, gate in gates)


def _inits_done(
    specified: tuple[Container, ...], status: Mapping[str, Any], found: fields.Fields
) -> bool:
    inits = {one.name for one in specified if one.kind is Kind.INIT}
    if not inits:
        return False
    ended = set()
    for place, item in found.items(status, "initContainerStatuses", "status."):
        state = found.mapping(item, "state", f"{place}.")
        terminated = found.mapping(state, "terminated", f"{place}.state.")
        if terminated.get("exitCode") == 0:
            ended.add(str(item.get("name")))
    return inits <= ended


def _scheduled_condition(
    status: Mapping[str, Any], found: fields.Fields
) -> ScheduledCondition | None:
    for place, item in found.items(status, "conditions", "status."):
        if item.get("type") == "PodScheduled":
            return ScheduledCondition(
                status=found.text(item, "status", f"{place}."),
                reason=found.text(item, "reason", f"{place}."),
                message=found.text(item, "message", f"{place}."),
                last_transition=found.text(item, "lastTransitionTime", f"{place}."),
            )
    return None
