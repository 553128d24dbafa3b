"""The whole runtime over the store of the in-memory API server, on a clock that stands still.

Requests go straight to the store, so a test sees each call, decides what goes wrong with it, and
waits for nothing. What the store shows its watches arrives one turn of the loop later, unless
``lagging`` holds it back, or ``late`` the objects of one resource.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any

import orjson

from hami_operator import errors
from hami_operator import settings as all_settings
from hami_operator.cluster import ports
from hami_operator.cluster.kubernetes import statuses
from hami_operator.cluster.memory import refusals, store, updates
from hami_operator.devices import registry as registries
from hami_operator.protocol import keys
from hami_operator.protocol import register as registers
from hami_operator.runtime import (
    alarm,
    binder,
    carrier,
    conditions,
    evictor,
    intake,
    labeler,
    latch,
    leader,
    locker,
    performer,
    prebind,
    recorder,
    reflector,
    scheduler,
    ticker,
    watches,
)
from hami_operator.scheduling import ledger, objects, serving, world
from tests import builders, fakes

LOCK = keys.NODE_LOCK
MLU_LOCK = "cambricon.com/dsmlu.lock"
TO_ALLOCATE = "hami.io/vgpu-devices-to-allocate"
ALLOCATED = "hami.io/vgpu-devices-allocated"
SCHEDULER = "hami-scheduler"
BUDGETS = "poddisruptionbudgets.policy"


@dataclasses.dataclass
class Fault:
    """What happens to the next calls of one kind, e.g. ``POST pods/p/binding``."""

    call: str
    error: Exception | None = None
    times: int = 1
    after_write: bool = False
    before: Callable[[], Any] | None = None
    held: asyncio.Event | None = None


class Api:
    """Every port over one store. ``calls`` has each request as ``VERB path``, in order."""

    def __init__(self, objects: store.Store) -> None:
        self.store = objects
        self.calls: list[str] = []
        self.bodies: list[tuple[str, Any]] = []
        self.faults: list[Fault] = []
        self.fence_open = True
        self.gates: list[asyncio.Event] = []

    def fail(self, call: str, error: Exception, *, times: int = 1, after: bool = False) -> None:
        """Let the next such calls end in an error, before or after they took effect."""
        self.faults.append(Fault(call=call, error=error, times=times, after_write=after))

    def meanwhile(self, call: str, action: Callable[[], Any]) -> None:
        """Do something right before the next such call takes effect."""
        self.faults.append(Fault(call=call, before=action))

    def hold(self, call: str) -> asyncio.Event:
        """Keep the next such call waiting until the event is set."""
        gate = asyncio.Event()
        self.gates.append(gate)
        self.faults.append(Fault(call=call, held=gate))
        return gate

    def body(self, call: str, which: int = -1) -> Any:
        """The body of the last such call."""
        return [body for name, body in self.bodies if name == call][which]

    async def get_pod(self, namespace: str, name: str) -> ports.Raw:
        return await self._call("GET", f"pods/{name}", None, self._get, "pods", (namespace, name))

    async def get_node(self, name: str) -> ports.Raw:
        return await self._call("GET", f"nodes/{name}", None, self._get, "nodes", ("", name))

    async def patch_pod(self, namespace: str, name: str, body: Any) -> ports.Raw:
        key = (namespace, name)
        return await self._call("PATCH", f"pods/{name}", body, self._patch, "pods", key, body)

    async def patch_pod_status(self, namespace: str, name: str, body: Any) -> ports.Raw:
        def write() -> Any:
            return self.store.patch(
                "pods",
                (namespace, name),
                orjson.dumps(body),
                content_type=updates.STRATEGIC,
                subresource="status",
            ).copy("pods")

        return await self._call("PATCH", f"pods/{name}/status", body, write)

    async def patch_node(self, name: str, body: Any) -> ports.Raw:
        key = ("", name)
        return await self._call("PATCH", f"nodes/{name}", body, self._patch, "nodes", key, body)

    async def bind(self, namespace: str, name: str, binding: Any) -> None:
        def write() -> Any:
            return self.store.bind((namespace, name), orjson.dumps(binding))

        await self._call("POST", f"pods/{name}/binding", binding, write)

    async def delete_pod(self, namespace: str, name: str, *, uid: str) -> None:
        def write() -> None:
            self.store.delete("pods", (namespace, name), uid=uid)

        await self._call("DELETE", f"pods/{name}", {"uid": uid}, write)

    async def get_object(self, resource: ports.Resource, namespace: str, name: str) -> ports.Raw:
        plural = resource.plural
        return await self._call(
            "GET", f"{plural}/{name}", None, self._get, plural, (namespace, name)
        )

    async def patch_object(
        self,
        resource: ports.Resource,
        namespace: str,
        name: str,
        body: Any,
        *,
        subresource: str = "",
    ) -> ports.Raw:
        def write() -> Any:
            return self.store.patch(
                resource.plural, (namespace, name), orjson.dumps(body), subresource=subresource
            ).copy(resource.plural)

        tail = f"/{subresource}" if subresource else ""
        return await self._call("PATCH", f"{resource.plural}/{name}{tail}", body, write)

    async def create_event(self, namespace: str, body: Any) -> ports.Raw:
        def write() -> Any:
            resource = "events.events.k8s.io"
            return self.store.create(resource, orjson.dumps(body), namespace=namespace).copy(
                resource
            )

        return await self._call("POST", "events", body, write)

    async def patch_event(self, namespace: str, name: str, body: Any) -> ports.Raw:
        resource = "events.events.k8s.io"
        return await self._call(
            "PATCH", "events", body, self._patch, resource, (namespace, name), body
        )

    def _get(self, resource: str, key: tuple[str, str]) -> Any:
        return self.store.get(resource, key).copy(resource)

    def _patch(self, resource: str, key: tuple[str, str], body: Any) -> Any:
        return self.store.patch(resource, key, orjson.dumps(body)).copy(resource)

    async def _call(
        self, verb: str, path: str, body: Any, act: Callable[..., Any], *args: Any
    ) -> Any:
        call = f"{verb} {path}"
        if verb != "GET" and not self.fence_open:
            raise errors.Fenced(f"{call}: leadership ends")
        self.calls.append(call)
        self.bodies.append((call, body))
        await asyncio.sleep(0)
        fault = self._take(call)
        if fault.held is not None:
            await fault.held.wait()
        if fault.before is not None:
            fault.before()
        if fault.error is not None and not fault.after_write:
            raise fault.error
        try:
            found = act(*args)
        except refusals.Refused as refused:
            raise _typed(refused, is_write=verb != "GET", what=call) from refused
        if fault.error is not None:
            raise fault.error
        return found

    def _take(self, call: str) -> Fault:
        for fault in self.faults:
            if fault.call == call:
                fault.times -= 1
                if fault.times == 0:
                    self.faults.remove(fault)
                return fault
        return Fault(call=call)


def _typed(refused: refusals.Refused, *, is_write: bool, what: str) -> errors.ApiError:
    body = orjson.dumps(refused.body())
    return statuses.error(refused.code, body, retry_after=None, is_write=is_write, what=what)


class Metrics(ports.NoRecorder):
    """Remembers counts by name and labels."""

    def __init__(self) -> None:
        self.counts: dict[str, float] = {}

    def count(self, name: str, amount: float = 1.0, /, **labels: str) -> None:
        text = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
        key = f"{name}{{{text}}}" if text else name
        self.counts[key] = self.counts.get(key, 0) + amount


class Bench:
    """See the module; make it with `running`."""

    def __init__(self, *, server: str = "1.36.3", **settings: Any) -> None:
        self.clock = fakes.FakeClock()
        self.settings = all_settings.load(settings)
        self.registry = registries.default()
        self.store = store.Store(system_clock=self.clock, version=server)
        self.api = Api(self.store)
        self.metrics = Metrics()
        self.lagging = False
        self.late: set[str] = set()
        self.broken: list[BaseException] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._shown = {"nodes": 0, "pods": 0, "resourcequotas": 0, BUDGETS: 0}
        self.widened: list[frozenset[objects.Kind]] = []
        self._others: dict[str, reflector.Sink] = {}
        self._build(tuple(int(part) for part in server.split(".")[:2]))
        self.store.subscribe(self._changed)

    def _build(self, version: Any) -> None:
        common: dict[str, Any] = {
            "time": self.clock,
            "metrics": self.metrics,
            "generator": random.Random(1),
        }
        timed: dict[str, Any] = {"time": self.clock, "metrics": self.metrics}
        self.world = world.World(self.registry, self.settings)
        self.bell = alarm.Alarm(self.clock)
        self.recorder = recorder.Recorder(
            self.api, controller=SCHEDULER, instance="pod-0", **common
        )
        self.conditions = conditions.Conditions(self.api, **common)
        self.labeler = labeler.Labeler(self.api, **common)
        services = serving.Services(self.registry, self.settings.node_lock_timeout_s)
        self.latch = latch.Latch(
            self.api,
            self.world,
            read_holder=services.holder,
            tell=lambda effect: self.performer.perform((effect,)),
            timeout_s=self.settings.node_lock_timeout_s,
            **common,
        )
        self.locker = locker.Locker(
            self.latch,
            self.world,
            is_wanted=self._is_wanted,
            metrics=self.metrics,
            in_memory=self.settings.node_lock == "memory",
            timeout_s=self.settings.node_lock_timeout_s,
        )
        self.binder = binder.Binder(
            self.api,
            self.locker,
            registry=self.registry,
            carrier=carrier.Carrier.choose(self.settings.decision_carrier, version),
            node_exists=lambda name: name in self.world.nodes,
            preparer=prebind.Preparer(
                self.api,
                progress=self.world.preparing,
                is_waiting=self.world.waits,
                time=self.clock,
                generator=common["generator"],
            ),
            workers=self.settings.bind_workers,
            timeout_s=self.settings.bind_timeout_s,
            **common,
        )
        self.performer = performer.Performer(
            self.world,
            binder=self.binder,
            evictor=evictor.Evictor(self.api, **common),
            locker=self.locker,
            recorder=self.recorder,
            conditions=self.conditions,
            labeler=self.labeler,
            spawn=self.spawn,
            again=self.bell.ring,
            widen=self._widen,
            **timed,
        )
        self.intake = intake.Intake(
            self.world,
            self.performer,
            conditions=self.conditions,
            again=self.bell.ring,
            **timed,
        )
        self.scheduler = scheduler.Scheduler(
            self.world,
            self.performer,
            leadership=leader.AlwaysLeading(self.metrics),
            sources=dict.fromkeys(sorted(world.SOURCES), self._show_all),
            bell=self.bell,
            **timed,
        )
        self.ticker = ticker.Ticker(
            self.world,
            self.performer,
            locker=self.locker,
            recorder=self.recorder,
            bell=self.bell,
            time=self.clock,
        )

    def _is_wanted(self, uid: str) -> bool:
        pod = self.world.pod(uid)
        return pod is not None and not pod.node_name and not pod.terminating

    # ---- tasks and time

    def start(self) -> None:
        for name, work in (
            ("scheduler", self.scheduler.run()),
            ("ticker", self.ticker.run()),
            ("events", self.recorder.work()),
            ("conditions", self.conditions.work()),
            ("labels", self.labeler.work()),
        ):
            self.spawn(name, work)

    def spawn(self, name: str, work: Coroutine[Any, Any, object], /) -> None:
        task = asyncio.ensure_future(work)
        task.set_name(name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.broken.append(error)

    def task(self, name: str) -> asyncio.Task[Any]:
        return next(task for task in self._tasks if task.get_name() == name)

    def running_tasks(self) -> list[str]:
        return sorted(task.get_name() for task in self._tasks)

    async def stop(self) -> None:
        for gate in self.api.gates:  # the last write of a cancelled bind is waited for
            gate.set()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self.broken:
            raise self.broken[0]

    async def run(self, seconds: float = 0.0) -> None:
        """Let everything happen that happens within so many seconds."""
        await self.clock.advance(seconds, turns=60)

    # ---- the cluster

    def add_node(self, name: str = "n1", *, cards: int = 1, word: str = "NVIDIA") -> None:
        """A node with cards ``GPU-0`` …, 32 GiB each, and a plugin that has just answered."""
        count = self.registry.by_word[word].resources.count
        form = registers.Form.JSON if word == "NVIDIA" else registers.Form.TEXT
        made = builders.roomy(name).register(word, builders.cards(cards), form=form)
        self.add(made.allocatable({count: str(10 * cards)}))

    def add(self, built: builders.Object, resource: str = "") -> None:
        raw = built.raw()
        resource = resource or ("nodes" if raw["kind"] == "Node" else "pods")
        status = raw.pop("status", {})
        for field in ("uid", "resourceVersion", "creationTimestamp"):
            raw["metadata"].pop(field, None)
        made = self.store.create(resource, orjson.dumps(raw))
        self.store.patch(
            resource, made.key, orjson.dumps({"status": status}), subresource="status"
        )
        if resource == "nodes":
            self.store.patch("nodes", made.key, orjson.dumps({"spec": {"taints": None}}))

    def set_quota(self, name: str = "q", /, **hard: Any) -> None:
        """Create a ResourceQuota, or change its limits: ``gpumem`` is of ``nvidia.com/gpumem``."""
        limits = {f"limits.nvidia.com/{key}": str(amount) for key, amount in hard.items()}
        body = {"metadata": {"name": name, "namespace": "default"}, "spec": {"hard": limits}}
        if self.store.find("resourcequotas", ("default", name)) is None:
            self.store.create("resourcequotas", orjson.dumps(body))
        else:
            self.store.patch("resourcequotas", ("default", name), orjson.dumps(body))

    def delete_quota(self, name: str = "q") -> None:
        self.store.delete("resourcequotas", ("default", name))

    def ask(self, name: str = "p", /, **limits: Any) -> builders.PodBuilder:
        """A pod of ours with one container; without limits it asks for one GPU of 1000 MiB."""
        limits = limits or {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000}
        return builders.pod(name).scheduler(SCHEDULER).container("c", limits=limits)

    def pod(self, name: str = "p") -> dict[str, Any]:
        return self.store.get("pods", ("default", name)).copy("pods")

    def node(self, name: str = "n1") -> dict[str, Any]:
        return self.store.get("nodes", ("", name)).copy("nodes")

    def node_of(self, name: str = "p") -> str:
        return str(self.pod(name)["spec"].get("nodeName") or "")

    def lock(self, name: str = "n1", key: str = LOCK) -> str | None:
        found = self.node(name)["metadata"].get("annotations", {}).get(key)
        return None if found is None else str(found)

    def annotations(self, name: str = "p") -> dict[str, str]:
        return dict(self.pod(name)["metadata"].get("annotations") or {})

    def patch_pod(self, body: Mapping[str, Any], name: str = "p", **how: Any) -> None:
        self.store.patch("pods", ("default", name), orjson.dumps(body), **how)

    def patch_node(self, body: Mapping[str, Any], name: str = "n1") -> None:
        self.store.patch("nodes", ("", name), orjson.dumps(body))

    def annotate_node(self, name: str = "n1", **values: str | None) -> None:
        self.patch_node({"metadata": {"annotations": values}}, name)

    def set_lock(self, value: str | None, name: str = "n1", key: str = LOCK) -> None:
        self.patch_node({"metadata": {"annotations": {key: value}}}, name)

    def serve(self, name: str = "p", node: str = "n1", phase: str = "success") -> None:
        """What a device plugin does with a pod that has one container."""
        served = {TO_ALLOCATE: ";;", keys.BIND_PHASE: phase}
        self.patch_pod({"metadata": {"annotations": served}}, name)
        self.set_lock(None, node)

    def admit(self, name: str = "p", phase: str = "Pending") -> None:
        """What kubelet says of a pod once it has asked all plugins; or later, with a phase."""
        status = {"phase": phase, "startTime": "2026-03-01T12:00:00Z"}
        self.patch_pod({"status": status}, name, subresource="status")

    def delete_pod(self, name: str = "p") -> None:
        self.store.delete("pods", ("default", name), grace_s=0)

    def delete_node(self, name: str = "n1") -> None:
        self.store.delete("nodes", ("", name))

    # ---- what is seen of it

    def _changed(self, bucket: str) -> None:
        if bucket in self._shown and not self.lagging:
            with contextlib.suppress(RuntimeError):  # no loop: the store is being filled
                asyncio.get_running_loop().call_soon(self.show)

    def show(self) -> None:
        """Show the watches what has happened."""
        if self.lagging:
            return
        for resource in sorted(self._shown.keys() - self.late):
            since = self._shown[resource]
            for event in self.store.events_since(resource, since):
                self._shown[resource] = event.record.version
                self._hand_over(resource, event.type, event.record.copy(resource))

    def _hand_over(self, resource: str, kind: str, raw: dict[str, Any]) -> None:
        sinks = {
            "nodes": self.intake.nodes,
            "pods": self.intake.pods,
            "resourcequotas": self.intake.quotas,
            BUDGETS: self.intake.budgets,
        }
        sink = (sinks | self._others)[resource]
        (sink.delete if kind == "DELETED" else sink.upsert)(raw)

    def _widen(self, kinds: frozenset[objects.Kind]) -> None:
        """Watch more kinds from the next turn of the loop on."""
        self.widened.append(kinds)
        asyncio.get_running_loop().call_soon(self._list, kinds)

    def _list(self, kinds: frozenset[objects.Kind]) -> None:
        for kind in kinds:
            resource = watches.RESOURCES[kind]
            name = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
            self._others[name] = self.intake.of(kind)
            self._shown[name] = 0
        self.show()
        for kind in kinds:
            self.intake.of(kind).synced()

    async def _show_all(self) -> None:
        self.show()

    # ---- what came of it

    @property
    def writes(self) -> list[str]:
        """Writes of the bind path: all but Events and conditions."""
        quiet = ("GET", "POST events", "PATCH events")
        return [
            call
            for call in self.api.calls
            if not call.startswith(quiet) and not call.endswith("/status")
        ]

    def entry(self, name: str = "p") -> ledger.Entry | None:
        """What the ledger holds for the latest pod of a name."""
        found = [entry for entry in self.world.ledger if entry.name == name]
        return found[-1] if found else None

    @property
    def reasons(self) -> list[str]:
        """Reasons of all Events that were written, in order, with their objects."""
        bodies = [body for call, body in self.api.bodies if call == "POST events"]
        return [f"{body['reason']} {body['regarding']['name']}" for body in bodies]

    def notes(self, reason: str) -> list[str]:
        """Texts of the Events with a reason."""
        bodies = [body for call, body in self.api.bodies if call == "POST events"]
        return [body["note"] for body in bodies if body["reason"] == reason]


@contextlib.asynccontextmanager
async def running(**options: Any) -> AsyncIterator[Bench]:
    """A bench whose loops run; whatever they raise, the test raises."""
    bench = Bench(**options)
    bench.start()
    await bench.run()
    try:
        yield bench
    finally:
        await bench.stop()
