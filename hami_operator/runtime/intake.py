"""Where objects of the API meet the world: each becomes one event, and its orders are performed.

Sources are kopf's handlers and our reflectors; they may overlap, repeat and come late. One bad
object never stops the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import structlog

from hami_operator import clock
from hami_operator.cluster import ports
from hami_operator.protocol import instant
from hami_operator.runtime import conditions as condition_writers
from hami_operator.runtime import performer as performers
from hami_operator.runtime import present, reflector, resync
from hami_operator.scheduling import effects, fields, objects, world
from hami_operator.scheduling import node as nodes
from hami_operator.scheduling import pod as pods

_DELETED: Final = "DELETED"

_log = structlog.get_logger(__name__)


class Intake:
    """The doors: all return at once, and none raises.

    Args:
        state: takes the events.
        performer: carries out what follows.
        conditions: is told which conditions stand on pods.
        again: called after each event, since a pod may be tried now.

    Attributes:
        pods: sink for all pods that have not ended, of all schedulers.
        nodes: sink for Nodes, where a reflector watches them.
        quotas: sink for ResourceQuotas.
        budgets: sink for PodDisruptionBudgets.
    """

    def __init__(
        self,
        state: world.World,
        performer: performers.Performer,
        *,
        conditions: condition_writers.Conditions,
        again: Callable[[], None],
        time: clock.Clock,
        metrics: ports.Recorder,
    ) -> None:
        self._state = state
        self._performer = performer
        self._conditions = conditions
        self._again = again
        self._time = time
        self._metrics = metrics
        self._odd: dict[str, tuple[fields.Finding, ...]] = {}
        self.pods: reflector.Sink = _Sink(
            lambda raw: self._take("Pod", raw, self._pod_seen),
            lambda raw: self._take("Pod", raw, self._pod_gone),
            lambda: self.source_synced(world.PODS),
        )
        self.nodes: reflector.Sink = _Sink(
            lambda raw: self._take("Node", raw, self._node_seen),
            lambda raw: self._take("Node", raw, self._node_gone),
            lambda: self.source_synced(world.NODES),
        )
        self.quotas: reflector.Sink = _Sink(
            lambda raw: self._take("ResourceQuota", raw, self._quota_seen),
            lambda raw: self._take("ResourceQuota", raw, self._quota_gone),
            lambda: self.source_synced(world.QUOTAS),
        )
        self.budgets: reflector.Sink = _Sink(
            lambda raw: self._take("PodDisruptionBudget", raw, self._state.budget_seen),
            lambda raw: self._take("PodDisruptionBudget", raw, self._budget_gone),
            lambda: self.source_synced(world.BUDGETS),
        )

    def of(self, kind: objects.Kind) -> reflector.Sink:
        """Sink for a kind of objects that placement depends on beside pods and nodes."""
        state, name = self._state, kind.value
        return _Sink(
            lambda raw: self._take(
                name, raw, lambda one: state.object_seen(kind, one, self._now())
            ),
            lambda raw: self._take(
                name, raw, lambda one: state.object_gone(kind, _reference(one), self._now())
            ),
            lambda: self._listed(kind),
        )

    def _listed(self, kind: objects.Kind) -> None:
        self._performer.perform(self._state.objects_listed(kind, self._now()))
        self._again()

    def node_event(self, type_: str | None, raw: ports.Raw) -> None:
        """A Node from kopf's watch; the type is None for one that was listed."""
        self._take("Node", raw, self._node_gone if type_ == _DELETED else self._node_seen)

    def pending_event(self, type_: str | None, raw: ports.Raw) -> None:
        """A pod from kopf's watch of pending pods, from which bound ones vanish as deleted."""
        self._take("Pod", raw, self._pending_gone if type_ == _DELETED else self._pending_seen)

    def source_synced(self, source: str) -> None:
        """A source has shown all there is, see `world.SOURCES`."""
        self._performer.perform(self._state.synced(source, self._now()))
        self._again()

    def node_is_gone(self, name: str) -> None:
        """A write has found no such Node."""
        self._performer.perform(self._state.node_gone(name, self._now()))
        self._again()

    def known_nodes(self) -> Mapping[str, resync.Known]:
        """What is known of Nodes, to be compared with what exists."""
        found = ((name, self._state.nodes.get(name)) for name in self._state.nodes)
        return {
            name: resync.Known(uid=node.uid, version=node.resource_version)
            for name, node in found
            if node is not None
        }

    def _take(self, kind: str, raw: ports.Raw, door: Callable[[ports.Raw], world.Effects]) -> None:
        try:
            self._performer.perform(door(raw))
        except Exception as error:  # a bug of ours, met by one object, must not stop the others
            self._tell_broken(kind, raw, error)
        self._again()

    def _node_seen(self, raw: ports.Raw) -> world.Effects:
        node = nodes.read(raw)
        self._tell_odd(node)
        return self._state.node_seen(node, self._now())

    def _node_gone(self, raw: ports.Raw) -> world.Effects:
        """Also late, when a new Node of that name is known already; that one stays."""
        node = nodes.read(raw)
        known = self._state.nodes.get(node.name)
        if known is not None and known.uid != node.uid:
            return ()
        self._odd.pop(node.name, None)
        return self._state.node_gone(node.name, self._now())

    def _pod_seen(self, raw: ports.Raw) -> world.Effects:
        pod = pods.read(raw)
        self._note_condition(pod)
        return self._state.pod_seen(pod, self._now())

    def _pod_gone(self, raw: ports.Raw) -> world.Effects:
        return self._state.pod_gone(pods.read(raw).uid, self._now())

    def _pending_seen(self, raw: ports.Raw) -> world.Effects:
        pod = pods.read(raw)
        self._note_condition(pod)
        return self._state.pending_seen(pod, self._now())

    def _pending_gone(self, raw: ports.Raw) -> world.Effects:
        self._state.pending_gone(pods.read(raw).uid)
        return ()

    def _quota_seen(self, raw: ports.Raw) -> world.Effects:
        return self._state.quota_seen(raw, self._now())

    def _quota_gone(self, raw: ports.Raw) -> world.Effects:
        """May hold no more than the metadata."""
        return self._state.quota_gone(*_reference(raw), self._now())

    def _budget_gone(self, raw: ports.Raw) -> world.Effects:
        """May hold no more than the metadata."""
        return self._state.budget_gone(*_reference(raw))

    def _note_condition(self, pod: pods.Pod) -> None:
        stands = pod.scheduled_condition
        if stands is not None and not pod.node_name:
            nominated = pod.rank.nominated_node
            said = (stands.status, stands.reason, stands.message)
            self._conditions.seen(pod.uid, *said, nominated=nominated)

    def _tell_odd(self, node: nodes.Node) -> None:
        """Name what cannot be read of a Node, once per set of findings."""
        if node.findings == self._odd.get(node.name, ()):
            return
        self._odd[node.name] = node.findings
        if not node.findings or not node.name:
            _log.warning("node has odd fields", node=node.name, findings=str(node.findings))
            return
        text = ", ".join(f"{each.field} {each.problem}" for each in node.findings)
        self._performer.tell_node(
            effects.NodeEvent(
                node=node.name,
                type=effects.EventType.WARNING,
                reason="MalformedNode",
                message=text,
            )
        )

    def _tell_broken(self, kind: str, raw: Any, error: Exception) -> None:
        namespace, name, uid = _reference(raw)
        _log.exception("object not taken in", kind=kind, namespace=namespace, name=name)
        self._metrics.count("hami_intake_errors_total", kind=kind)
        if not name:
            return
        text = f"this {kind} could not be taken in: {error!r}"
        told: dict[str, Any] = {
            "type": effects.EventType.WARNING, "reason": "IntakeFailed", "message": text
        }  # fmt: skip
        if kind == "Node":
            self._performer.tell_node(effects.NodeEvent(node=name, **told))
        elif kind == "Pod":
            pod = effects.PodRef(uid=uid, namespace=namespace, name=name)
            self._performer.tell_pod(effects.PodEvent(pod=pod, **told))
        elif kind == "ResourceQuota":
            quota = effects.QuotaEvent(uid=uid, namespace=namespace, name=name, **told)
            self._performer.tell_quota(quota)

    def _now(self) -> instant.Instant:
        return present.read(self._time)


class _Sink:
    """A `reflector.Sink` made of three functions."""

    def __init__(
        self,
        upsert: Callable[[ports.Raw], None],
        delete: Callable[[ports.Raw], None],
        synced: Callable[[], None],
    ) -> None:
        self.upsert = upsert
        self.delete = delete
        self.synced = synced


def _reference(raw: Any) -> tuple[str, str, str]:
    """Namespace, name and UID, as far as they are there."""
    metadata = raw.get("metadata") if isinstance(raw, Mapping) else None
    found = metadata if isinstance(metadata, Mapping) else {}
    namespace, name, uid = (str(found.get(key) or "") for key in ("namespace", "name", "uid"))
    return namespace, name, uid
