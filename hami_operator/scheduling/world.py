"""The aggregate: nodes, ledger and queue, and what each event means to all three.

Every event is a method that takes what was seen and the time, changes the state in one step, and
returns the orders that follow (`effects`). Nothing here waits, writes or reads a clock. State is
always changed before waiting pods are woken.

A process that does not lead follows along and stays silent: what is amiss is told again when it
begins to lead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from hami_operator import settings as all_settings
from hami_operator.devices import registry as registries
from hami_operator.protocol import bindphase, instant, keys
from hami_operator.scheduling import (
    attempts,
    effects,
    ledger,
    locks,
    lockwatch,
    objects,
    oddities,
    preparation,
    queue,
    reports,
    serving,
    sightings,
    snapshot,
    wakes,
)
from hami_operator.scheduling import node as records
from hami_operator.scheduling import nodes as registered
from hami_operator.scheduling import pod as pods
from hami_operator.scheduling import quota as quotas
from hami_operator.scheduling import rules as all_rules

NODES: Final = "nodes"
PODS: Final = "pods"
QUOTAS: Final = "resourcequotas"
BUDGETS: Final = "poddisruptionbudgets"
SOURCES: Final = frozenset({NODES, PODS, QUOTAS, BUDGETS})
"""What must have been listed in full before the first decision."""

Effects = tuple[effects.Effect, ...]


class World:
    """All that the scheduler knows.

    Args:
        registry: the device types.
        settings: who we are, and limits of time.

    Attributes:
        nodes: records, cards and availability.
        ledger: usage.
        quotas: what namespaces may hold.
        oddities: what is amiss with bound pods.
    """

    def __init__(self, registry: registries.Registry, settings: all_settings.Settings) -> None:
        self._settings = settings
        rules = all_rules.Rules.of(registry, settings)
        self.nodes = registered.Nodes(
            registry, settings.device_timeout_s, settings.node_label_selector
        )
        self.ledger = ledger.Ledger(registry)
        self.quotas = quotas.Quotas(registry)
        self.oddities = oddities.Oddities(self.nodes, self.ledger, registry)
        self._waking = wakes.Wakes(self.nodes, rules.options, registry.owned_pod_keys)
        self._seen = sightings.Sightings()
        self._locks = lockwatch.LockWatch(registry, settings.node_lock_timeout_s, self._seen)
        self._attempts = attempts.Attempts(
            rules,
            self.nodes,
            self.ledger,
            self._waking,
            self._seen,
            accounts=self._accounts,
            locked_for=self._locks.held_for,
        )
        self._refused: set[str] = set()
        self._leads = False
        self._synced: frozenset[str] = frozenset()

    @property
    def queue(self) -> queue.Queue[wakes.Wake]:
        """The pods that wait."""
        return self._waking.queue

    @property
    def snapshot(self) -> snapshot.Snapshot:
        """Nodes and usage as a cycle sees them."""
        return self._attempts.snapshot

    # ---- terms

    @property
    def active(self) -> bool:
        """Whether decisions may be made: we lead, and have seen everything in this term."""
        return self._leads and self._synced >= SOURCES

    def synced(self, source: str, now: instant.Instant) -> Effects:
        """A source (one of `SOURCES`) has shown all there is, in this term."""
        del now  # every event has its time, also where nothing follows from it
        before = self.active
        self._synced |= {source}
        if before or not self.active:
            return ()
        odd = (reports.odd_quota(one) for one in self.quotas if one.findings)
        return (*self.nodes.report(), *self.oddities.report(), *odd)

    def take_over(self, now: instant.Instant) -> Effects:
        """We lead from now on; each source must be listed anew before the first decision.

        What an earlier term left unbound is no usage, and ages start anew.
        """
        self._leads = True
        self._synced = frozenset()
        self._attempts.restart(now)
        self.nodes.restart(now)
        self._locks.services.restart()
        return ()

    def step_down(self) -> None:
        """We lead no more. Binds under way may still land, so their reservations stay."""
        self._leads = False

    # ---- nodes

    def node_seen(self, node: records.Node, now: instant.Instant) -> Effects:
        """A node as the API shows it; repeated and older versions change nothing."""
        version = self.nodes.version(node.name)
        change = self.nodes.seen(node, now, at_start=not self.active)
        if change.after is not node:
            return ()
        unlocked = self._locks.node_seen(node, now, at_start=not self.active)
        if self.nodes.version(node.name) == version:
            return (*self._told(change.effects), *unlocked)
        odd = self.oddities.node_changed(node.name) if self.active else ()
        self._waking.by_node(change, now)
        return (*self._told(change.effects), *odd, *unlocked)

    def node_gone(self, name: str, now: instant.Instant) -> Effects:
        """A node is deleted, or ours no more; entries of its pods stay until these go."""
        change = self.nodes.gone(name)
        if change.before is None:
            return ()
        self.oddities.node_gone(name)
        self._attempts.lose_node(name, now)
        self._waking.by_node(change, now)
        return self._locks.node_gone(name)

    # ---- pods

    def pod_seen(self, pod: pods.Pod, now: instant.Instant) -> Effects:
        """A pod of any scheduler as the API shows it; repeats and old news change nothing."""
        if pod.terminal:
            return self.pod_gone(pod.uid, now)
        sighting = self._seen.see(pod)
        if not sighting.news:
            return ()
        self._attempts.assembly.gangs.see(pod)
        unlocked = self._locks.pod_seen(pod, sighting.before, now, at_start=not self.active)
        if pod.node_name:
            return (*self._bound(pod, sighting.before, now), *unlocked)
        self._pending(pod, now)
        return unlocked

    def pod_gone(self, uid: str, now: instant.Instant) -> Effects:
        """A pod is deleted or has ended: whatever it held is free at once."""
        pod = self._seen.end(uid)
        self.queue.remove(uid)
        self._attempts.neighbours.remove(uid)
        self._refused.discard(uid)
        self._attempts.forget(uid)
        self._attempts.preemptor.gone(uid)
        transition = self.ledger.gone(uid)
        self._attempts.offer(now)
        told = self._told(self.oddities.gone(uid, transition))
        if pod is None:
            return told
        self._attempts.assembly.ended(pod, now)
        self._waking.by_pod(pod, None, transition, now)
        return (*told, *self._locks.pod_gone(pod, now))

    def pending_seen(self, pod: pods.Pod, now: instant.Instant) -> Effects:
        """A pod from the watch of pending pods; the same news as from any other source."""
        return self.pod_seen(pod, now)

    def pending_gone(self, uid: str) -> None:
        """A pod left the watch of pending pods: bound or deleted, which others will tell."""
        self.queue.remove(uid)

    # ---- quotas

    def quota_seen(self, raw: Mapping[str, Any], now: instant.Instant) -> Effects:
        """A ResourceQuota as the API shows it; it counts from the next decision on."""
        change = self.quotas.seen(raw)
        self._waking.by_quota(change, now)
        return self._told([reports.odd_quota(change.news)]) if change.news is not None else ()

    def quota_gone(self, namespace: str, name: str, uid: str, now: instant.Instant) -> Effects:
        """A ResourceQuota is deleted; another one of its name stays."""
        self._waking.by_quota(self.quotas.gone(namespace, name, uid), now)
        return ()

    # ---- budgets

    def budget_seen(self, raw: Mapping[str, Any]) -> Effects:
        """A PodDisruptionBudget as the API shows it; no pod waits for it."""
        self._attempts.preemptor.budgets.seen(raw)
        return ()

    def budget_gone(self, namespace: str, name: str, uid: str) -> Effects:
        """A PodDisruptionBudget is deleted; another one of its name stays."""
        self._attempts.preemptor.budgets.gone(namespace, name, uid)
        return ()

    # ---- other objects

    def object_seen(
        self, kind: objects.Kind, raw: Mapping[str, Any], now: instant.Instant
    ) -> Effects:
        """A claim, a volume or another object as the API shows it."""
        self._waking.by_object(self._attempts.objects.seen(kind, raw), now)
        return ()

    def object_gone(
        self, kind: objects.Kind, reference: tuple[str, str, str], now: instant.Instant
    ) -> Effects:
        """An object with this namespace, name and UID is deleted; another of its name stays."""
        self._waking.by_object(self._attempts.objects.gone(kind, *reference), now)
        return ()

    def objects_listed(self, kind: objects.Kind, now: instant.Instant) -> Effects:
        """All objects of a kind have been seen; they stay known through all terms."""
        self._waking.by_object(self._attempts.objects.complete(kind), now)
        return ()

    # ---- time

    def tick(self, now: instant.Instant) -> Effects:
        """What follows from time alone; to be called every second or so."""
        expired = self.nodes.expire(now)
        self.queue.flush(now)
        bugs = tuple(map(reports.miscounted, self.ledger.take_miscounts()))
        if not self.active:
            return bugs
        timeout_s = self._settings.node_lock_timeout_s
        stuck = (
            reports.stuck(service, self._cards(service.pod.uid), timeout_s)
            for service in self._locks.services.stuck(now)
        )
        told = (effect for change in expired for effect in change.effects)
        overdue = self._attempts.assembly.overdue(now)
        return (*bugs, *told, *stuck, *self._locks.stale(now), *overdue)

    def next_due(self, now: instant.Instant) -> float | None:
        """Seconds until a pod may be tried by time alone; None if none will be."""
        return self.queue.next_due(now) if self.active else None

    # ---- decisions

    def attempt(self, now: instant.Instant) -> Effects:
        """Try the next pod: read usage, decide and reserve, in one uninterrupted step.

        Returns:
            Nothing where no pod is due or no decision may be made.
        """
        if not self.active:
            return ()
        orders = self._attempts.run(now)
        kinds = self._attempts.objects.take_wanted()
        return (*orders, effects.Watch(kinds=kinds)) if kinds else orders

    def bind_done(self, uid: str) -> Effects:
        """The bind that `effects.Bind` ordered has landed."""
        return self._told(self._attempts.done(uid))

    def bind_failed(
        self, uid: str, now: instant.Instant, *, message: str, lost: bool = False
    ) -> Effects:
        """The bind has failed and everything it wrote is undone; the pod is tried again.

        Harmless where the bind has landed after all, as the watch may have shown meanwhile.

        Args:
            uid: the pod.
            now: the present.
            message: why, for the condition and the event.
            lost: the pod is gone, going, or somewhere else: it is not to be tried again.
        """
        return self._told(self._attempts.failed(uid, now, message, lost=lost))

    def evict_failed(self, uid: str, now: instant.Instant) -> Effects:
        """The end that `effects.Evict` ordered has not come about: that pod stays for now."""
        self.queue.rouse(self._attempts.preemptor.spared(uid), now)
        return ()

    # ---- questions

    def preparing(
        self, wanted: preparation.Preparation, written: Mapping[tuple[str, str], str]
    ) -> preparation.Progress | str:
        """How far a bind's preparation is, see `preparation.progress`."""
        return preparation.progress(wanted, written, self._attempts.objects)

    def waits(self, uid: str) -> bool:
        """Whether a pod is there, stays, and has no node yet."""
        pod = self._seen.get(uid)
        return pod is not None and not pod.node_name and not pod.terminating

    def lock_facts(self, node: str) -> locks.Facts:
        """What the watch knows about the locks of a node, for whoever wants to bind there."""
        return self._locks.facts(node, self.nodes.get(node), self.nodes.standings(node))

    def is_binding(self, uid: str) -> bool:
        """Whether a bind is ordered for that pod and not answered yet."""
        return uid in self._attempts.under_way()

    def accounts(self, namespace: str) -> quotas.Accounts | None:
        """What a namespace may hold and holds; None where no quota limits its devices."""
        return self._accounts(namespace, self.ledger)

    def pod(self, uid: str) -> pods.Pod | None:
        """A pod as it was last seen; None if it has ended or was never seen."""
        return self._seen.get(uid)

    def known_pods(self) -> tuple[pods.Pod, ...]:
        """Every pod that has not ended."""
        return self._seen.all()

    def stuck(self, now: instant.Instant) -> tuple[serving.Service, ...]:
        """Bound pods that have waited for their plugin for too long; for metrics."""
        return self._locks.services.overdue(now)

    # ---- inside

    def _accounts(self, namespace: str, held: ledger.Ledger) -> quotas.Accounts | None:
        return self.quotas.accounts(namespace, held, self.nodes)

    def _bound(self, pod: pods.Pod, before: pods.Pod | None, now: instant.Instant) -> Effects:
        """A pod is on a node, whoever put it there."""
        self.queue.remove(pod.uid)
        self._attempts.forget(pod.uid)
        self._attempts.preemptor.promises.drop(pod.uid)
        if pod.uid not in self.ledger:
            self._attempts.assembly.joined(pod, now)
        ours = pod.scheduler_name == self._settings.scheduler_name and not self.active
        transition = self.ledger.observe(pod, ours=ours)
        self._attempts.neighbours.add(pod, pod.node_name)
        self._attempts.offer(now)
        told = [*self.oddities.found(pod, transition.findings), *self._refusal(pod)]
        if before is not None and not transition.findings:
            told += self.oddities.changed(before, pod)
        if self.active and transition.findings:
            told += self.oddities.node_changed(pod.node_name)
        self._waking.by_pod(before, pod, transition, now)
        if before is None or not before.node_name:
            self._waking.by_arrival(pod, now)
        return self._told(told)

    def _pending(self, pod: pods.Pod, now: instant.Instant) -> None:
        """A pod without a node: it waits, if it is ours to place."""
        if pod.scheduler_name != self._settings.scheduler_name:
            return
        known = pod.uid in self.queue
        if known or not (pod.terminating or pod.uid in self.ledger):
            self.queue.add(pod, now)
        if not known and pod.rank.nominated_node and pod.uid in self.queue:
            self._attempts.preemptor.promises.put(pod, pod.rank.nominated_node, {})

    def _refusal(self, pod: pods.Pod) -> Effects:
        """The plugin has refused a bound pod; told once. Its usage goes when the pod ends."""
        phase = bindphase.classify(pod.annotations.get(keys.BIND_PHASE))
        if phase is not bindphase.Phase.FAILED or pod.uid in self._refused or not self.active:
            return ()
        self._refused.add(pod.uid)
        ref = effects.PodRef.of(pod)
        return (reports.failed(ref, pod.node_name, self._cards(pod.uid)),)

    def _cards(self, uid: str) -> tuple[str, ...]:
        entry = self.ledger.get(uid)
        return reports.cards_of(entry.slots) if entry is not None else ()

    def _told(self, told: Iterable[effects.Effect]) -> Effects:
        """What is for people and metrics is told by the leader alone, once it knows all."""
        return tuple(told) if self.active else ()
