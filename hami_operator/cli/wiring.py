"""Builds every object of the operator once and wires them; decides nothing."""

from __future__ import annotations

import dataclasses
import random
from typing import Final

import structlog

from hami_operator import clock, errors
from hami_operator import settings as all_settings
from hami_operator.admission import rules as admission
from hami_operator.cli import gauges
from hami_operator.cluster import kubernetes, ports
from hami_operator.devices import admit
from hami_operator.devices import registry as registries
from hami_operator.runtime import (
    alarm,
    binder,
    carrier,
    conditions,
    evictor,
    handshaker,
    heap,
    intake,
    labeler,
    latch,
    leader,
    locker,
    performer,
    prebind,
    recorder,
    reflector,
    resync,
    rolelabels,
    scheduler,
    supervisor,
    ticker,
    watches,
)
from hami_operator.scheduling import effects, objects, policy, serving, world
from hami_operator.server import app, health, metrics, tls, webhook

EVENT_WRITERS: Final = 4
"""Events are written side by side, so that a burst of pods does not pile them up."""
CONDITION_WRITERS: Final = 2

_log = structlog.get_logger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Given:
    """What the wiring is given.

    Attributes:
        settings: validated.
        client: reads, and writes Leases; a leader's writes go through its fenced twin.
        server_version: major and minor number of the API server.
        identity: unique among replicas; holder of the Lease, reporter of Events.
        time: the clock of everything.
        generator: jitter.
        metrics: the same that the client counts its requests in.
    """

    settings: all_settings.Settings
    client: kubernetes.Client
    server_version: tuple[int, int]
    identity: str
    time: clock.Clock
    generator: random.Random
    metrics: metrics.Metrics


class Wiring:
    """All objects of one operator.

    Attributes:
        supervisor: owns the tasks.
        leadership: the election.
        intake: the doors for events.
        server: health and metrics.
        webhook: admission; None where no certificate is configured.
        state: what the scheduler knows.
    """

    def __init__(self, given: Given) -> None:
        self._given = given
        self.metrics = given.metrics
        self.supervisor = supervisor.Supervisor(given.time)
        self.leadership = _leadership(given, self.metrics)
        self._api = given.client.fenced(self.leadership.fence)
        configured = registries.configured(given.settings)
        for text in configured.warnings:
            _log.warning(text)
        self._registry = configured.registry
        self._resources = watches.resources(given.server_version)
        self.state = world.World(self._registry, given.settings)
        self._bell = alarm.Alarm(given.time)
        self._events = self._build_recorder()
        self._conditions = conditions.Conditions(
            self._api, time=given.time, metrics=self.metrics, generator=given.generator
        )
        self._labels = labeler.Labeler(
            self._api, time=given.time, metrics=self.metrics, generator=given.generator
        )
        self._locks = self._build_locker()
        self._performer = self._build_performer()
        self.intake = intake.Intake(
            self.state,
            self._performer,
            conditions=self._conditions,
            again=self._bell.ring,
            time=given.time,
            metrics=self.metrics,
        )
        self._pods = self._reflector(ports.PODS, self.intake.pods, ports.LIVE_PODS)
        self._nodes = self._reflector(ports.NODES, self.intake.nodes, ports.EVERYTHING)
        self._quotas = self._reflector(ports.QUOTAS, self.intake.quotas, ports.EVERYTHING)
        self._budgets = self._reflector(ports.BUDGETS, self.intake.budgets, ports.EVERYTHING)
        self._watches = watches.Watches(self._build_watch)
        self._resync = self._build_resync()
        self._scheduler = self._build_scheduler()
        self._readiness = self._build_readiness()
        self.webhook = self._build_webhook()
        self.server = self._build_server()

    # ---- life

    def start(self) -> None:
        """Start every task; to be called before kopf, which cancels what it finds later."""
        spawn, standing = self.supervisor.spawn, supervisor.Group.STANDING
        spawn("leader", self.leadership.run(), group=standing)
        spawn("pods", self._pods.run(), group=standing)
        spawn("quotas", self._quotas.run(), group=standing)
        spawn("budgets", self._budgets.run(), group=standing)
        for kind in objects.Kind:
            spawn(kind.value, self._watches.run(kind), group=standing)
        if self._by_kopf:
            spawn("nodes", self._resync.run())
        else:
            spawn("nodes", self._nodes.run(), group=standing)
        spawn("scheduler", self._scheduler.run())
        spawn("handshaker", self._build_handshaker().run())
        spawn("ticker", self._build_ticker().run())
        if self._given.settings.leader_role_label:
            spawn("roles", self._build_role_labels().run())
        for number in range(EVENT_WRITERS):
            spawn(f"events {number}", self._events.work(), group=standing)
        for number in range(CONDITION_WRITERS):
            spawn(f"conditions {number}", self._conditions.work(), group=standing)
        spawn("labels", self._labels.work(), group=standing)
        if self.webhook is not None:
            spawn("webhook", self.webhook.run(), group=standing)

    async def drain(self) -> None:
        """Take nothing new, let binds end or be undone, write what is due; bounded."""
        limit_s = self._given.settings.drain_timeout_s
        began_s = self._given.time.monotonic()
        self._locks.stop()
        await self.supervisor.drain(limit_s * 0.75)
        for outbox in (self._labels, self._conditions, self._events):
            left_s = began_s + limit_s - self._given.time.monotonic()
            await outbox.drain(max(0.1, left_s / 2))
        if self.webhook is not None:
            await self.webhook.stop()
        await self.server.stop()

    async def close(self) -> None:
        """End what stands, then give the Lease up: nothing of the term runs any more."""
        await self.supervisor.close()
        await self.leadership.release()
        await self._given.client.close()

    # ---- parts

    @property
    def _by_kopf(self) -> bool:
        return self._given.settings.node_source == "kopf"

    def _build_recorder(self) -> recorder.Recorder:
        return recorder.Recorder(
            self._api,
            time=self._given.time,
            metrics=self.metrics,
            generator=self._given.generator,
            controller=self._given.settings.scheduler_name,
            instance=self._given.identity,
        )

    def _build_locker(self) -> locker.Locker:
        given, settings = self._given, self._given.settings
        services = serving.Services(self._registry, settings.node_lock_timeout_s)
        single = latch.Latch(
            self._api,
            self.state,
            read_holder=services.holder,
            tell=self._tell,
            time=given.time,
            metrics=self.metrics,
            generator=given.generator,
            timeout_s=settings.node_lock_timeout_s,
        )
        return locker.Locker(
            single,
            self.state,
            is_wanted=lambda uid: uid in self.state.ledger,
            metrics=self.metrics,
            in_memory=settings.node_lock == "memory",
            timeout_s=settings.node_lock_timeout_s,
        )

    def _tell(self, order: effects.Effect) -> None:
        self._performer.perform((order,))

    def _build_performer(self) -> performer.Performer:
        return performer.Performer(
            self.state,
            binder=self._build_binder(),
            evictor=evictor.Evictor(
                self._api,
                time=self._given.time,
                metrics=self.metrics,
                generator=self._given.generator,
            ),
            locker=self._locks,
            recorder=self._events,
            conditions=self._conditions,
            labeler=self._labels,
            spawn=lambda name, work: self.supervisor.spawn(
                name, work, group=supervisor.Group.BINDS
            ),
            again=self._bell.ring,
            widen=self._widen,
            time=self._given.time,
            metrics=self.metrics,
        )

    def _widen(self, kinds: frozenset[objects.Kind]) -> None:
        self._watches.widen(kinds)

    def _build_watch(self, kind: objects.Kind) -> reflector.Reflector:
        return self._reflector(self._resources[kind], self.intake.of(kind), ports.EVERYTHING)

    def _build_binder(self) -> binder.Binder:
        given, settings = self._given, self._given.settings
        return binder.Binder(
            self._api,
            self._locks,
            registry=self._registry,
            carrier=carrier.Carrier.choose(settings.decision_carrier, given.server_version),
            node_exists=lambda name: name in self.state.nodes,
            preparer=prebind.Preparer(
                self._api,
                progress=self.state.preparing,
                is_waiting=self.state.waits,
                claims=self._resources[objects.Kind.RESOURCE_CLAIM],
                time=given.time,
                generator=given.generator,
            ),
            time=given.time,
            metrics=self.metrics,
            generator=given.generator,
            workers=settings.bind_workers,
            timeout_s=settings.bind_timeout_s,
        )

    def _reflector(
        self, resource: ports.Resource, sink: reflector.Sink, selector: ports.Selector
    ) -> reflector.Reflector:
        return reflector.Reflector(
            self._given.client,
            resource,
            sink,
            time=self._given.time,
            generator=self._given.generator,
            selector=selector,
        )

    def _build_resync(self) -> resync.Resync:
        return resync.Resync(
            self._given.client,
            self._given.client,
            known=self.intake.known_nodes,
            node_event=self.intake.node_event,
            time=self._given.time,
            recorder=self.metrics,
            interval_s=self._given.settings.resync_interval_s,
        )

    def _build_scheduler(self) -> scheduler.Scheduler:
        look_at_nodes = self._resync.once if self._by_kopf else self._nodes.relist
        return scheduler.Scheduler(
            self.state,
            self._performer,
            leadership=self.leadership,
            sources={
                world.QUOTAS: self._quotas.relist,
                world.BUDGETS: self._budgets.relist,
                world.NODES: look_at_nodes,
                world.PODS: self._pods.relist,
            },
            bell=self._bell,
            time=self._given.time,
            metrics=self.metrics,
            settle=heap.settle,
        )

    def _build_handshaker(self) -> handshaker.Handshaker:
        return handshaker.Handshaker(
            self.state.nodes,
            self._api,
            time=self._given.time,
            metrics=self.metrics,
            interval_s=self._given.settings.handshake_interval_s,
            is_leading=lambda: self.leadership.leading and self.state.active,
            gone=self.intake.node_is_gone,
        )

    def _build_role_labels(self) -> rolelabels.RoleLabels:
        return rolelabels.RoleLabels(
            self.state.known_pods,
            self._api,
            namespace=self._given.settings.namespace,
            own=self._given.identity.partition("_")[0],
            is_leading=lambda: self.leadership.leading and self.state.active,
            time=self._given.time,
        )

    def _build_ticker(self) -> ticker.Ticker:
        return ticker.Ticker(
            self.state,
            self._performer,
            locker=self._locks,
            recorder=self._events,
            bell=self._bell,
            time=self._given.time,
        )

    def _build_webhook(self) -> webhook.Endpoint | None:
        settings = self._given.settings
        if not settings.cert_file and not settings.key_file:
            return None
        if not settings.cert_file or not settings.key_file:
            missing = "key_file" if settings.cert_file else "cert_file"
            raise errors.SettingsError(missing, "a certificate needs its key, and the key it")
        rules = admission_rules(
            self._registry, settings, limits=self.state.accounts, cards=self.state.nodes.cards
        )
        served = [*webhook.routes(rules, metrics=self.metrics), *health.routes(self._readiness)]
        endpoint = webhook.Endpoint(
            settings.webhook_bind,
            tls.Certificate(settings.cert_file, settings.key_file),
            served,
            time=self._given.time,
        )
        self._readiness.require("the webhook has no certificate yet", lambda: endpoint.ready)
        return endpoint

    def _build_readiness(self) -> health.Readiness:
        readiness = health.Readiness()
        readiness.require("pods are not listed yet", lambda: self._pods.synced)
        nodes = self._resync if self._by_kopf else self._nodes
        readiness.require("nodes are not listed yet", lambda: nodes.synced)
        readiness.require("resource quotas are not listed yet", lambda: self._quotas.synced)
        readiness.require("disruption budgets are not listed yet", lambda: self._budgets.synced)
        return readiness

    def _build_server(self) -> app.Server:
        settings = self._given.settings
        watches = {
            "pods": self._pods,
            "resourcequotas": self._quotas,
            "poddisruptionbudgets": self._budgets,
        }
        gauges.connect(
            self.metrics,
            self.state,
            rows=self._registry,
            settings=settings,
            time=self._given.time,
            watches=watches,
        )
        routes = [*health.routes(self._readiness), *self.metrics.routes()]
        return app.Server(settings.http_bind, routes, also=settings.metrics_bind)


def admission_rules(
    registry: registries.Registry,
    settings: all_settings.Settings,
    *,
    limits: admission.Limits | None = None,
    cards: admit.Cards = admit.unknown,
) -> admission.Rules:
    """What admission goes by, under these settings.

    Args:
        registry: the device types.
        settings: validated.
        limits: the ResourceQuotas; without them only the fit looks at quotas.
        cards: the cards of a device type by node; without it no node is known.
    """
    return admission.build(
        registry,
        scheduler_name=settings.scheduler_name,
        overwrite_default=settings.force_overwrite_default_scheduler,
        strict=settings.admission_strict,
        excluded=settings.admission_excluded_namespaces,
        unlimited=settings.admission_unlimited_namespaces,
        preferences=lambda annotations: policy.read(
            annotations,
            node_setting=settings.node_scheduler_policy,
            card_setting=settings.gpu_scheduler_policy,
        ),
        limits=limits,
        cards=cards,
    )


def _leadership(given: Given, measured: metrics.Metrics) -> leader.Leadership:
    settings = given.settings
    if not settings.leader_elect:
        return leader.AlwaysLeading(measured)
    return leader.Leader(
        given.client,
        namespace=settings.namespace,
        name=settings.lease_name or settings.scheduler_name,
        identity=given.identity,
        time=given.time,
        generator=given.generator,
        recorder=measured,
        lease_s=settings.lease_duration_s,
        renew_s=settings.renew_deadline_s,
        retry_s=settings.retry_period_s,
    )
